// SPDX-License-Identifier: MIT
// Figures and times as people read them.

const units = ['', ' K', ' M', ' G', ' T'];

// 1234567 -> "1.23 M"
export function count(n) {
  if (!Number.isFinite(n)) return '–';
  let unit = 0, value = n;
  while (Math.abs(value) >= 1000 && unit < units.length - 1) { value /= 1000; unit++; }
  return unit === 0 ? String(Math.round(n)) : value.toPrecision(3) + units[unit];
}

export const exact = (n) => Number.isFinite(n) ? n.toLocaleString('en-US') : '–';

export function bytes(n) {
  if (!Number.isFinite(n)) return '–';
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (n >= 1024 && unit < names.length - 1) { n /= 1024; unit++; }
  return (unit === 0 ? n : n.toPrecision(3)) + ' ' + names[unit];
}

export const percent = (x) => Number.isFinite(x) ? (x * 100).toFixed(x > 0 && x < 0.1 ? 2 : 1) + '%' : '–';

// A false-positive rate: 0.000129 -> "0.0129%"
export function rate(x) {
  if (!Number.isFinite(x)) return '–';
  if (x === 0) return '0%';
  const p = x * 100;
  return p < 1e-4 ? 'below 0.0001%' : Number(p.toPrecision(3)) + '%';
}

export function span(seconds) {
  if (!Number.isFinite(seconds) || seconds < 0) return '–';
  const s = Math.round(seconds);
  if (s < 60) return s + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min ' + (s % 60 ? s % 60 + ' s' : '');
  if (s < 86400) return Math.floor(s / 3600) + ' h ' + Math.floor(s % 3600 / 60) + ' min';
  return Math.floor(s / 86400) + ' d ' + Math.floor(s % 86400 / 3600) + ' h';
}

// Microseconds: 830 -> "830 µs", 12345 -> "12.3 ms"
export function took(us) {
  if (!Number.isFinite(us)) return '–';
  return us < 1000 ? Math.round(us) + ' µs' : us < 1e6 ? Number((us / 1000).toPrecision(3)) + ' ms' : Number((us / 1e6).toPrecision(3)) + ' s';
}

// Per second: 0.25 -> "0.25", 1234 -> "1.23 K"
export const perSecond = (x) => Number.isFinite(x) ? x > 0 && x < 10 ? String(Number(x.toPrecision(2))) : count(x) : '–';

const two = (n) => String(n).padStart(2, '0');

export function clock(ms) {
  const t = new Date(ms);
  return two(t.getHours()) + ':' + two(t.getMinutes());
}

export function time(ms) {
  if (!ms) return '–';
  const t = new Date(ms), today = new Date();
  const hour = two(t.getHours()) + ':' + two(t.getMinutes()) + ':' + two(t.getSeconds());
  return t.toDateString() === today.toDateString() ? hour
    : t.getFullYear() + '-' + two(t.getMonth() + 1) + '-' + two(t.getDate()) + ' ' + hour;
}

// "in 3 h", "4 min ago"
export function relative(ms, now) {
  const s = (ms - now) / 1000;
  return s >= 0 ? 'in ' + span(s) : span(-s) + ' ago';
}
