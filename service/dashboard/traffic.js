// SPDX-License-Identifier: MIT
// What clients ask of this coordinator, from the counters that the service sends: the difference of two, over some seconds.

const WINDOW_S = 10, FIRST_US = 50;

// The duration in microseconds that the share @q of the requests did not exceed. Bucket i ends at 50 us * 2^i; the last is open.
export function quantile(buckets, q) {
  const total = buckets.reduce((a, b) => a + b, 0);
  let below = 0;
  for (let i = 0; i < buckets.length; i++) {
    if (buckets[i] > 0 && below + buckets[i] >= q * total) {
      const from = i === 0 ? 0 : FIRST_US * 2 ** (i - 1), to = i + 1 === buckets.length ? from : FIRST_US * 2 ** i;
      return from + (to - from) * (q * total - below) / buckets[i];
    }
    below += buckets[i];
  }
  return NaN;
}

export class Traffic {
  constructor() { this.seen = []; }

  take(t) {
    const last = this.seen.at(-1);
    if (last && (t.requests < last.requests || t.read_at < last.read_at)) this.seen = []; // another coordinator, or a restarted one
    if (last && t.read_at === last.read_at) return;
    this.seen.push(t);
    while (this.seen.length > 2 && t.read_at - this.seen[1].read_at >= WINDOW_S) this.seen.shift();
  }

  // NaN: not known yet, or there were no such requests.
  figures() {
    const a = this.seen[0], b = this.seen.at(-1);
    if (!a || a === b) return { perSecond: NaN, failed: NaN, p50: NaN, p99: NaN, maybe: NaN };
    const took = b.duration_us.map((n, i) => n - a.duration_us[i]), requests = b.requests - a.requests;
    return { perSecond: requests / (b.read_at - a.read_at), failed: (b.failed - a.failed) / requests,
      p50: quantile(took, 0.5), p99: quantile(took, 0.99), maybe: (b.maybe - a.maybe) / (b.checks - a.checks) };
  }
}

// Of a filter's samples [at, keys, capacity, rate, generation, checks, maybe, adds]: keys per second, and the share of "maybe",
// between one sample and the next. A coordinator that was restarted counts from zero.
export function keysPerSecond(samples) {
  return between(samples, (a, b) => (b[5] - a[5] + b[7] - a[7]) / (b[0] - a[0]));
}

export function maybeShare(samples) {
  return between(samples, (a, b) => b[5] > a[5] ? (b[6] - a[6]) / (b[5] - a[5]) : NaN);
}

function between(samples, value) {
  const out = [], counted = samples.filter((s) => s.length > 5); // those of the stream have no counters
  for (let i = 1; i < counted.length; i++) {
    const a = counted[i - 1], b = counted[i], v = b[5] >= a[5] && b[7] >= a[7] && b[0] > a[0] ? value(a, b) : NaN;
    if (Number.isFinite(v)) out.push([b[0], v]);
  }
  return out;
}
