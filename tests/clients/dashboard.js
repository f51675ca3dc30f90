// SPDX-License-Identifier: MIT
'use strict';
// The dashboard in headless Chromium, against real coordinators: one without a login (TWINBLOOM_HTTP_PORT), one with the users
// chief (admin), reader (read, short*) and stranger (read, nothing). Screenshots go to TWINBLOOM_SHOTS. Lines are TAP.

const assert = require('node:assert');
const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const { Visit, ask, contrasts, status, until } = require('./dashboard_lib.js');

const env = process.env;
const open = `http://127.0.0.1:${env.TWINBLOOM_HTTP_PORT}`;
const guarded = `http://127.0.0.1:${env.TWINBLOOM_GUARDED_HTTP_PORT}`;
const EVIL = '<img src=x onerror=alert(1)>';
const FILTER = 'short-link';
const WEIGHT_MAX = 300 * 1024, PAINT_MAX_MS = 20000;

const field = async (name) => (await status(FILTER))[name];
const becomes = (name, value) => until(`${name} = ${value}`, async () => String(await field(name)) === String(value));

// The button of an action that is possible now; of one that is not, and says so.
const can = (page, action) => page.locator(`button[data-action="${action}"]:not([aria-disabled="true"])`);
const cannot = (page, action, why) => page.locator(`button[data-action="${action}"][aria-disabled="true"][title*="${why}"]`);
const event = (page, text) => page.locator('#events tr', { hasText: text }).first().waitFor();

async function act(page, action, number) {
  await can(page, action).click();
  if (number !== undefined) await page.locator('#dialog-number').fill(String(number));
  await page.locator('#dialog-do').click();
  await until(`the dialog of ${action} to close`, async () => {
    const fault = page.locator('#dialog-fault');
    assert.ok(!(await fault.isVisible()), `${action} was refused: ${await fault.textContent()}`);
    return !(await page.locator('#dialog').isVisible());
  });
}

