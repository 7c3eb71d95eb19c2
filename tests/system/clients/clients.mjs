// Runs one npm client against a server:
//     node clients.mjs redis|ioredis|glide PORT [CA CERTIFICATE KEY]
// With these files, redis and ioredis connect over TLS.
// Plain: CL.THROTTLE sixteen times, then the seventeenth. Pipelined: a thousand at once, in order.
// In a transaction: MULTI, a hundred, EXEC; one with an unknown command, which charges nothing.
// Exits with 1 and says where an answer differs.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Batch, GlideClient, Logger, ProtocolVersion } from '@valkey/valkey-glide';
import Redis from 'ioredis';
import { createClient } from 'redis';

const burst = 15;
const period = 3600;  // In seconds; a unit returns in each.
const pipelined = 1000;

const [name, port, ...files] = process.argv.slice(2);
const [ca, cert, key] = files.map((file) => readFileSync(file));
const address = { host: '127.0.0.1', port: Number(port), ca, cert, key };

// The functions that both programs below need: send one command, send many at once, close.
async function openRedis(protocol) {
  const client = createClient({ RESP: protocol, socket: { ...address, tls: files.length > 0 } });
  client.on('error', (error) => { throw error; });
  await client.connect();
  return {
    send: (command) => client.sendCommand(command),
    // Commands issued in one turn of the event loop are written together.
    sendMany: (commands) => Promise.all(commands.map((command) => client.sendCommand(command))),
    transact: (commands) =>
      commands.reduce((multi, command) => multi.addCommand(command), client.multi()).exec(),
    close: () => client.close(),
  };
}

async function openIoredis() {
  const client = new Redis({ host: address.host, port: address.port, lazyConnect: true,
                             tls: files.length > 0 ? address : undefined, connectionName: 'test',
                             maxRetriesPerRequest: 0, retryStrategy: () => null });
  client.on('error', (error) => { throw error; });
  await client.connect();
  return {
    send: ([name, ...args]) => client.call(name, ...args),
    sendMany: async (commands) => {
      const pipeline = client.pipeline();
      commands.forEach(([name, ...args]) => pipeline.call(name, ...args));
      return (await pipeline.exec()).map(([error, reply]) => error ?? reply);
    },
    transact: async (commands) => {
      const multi = client.multi();
      commands.forEach(([name, ...args]) => multi.call(name, ...args));
      return (await multi.exec()).map(([error, reply]) => error ?? reply);
    },
    close: () => client.quit(),
  };
}

// Valkey's own. It has a time limit for each command, which is 250 ms if it is not told another.
async function openGlide(protocol) {
  Logger.init('off');
  const client = await GlideClient.createClient({
    addresses: [address], clientName: 'test', requestTimeout: 30_000,
    advancedConfiguration: { connectionTimeout: 30_000 },
    protocol: protocol === 3 ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2,
  });
  const batch = (commands, isAtomic) => client.exec(
    commands.reduce((all, command) => all.customCommand(command), new Batch(isAtomic)), true);
  return {
    send: (command) => client.customCommand(command),
    sendMany: (commands) => batch(commands, false),
    transact: (commands) => batch(commands, true),
    close: () => client.close(),
  };
}

const throttle = (key, most) =>
  ['CL.THROTTLE', key, String(most), '1', String(period)];

// `seconds` were told as the time until something, up to a minute ago.
function expectSeconds(told, seconds) {
  assert.ok(told <= seconds && told > seconds - 60, `${told} for ${seconds} s`);
}

async function plain(client, name) {
  for (let taken = 1; taken <= burst + 1; taken += 1) {
    const reply = await client.send(throttle(`${name}-plain`, burst));
    assert.deepEqual(reply.slice(0, 4), [0, burst + 1, burst + 1 - taken, -1]);
    expectSeconds(reply[4], period * taken);
  }
  const denied = await client.send(throttle(`${name}-plain`, burst));
  assert.deepEqual(denied.slice(0, 3), [1, burst + 1, 0]);
  expectSeconds(denied[3], period);
}

async function pipeline(client, name) {
  const commands = Array.from({ length: pipelined }, () => throttle(`${name}-many`, pipelined - 1));
  const replies = await client.sendMany(commands);
  assert.equal(replies.length, pipelined);
  replies.forEach((reply, index) => {
    assert.deepEqual(reply.slice(0, 3), [0, pipelined, pipelined - 1 - index]);
  });
  await assert.rejects(client.send(['CL.THROTTLE', 'key']), /wrong number of arguments/);
  assert.equal(await client.send(['PING']), 'PONG');
  const text = 'x'.repeat(50_000);  // Several records of TLS in both directions.
  assert.equal(await client.send(['ECHO', text]), text);
}

async function transaction(client, name) {
  const command = throttle(`${name}-multi`, 199);
  const replies = await client.transact(Array(100).fill(command));
  assert.deepEqual(replies.map((reply) => reply[2]),
                   Array.from({ length: 100 }, (_, index) => 199 - index));
  await assert.rejects(client.transact([command, ['NO.SUCH.COMMAND']]),
                       /unknown command|EXECABORT/);
  assert.equal((await client.send([...command, '0']))[2], 100);
  assert.equal(await client.send(['DEL', `${name}-multi`, 'never-seen']), 1);
}

const openers = { redis: [[openRedis, 2], [openRedis, 3]], ioredis: [[openIoredis, 2]],
                  glide: [[openGlide, 2], [openGlide, 3]] };
for (const [open, protocol] of openers[name]) {
  const client = await open(protocol);
  await plain(client, `${name}${protocol}`);
  await pipeline(client, `${name}${protocol}`);
  await transaction(client, `${name}${protocol}`);
  await client.close();
}
console.log(`${name}: ok`);
