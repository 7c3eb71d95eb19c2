// Judges the headers of responses by the npm package structured-headers, which parses what RFC 9651
// allows and nothing else: node judge.mjs < FILE
// FILE has one "Name: value" per line and an empty line after each response. Prints how many
// headers it has read. If one is wrong, says which, and exits with 1.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import {
  parseDictionary, parseItem, parseList, serializeDictionary, serializeItem, serializeList,
} from 'structured-headers';

// What is parsed must be written as we wrote it: then there is one way to read it.
function parsedAs(parse, serialize, text) {
  const value = parse(text);
  assert.equal(serialize(value), text);
  return value;
}

// The members of a list of Strings: a map from each name to its parameters.
function members(text, required, optional) {
  const found = new Map();
  for (const [name, parameters] of parsedAs(parseList, serializeList, text)) {
    assert.equal(typeof name, 'string', 'a name is a String');
    assert(!found.has(name), `${name} twice`);
    assert(parameters.has(required), `no ${required}`);
    for (const [key, value] of parameters) {
      if (key === 'qu') assert.equal(value, 'concurrent-requests');
      else assert(Number.isInteger(value) && value >= 0, `${key} is an Integer`);
      assert(key === required || optional.includes(key), `a parameter ${key}`);
    }
    found.set(name, parameters);
  }
  return found;
}

function integer(text) {
  const [value, parameters] = parsedAs(parseItem, serializeItem, text);
  assert(Number.isInteger(value) && value >= 0 && parameters.size === 0);
}

function judgeLists(response) {
  const policies = members(response.get('RateLimit-Policy'), 'q', ['w', 'qu']);
  if (!response.has('RateLimit')) return;
  for (const [name, left] of members(response.get('RateLimit'), 'r', ['t'])) {
    const policy = policies.get(name);
    assert(policy, `${name} has no policy`);
    assert(left.get('r') <= policy.get('q'), 'more is left than the quota');
    assert.equal(left.has('t'), policy.has('w'));
  }
}

function judge(response) {
  for (const [name, text] of response) {
    if (name === 'Cache-Control') {
      const directives = parsedAs(parseDictionary, serializeDictionary, text);
      assert.deepEqual([...directives.keys()], ['no-store']);
    } else if (name !== 'RateLimit' && name !== 'RateLimit-Policy') {
      assert.match(name, /^(Retry-After|(X-)?RateLimit-(Limit|Remaining|Reset))$/);
      integer(text);
    }
  }
  if (response.has('RateLimit-Policy')) judgeLists(response);
  else assert(!response.has('RateLimit'), 'a RateLimit without a policy');
}

let count = 0;
for (const block of readFileSync(0, 'utf8').split('\n\n')) {
  const lines = block.split('\n').filter((line) => line !== '');
  try {
    const response = new Map(lines.map((line) => line.match(/^([\w-]+): (.*)$/).slice(1)));
    assert.equal(response.size, lines.length, 'a header twice');
    judge(response);
    count += response.size;
  } catch (error) {
    console.error(`${lines.join('\n')}\n${error.message}`);
    process.exit(1);
  }
}
console.log(`${count} headers`);
