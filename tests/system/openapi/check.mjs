// node check.mjs OPENAPI.yaml ROUTES URL : holds the description against itself, against the routes
// of the server ("METHOD PATH" lines; METHOD may be "*"), and against the server at URL. Prints one
// line for each fault.

import fs from 'node:fs';

import { Validator } from '@seriousme/openapi-schema-validator';
import Ajv from 'ajv/dist/2020.js';
import yaml from 'js-yaml';

const [file, routesFile, url] = process.argv.slice(2);
const document = yaml.load(fs.readFileSync(file, 'utf8'));
const fault = (text) => console.log(text);

const valid = await new Validator().validate(structuredClone(document));
if (!valid.valid) fault(`${file} is not valid: ${JSON.stringify(valid.errors)}`);

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];
const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  METHODS.filter((method) => method in item).map((method) => ({
    path, method, operation: item[method], shared: item.parameters ?? [],
  })));

// Each route is described, and nothing else is. A path that ends with a slash stands for all that
// begin with it.
const described = new Set(operations.map(({ path, method }) => {
  const begin = path.replace(/\{.*/, '');
  return begin === path ? `${method.toUpperCase()} ${path}` : `* ${begin}`;
}));
const served = new Set(fs.readFileSync(routesFile, 'utf8').trim().split('\n'));
for (const route of served) if (!described.has(route)) fault(`not described: ${route}`);
for (const route of described) if (!served.has(route)) fault(`not served: ${route}`);

const ajv = new Ajv({ strict: false });
ajv.addSchema({ $id: 'openapi', components: document.components });
// A schema whose references lead into the document.
const compile = (schema) => ajv.compile(JSON.parse(
  JSON.stringify(schema).replaceAll('"#/components', '"openapi#/components')));
const resolve = (object) => (object?.$ref === undefined ? object : object.$ref.split('/').slice(1)
  .reduce((at, name) => at[name], document));

async function check(name, operation, target, options, expected) {
  const response = await fetch(url + target, options);
  const text = await response.text();
  const description = resolve(operation.responses[response.status]);
  if (description === undefined) {
    return fault(`${name}: ${response.status} is not described: ${text}`);
  }
  if (expected !== undefined && response.status !== expected) {
    fault(`${name}: ${response.status} instead of ${expected}: ${text}`);
  }
  const type = response.headers.get('content-type');
  const content = description.content?.[type];
  if (text !== '' && content === undefined) return fault(`${name}: ${type} is not described`);
  if (text !== '') {
    const accepts = compile(content.schema);
    if (!accepts(type.includes('json') ? JSON.parse(text) : text)) {
      fault(`${name}: ${text}: ${JSON.stringify(accepts.errors)}`);
    }
  }
  for (const header of response.headers.keys()) {
    const usual = ['date', 'content-type', 'content-length', 'connection', 'keep-alive'];
    const names = Object.keys(description.headers ?? {}).map((one) => one.toLowerCase());
    if (!usual.includes(header) && !names.includes(header)) {
      fault(`${name}: the header ${header} is not described`);
    }
  }
}

// The target of an operation without a body, by the examples of its parameters.
function target_of({ path, operation, shared }) {
  const query = new URLSearchParams();
  let target = path;
  for (const parameter of [...shared, ...(operation.parameters ?? [])].map(resolve)) {
    if (parameter.example === undefined) continue;
    if (parameter.in === 'path') target = target.replace(`{${parameter.name}}`, parameter.example);
    for (const value of parameter.in === 'query' ? [parameter.example].flat() : []) {
      query.append(parameter.name, value);
    }
  }
  return query.size === 0 ? target : `${target}?${query}`;
}

for (const each of operations) {
  const { path, method, operation } = each;
  const name = `${method.toUpperCase()} ${path}`;
  const body = operation.requestBody?.content['application/json'];
  if (body === undefined) {
    await check(name, operation, target_of(each), { method: method.toUpperCase() });
    continue;
  }
  const accepts = compile(body.schema);
  const post = (value, type = 'application/json') => ({
    method: 'POST', headers: { 'Content-Type': type }, body: JSON.stringify(value),
  });
  for (const [title, { value }] of Object.entries(body.examples)) {
    if (!accepts(value)) fault(`${name}, ${title}: the example is not as described`);
    await check(`${name}, ${title}`, operation, path, post(value));
    for (const member of Object.keys(value)) {
      const { [member]: left_out, ...rest } = value;
      await check(`${name}, ${title} without ${member}`, operation, path, post(rest),
        accepts(rest) ? undefined : 400);
    }
    for (const [member, wrong] of [['limit', 'log 1/1x'], ['limits', ['log 1/1x']]]) {
      if (!(member in value)) continue;
      await check(`${name}, ${title} with a wrong limit`, operation, path,
        post({ ...value, [member]: wrong }), 400);
    }
    const unknown = { ...value, unknown: 1 };
    if (accepts(unknown)) fault(`${name}: describes members that there are not`);
    await check(`${name}, ${title} with one more`, operation, path, post(unknown), 400);
  }
  await check(`${name} as text`, operation, path, post({}, 'text/plain'), 415);
}
