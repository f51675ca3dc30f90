// SPDX-License-Identifier: MIT
// The selected filter: its state and actions, the running job, curves, shards, facts and the last jobs.
import { Buttons, confirmChange } from './actions.js';
import { Chart, ShardMap, legend } from './charts.js';
import { clock, count, exact, percent, perSecond, rate, span } from './format.js';
import { KeyBox } from './keys.js';
import * as live from './live.js';
import { el, facts, historyRow, holds, inGrace, judge, pill, progressOf, put, reading, runs, setPill, steps, stepWord } from './parts.js';
import { keysPerSecond, maybeShare } from './traffic.js';

const SHARDS_MS = 5000, HISTORY_MS = 30000, SAMPLES_MS = 10000, TABLE_ROWS = 40;
const RANGES = [[3600, '1 h'], [6 * 3600, '6 h'], [86400, '24 h']];

const sentence = (text) => text[0].toUpperCase() + text.slice(1) + '.';
export const fillOf = (s) => [s[0], s[2] > 0 ? s[1] / s[2] : 0];

// Whether the new generation may be switched to: [level, text]; null: there is nothing to say.
function verdict(f) {
  if (!runs(f)) return null;
  if (inGrace(f)) return ['ok', 'Switched. Until the grace time ends a rollback loses no added key.'];
  const tested = f.job_verify_ok && f.job_verify_generation === f.alternate_generation && f.alternate_generation !== undefined;
  if (!holds(f)) return tested || f.phase !== 'BUILDING' ? null : ['busy', 'Not yet safe to switch: the new generation is not verified.'];
  if (f.degraded || f.nodes_down) return ['warn', `Not safe to switch: ${f.degraded_scope || f.nodes_down}`];
  if (!tested) return ['warn', 'Not safe to switch: the new generation is not verified.'];
  return ['ok', `Safe to switch: ${exact(f.job_verified_keys)} keys were looked up in the new generation, ${f.job_verify_missing || 0} are missing. False positives: ${rate(Number(f.job_false_positive_rate))} measured, ${rate(f.error_rate)} allowed.`];
}

// The job's panel.
function jobPanel() {
  const line = steps(), bar = el('i'), box = el('div', { class: 'progress', role: 'progressbar', 'aria-valuemin': '0', 'aria-valuemax': '100', 'aria-label': 'Rows read' }, bar);
  const figures = ['rows', 'done', 'rows per second', 'left', 'running for'].map((label) => { const value = el('b'); return { value, root: el('div', {}, value, el('span', {}, label)) }; });
  const safe = el('div', { class: 'note', hidden: true, role: 'status' }), slow = el('div', { class: 'note', hidden: true }), reason = el('span', { class: 'readout' });
  const root = el('section', { class: 'panel wide', 'aria-label': 'Job' }, el('div', { class: 'panel-head' }, el('h2', {}, 'Job'), reason), el('div', { class: 'job-figures' }, ...figures.map((x) => x.root)), box, line.root, slow, safe);
  const hint = (f) => f.job_paused ? 'Paused by an operator.' : holds(f) ? 'On hold until you choose "Cut over".' : f.job_throttle_reason && reading(f) ? sentence(f.job_throttle_reason)
    : runs(f) && f.job_waiting_for ? `Waits for ${f.job_waiting_for}.` : ['failed', 'healed'].includes(f.job_state) ? `Ended: ${f.job_error || 'no reason was given'}` : '';
  return {
    root,
    update(f, now) {
      const rest = runs(f);
      root.hidden = !rest && !['done', 'healed', 'failed'].includes(f.job_state);
      if (root.hidden) return;
      const done = progressOf(f), seconds = (rest ? now / 1000 : f.job_finished_at) - f.job_started_at;
      const values = [f.job_rows_total > 0 ? `${count(f.job_rows || 0)} of ${count(f.job_rows_total)}` : '–', f.job_rows_total > 0 ? percent(done) : '–',
        reading(f) && f.job_rows_per_second ? count(Number(f.job_rows_per_second)) : f.job_scan_seconds > 0 ? count(f.job_scan_rows / Number(f.job_scan_seconds)) : '–',
        reading(f) ? span(Number(f.job_eta_seconds)) : rest ? '–' : 'ended', span(seconds)];
      figures.forEach((x, i) => put(x.value, values[i]));
      put(figures[4].root.lastElementChild, rest ? 'running for' : 'took');
      bar.style.transform = `scaleX(${f.job_step === 'done' ? 1 : done})`;
      box.setAttribute('aria-valuenow', String(Math.round(done * 100)));
      put(reason, `${rest ? stepWord(f) : f.job_state === 'done' ? 'Done' : 'Ended'}: ${f.job_reason || f.job_trigger || ''}`);
      line.update(f);
      const text = hint(f), v = verdict(f);
      slow.hidden = text === '';
      slow.dataset.level = f.job_state === 'failed' ? 'bad' : inGrace(f) ? '' : 'warn';
      put(slow, text);
      safe.hidden = v === null;
      if (v) { safe.dataset.level = v[0]; put(safe, v[1]); }
    },
  };
}

