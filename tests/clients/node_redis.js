// SPDX-License-Identifier: MIT
'use strict';
// usage: node node_redis.js 4|5|6. BF.* through client.bf of @redis/bloom.

const assert = require('node:assert');
const { library, main, where } = require('./checks.js');

const major = Number(process.argv[2]);
const { createClient } = library(`redis${major}`);

// 4 has names of its own, later ones those of the wire.
const fields = (reply) => ({
  capacity: reply.capacity ?? reply.Capacity,
  size: reply.size ?? reply.Size,
  filters: reply.numberOfFilters ?? reply['Number of filters'],
  items: reply.numberOfInsertedItems ?? reply['Number of items inserted'],
  expansion: reply.expansionRate ?? reply['Expansion rate'],
});

const socket = ({ host, port, tls }) => ({ host, port, ...(tls ? { tls: true, ...tls } : {}) });

async function open({ protocol, user, password, ...where }) {
  const options = { socket: socket(where), username: user, password };
  if (major > 4) options.RESP = protocol;
  const client = createClient(options);
  let last;
  client.on('error', (e) => { last = e; });
  // A login that is refused would be tried again for ever.
  const refused = new Promise((_, fail) => client.on('error', (e) => /WRONGPASS|NOAUTH/.test(e.message) && fail(e)));
  refused.catch(() => {});
  const drop = () => Promise.resolve(major > 4 ? client.destroy() : client.disconnect()).catch(() => {});
  await Promise.race([client.connect(), refused]).catch(async (e) => {
    await drop();
    throw last || e;
  });
  const { bf } = client;
  return {
    raw: (...a) => client.sendCommand(a.map(String)),
    reserve: (f, rate, capacity) => bf.reserve(f, rate, capacity),
    add: (f, key) => bf.add(f, key),
    exists: (f, key) => bf.exists(f, key),
    madd: (f, all) => bf.mAdd(f, all),
    mexists: (f, all) => bf.mExists(f, all),
    insert: (f, { capacity }, all) => bf.insert(f, all, { CAPACITY: capacity }),
    card: (f) => bf.card(f),
    info: async (f) => fields(await bf.info(f)),
    pipeline: async (f, all) => Promise.all(all.flatMap((key) => [bf.add(f, key), client.echo(key)])), // one turn: one write
    transaction: (f, key) => client.multi().bf.add(f, key).bf.add(f, key).bf.exists(f, key).exec(),
    brokenTransaction: (f) => client.multi().bf.add(f, 'not-added').addCommand(['BF.ADD', f]).exec(),
    close: () => (major > 4 ? client.close() : client.quit()),
  };
}

// These options ask for CLIENT TRACKING while they connect. The library would try again after any error, so the error must
// reach its user, and its reconnectStrategy must be able to end it.
const checks = {
  async 'a cache is refused with a reason'() {
    for (const option of [{ clientSideCache: {} }, { emitInvalidate: true }]) {
      const errors = [];
      const client = createClient({ socket: { ...socket(where), reconnectStrategy: (_, e) => (/CLIENT TRACKING/.test(e.message) ? false : 50) }, RESP: 3, ...option });
      client.on('error', (e) => errors.push(e.message));
      await assert.rejects(client.connect(), /CLIENT TRACKING is not supported/);
      assert.strictEqual(errors.length, 1);
      assert.match(errors[0], /turn off the client's cache/);
    }
  },
};

main({ name: `node-redis${major}`, protocols: major === 4 ? [2] : [2, 3], open, checks: major === 4 ? {} : checks });
