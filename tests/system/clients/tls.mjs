// Calls `sluice serve` over TLS with a client certificate, by one of the clients from npm:
//   node tls.mjs redis|ioredis PORT CA CERTIFICATE KEY
// Prints "NAME: ok", or fails.

import assert from "node:assert";
import { readFileSync } from "node:fs";
import { Redis } from "ioredis";
import { createClient } from "redis";

const [name, port, ca, cert, key] = process.argv.slice(2);
const files = {
  ca: readFileSync(ca),
  cert: readFileSync(cert),
  key: readFileSync(key),
};

async function connect() {
  if (name === "ioredis") {
    const client = new Redis({ host: "localhost", port: Number(port), tls: files });
    return { ask: (...words) => client.call(...words), end: () => client.quit() };
  }
  const client = createClient({
    socket: { host: "localhost", port: Number(port), tls: true, ...files },
  });
  await client.connect();
  return { ask: (...words) => client.sendCommand(words), end: () => client.close() };
}

const client = await connect();
const key_name = `tls-${name}`;
for (const remaining of [15, 14]) {
  const reply = await client.ask("CL.THROTTLE", key_name, "15", "30", "60");
  assert.deepStrictEqual(reply.slice(0, 3), [0, 16, remaining]);
}
// Several records of TLS in both directions.
const text = "x".repeat(50_000);
assert.strictEqual(await client.ask("ECHO", text), text);
await client.end();
console.log(`${name}: ok`);
