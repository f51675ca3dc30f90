// SPDX-License-Identifier: MIT
'use strict';
// A visit to the dashboard: a browser, what it asked for and complained about; TB.STATUS; contrast as WCAG 2 has it.

const fs = require('node:fs');
const path = require('node:path');

const CHROMIUM = process.env.TWINBLOOM_CHROMIUM || '/usr/bin/chromium';
const WAIT_MS = 60000;

let chromium, Redis;
try {
  ({ chromium } = require('playwright-core'));
  Redis = require('ioredis5');
} catch {
  console.log('1..0 # SKIP playwright-core is not installed: tests/clients/install');
  process.exit(77);
}
if (!fs.existsSync(CHROMIUM)) {
  console.log(`1..0 # SKIP ${CHROMIUM} is not there (Debian: chromium)`);
  process.exit(77);
}

async function until(what, is) {
  for (const end = Date.now() + WAIT_MS; Date.now() < end; await new Promise((done) => setTimeout(done, 50))) {
    const value = await is();
    if (value) return value;
  }
  throw new Error(`waited ${WAIT_MS} ms for ${what}`);
}

let redis;
// A command to the coordinator without a login.
function ask(...command) {
  redis ||= new Redis({ host: '127.0.0.1', port: Number(process.env.TWINBLOOM_PORT), lazyConnect: false });
  return redis.call(...command);
}

// The fields of TB.STATUS.
async function status(filter) {
  const list = await ask('TB.STATUS', filter), fields = {};
  for (let i = 0; i < list.length; i += 2) fields[list[i]] = list[i + 1];
  return fields;
}

class Visit {
  static async begin(httpCredentials) {
    Visit.browser ||= await chromium.launch({ executablePath: CHROMIUM,
      args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'] });
    const v = new Visit();
    v.context = await Visit.browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: 'light', httpCredentials });
    v.context.setDefaultTimeout(WAIT_MS);
    v.page = await v.context.newPage();
    v.asked = [];
    v.said = [];
    v.sizes = new Map();
    v.page.on('request', (r) => v.asked.push(r.url()));
    v.page.on('response', async (r) => {
      if (new URL(r.url()).pathname.startsWith('/v1/')) return;
      try { v.sizes.set(r.url(), (await r.body()).length); } catch { /* it has none */ }
    });
    v.page.on('console', (m) => { if (['error', 'warning'].includes(m.type())) v.said.push(m.text()); });
    v.page.on('pageerror', (e) => v.said.push(e.stack));
    return v;
  }

  static async close() {
    if (redis) redis.disconnect();
    await Visit.browser.close();
  }

  async go(base) {
    this.base = base;
    await this.page.goto(base + '/');
  }

  // Of the page and what it is made of, as the browser unpacked it.
  bytes() { return [...this.sizes.values()].reduce((a, b) => a + b, 0); }
  foreign() { return this.asked.filter((url) => new URL(url).protocol !== 'data:' && !url.startsWith(this.base + '/')); }
  faults() { return this.said; }
  expected(pattern) { this.said = this.said.filter((text) => !pattern.test(text)); }

  // The whole page, or its first @height pixels.
  async shot(name, height) {
    await this.page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    await this.page.screenshot({ path: path.join(Visit.shots, `${name}.png`), fullPage: true, animations: 'disabled', clip: height && { x: 0, y: 0, width: 1280, height } });
  }

  async shots(name, dark, width) {
    await this.page.emulateMedia({ colorScheme: 'dark' });
    await this.shot(`${name}-${dark}`);
    await this.page.setViewportSize({ width, height: 800 });
    await this.shot(`${name}-${width}-${dark}`);
    await this.page.emulateMedia({ colorScheme: 'light' });
    await this.shot(`${name}-${width}`);
    await this.page.setViewportSize({ width: 1280, height: 900 });
  }

  // A change, as the page makes it but without its buttons.
  send(base, what) {
    return this.page.evaluate(async (url) => {
      const { csrf_token } = await (await fetch('/v1/session')).json();
      const answer = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': csrf_token }, body: '{}' });
      return [answer.status, (await answer.json()).detail];
    }, `${base}/v1/filters/short-link/${what}`);
  }

  async end() { await this.context.close(); }
}

// In the page: the contrast of each text with what is behind it. What is disabled need not have any.
function contrasts() {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = ([r, g, b]) => [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) {
      const color = rgba(getComputedStyle(at).backgroundColor);
      if (color[3] > 0) layers.push(color);
      if (color[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const out = { count: 0, least: 99, bad: [] };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const e = node.parentElement, style = getComputedStyle(e);
    if (!node.data.trim() || !e.getClientRects().length || e.closest(':disabled, [aria-disabled="true"]') || e.closest('.said, noscript, .skip')) continue;
    const ground = behind(e), ink = over(rgba(e.namespaceURI.endsWith('svg') ? style.fill : style.color), ground);
    const a = light(ink), b = light(ground), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    out.count++;
    out.least = Math.min(out.least, ratio);
    if (ratio < 4.5) out.bad.push([node.data.trim().slice(0, 40), Number(ratio.toFixed(2))]);
  }
  return out;
}

module.exports = { Visit, ask, contrasts, status, until };
