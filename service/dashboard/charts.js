// SPDX-License-Identifier: MIT
// Curves over time and maps of shards, as SVG. Values are shown on hover, and with the arrow keys, which a live region reads.
import { clock, percent } from './format.js';

const NS = 'http://www.w3.org/2000/svg';

export function svg(name, attributes, ...children) {
  const e = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes || {})) e.setAttribute(key, value);
  e.append(...children);
  return e;
}

const line = (points) => points.map(([x, y], i) => (i ? 'L' : 'M') + x.toFixed(1) + ' ' + y.toFixed(1)).join('');
const area = (points, floor) => points.length ? line(points) + `L${points.at(-1)[0].toFixed(1)} ${floor}L${points[0][0].toFixed(1)} ${floor}Z` : '';

// No more points than the eye can tell apart.
function thin(list, most) {
  if (list.length <= most) return list;
  const step = list.length / most;
  return Array.from({ length: most }, (_, i) => list[Math.min(list.length - 1, Math.round((i + 1) * step) - 1)]);
}

// The last hour, small: [[seconds, value], ...]
export function spark(into, all) {
  const W = 280, H = 30, now = all.length ? all.at(-1)[0] : 0;
  const list = thin(all.filter(([t]) => t >= now - 3600), 140);
  const top = Math.max(1, ...list.map(([, v]) => v));
  const from = list.length ? list[0][0] : 0, width = Math.max(1, now - from);
  const points = list.map(([t, v]) => [(t - from) / width * W, H - 2 - v / top * (H - 4)]);
  if (points.length === 1) points.push([W, points[0][1]]);
  into.replaceChildren(svg('path', { class: 'area', d: area(points, H) }), svg('path', { class: 'line', d: line(points) }));
  into.setAttribute('viewBox', `0 0 ${W} ${H}`);
}

function niceTop(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const m of [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 5, 6, 8, 10]) if (m * power >= value * 0.9999) return m * power;
  return 10 * power;
}

const OLD_S = 90; // an older value is not "now"
const DAY = 86400, SPANS = [600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, DAY];

// How long the axis is: the range that was chosen, or less where the samples are younger.
export const spanOf = (age, range) => Math.min(range, SPANS.find((s) => s >= age) || DAY);

// A curve with an optional limit. readout: where the value at the cursor is shown.
export class Chart {
  constructor({ label, format, kind }) {
    this.format = format;
    this.list = [];
    this.at = -1;
    this.label = label;
    this.readout = document.createElement('span');
    this.readout.className = 'readout';
    this.root = svg('svg', { class: 'chart ' + (kind || ''), role: 'img', tabindex: 0 });
    this.points = [];
    new ResizeObserver(() => { if (this.root.clientWidth > 0 && this.root.clientWidth !== this.width && this.drawn) this.draw(...this.drawn); }).observe(this.root);
    this.root.addEventListener('pointermove', (event) => this.point(event));
    this.root.addEventListener('pointerleave', () => this.choose(-1));
    this.root.addEventListener('focus', () => this.readout.setAttribute('aria-live', 'polite')); // only then: it changes all the time
    this.root.addEventListener('blur', () => { this.readout.removeAttribute('aria-live'); this.choose(-1); });
    this.root.addEventListener('keydown', (event) => this.key(event));
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
    if (!step || !this.points.length) return;
    event.preventDefault();
    const from = this.at < 0 ? this.points.length - 1 - (Math.abs(step) === 1 ? step : 0) : this.at;
    this.choose(Math.max(0, Math.min(this.points.length - 1, from + step)));
  }

  point(event) {
    const box = this.root.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * this.width;
    let best = -1;
    this.points.forEach(([px], i) => { if (best < 0 || Math.abs(px - x) < Math.abs(this.points[best][0] - x)) best = i; });
    this.choose(best);
  }

  tell() {
    const one = this.at >= 0 ? this.list[this.at] : this.list.at(-1);
    this.readout.replaceChildren();
    if (!one) return;
    const value = document.createElement('b');
    value.textContent = this.format(one[1]);
    const old = Date.now() / 1000 - one[0] > OLD_S;
    this.readout.append(this.at >= 0 || old ? clock(one[0] * 1000) + '  ' : 'now ', value);
  }