const checks = {
  async 'the page is whole, light and quick'(v) {
    await v.go(open);
    await v.page.locator('#live[data-level="ok"]').waitFor();
    await v.page.locator(`.card[data-key="${FILTER}"]`).waitFor();
    await v.page.locator('#nodes tr', { hasText: /127\.0\.0\.1:\d+.*up/ }).first().waitFor();
    await v.page.locator('#coordinators tr', { hasText: 'serving' }).first().waitFor();
    const weight = v.bytes();
    const paint = await until('paint timing', () => v.page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime));
    console.log(`# weight ${weight} bytes unpacked, first contentful paint ${Math.round(paint)} ms`);
    assert.ok(weight > 10000 && weight < WEIGHT_MAX, `weight ${weight}`);
    assert.ok(paint < PAINT_MAX_MS, `paint ${paint}`);
    const second = await v.page.reload();
    assert.strictEqual(second.status() === 200 || second.status() === 304, true);
    await v.page.locator(`.card[data-key="${FILTER}"]`).waitFor();
    const again = await v.page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
    console.log(`# first contentful paint, loaded again: ${Math.round(again)} ms`);
  },

  async 'the style is in the page, and no other one is let in'(v) {
    const html = await (await fetch(open + '/')).text(), answer = await v.page.request.get(open + '/');
    for (const [tag, directive] of [['style', 'style-src'], ['script', "script-src 'self'"]]) {
      const hash = crypto.createHash('sha256').update(html.match(new RegExp(`<${tag}>([^]*?)</${tag}>`))[1]).digest('base64');
      assert.ok(answer.headers()['content-security-policy'].includes(`${directive} 'sha256-${hash}';`), `${hash} is not in the policy`);
    }
    assert.deepStrictEqual(v.asked.filter((url) => /\.css/.test(url)), []);
    const styled = () => v.page.evaluate(() => [document.styleSheets.length, getComputedStyle(document.querySelector('main')).display]);
    assert.deepStrictEqual(await styled(), [1, 'grid']);
    await v.page.evaluate(() => document.head.append(Object.assign(document.createElement('style'), { textContent: 'main { display: flex !important; }' })));
    await v.page.evaluate(() => document.querySelector('main').setAttribute('style', 'display: flex'));
    assert.deepStrictEqual((await styled())[1], 'grid');
    v.expected(/inline style violates/);
  },

  async 'the colours that were chosen are there before the programs'(v) {
    await v.page.route('**/dashboard/app.js', (route) => route.abort());
    const themeAfter = async (kept) => {
      await v.page.evaluate((name) => localStorage.setItem('theme', name), kept);
      await v.page.reload();
      return v.page.locator('html').getAttribute('data-theme');
    };
    assert.deepStrictEqual([await themeAfter('dark'), await themeAfter('<b>'), await themeAfter('system')], ['dark', null, null]);
    v.expected(/ERR_FAILED/);
    await v.page.unroute('**/dashboard/app.js');
    await v.page.reload();
    await v.page.locator('#live[data-level="ok"]').waitFor();
  },

  async 'the list of events is bounded, newest first, and knows each end of a job once'(v) {
    const found = await v.page.evaluate(async () => {
      const { Activity } = await import('/dashboard/activity.js'), make = (name) => document.createElement(name), body = make('tbody');
      const list = new Activity(body, make('p'), make('div')), texts = () => [...body.children].map((row) => row.lastElementChild.textContent);
      for (const at of [3, 1, 2]) list.add(at * 1000, 'f', 'ok', `at ${at}`);
      for (let i = 0; i < 2; i++) list.past('f', [{ finished_at: 0.5, outcome: 'failed', error: 'no space' }]);
      const first = texts();
      for (let i = 0; i < 150; i++) list.add(2e12 + i, 'f', 'ok', `late ${i}`);
      return [first, texts().length, texts()[0], texts()[99]];
    });
    assert.deepStrictEqual(found, [['at 3', 'at 2', 'at 1', 'job failed: no space'], 100, 'late 149', 'late 50']);
  },

  async 'a coordinator without tables needs no Postgres, and that is no fault'(v) {
    const faults = (postgres) => v.page.evaluate(async (text) => {
      const { coordinatorRow } = await import('/dashboard/parts.js');
      return coordinatorRow({ coordinator: 'c', state: 'serving', version: '1', uptime_ms: 1, clients: 0, behind: 0, jobs: [], redis: 'ok', postgres: text }).querySelectorAll('[data-level="bad"]').length;
    }, postgres);
    assert.deepStrictEqual([await faults('ok'), await faults('none'), await faults('refused')], [0, 0, 1]);
  },

  async 'a name with HTML in it is text'(v) {
    const card = v.page.locator('.card-name', { hasText: 'onerror' });
    await card.waitFor();
    assert.strictEqual(await card.textContent(), EVIL);
    assert.strictEqual(await v.page.locator('img').count(), 0);
  },

  async 'a key is checked and added, and the answer is read out'(v) {
    await v.page.locator(`.card[data-key="${FILTER}"]`).click();
    const says = (text) => v.page.locator('[aria-live="polite"] .answer', { hasText: text }).waitFor();
    await v.page.locator('#key').fill('c17');
    await v.page.locator('#key').press('Enter');
    await says('Maybe present "c17"');
    await v.page.locator('#key').fill('not-there');
    await v.page.locator('button[data-key="check"]').click();
    await says('Certainly absent "not-there"');
    await v.page.locator('button[data-key="add"]').click();
    await says('The key was new');
    assert.strictEqual(await ask('BF.EXISTS', FILTER, 'not-there'), 1);
    await v.page.locator('button[data-key="add"]').click();
    await says('The key was not new');
    await v.page.locator('#key').fill('');
    await v.page.locator('button[data-key="check"]').click();
    await says('Type a key first');
  },

  async 'requests per second, latency and the share of "maybe" are shown'(v) {
    const tile = (label) => v.page.locator('.total', { hasText: label }).locator('b');
    await until('figures', async () => {
      for (let i = 0; i < 30; i++) await ask('BF.MEXISTS', FILTER, 'c1', `absent-${i}`);
      return Number(await tile('requests per second').textContent()) > 3;
    });
    assert.match(await tile('latency p99').textContent(), /^[\d.]+ (µs|ms)$/);
    assert.match(await v.page.locator('.total', { hasText: 'latency p99' }).textContent(), /p50 [\d.]+ (µs|ms)/);
    const maybe = parseFloat(await tile('“maybe” answers').textContent());
    assert.ok(maybe > 30 && maybe < 70, `${maybe}% are "maybe" where half should be`);
    await until('the curves of requests and "maybe"', async () => {
      await ask('BF.MEXISTS', FILTER, 'c1', 'absent');
      const told = await v.page.locator('.curves .readout').allTextContents();
      return /now [\d.]+/.test(told[2]) && /now [\d.]+%/.test(told[3]);
    });
  },

  async 'the links to the documentation lead somewhere'(v) {
    const links = await v.page.locator('footer a').evaluateAll((list) => list.map((a) => a.href));
    assert.ok(links.length >= 6);
    for (const url of links) {
      const answer = await v.page.request.get(url);
      assert.strictEqual(answer.status(), 200, url);
      assert.match(answer.headers()['content-type'], /text\/(plain|html)|json/);
    }
    assert.strictEqual((await v.page.request.get(open + '/docs/none.md')).status(), 404);
  },

  async 'tables, fields and regions are named for screen readers'(v) {
    const faults = await v.page.evaluate(() => {
      const out = [];
      for (const th of document.querySelectorAll('th')) if (!['col', 'row'].includes(th.scope)) out.push(`th ${th.textContent}`);
      for (const e of document.querySelectorAll('input, button, [role="group"], [role="img"], section'))
        if (!e.ariaLabel && !e.labels?.length && !e.textContent.trim() && !e.getAttribute('aria-labelledby')) out.push(`${e.tagName} ${e.id || e.className}`);
      for (const e of document.querySelectorAll('[aria-describedby], [aria-labelledby]'))
        for (const id of [e.getAttribute('aria-describedby'), e.getAttribute('aria-labelledby')]) if (id && !document.getElementById(id)) out.push(`no #${id}`);
      const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
      if (new Set(ids).size !== ids.length) out.push('an id is there twice');
      return out;
    });
    assert.deepStrictEqual(faults, []);
    for (const id of ['live', 'said', 'spoken']) assert.strictEqual(await v.page.locator(`#${id}`).getAttribute('role'), 'status');
  },

  async 'what is not possible says why, also to who clicks'(v) {
    for (const [action, why] of [['cutover', 'no job runs'], ['rollback', 'no cutover to undo'], ['finish', 'no grace time'], ['pause', 'no job runs'], ['throttle', 'no job runs'], ['abort', 'no job runs'], ['trust', 'healthy']])
      await cannot(v.page, action, why).waitFor();
    assert.strictEqual(await v.page.locator('button[data-action="resume"]').isVisible(), false);
    await v.page.locator('button[data-action="rollback"]').focus();
    await v.page.keyboard.press('Enter');
    await v.page.locator('#said', { hasText: 'Roll back: there is no cutover to undo' }).waitFor();
    assert.strictEqual(await v.page.locator('#dialog').isVisible(), false);
    await v.page.locator(`.card[data-key="visitors"]`).click();
    await cannot(v.page, 'rebuild', 'the filter has no source').waitFor();
    await cannot(v.page, 'verify', 'the filter has no source').waitFor();
  },

  async 'verify a sample, and all'(v) {
    await v.page.locator(`.card[data-key="${FILTER}"]`).click();
    for (const [action, mode] of [['verify', 'sample'], ['verify-full', 'full']]) {
      await act(v.page, action);
      await becomes('job_verify_mode', mode);
      await becomes('job_state', 'done');
      await event(v.page, 'job done');
    }
  },

  async 'a change asks first, and Escape means no'(v) {
    await v.page.locator(`.card[data-key="${FILTER}"]`).click();
    await can(v.page, 'rebuild').focus();
    await v.page.keyboard.press('Enter');
    await v.page.locator('#dialog').waitFor();
    assert.strictEqual(await v.page.evaluate(() => document.activeElement.id), 'dialog-cancel');
    await v.page.keyboard.press('Escape');
    assert.strictEqual(await v.page.locator('#dialog').isVisible(), false);
    assert.notStrictEqual(await field('job_state'), 'running');
  },

  async 'rebuild and hold, by keyboard: it builds'(v) {
    await ask('CONFIG', 'SET', 'rows_per_second', '3000'); // so that it can be looked at
    await can(v.page, 'hold').focus();
    await v.page.keyboard.press('Enter');
    await v.page.keyboard.press('Tab');
    assert.strictEqual(await v.page.evaluate(() => document.activeElement.id), 'dialog-do');
    await v.page.keyboard.press('Enter');
    await becomes('job_step', 'scan');
    assert.strictEqual(Number(await field('job_hold')), 1);
    await until('rows to be read', async () => Number(await field('job_rows')) > 5000);
    await event(v.page, 'job started');
    await v.page.locator('#spoken', { hasText: `${FILTER}: job started` }).waitFor({ state: 'attached' });
    await act(v.page, 'throttle', 2000);
    await becomes('job_rows_per_second_limit', 2000);
    await act(v.page, 'pause');
    await becomes('job_paused', 1);
    await v.page.locator('.note', { hasText: 'Paused by an operator' }).waitFor();
    assert.strictEqual(await v.page.locator('button[data-action="pause"]').isVisible(), false);
    await cannot(v.page, 'rebuild', 'a job runs already').waitFor();
    await act(v.page, 'resume');
    await becomes('job_paused', 0);
    await act(v.page, 'throttle', 0);
    await becomes('job_rows_per_second_limit', 0);
    await event(v.page, 'job resumed');
    await until('the page to tell', async () => /%/.test(await v.page.locator('.card-job').first().textContent()));
    await v.shot('building');
    await v.shots('building', 'dark', 400);
    await ask('CONFIG', 'SET', 'rows_per_second', '0');
    await act(v.page, 'throttle', 1000000);
  },

  async 'what is built holds, and the page says whether it is safe to switch'(v) {
    await becomes('job_step', 'hold');
    await v.page.locator('.note', { hasText: /^Safe to switch/ }).waitFor(); // not "Not yet safe"
    for (let i = 0; i < 3000; i++) await ask('BF.MEXISTS', FILTER, 'c1', `absent-${i}`);
    await v.page.locator('.total', { hasText: 'latency p99*, p50' }).waitFor();
    await v.page.locator('#said.shown').waitFor({ state: 'detached' });
    await v.page.locator('.card', { hasText: 'onerror' }).evaluate((card) => card.remove()); // until the next look
    await v.shot('readme', 1150); // docs/images/dashboard.png is this one
    await v.shot('held');
    await v.shots('held', 'dark', 400);
  },

  async 'cut over, and roll back'(v) {
    await act(v.page, 'cutover');
    await becomes('phase', 'SWITCHED');
    await becomes('job_step', 'grace');
    await v.page.locator('.steps [data-is="now"]', { hasText: 'Grace' }).waitFor();
    await event(v.page, 'cutover to generation');
    await cannot(v.page, 'abort', 'roll back instead').waitFor();
    await v.shot('grace');
    await act(v.page, 'rollback');
    await becomes('phase', 'BUILDING');
    await becomes('job_step', 'hold');
    await event(v.page, 'rollback to generation');
  },

  async 'abort'(v) {
    const before = await field('generation');
    await act(v.page, 'abort');
    await becomes('phase', 'STEADY');
    await until('the job to end', async () => !['running', 'waiting'].includes(await field('job_state')));
    assert.strictEqual(await field('generation'), before);
    await can(v.page, 'rebuild').waitFor();
  },

  async 'rebuild, to its end'(v) {
    const before = await field('generation');
    await act(v.page, 'rebuild');
    await becomes('job_step', 'grace');
    await act(v.page, 'finish');
    await becomes('job_state', 'done');
    assert.ok(Number(await field('generation')) > Number(before));
    await v.page.locator('.steps li:last-child[data-is="past"]').waitFor();
    await until('the job in the table', async () => (await v.page.locator('[aria-label="Last jobs"] tbody tr').count()) >= 3);
    await event(v.page, 'job aborted');
    await event(v.page, 'job done');
    const ended = await v.page.locator('#events tr', { hasText: FILTER }).filter({ hasText: /job (done|aborted)/ }).count();
    assert.strictEqual(ended, await v.page.locator('[aria-label="Last jobs"] tbody tr').count(), 'a job is in the events once, by the stream or by its history');
    await v.shot('done');
    await v.shots('done', 'dark', 400);
  },

  async 'everything can be reached with the keyboard, and is seen to be'(v) {
    const reached = new Set();
    await v.page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
    for (let i = 0; i < 80; i++) {
      await v.page.keyboard.press('Tab');
      const [what, seen] = await v.page.evaluate(() => {
        const e = document.activeElement;
        return [e.dataset.action || e.dataset.key || e.id || e.getAttribute('class') || e.tagName, getComputedStyle(e).outlineStyle !== 'none'];
      });
      reached.add(what);
      if (what !== 'BODY') assert.ok(seen, `the focus is not seen on ${what}`);
    }
    for (const wanted of ['theme', 'search', FILTER, EVIL, 'rebuild', 'hold', 'rollback', 'trust', 'check', 'add', 'chart', 'chart teal', 'map', 'SUMMARY', 'A'])
      assert.ok([...reached].some((r) => String(r).trim() === wanted), `${wanted} is not reached: ${[...reached].join(', ')}`);
    const chart = v.page.locator('.chart').first(), told = v.page.locator('.curves .readout').first();
    await chart.focus();
    await v.page.keyboard.press('ArrowLeft');
    assert.match(await told.textContent(), /^\d\d:\d\d/);
    assert.strictEqual(await told.getAttribute('aria-live'), 'polite');
    await v.page.locator('summary').focus();
    await v.page.keyboard.press('Enter');
    await v.page.locator('details tbody tr').first().waitFor();
    await v.page.keyboard.press('Enter');
    await v.page.locator('.map[tabindex]').first().focus();
    await v.page.keyboard.press('ArrowRight');
    await v.page.locator('.maps .readout', { hasText: /^shard/ }).waitFor();
  },

  async 'text has enough contrast in both themes'(v) {
    for (const theme of ['light', 'dark']) {
      await v.page.emulateMedia({ colorScheme: theme });
      const found = await v.page.evaluate(contrasts);
      assert.ok(found.count > 80, `only ${found.count} texts were measured`);
      assert.deepStrictEqual(found.bad, [], `${theme}: ${JSON.stringify(found.bad)}`);
      console.log(`# ${theme}: ${found.count} texts, least contrast ${found.least.toFixed(2)}`);
    }
    for (const wanted of ['light', 'dark', 'light']) { // the switch wins over the system
      await v.page.emulateMedia({ colorScheme: wanted === 'light' ? 'dark' : 'light' });
      await until(`the switch says ${wanted}`, async () => {
        if (await v.page.locator('html').getAttribute('data-theme') === wanted) return true;
        await v.page.locator('#theme').click();
        return false;
      });
      assert.strictEqual(await v.page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), wanted);
    }
  },

  async 'nothing is wider than a phone'(v) {
    await v.page.setViewportSize({ width: 400, height: 800 });
    const wide = await v.page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 400, `${wide} pixels`);
    await v.page.setViewportSize({ width: 1280, height: 900 });
  },

  async 'a lost stream is said, and found again'(v) {
    await v.page.route('**/v1/events', (route) => route.abort());
    await v.page.reload();
    await v.page.locator('#banner', { hasText: 'connection to the service is lost' }).waitFor();
    v.expected(/ERR_FAILED/);
    await v.page.unroute('**/v1/events');
    await v.page.locator('#live[data-level="ok"]').waitFor();
    await v.page.locator('#banner').waitFor({ state: 'hidden' });
  },

  async 'hundreds of filters and thousands of shards: the page stays what it is'(v) {
    const one = (i, keys) => `event: filter\ndata: ${JSON.stringify({ filter: `many-${i}`, state: 'serving', phase: 'STEADY', keys, capacity: 1e6, fill_ratio: keys / 1e6, error_rate: 0.01, expected_error_rate: 0.001, built: true, generation: 1, shards: 50000, shard_bytes: 65536, memory_bytes: 1e9, layers: 1, job_state: 'none', redis: 'ok' })}\n\n`;
    const body = (round) => Array.from({ length: 200 }, (_, i) => one(i, i * 4000 + round)).join('') + `event: tick\ndata: {"sent_at":${Date.now() / 1000},"redis":"ok","filters":true}\n\n`;
    const now = Math.round(Date.now() / 1000);
    let round = 0;
    await v.page.route('**/v1/events', (route) => route.fulfill({ contentType: 'text/event-stream', body: 'retry: 100\n\n' + Array.from({ length: 10 }, () => body(round++)).join('') }));
    await v.page.route('**/shards', (route) => route.fulfill({ json: { filter: 'x', phase: 'STEADY', generations: [{ generation: 1, built: true, node_count: 2, layers: [{ layer: 0, shards: 50000, capacity: 1e6, keys: 5e5, shards_per_cell: 49, fill_permille: Array.from({ length: 1021 }, (_, i) => i), fill_permille_max: Array.from({ length: 1021 }, (_, i) => i + 9), lost: [[7, 3]] }] }] } }));
    await v.page.route('**/samples', (route) => route.fulfill({ json: { samples: Array.from({ length: 648 }, (_, i) => [now - (648 - i) * 20, i * 100, 1e6, 0.001, 1, i * 2000, i * 500, 0]) } }));
    await v.page.route('**/history*', (route) => route.fulfill({ json: { history: [] } }));
    await v.page.reload();
    await until('200 cards', async () => (await v.page.locator('.card').count()) === 200);
    const range = (seconds) => v.page.locator(`button[data-range="${seconds}"]`), axis = () => v.page.locator('.chart').nth(2).locator('text').allTextContents();
    await until('6 h to be possible', () => range(21600).isEnabled());
    assert.strictEqual(await range(86400).isEnabled(), false);
    const hour = await axis();
    await range(21600).click();
    assert.strictEqual(await range(21600).getAttribute('aria-pressed'), 'true');
    assert.notDeepStrictEqual(await axis(), hour);
    assert.match(await v.page.locator('.curves .readout').nth(2).textContent(), /now 100/);
    assert.match(await v.page.locator('.curves .readout').nth(3).textContent(), /now 25.0%/);
    await v.page.locator('summary').click();
    await until('values', async () => (await v.page.locator('details tbody tr').first().textContent()).includes('25.0%'));
    assert.ok(await v.page.locator('details tbody tr').count() <= 41);
    await until('a map', async () => (await v.page.locator('.maps rect').count()) === 1021);
    const nodes = () => v.page.evaluate(() => document.querySelectorAll('*').length);
    await until('some rounds', async () => round >= 20);
    const before = await nodes();
    await until('more rounds', async () => round >= 40);
    assert.ok(await nodes() <= before + 400, 'the page grows');
    await v.shot('many');
    await v.page.locator('#search').fill('many-19');
    await until('fewer cards', async () => (await v.page.locator('.card:visible').count()) === 11);
    await v.page.unrouteAll();
    await v.page.reload(); // the filters that were made up are asked for no more
    await v.page.locator(`.card[data-key="${FILTER}"]`).waitFor();
    v.expected(/ERR_|404/);
  },

  async 'what leaves the page goes to its own host, and the console is silent'(v) {
    assert.deepStrictEqual(v.foreign(), []);
    assert.deepStrictEqual(v.faults(), []);
    await v.end();
  },

  async 'who may only read has no buttons, sees no foreign filter, and is refused by the service'() {
    const v = await Visit.begin({ username: 'reader', password: 'reader' });
    await v.go(guarded);
    await v.page.locator(`.card[data-key="${FILTER}"]`).click();
    await cannot(v.page, 'rebuild', 'this needs the role admin; you have the role read').waitFor();
    assert.strictEqual(await v.page.locator('button[data-action]').count(), 12);
    assert.strictEqual(await v.page.locator('button[data-action]:not([aria-disabled="true"])').count(), 0);
    await v.page.locator('button[data-action="rebuild"]').click({ force: true }); // says why, and does nothing
    await v.page.locator('#said', { hasText: 'needs the role admin' }).waitFor();
    assert.strictEqual(await v.page.locator('#dialog').isVisible(), false);
    await v.page.locator('#key').fill('c17');
    await v.page.locator('#key').press('Enter');
    await v.page.locator('.answer', { hasText: 'Maybe present' }).waitFor();
    await v.page.locator('button[data-key="add"]').click({ force: true });
    await v.page.locator('.answer', { hasText: 'needs the role write' }).waitFor();
    assert.strictEqual(await v.page.locator('.card').count(), 1);
    assert.strictEqual(await v.page.locator('#nodes-panel').isVisible(), false);
    const [code, detail] = await v.send(guarded, 'rebuild');
    assert.strictEqual(code, 403);
    assert.match(detail, /does not have the role/);
    assert.notStrictEqual(await field('job_state'), 'running');
    v.expected(/403/);
    assert.deepStrictEqual(v.faults(), []);
    await v.end();
  },

  async 'who sees no filter is told so'() {
    const v = await Visit.begin({ username: 'stranger', password: 'reader' });
    await v.go(guarded);
    await v.page.locator('#cards-empty', { hasText: 'There are no filters yet' }).waitFor();
    await v.shot('empty');
    await v.end();
  },

  async 'another site can change nothing, with a login that the browser knows'() {
    const v = await Visit.begin({ username: 'chief', password: 'chief' });
    await v.go(guarded);
    await v.page.locator(`.card[data-key="${FILTER}"]`).waitFor();
    const url = `${guarded}/v1/filters/${FILTER}/rebuild`;
    const bare = await v.page.evaluate((to) => fetch(to, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{}' }).then(async (a) => [a.status, (await a.json()).detail]), url);
    assert.strictEqual(bare[0], 403);
    assert.match(bare[1], /X-CSRF-Token/);
    const site = http.createServer((_, answer) => answer.end(`<!doctype html><form method="post" enctype="text/plain" action="${url}"><input name='{"hold":false,"x":"' value='"}'></form>`));
    await new Promise((done) => site.listen(0, '127.0.0.1', done));
    const other = await v.context.newPage();
    await other.goto(`http://127.0.0.1:${site.address().port}/`);
    const cross = await other.evaluate((to) => fetch(to, { method: 'POST', credentials: 'include', headers: { 'Content-Type': 'application/json' }, body: '{}' }).then((a) => a.status, () => 'no answer'), url);
    assert.strictEqual(cross, 'no answer');
    const simple = await other.evaluate((to) => fetch(to, { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}' }).then(() => 'sent', () => 'no answer'), url);
    assert.ok(['sent', 'no answer'].includes(simple));
    const session = await other.evaluate((to) => fetch(to, { credentials: 'include' }).then((a) => a.text(), () => 'no answer'), `${guarded}/v1/session`);
    assert.strictEqual(session, 'no answer');
    const answer = other.waitForResponse((r) => r.url() === url); // it leaves that site
    await other.evaluate(() => document.forms[0].submit());
    assert.ok([403, 415].includes((await answer).status()), String((await answer).status()));
    assert.notStrictEqual(await field('job_state'), 'running');
    site.close();
    site.closeAllConnections();
    await v.end();
  },
};

(async () => {
  const shots = env.TWINBLOOM_SHOTS || fs.mkdtempSync(path.join(os.tmpdir(), 'dashboard-'));
  fs.mkdirSync(shots, { recursive: true });
  Visit.shots = shots;
  const v = await Visit.begin();
  let n = 0, failed = 0;
  for (const [name, run] of Object.entries(checks)) {
    n++;
    try {
      await run(v);
      console.log(`ok ${n} - ${name}`);
    } catch (error) {
      failed++;
      console.log(`not ok ${n} - ${name}\n${String(error.stack).replace(/^/gm, '# ')}`);
      break; // each goes on where the one before ended
    }
  }
  console.log(`1..${Object.keys(checks).length}`);
  await Visit.close();
  process.exit(failed ? 1 : 0);
})();
