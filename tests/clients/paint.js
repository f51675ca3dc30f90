// SPDX-License-Identifier: MIT
'use strict';
// How soon the dashboard is seen: first contentful paint in fresh contexts of headless Chromium, beside a page of one word.
// usage: node paint.js URL [ROUNDS]; the exit status is 1 where the median misses the target.

const http = require('node:http');
const { Visit } = require('./dashboard_lib.js');

const TARGET_MS = 100, SETTLE_MS = 300;

const sorted = (list) => [...list].sort((a, b) => a - b);
const median = (list) => sorted(list)[list.length >> 1];
const line = (what, list) => console.log(`${what.padEnd(34)} median ${Math.round(median(list))}, least ${Math.round(Math.min(...list))}: ${sorted(list).map(Math.round).join(' ')}`);

// What the page's own clock says, in ms since the navigation began.
async function load(url) {
  const v = await Visit.begin();
  await v.page.goto(url);
  await v.page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length > 0);
  await new Promise((done) => setTimeout(done, SETTLE_MS));
  const times = await v.page.evaluate(() => {
    const of = (name) => performance.getEntriesByName(name)[0].startTime, page = performance.getEntriesByType('navigation')[0];
    const files = performance.getEntriesByType('resource').filter((r) => r.name.includes('/dashboard/'));
    return { paint: of('first-paint'), content: of('first-contentful-paint'), came: page.responseEnd, parsed: page.domInteractive,
      files: Math.max(0, ...files.map((r) => r.responseEnd)) };
  });
  await v.end();
  return times;
}

(async () => {
  const [url, rounds = '15'] = process.argv.slice(2);
  const word = http.createServer((_, answer) => answer.setHeader('Content-Type', 'text/html').end('<!doctype html><title>w</title>word'));
  await new Promise((done) => word.listen(0, '127.0.0.1', done));
  const here = `http://127.0.0.1:${word.address().port}/`;
  const page = [], bare = [];
  await load(here);
  await load(url); // the browser itself is warm
  for (let i = 0; i < Number(rounds); i++) {
    bare.push(await load(here));
    page.push(await load(url));
  }
  const of = (list, name) => list.map((t) => t[name]);
  line('a page of one word, first content', of(bare, 'content'));
  line('  its HTML is here', of(bare, 'came'));
  line('the dashboard, first content', of(page, 'content'));
  line('  first paint', of(page, 'paint'));
  line('  its HTML is here', of(page, 'came'));
  line('  its HTML is parsed', of(page, 'parsed'));
  line('  its programs are here', of(page, 'files'));
  const got = median(of(page, 'content'));
  console.log(`${got < TARGET_MS ? 'OK' : 'MISSED'}: ${Math.round(got)} ms, the target is below ${TARGET_MS}`);
  word.close();
  await Visit.close();
  process.exit(got < TARGET_MS ? 0 : 1);
})();
