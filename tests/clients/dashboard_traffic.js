// SPDX-License-Identifier: MIT
// The dashboard's rates and quantiles from counters. Needs nothing but Node.
const assert = require('assert');
const fs = require('fs');
const path = require('path');

const text = fs.readFileSync(path.join(__dirname, '../../service/dashboard/traffic.js'));
import('data:text/javascript;base64,' + text.toString('base64')).then(({ Traffic, quantile, keysPerSecond, maybeShare }) => {
  const buckets = (...some) => [...some, ...Array(20 - some.length).fill(0)];
  assert.strictEqual(quantile(buckets(100), 0.5), 25); // up to 50 us
  assert.strictEqual(quantile(buckets(50, 50), 0.99), 99); // half up to 50 us, half up to 100 us
  assert.strictEqual(quantile([...Array(19).fill(0), 7], 0.5), 50 * 2 ** 18); // longer than all bounds
  assert.ok(Number.isNaN(quantile(buckets(), 0.5)));

  const t = new Traffic(), at = (read_at, n) => ({ read_at, requests: n, failed: n / 10, checks: 4 * n, maybe: n, adds: 0, duration_us: buckets(n) });
  t.take(at(100, 1000));
  assert.ok(Number.isNaN(t.figures().perSecond)); // one look is no rate
  t.take(at(102, 1200));
  assert.deepStrictEqual({ ...t.figures() }, { perSecond: 100, failed: 0.1, p50: 25, p99: 49.5, maybe: 0.25 });
  for (let i = 1; i <= 30; i++) t.take(at(102 + 2 * i, 1200)); // silence
  assert.strictEqual(t.figures().perSecond, 0);
  assert.ok(t.seen.length <= 7);
  t.take(at(170, 50)); // a restarted coordinator counts from zero
  assert.ok(Number.isNaN(t.figures().perSecond));

  const samples = [[0, 1, 1, 0, 1, 100, 50, 10], [5, 1, 1, 0, 1], [10, 1, 1, 0, 1, 200, 60, 110], [20, 1, 1, 0, 1, 0, 0, 0], [30, 1, 1, 0, 1, 10, 10, 0], [40, 1, 1, 0, 1, 10, 10, 0]];
  assert.deepStrictEqual(keysPerSecond(samples), [[10, 20], [30, 1], [40, 0]]); // not the restart at 20, not the stream's at 5
  assert.deepStrictEqual(maybeShare(samples), [[10, 0.1], [30, 1]]); // no checks, no share
}).catch((error) => { console.error(error); process.exit(1); });
