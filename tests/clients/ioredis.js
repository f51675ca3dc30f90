// SPDX-License-Identifier: MIT
'use strict';
// usage: node ioredis.js 5|6. ioredis has no interface for BF.*: commands are called by name.

const { library, main } = require('./checks.js');

const major = process.argv[2];
const Redis = library(`ioredis${major}`);

// RESP2 has integers, RESP3 booleans; ioredis 5 knows RESP2 alone.
const yes = (reply) => reply === 1 || reply === true;

function fields(reply) {
  const map = reply instanceof Map ? reply : new Map();
  if (Array.isArray(reply)) for (let i = 0; i < reply.length; i += 2) map.set(reply[i], reply[i + 1]);
  else if (!(reply instanceof Map)) for (const [name, value] of Object.entries(reply)) map.set(name, value);
  return {
    capacity: map.get('Capacity'),
    size: map.get('Size'),
    filters: map.get('Number of filters'),
    items: map.get('Number of items inserted'),
    expansion: map.get('Expansion rate'),
  };
}

// [[error, reply], ...] as replies; the first error is thrown.
function replies(pairs) {
  for (const [error] of pairs) if (error) throw error;
  return pairs.map(([, reply]) => reply);
}

async function open({ host, port, protocol, tls, user, password }) {
  const options = { host, port, tls, password, username: user, lazyConnect: true, maxRetriesPerRequest: null };
  if (major !== '5') Object.assign(options, { protocol, replyMapping: protocol === 3 ? 'resp3' : undefined });
  const redis = new Redis(options);
  let last;
  redis.on('error', (e) => { last = e; });
  const refused = new Promise((_, fail) => redis.on('error', (e) => /WRONGPASS|NOAUTH/.test(e.message) && fail(e)));
  refused.catch(() => redis.disconnect());
  await Promise.race([redis.connect().catch((e) => { throw last || e; }), refused]);
  const call = (...a) => Promise.race([redis.call(...a), refused]);
  return {
    raw: call,
    reserve: (f, rate, capacity) => call('BF.RESERVE', f, rate, capacity),
    add: async (f, key) => yes(await call('BF.ADD', f, key)),
    exists: async (f, key) => yes(await call('BF.EXISTS', f, key)),
    madd: async (f, all) => (await call('BF.MADD', f, ...all)).map(yes),
    mexists: async (f, all) => (await call('BF.MEXISTS', f, ...all)).map(yes),
    insert: async (f, { capacity }, all) =>
      (await call('BF.INSERT', f, 'CAPACITY', capacity, 'ITEMS', ...all)).map(yes),
    card: (f) => call('BF.CARD', f),
    info: async (f) => fields(await call('BF.INFO', f)),
    pipeline: async (f, all) => {
      const p = redis.pipeline();
      for (const key of all) p.call('BF.ADD', f, key).echo(key);
      return replies(await p.exec());
    },
    transaction: async (f, key) =>
      replies(await redis.multi().call('BF.ADD', f, key).call('BF.ADD', f, key).call('BF.EXISTS', f, key).exec()).map(yes),
    brokenTransaction: (f) => redis.multi().call('BF.ADD', f, 'not-added').call('BF.ADD', f).exec(),
    close: async () => redis.disconnect(),
  };
}

main({ name: `ioredis${major}`, protocols: major === '5' ? [2] : [2, 3], open });
