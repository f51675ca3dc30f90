// SPDX-License-Identifier: MIT
'use strict';
// usage: node create_link.js [--length N] URL...
//        node create_link.js [--length N] -        (URLs, one a line, from standard input)
//
// Creates short links: prints a code and its URL for each. A code of N letters (7) is random.
//
//   TWINBLOOM_URL   where Twinbloom listens, redis://[user:password@]host:port
//   DATABASE_URL    the database with the table short_link, postgresql://...
//
// Exit status 75: Twinbloom did not take the code in time. That link was not created; try again.
// Needs node-redis and pg: npm install redis pg

const { randomInt } = require('node:crypto');
const { createInterface } = require('node:readline');
const { setTimeout: sleep } = require('node:timers/promises');
const { Client } = require('pg');
const { createClient } = require('redis');

const FILTER = 'short-link';
const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789';
const ATTEMPTS = 100; // codes that are tried for one URL
const PATIENCE = 5000; // ms for an add to be acknowledged
const ANSWER = 2000; // ms for one answer
const TRY_LATER = 75; // EX_TEMPFAIL
const UNIQUE_VIOLATION = '23505';

// The add was not acknowledged, so the row must not be committed.
class TwinbloomAway extends Error {}

// One command. What is not answered in time is an error, whether or not it was carried out.
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

// False: certainly not. Without an answer nobody knows, and the database is asked.
async function maybeTaken(bloom, code) {
  try {
    return Number(await ask(bloom, 'BF.EXISTS', FILTER, code)) !== 0;
  } catch {
    return true;
  }
}

async function isTaken(db, code) {
  const { rowCount } = await db.query('SELECT 1 FROM short_link WHERE code = $1', [code]);
  return rowCount > 0;
}

// Until it is acknowledged. An add that was not may have happened all the same; one more does no harm.
async function add(bloom, code) {
  const until = Date.now() + PATIENCE;
  for (let pause = 50; ; pause = Math.min(2 * pause, 1000)) {
    try {
      await ask(bloom, 'BF.ADD', FILTER, code);
      return;
    } catch (e) {
      if (Date.now() + pause > until) throw new TwinbloomAway(e.message);
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

// A code has a row. If the filter denies it, its writer did not add it: do so.
async function heal(bloom, code) {
  if (!(await maybeTaken(bloom, code))) await add(bloom, code);
}

async function create(db, bloom, url, length) {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const code = Array.from({ length }, () => LETTERS[randomInt(LETTERS.length)]).join('');
    if ((await maybeTaken(bloom, code)) && (await isTaken(db, code))) continue;
    if (await insert(db, bloom, code, url)) return code;
    await heal(bloom, code);
  }
  throw new Error(`${ATTEMPTS} codes of ${length} letters were taken; take longer ones`);
}

async function main(args) {
  let length = 7;
  if (args[0] === '--length') {
    length = Number(args[1]);
    args = args.slice(2);
  }
  if (args.length === 0 || !(length >= 1)) throw new Error('usage: create_link.js [--length N] URL... | -');
  const urls = args[0] === '-' ? createInterface({ input: process.stdin }) : args;
  // Commands that cannot be sent are errors, instead of waiting in a queue for the connection.
  const bloom = createClient({ url: process.env.TWINBLOOM_URL, disableOfflineQueue: true, socket: { connectTimeout: ANSWER } });
  bloom.on('error', () => {}); // it connects again by itself
  const db = new Client({ connectionString: process.env.DATABASE_URL });
  await db.connect();
  const connected = bloom.connect().catch(() => {});
  await Promise.race([connected, sleep(ANSWER)]);
  for await (const url of urls) process.stdout.write(`${await create(db, bloom, url, length)}\t${url}\n`);
}

main(process.argv.slice(2)).then(
  () => process.exit(0),
  (e) => {
    console.error(e instanceof TwinbloomAway ? `create_link: Twinbloom did not take the code: ${e.message}` : `create_link: ${e.message}`);
    process.exit(e instanceof TwinbloomAway ? TRY_LATER : 1);
  },
);