  choose(i) {
    this.at = i;
    this.tell();
    if (i < 0 || !this.points[i]) { this.mark.replaceChildren(); return; }
    const [x, y] = this.points[i];
    this.mark.replaceChildren(svg('line', { class: 'cursor', x1: x, x2: x, y1: 8, y2: 136 }), svg('circle', { class: 'dot', cx: x, cy: y, r: 4 }));
  }

  // all: [[seconds, value], ...]; range: seconds; limit: {value, text}; floorTop: the axis goes at least so far
  draw(all, range, limit, floorTop) {
    this.drawn = [all, range, limit, floorTop];
    this.width = this.root.clientWidth || 360;
    this.root.setAttribute('viewBox', `0 0 ${this.width} 158`);
    const L = 58, R = this.width - 6, T = 10, B = 136, now = all.length ? all.at(-1)[0] : Date.now() / 1000;
    const age = all.length ? now - all[0][0] : 0;
    const width = spanOf(age, range);
    this.list = thin(all.filter(([t]) => t >= now - width), 400);
    const top = niceTop(Math.max(floorTop || 0, limit ? limit.value * (floorTop ? 1 : 1.15) : 0, ...this.list.map(([, v]) => v)));
    const x = (t) => R - (now - t) / width * (R - L), y = (v) => B - Math.min(v, top) / top * (B - T);
    this.points = this.list.map(([t, v]) => [x(t), y(v)]);
    const parts = [];
    for (let i = 0; i <= 4; i++) {
      const value = top * i / 4, at = y(value);
      parts.push(svg('line', { class: 'grid', x1: L, x2: R, y1: at, y2: at }));
      if (i % 2 === 0) parts.push(svg('text', { x: L - 7, y: at + 4, 'text-anchor': 'end' }, this.format(value)));
    }
    for (let i = 0; i <= 4; i++)
      parts.push(svg('text', { x: L + (R - L) * i / 4, y: 153, 'text-anchor': i === 0 ? 'start' : i === 4 ? 'end' : 'middle' }, clock((now - width * (4 - i) / 4) * 1000)));
    if (this.points.length === 1) this.points.unshift([this.points[0][0] - 6, this.points[0][1]]), this.list.unshift(this.list[0]);
    parts.push(svg('path', { class: 'area', d: area(this.points, B) }), svg('path', { class: 'line', d: line(this.points) }));
    if (limit)
      parts.push(svg('line', { class: 'limit', x1: L, x2: R, y1: y(limit.value), y2: y(limit.value) }),
        svg('text', { class: 'limit-text', x: L + 6, y: y(limit.value) < 26 ? y(limit.value) + 14 : y(limit.value) - 5 }, limit.text));
    this.mark = svg('g');
    this.root.replaceChildren(...parts, this.mark);
    const last = this.list.at(-1);
    this.root.setAttribute('aria-label', `${this.label}: ${last ? this.format(last[1]) + ' now' : 'no values yet'}. Arrow keys show earlier values.`);
    if (this.at >= this.points.length) this.at = -1;
    this.choose(this.at);
  }
}

// One colour, the stronger the fuller.
const opacity = (share) => (0.07 + 0.93 * Math.min(1, share)).toFixed(3);

// Nothing is shown by a colour alone: lost is a cross, overfull an arrow.
const at = (x, y, s) => (u, v) => `${(x + s * u).toFixed(1)} ${(y + s * v).toFixed(1)}`;
const SIGNS = {
  lost: (x, y, s) => { const p = at(x, y, s); return `M${p(.28, .28)}L${p(.72, .72)}M${p(.72, .28)}L${p(.28, .72)}`; },
  over: (x, y, s) => { const p = at(x, y, s); return `M${p(.5, .75)}L${p(.5, .25)}M${p(.28, .45)}L${p(.5, .22)}L${p(.72, .45)}`; },
};

// One layer's shards, or cells of several of them.
export class ShardMap {
  constructor() {
    this.readout = document.createElement('span');
    this.readout.className = 'readout';
    this.readout.setAttribute('aria-live', 'polite');
    this.root = svg('svg', { class: 'map', role: 'img', tabindex: 0 });
    this.at = -1;
    this.root.addEventListener('pointermove', (event) => this.choose(event.target.dataset && event.target.dataset.i !== undefined ? Number(event.target.dataset.i) : -1));
    this.root.addEventListener('pointerleave', () => this.choose(-1));
    this.root.addEventListener('blur', () => this.choose(-1));
    this.root.addEventListener('keydown', (event) => this.key(event));
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns, Home: -1e9, End: 1e9 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.choose(Math.max(0, Math.min(this.cells.length - 1, this.at < 0 ? 0 : this.at + step)));
  }

