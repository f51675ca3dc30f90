// SPDX-License-Identifier: MIT
'use strict';
// What every client library must be able to do. A library is an adapter: { name, protocols, open(options), checks }, where
// open() resolves to a connection with the functions used below, and checks are more that this library alone must pass. Lines are TAP; the runner restarts the coordinator when it reads
// "restart".

const assert = require('node:assert');
const fs = require('node:fs');

const env = process.env;
const host = env.TWINBLOOM_HOST || '127.0.0.1';
const port = Number(env.TWINBLOOM_PORT);
const guarded = { host, port: Number(env.TWINBLOOM_GUARDED_PORT) };
const user = env.TWINBLOOM_USER || 'default';
const password = env.TWINBLOOM_PASSWORD;
const tls = env.TWINBLOOM_CA ? { ca: fs.readFileSync(env.TWINBLOOM_CA), servername: 'localhost' } : undefined;
const CHECK_MS = 25000;

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const keys = (prefix, n) => Array.from({ length: n }, (_, i) => `${prefix}${i}`);

async function refuses(promise, pattern) {
  await assert.rejects(promise, (e) => {
    assert.match(String(e && e.message), pattern);
    return true;
  });
}

const checks = {
  async 'bf.* through its own interface'(c, f) {
    await c.reserve(f, 0.001, 5000);
    await refuses(c.reserve(f, 0.001, 5000), /item exists/);
    assert.strictEqual(await c.add(f, 'a'), true);
    assert.strictEqual(await c.add(f, 'a'), false);
    assert.strictEqual(await c.exists(f, 'a'), true);
    assert.strictEqual(await c.exists(f, 'b'), false);
    assert.deepStrictEqual(await c.madd(f, ['a', 'b', '']), [false, true, true]);
    assert.deepStrictEqual(await c.mexists(f, ['a', 'b', '', 'none']), [true, true, true, false]);
    assert.strictEqual(await c.card(f), 3);
    assert.deepStrictEqual(await c.insert(`${f}:2`, { capacity: 700 }, ['x', 'y']), [true, true]);
    const info = await c.info(f);
    assert.deepStrictEqual([info.capacity, info.filters, info.items, info.expansion], [5000, 1, 3, 2]);
    assert.ok(info.size > 5000);
    assert.strictEqual((await c.info(`${f}:2`)).capacity, 700);
    await refuses(c.info(`${f}:none`), /not found/);
  },

  async 'names and keys that are binary'(c, f) {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    assert.strictEqual(await c.add(f, bytes), true);
    assert.strictEqual(await c.exists(f, bytes), true);
    assert.strictEqual(await c.exists(f, bytes.subarray(1)), false);
  },

  async 'a pipeline of 2000 commands in order'(c, f) {
    const all = keys('k', 1000);
    await c.reserve(f, 0.0001, 2000);
    const replies = await c.pipeline(f, all); // BF.ADD and ECHO by turns
    assert.strictEqual(replies.length, 2000);
    all.forEach((key, i) => assert.strictEqual(String(replies[2 * i + 1]), key));
    assert.ok((await c.mexists(f, all)).every((there) => there));
  },

  async 'a transaction in order'(c, f) {
    assert.deepStrictEqual(await c.transaction(f, 'a'), [true, false, true]);
    await refuses(c.brokenTransaction(f), /EXECABORT|wrong number of arguments/i);
    assert.strictEqual(await c.exists(f, 'not-added'), false);
    assert.strictEqual(await c.exists(f, 'a'), true); // the connection lives on
  },

  async 'its name and library in CLIENT LIST'(c) {
    const id = Number(await c.raw('CLIENT', 'ID'));
    await c.raw('CLIENT', 'SETNAME', 'checked');
    const line = String(await c.raw('CLIENT', 'LIST')).split('\n').find((l) => l.startsWith(`id=${id} `));
    assert.match(line, / name=checked /);
    assert.match(line, / lib-name=\S+ lib-ver=\S+$/);
  },

  async 'errors that leave the connection usable'(c) {
    await refuses(c.raw('BF.NOSUCH', 'k'), /unknown command 'BF.NOSUCH'/);
    await refuses(c.raw('BF.ADD'), /wrong number of arguments/);
    assert.strictEqual(String(await c.raw('PING')), 'PONG');
  },

  async 'a hundred connections at once'(c, f, open) {
    await c.reserve(f, 1e-6, 1000); // or a new key would now and then be taken for an old one
    const many = await Promise.all(keys('', 100).map(() => open()));
    const added = await Promise.all(many.map((one, i) => one.add(f, `of-${i}`)));
    assert.ok(added.every((isNew) => isNew));
    assert.ok((await c.mexists(f, keys('of-', 100))).every((there) => there));
    await Promise.all(many.map((one) => one.close()));
  },

  async 'the password that is right, and no other'(c, f, open) {
    await refuses(open({ ...guarded, user, password: 'wrong' }), /WRONGPASS/);
    const stranger = open(guarded).then((one) => one.add(f, 'x').finally(() => one.close()));
    await refuses(stranger, /NOAUTH/);
    const member = await open({ ...guarded, user, password });
    assert.strictEqual(await member.add(f, 'x'), true);
    await member.close();
  },

  async 'a coordinator that starts again'(c, f) {
    const processId = async () => /process_id:(\d+)/.exec(String(await c.raw('INFO', 'server')))[1];
    const before = await processId();
    await c.add(f, 'kept');
    console.log('restart');
    for (;;) { // this connection must come back by itself
      if ((await processId().catch(() => before)) !== before) break;
      await sleep(50);
    }
    assert.strictEqual(await c.exists(f, 'kept'), true);
    assert.strictEqual(await c.add(f, 'after'), true);
  },
};

async function bounded(promise) {
  let timer;
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error(`no end within ${CHECK_MS} ms`)), CHECK_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function run(adapter) {
  let number = 0;
  let failed = 0;
  for (const protocol of adapter.protocols) {
    const open = (options) => adapter.open({ host, port, protocol, tls, ...options });
    const c = await bounded(open());
    for (const [what, check] of Object.entries({ ...checks, ...adapter.checks })) {
      number++;
      const name = `${number} - ${adapter.name}, RESP${protocol}: ${what}`;
      try {
        await bounded(check(c, `${adapter.name}:${protocol}:${number}`, open));
        console.log(`ok ${name}`);
      } catch (e) {
        failed++;
        console.log(`not ok ${name}\n${String((e && e.stack) || e).replace(/^/gm, '# ')}`);
      }
    }
    await bounded(c.close());
  }
  console.log(`1..${number}`);
  process.exit(failed === 0 && number > 0 ? 0 : 1);
}

// The library, from NODE_PATH.
function library(name) {
  try {
    return require(name);
  } catch (e) {
    if (e.code !== 'MODULE_NOT_FOUND') throw e;
    console.log(`# ${name} is not installed: run tests/clients/install`);
    return process.exit(77);
  }
}

module.exports = {
  library,
  where: { host, port, tls },
  main: (adapter) => run(adapter).catch((e) => {
    console.log(`Bail out! ${adapter.name}: ${(e && e.stack) || e}`);
    process.exit(1);
  }),
};