// Four curves of one range of time, and the same values as a table.
function curvesPanel() {
  const charts = [
    { name: 'Fill', chart: new Chart({ label: 'Fill', format: percent }), of: (s) => s.map(fillOf), limit: (f) => f.table && f.expand_at_ratio > 0 ? { value: f.expand_at_ratio, text: `rebuild at ${percent(f.expand_at_ratio)}` } : { value: 1, text: 'capacity' }, top: 1 },
    { name: 'False-positive rate', chart: new Chart({ label: 'False-positive rate, expected', format: rate, kind: 'teal' }), of: (s) => s.filter((x) => x[3] < 1).map((x) => [x[0], x[3]]), limit: (f) => f.error_rate ? { value: f.error_rate, text: `allowed ${rate(f.error_rate)}` } : null },
    { name: 'Keys per second, checked and added', chart: new Chart({ label: 'Keys per second, checked and added', format: perSecond }), of: keysPerSecond, limit: () => null },
    { name: 'Share of “maybe” answers', chart: new Chart({ label: 'Share of maybe answers', format: percent, kind: 'teal' }), of: maybeShare, limit: () => null, top: 0.01 },
  ];
  let range = RANGES[0][0], shown = null;
  const buttons = RANGES.map(([seconds, text]) => {
    const b = el('button', { type: 'button' }, text);
    b.dataset.range = seconds;
    b.addEventListener('click', () => { range = seconds; draw(); });
    return b;
  });
  const body = el('tbody'), more = el('details', {}, el('summary', {}, 'Values as a table'), el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Values of the curves' },
    el('table', {}, el('thead', {}, el('tr', {}, ...['Time', ...charts.map((c) => c.name)].map((t) => el('th', { scope: 'col' }, t)))), body)));
  more.addEventListener('toggle', () => table());
  const root = el('section', { class: 'panel wide', 'aria-label': 'Curves' }, el('div', { class: 'panel-head' }, el('h2', {}, 'Curves'), el('div', { class: 'actions ranges', role: 'group', 'aria-label': 'Time range' }, ...buttons)),
    el('div', { class: 'curves' }, ...charts.map(({ name, chart }) => el('div', {}, el('div', { class: 'panel-head' }, el('h3', {}, name), chart.readout), chart.root))), more);

  // No more rows than can be read; each with the values that are nearest.
  function table() {
    if (!more.open || !shown) return;
    const lists = charts.map((c) => new Map(c.list)), newest = shown.samples.at(-1)?.[0] ?? 0;
    const times = shown.samples.filter((s) => s.length > 5).map((s) => s[0]).filter((t) => t >= newest - range), step = Math.max(1, Math.ceil(times.length / TABLE_ROWS));
    body.replaceChildren(...times.filter((_, i) => (times.length - 1 - i) % step === 0).reverse().map((t) => el('tr', {}, el('th', { scope: 'row' }, clock(t * 1000)),
      ...lists.map((l, i) => el('td', {}, l.has(t) ? charts[i].chart.format(l.get(t)) : '–')))));
  }

  function draw() {
    if (!shown) return;
    const { samples, f } = shown, age = samples.length ? samples.at(-1)[0] - samples[0][0] : 0;
    buttons.forEach((b, i) => {
      b.setAttribute('aria-pressed', String(RANGES[i][0] === range));
      b.disabled = i > 0 && age <= RANGES[i - 1][0] && RANGES[i][0] !== range;
      b.title = b.disabled ? 'There are no samples that old: this coordinator has not seen the filter for so long.' : '';
    });
    for (const c of charts) {
      c.list = c.of(samples);
      c.chart.draw(c.list, range, c.limit(f), c.top);
    }
    table();
  }
  return { root, show(it) { shown = it; draw(); } };
}

// One map for each layer of each generation.
function shardsPanel() {
  const maps = el('div', { class: 'maps' }), note = el('p', { class: 'readout' }), shown = new Map();
  const role = (got, i) => i === 0 ? 'in use' : got.phase === 'SWITCHED' ? 'the former one' : 'being built';
  return {
    root: el('section', { class: 'panel wide', 'aria-label': 'Shards' }, el('div', { class: 'panel-head' }, el('h2', {}, 'Shards'), note), maps, legend()),
    fail(text) { put(note, text); },
    clear() { for (const one of shown.values()) one.root.remove(); shown.clear(); },
    draw(got) {
      const wanted = got.generations.flatMap((g, i) => g.layers.map((layer) => [`${g.generation}.${layer.layer}`,
        `Generation ${g.generation}, ${role(got, i)}${g.layers.length > 1 ? `, layer ${layer.layer}` : ''}: ${exact(layer.shards)} shards${layer.shards_per_cell > 1 ? `, ${layer.shards_per_cell} in a cell` : ''}`, layer]));
      for (const key of [...shown.keys()]) if (!wanted.some(([k]) => k === key)) { shown.get(key).root.remove(); shown.delete(key); }
      for (const [key, name, layer] of wanted) {
        let one = shown.get(key);
        if (!one) {
          const map = new ShardMap(), label = el('h3');
          one = { map, label, root: el('div', {}, el('div', { class: 'panel-head' }, label, map.readout), map.root) };
          shown.set(key, one);
        }
        if (one.root.parentNode !== maps) maps.append(one.root);
        put(one.label, name);
        const text = JSON.stringify(layer);
        if (one.text !== text) { one.text = text; one.map.draw(layer, name); }
      }
      put(note, 'fill of each shard');
    },
  };
}