  choose(i) {
    if (this.cells[this.at]) this.cells[this.at].classList.remove('chosen');
    this.at = i;
    if (this.cells[i]) this.cells[i].classList.add('chosen');
    this.tell();
  }

  tell() {
    const m = this.layer, b = document.createElement('b');
    this.readout.replaceChildren();
    if (!m) return;
    if (this.at < 0) {
      const known = m.fill_permille, low = Math.min(...known), high = Math.max(...(m.fill_permille_max.length ? m.fill_permille_max : known));
      b.textContent = `${percent(low / 1000)} to ${percent(high / 1000)}`;
      this.readout.append(b);
      return;
    }
    const first = this.at * m.shards_per_cell, last = Math.min(m.shards, first + m.shards_per_cell) - 1;
    b.textContent = percent(m.fill_permille[this.at] / 1000);
    this.readout.append(first === last ? `shard ${first}  ` : `shards ${first}–${last}  `, b);
    if (m.fill_permille_max.length) this.readout.append(`, fullest ${percent(m.fill_permille_max[this.at] / 1000)}`);
    if (this.lost.has(this.at)) this.readout.append(`, ${this.lost.get(this.at)} lost`);
    for (const [word, text] of [['resident', 'in memory'], ['loading', 'loading'], ['dirty', 'dirty']]) {
      const found = (m[word] || []).find(([cell]) => cell === this.at);
      if (found) this.readout.append(first === last ? `, ${text}` : `, ${found[1]} ${text}`);
    }
  }

  draw(layer, label) {
    this.layer = layer;
    this.lost = new Map(layer.lost);
    const n = layer.fill_permille.length, W = 780;
    this.columns = Math.max(26, Math.min(96, Math.ceil(Math.sqrt(n * 8))));
    const size = W / this.columns, rows = Math.ceil(n / this.columns), gap = size > 12 ? 2 : 1;
    this.root.setAttribute('viewBox', `0 0 ${W} ${(rows * size).toFixed(1)}`);
    this.cells = [];
    const marks = [];
    for (let i = 0; i < n; i++) {
      const x = i % this.columns * size + gap / 2, y = Math.floor(i / this.columns) * size + gap / 2, s = size - gap;
      const kind = this.lost.has(i) ? 'lost' : layer.fill_permille[i] > 1000 ? 'over' : 'heat';
      this.cells.push(svg('rect', { x: x.toFixed(1), y: y.toFixed(1), width: s.toFixed(1), height: s.toFixed(1), rx: Math.min(3, s / 5).toFixed(1), class: kind, 'data-i': i, 'fill-opacity': kind === 'heat' ? opacity(layer.fill_permille[i] / 1000) : 1 }));
      if (SIGNS[kind]) marks.push(svg('path', { d: SIGNS[kind](x, y, s) }));
    }
    this.root.replaceChildren(...this.cells, ...marks);
    this.root.setAttribute('aria-label', `${label}. ${layer.lost.length} cells with lost shards. Arrow keys show single cells.`);
    if (this.at >= n) this.at = -1;
    this.choose(this.at);
  }
}

export function legend() {
  const out = document.createElement('div');
  out.className = 'legend map';
  const scale = svg('svg', { viewBox: '0 0 112 12', 'aria-hidden': 'true' });
  for (let i = 0; i < 8; i++) scale.append(svg('rect', { x: i * 14, y: 0, width: 13, height: 12, rx: 2, class: 'heat', 'fill-opacity': opacity(i / 7) }));
  const one = (kind) => {
    const box = svg('svg', { viewBox: '0 0 12 12', 'aria-hidden': 'true' }, svg('rect', { x: 0, y: 0, width: 12, height: 12, rx: 2, class: kind }));
    box.append(svg('path', { d: SIGNS[kind](0, 0, 12) }));
    return box;
  };
  const item = (...parts) => { const s = document.createElement('span'); s.append(...parts); return s; };
  out.append(item('0% ', scale, ' 100%'), item(one('over'), ' above 100%'), item(one('lost'), ' lost'));
  return out;
}
