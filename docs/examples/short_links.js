// SPDX-License-Identifier: MIT
'use strict';
// usage: node short_links.js create [--length N] URL...     prints a new code and its URL, for each URL
//        node short_links.js find CODE...                   prints the code and its URL, or 404
//
//   TWINBLOOM_URL   where Twinbloom listens, redis://[user:password@]host:port
//   DATABASE_URL    the database with the table short_link, postgresql://...
//
// A code is random and has N letters (7). Exit status 75: Twinbloom did not acknowledge the add in time. That link was
// not created; try again later. Needs node-redis and pg: npm install redis pg

const { randomInt } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const { Client } = require('pg');
const { createClient } = require('redis');

const FILTER = 'short-link';
const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789';
const ATTEMPTS = 100; // codes that are tried for one URL
const PATIENCE = 5000; // ms in which an add must be acknowledged
const ANSWER = 2000; // ms for one answer; a web server would wait for less
const TRY_LATER = 75; // EX_TEMPFAIL
const UNIQUE_VIOLATION = '23505';

// Twinbloom did not acknowledge the add, so the row must not be committed.
class NotAcknowledged extends Error {}

// One command. No answer in time is an error, whether or not the command was carried out.
async function ask(bloom, ...command) {
  const overdue = new AbortController();
  try {
    return await Promise.race([
      bloom.sendCommand(command),
      sleep(ANSWER, undefined, { signal: overdue.signal }).then(() => { throw new Error('no answer in time'); }),
    ]);
  } finally {
    overdue.abort();
  }
}

// False: certainly absent. True: maybe present, or Twinbloom gave no answer, so the table must be asked.
async function maybePresent(bloom, code) {
  try {
    return Number(await ask(bloom, 'BF.EXISTS', FILTER, code)) !== 0;
  } catch {
    return true;
  }
}

// The URL of the code, from the table; undefined if there is no such row.
async function lookUp(db, code) {
  const { rows } = await db.query('SELECT url FROM short_link WHERE code = $1', [code]);
  return rows[0]?.url;
}

// The URL, or undefined for 404. Only codes that may be present cost a query.
// "Absent" may be trusted because every writer adds inside its transaction, as create() does. If a follower adds the
// rows instead (follow = yes), a new row is absent until the follower has it: README.md says what to do then.
async function find(db, bloom, code) {
  return (await maybePresent(bloom, code)) ? lookUp(db, code) : undefined;
}

// Add until Twinbloom acknowledges it. An unacknowledged add may have happened; adding again does no harm.
async function add(bloom, code) {
  const until = Date.now() + PATIENCE;
  for (let pause = 50; ; pause = Math.min(2 * pause, 1000)) {
    try {
      await ask(bloom, 'BF.ADD', FILTER, code);
      return;
    } catch (e) {
      if (Date.now() + pause > until) throw new NotAcknowledged(e.message);
    }
    await sleep(pause);
  }
}

// One transaction, with the add inside. False: the code is taken.
async function insert(db, bloom, code, url) {
  await db.query('BEGIN');
  try {
    await db.query('INSERT INTO short_link (code, url) VALUES ($1, $2)', [code, url]);
    await add(bloom, code);
    await db.query('COMMIT');
    return true;
  } catch (e) {
    await db.query('ROLLBACK');
    if (e.code === UNIQUE_VIOLATION) return false;
    throw e;
  }
}

async function create(db, bloom, url, length) {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const code = Array.from({ length }, () => LETTERS[randomInt(LETTERS.length)]).join('');
    if ((await maybePresent(bloom, code)) && (await lookUp(db, code)) !== undefined) continue;
    if (await insert(db, bloom, code, url)) return code;
    // The code has a row, but if the filter denies it, its writer did not add it.
    if (!(await maybePresent(bloom, code))) await add(bloom, code);
  }
  throw new Error(`${ATTEMPTS} codes of ${length} letters were taken; use longer codes`);
}

async function main([command, ...args]) {
  let length = 7;
  if (command === 'create' && args[0] === '--length') {
    length = Number(args[1]);
    args = args.slice(2);
  }
  if (!['create', 'find'].includes(command) || args.length === 0 || !(length >= 1)) {
    console.error('usage: node short_links.js create [--length N] URL... | find CODE...');
    return 2;
  }
  // A command that cannot be sent is an error; it does not wait in a queue for the connection.
  const bloom = createClient({ url: process.env.TWINBLOOM_URL, disableOfflineQueue: true, socket: { connectTimeout: ANSWER } });
  bloom.on('error', () => {}); // it reconnects by itself
  await Promise.race([bloom.connect().catch(() => {}), sleep(ANSWER)]);
  const db = new Client({ connectionString: process.env.DATABASE_URL });
  await db.connect();
  for (const arg of args) {
    const [code, url] =
      command === 'create' ? [await create(db, bloom, arg, length), arg] : [arg, (await find(db, bloom, arg)) ?? 404];
    process.stdout.write(`${code}\t${url}\n`);
  }
  return 0;
}

main(process.argv.slice(2)).then(
  (status) => process.exit(status),
  (e) => {
    const away = e instanceof NotAcknowledged;
    console.error(`short_links: ${away ? 'Twinbloom did not acknowledge the add: ' : ''}${e.message}`);
    process.exit(away ? TRY_LATER : 1);
  },
);