// Asks at intervals, one request at a time, while the page is seen.
class Poll {
  constructor(every) { Object.assign(this, { every, at: 0, under: false }); }

  async ask(due, fn) {
    if (this.under || document.hidden || (!due && Date.now() - this.at < this.every)) return;
    this.under = true;
    this.at = Date.now();
    try { await fn(); } finally { this.under = false; }
  }

  // Ask again @ms from now.
  in(ms) { this.at = Date.now() - this.every + ms; }
}

// page: {now(), session(), say(text), past(key, history)}
export function makeDetail(root, page) {
  let selected = null;
  const title = el('h2'), state = pill('ok', ''), why = el('div', { class: 'note', hidden: true });
  const buttons = new Buttons((action) => confirmChange(action, selected, page.say), page.say);
  const head = el('div', { class: 'panel wide' }, el('div', { class: 'detail-head' }, el('div', { class: 'detail-title' }, title, state)), why, buttons.root);
  const job = jobPanel(), curves = curvesPanel(), map = shardsPanel(), box = new KeyBox(), sheet = facts();
  const rows = el('tbody'), none = el('p', { class: 'muted', hidden: true }, 'This filter has had no jobs yet.');
  const th = (cls) => (t) => el('th', { scope: 'col', class: cls }, t);
  const table = el('table', {}, el('thead', {}, el('tr', {}, ...['Ended', 'Outcome', 'Why'].map(th('')), ...['Took', 'Rows', 'Generation'].map(th('num')))), rows);
  const parts = [head, job.root, box.root, curves.root, map.root,
    el('section', { class: 'panel wide', 'aria-label': 'Facts' }, el('div', { class: 'panel-head' }, el('h2', {}, 'Facts')), sheet.root),
    el('section', { class: 'panel wide', 'aria-label': 'Last jobs' }, el('div', { class: 'panel-head' }, el('h2', {}, 'Last jobs')), el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Table of the last jobs' }, table), none)];
  const shards = new Poll(SHARDS_MS), history = new Poll(HISTORY_MS), samples = new Poll(SAMPLES_MS);

  async function askShards(it) {
    try {
      const got = await live.shards(it.f.filter);
      if (it === selected) map.draw(got); else shards.in(0);
    } catch (error) {
      if (error.status === 503) shards.in(1000);
      if (it === selected) map.fail(error.message);
    }
  }

  async function askHistory(it) {
    it.stale = false;
    try {
      const got = (await live.history(it.f.filter)).history;
      if (it !== selected) { history.in(0); return; }
      rows.replaceChildren(...got.map(historyRow));
      table.hidden = got.length === 0;
      none.hidden = got.length > 0;
      page.past(it.key, got);
    } catch { /* the next one asks again */ }
  }

  // What the stream does not have: the counters of checks and adds.
  async function askSamples(it) {
    try { page.samples(it, (await live.samples(it.f.filter, 3)).samples); } catch { /* the next one asks again */ }
  }

  return {
    get selected() { return selected; },
    show(it) {
      selected = it;
      shards.in(0);
      history.in(0);
      samples.in(SAMPLES_MS);
      map.clear();
      rows.replaceChildren();
      table.hidden = true;
      none.hidden = true;
      if (!it) { root.replaceChildren(el('p', { class: 'empty wide' }, 'No filter is selected.')); return; }
      if (!head.isConnected) root.replaceChildren(...parts);
      box.show(it);
      curves.show(it);
    },
    curves(it) { curves.show(it); },
    update(it) {
      const f = it.f, [level, word, because] = judge(f), { role } = page.session();
      put(title, it.key);
      setPill(state, level, word);
      why.hidden = because === '' || because === undefined || runs(f);
      why.dataset.level = level;
      put(why, because ? sentence(because) : '');
      buttons.update(f, role);
      box.update(role);
      job.update(f, page.now());
      sheet.update(f, page.now());
      shards.ask(false, () => askShards(it));
      history.ask(it.stale, () => askHistory(it));
      samples.ask(false, () => askSamples(it));
    },
    soon() { shards.in(2500); }, // the service keeps an answer for two seconds
  };
}
