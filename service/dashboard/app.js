// SPDX-License-Identifier: MIT
// The page as a whole: what it knows, which filter is selected, and what happens when something changes.
import { Chart, ShardMap, legend, spark } from './charts.js';
import { bytes, count, exact, percent, rate, relative, span, time } from './format.js';
import * as live from './live.js';
import { card, coordinatorRow, el, facts, factsOf, historyRow, holds, inGrace, judge, mayAbort, nodeRow, pill, progressOf, put, reading, runs, setPill, steps, stepWord, urgency } from './parts.js';

const $ = (id) => document.getElementById(id);
const SAMPLES_MAX = 720, SAMPLE_S = 10, DAY_S = 86400, SHARDS_MS = 5000, HISTORY_MS = 30000;

const filters = new Map(); // by key: {key, f, card, samples, asked}
let selected = null, session = { role: 'read' }, heard = 0, serverMs = 0, seen = false, dirty = false;

const now = () => serverMs === 0 ? Date.now() : serverMs + (Date.now() - heard);

// --- what is drawn together ---

const changed = new Set();
function redraw(one) {
  if (one) changed.add(one);
  if (dirty) return;
  dirty = true;
  (document.hidden ? (fn) => setTimeout(fn, 1000) : requestAnimationFrame)(() => {
    dirty = false;
    for (const it of changed) if (filters.has(it.key)) it.card.update(it.f);
    arrange();
    totals();
    if (selected && changed.has(selected)) detail.update(selected);
    changed.clear();
  });
}

// --- samples ---

const asking = [];
let underWay = 0;
function askSamples(it) {
  if (it.asked) return;
  it.asked = true;
  asking.push(it);
  nextSamples();
}
async function nextSamples() {
  if (underWay >= 4 || asking.length === 0) return;
  const it = asking.shift();
  underWay++;
  try {
    const got = (await live.samples(it.f.filter)).samples;
    const newest = got.length ? got.at(-1)[0] : 0;
    it.samples = got.concat(it.samples.filter(([t]) => t > newest));
    curve(it);
  } catch { it.asked = false; } finally { underWay--; nextSamples(); }
}

// Bounded: older ones become fewer.
function addSample(it) {
  const t = Math.round(now() / 1000), last = it.samples.at(-1);
  if (it.f.keys === undefined || (last && t - last[0] < SAMPLE_S && last[1] === it.f.keys) || (last && t - last[0] < 1)) return;
  it.samples.push([t, it.f.keys, it.f.capacity, it.f.expected_error_rate, it.f.generation]);
  if (it.samples.length > SAMPLES_MAX) {
    const half = it.samples.length >> 1;
    it.samples = it.samples.filter(([at], i) => t - at < DAY_S && (i >= half || i % 2 === 0));
  }
  curve(it);
}

const fillOf = (s) => [s[0], s[2] > 0 ? s[1] / s[2] : 0];
function curve(it) {
  if (it.near) spark(it.card.curve, it.samples.map(fillOf));
  if (it === selected) detail.curves(it);
}

const near = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const it = filters.get(entry.target.dataset.key);
    if (!it) continue;
    it.near = entry.isIntersecting;
    if (it.near) { askSamples(it); curve(it); }
  }
}, { rootMargin: '200px' });

// --- cards ---

function arrange() {
  const wanted = $('search').value.trim().toLowerCase();
  const list = [...filters.values()].sort((a, b) => urgency(a.f) - urgency(b.f) || (a.key < b.key ? -1 : 1));
  let at = $('cards').firstElementChild, shown = 0;
  for (const it of list) {
    it.card.root.hidden = wanted !== '' && !it.key.toLowerCase().includes(wanted);
    shown += !it.card.root.hidden;
    if (it.card.root === at) at = at.nextElementSibling;
    else if (!$('cards').contains(document.activeElement)) $('cards').insertBefore(it.card.root, at); // nothing moves under a finger
    else if (!it.card.root.isConnected) $('cards').append(it.card.root);
  }
  const empty = $('cards-empty');
  empty.hidden = shown > 0 || (!seen && list.length === 0);
  if (!empty.hidden && list.length > 0) put(empty, 'No filter has this in its name.');
  else if (!empty.hidden) empty.replaceChildren('There are no filters yet. Make one: ', el('code', {}, 'BF.RESERVE name 0.001 1000000'), ', or configure one over a table.');
  put($('filters-title'), list.length ? `Filters (${list.length})` : 'Filters');
  if (!selected && list.length) select(list.reduce((a, b) => (urgency(b.f) - urgency(a.f) || (a.f.fill_ratio || 0) - (b.f.fill_ratio || 0)) < 0 ? b : a), false);
}

function select(it, go) {
  if (selected) selected.card.root.setAttribute('aria-pressed', 'false');
  selected = it;
  detail.show(it);
  if (!it) return;
  it.card.root.setAttribute('aria-pressed', 'true');
  askSamples(it);
  redraw(it);
  if (!go) return;
  history.replaceState(null, '', '#' + encodeURIComponent(it.key));
  if (matchMedia('(max-width: 860px)').matches) { $('detail').scrollIntoView(); $('detail').focus(); }
}

function takeFilter(f) {
  const key = live.keyOf(f.filter);
  let it = filters.get(key);
  if (!it) {
    it = { key, f, samples: [], asked: false, near: false };
    it.card = card(() => select(it, true));
    it.card.root.dataset.key = key;
    filters.set(key, it);
    near.observe(it.card.root);
    if ('#' + encodeURIComponent(key) === location.hash) setTimeout(() => select(it, false));
  }
  const before = it.f;
  it.f = f;
  if (told) told.add(key);
  addSample(it);
  if (before.job_state !== f.job_state || before.generation !== f.generation || before.phase !== f.phase) {
    it.stale = true;
    if (it === selected) detail.soon();
  }
  redraw(it);
}

function dropFilter({ filter }) {
  const it = filters.get(live.keyOf(filter));
  if (!it) return;
  near.unobserve(it.card.root);
  it.card.root.remove();
  filters.delete(it.key);
  if (selected === it) select(null, false);
  redraw();
}

const total = (label) => { const value = el('b'); return { root: el('div', { class: 'total' }, value, el('span', {}, label)), value }; };
const sums = { filters: total('filters'), keys: total('keys'), memory: total('memory'), jobs: total('expansions running'), trouble: total('need attention') };
$('totals').append(...Object.values(sums).map((s) => s.root));

function totals() {
  let keys = 0, memory = 0, jobs = 0, trouble = 0;
  for (const { f } of filters.values()) {
    keys += f.keys || 0;
    memory += f.memory_bytes || 0;
    jobs += runs(f);
    trouble += ['bad', 'warn'].includes(judge(f)[0]);
  }
  const unknown = !seen && filters.size === 0;
  put(sums.filters.value, unknown ? '–' : exact(filters.size));
  put(sums.keys.value, unknown ? '–' : count(keys));
  put(sums.memory.value, unknown ? '–' : bytes(memory));
  put(sums.jobs.value, unknown ? '–' : exact(jobs));
  put(sums.trouble.value, unknown ? '–' : exact(trouble));
  document.title = (trouble ? `(${trouble}) ` : '') + 'Twinbloom';
}

// --- changes ---

const ACTIONS = [
  { name: 'rebuild', text: 'Rebuild', path: 'rebuild', may: (f) => f.table && !runs(f), ask: 'A new generation is built from the source and takes over when it is verified. The filter serves on meanwhile.' },
  { name: 'hold', text: 'Rebuild and hold', path: 'rebuild', body: { hold: true }, may: (f) => f.table && !runs(f), ask: 'A new generation is built from the source. When it is verified it waits for your word to switch.' },
  { name: 'cutover', text: 'Cut over', path: 'cutover', main: holds, may: (f) => runs(f) && f.job_hold, ask: 'Checks are answered by the new generation from then on. Until the grace time ends you can roll back and lose nothing.' },
  { name: 'rollback', text: 'Roll back', path: 'rollback', danger: true, may: inGrace, ask: 'Checks are answered by the generation before again. The new one is kept, and the run holds.' },
  { name: 'abort', text: 'Abort', path: 'abort', danger: true, may: mayAbort, ask: 'The run ends, and what it has built is thrown away. The generation in use stays.' },
];

let said = 0;
function say(text) {
  put($('said'), text);
  $('said').classList.add('shown');
  clearTimeout(said);
  said = setTimeout(() => $('said').classList.remove('shown'), 5000);
}

function confirmChange(action, it) {
  const box = $('dialog'), fault = $('dialog-fault'), go = $('dialog-do');
  put($('dialog-title'), `${action.text}: ${it.key}`);
  put($('dialog-text'), action.ask);
  put(go, action.text);
  go.className = 'main' + (action.danger ? ' danger' : '');
  fault.hidden = true;
  go.disabled = false;
  go.onclick = async () => {
    go.disabled = true;
    try {
      await live.change(it.f.filter, action.path, action.body);
      box.close();
      say(`${action.text}: asked for.`);
    } catch (error) {
      put(fault, error.message);
      fault.hidden = false;
      go.disabled = false;
    }
  };
  box.showModal();
  $('dialog-cancel').focus();
}

// --- the selected filter ---

const sentence = (text) => text[0].toUpperCase() + text.slice(1) + '.';

function verdict(f) {
  if (!runs(f)) return null;
  if (inGrace(f)) return ['ok', 'Switched. Until the grace time ends a rollback loses nothing.'];
  const tested = f.job_verify_ok && f.job_verify_generation === f.alternate_generation && f.alternate_generation !== undefined;
  if (!holds(f)) return tested || !['BUILDING'].includes(f.phase) ? null : ['busy', 'Not yet safe to switch: the new generation is not verified.'];
  if (f.degraded || f.nodes_down) return ['warn', `Not safe to switch: ${f.degraded_scope || f.nodes_down}`];
  if (!tested) return ['warn', 'Not safe to switch: the new generation is not verified.'];
  return ['ok', `Safe to switch: ${exact(f.job_verified_keys)} keys were looked up in the new generation, ${f.job_verify_missing || 0} missing; ${rate(Number(f.job_false_positive_rate))} false positives measured, ${rate(f.error_rate)} promised.`];
}

const detail = (() => {
  const root = $('detail'), title = el('h2'), state = pill('ok', ''), why = el('div', { class: 'note', hidden: true });
  const buttons = ACTIONS.map((action) => {
    const b = el('button', { type: 'button' }, action.text);
    b.dataset.action = action.name;
    b.addEventListener('click', () => confirmChange(action, selected));
    return b;
  });
  const rights = el('p', { class: 'readout', hidden: true }, 'Changes need the role admin.');
  const head = el('div', { class: 'panel wide' }, el('div', { class: 'detail-head' }, el('div', { class: 'detail-title' }, title, state), el('div', { class: 'actions', role: 'group', 'aria-label': 'Changes' }, ...buttons)), rights, why);

  const line = steps(), bar = el('i'), box = el('div', { class: 'progress', role: 'progressbar', 'aria-valuemin': '0', 'aria-valuemax': '100', 'aria-label': 'Rows read' }, bar);
  const figures = ['rows', 'done', 'rows a second', 'left', 'running for'].map((label) => { const value = el('b'); return { value, root: el('div', {}, value, el('span', {}, label)) }; });
  const safe = el('div', { class: 'note', hidden: true }), slow = el('div', { class: 'note', hidden: true }), reason = el('span', { class: 'readout' });
  const job = el('div', { class: 'panel wide' }, el('div', { class: 'panel-head' }, el('h2', {}, 'Expansion'), reason), el('div', { class: 'job-figures' }, ...figures.map((x) => x.root)), box, line.root, slow, safe);

  const fill = new Chart({ label: 'Fill', format: percent }), fpr = new Chart({ label: 'False positives expected', format: rate, kind: 'teal' });
  const panel = (name, chart) => el('div', { class: 'panel' }, el('div', { class: 'panel-head' }, el('h2', {}, name), chart.readout), chart.root);
  const maps = el('div', { class: 'maps' }), mapNote = el('p', { class: 'readout' });
  const mapPanel = el('div', { class: 'panel wide' }, el('div', { class: 'panel-head' }, el('h2', {}, 'Shards'), mapNote), maps, legend());
  const sheet = facts(), rows = el('tbody'), none = el('p', { class: 'muted', hidden: true }, 'No runs yet.');
  const table = el('table', {}, el('thead', {}, el('tr', {}, ...['Ended', 'Outcome', 'Why'].map((t) => el('th', {}, t)), ...['Took', 'Rows', 'Generation'].map((t) => el('th', { class: 'num' }, t)))), rows);
  const parts = [head, job, panel('Fill', fill), panel('False-positive rate', fpr), mapPanel,
    el('div', { class: 'panel wide' }, el('div', { class: 'panel-head' }, el('h2', {}, 'Facts')), sheet.root),
    el('div', { class: 'panel wide' }, el('div', { class: 'panel-head' }, el('h2', {}, 'Last runs')), el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Table of the last runs' }, table), none)];
  const shown = new Map();
  let shardsAt = 0, historyAt = 0, askingShards = false, askingRuns = false;

  function jobPart(f, it) {
    const rest = runs(f);
    job.hidden = f.job_state === undefined || f.job_state === 'none' || (!rest && f.job_state !== 'done' && f.job_state !== 'healed' && f.job_state !== 'failed');
    if (job.hidden) return;
    const done = progressOf(f), seconds = rest ? now() / 1000 - f.job_started_at : f.job_finished_at - f.job_started_at;
    const values = [f.job_rows_total > 0 ? `${count(f.job_rows || 0)} of ${count(f.job_rows_total)}` : '–', f.job_rows_total > 0 ? percent(done) : '–',
      reading(f) && f.job_rows_per_second ? count(Number(f.job_rows_per_second)) : f.job_scan_seconds > 0 ? count(f.job_scan_rows / Number(f.job_scan_seconds)) : '–',
      reading(f) ? span(Number(f.job_eta_seconds)) : rest ? '–' : 'ended', span(seconds)];
    figures.forEach((x, i) => put(x.value, values[i]));
    put(figures[4].root.lastElementChild, rest ? 'running for' : 'took');
    bar.style.transform = `scaleX(${f.job_step === 'done' ? 1 : done})`;
    box.setAttribute('aria-valuenow', String(Math.round(done * 100)));
    put(reason, `${rest ? stepWord(f) : f.job_state === 'done' ? 'Done' : 'Ended'}: ${f.job_reason || f.job_trigger || ''}`);
    line.update(f);
    const waits = f.job_paused ? 'Paused by an operator.' : f.job_throttle_reason && reading(f) ? sentence(f.job_throttle_reason) : rest && f.job_waiting_for ? `Waits for ${f.job_waiting_for}.` : f.job_state === 'failed' || f.job_state === 'healed' ? `Ended: ${f.job_error || 'no reason was given'}` : '';
    slow.hidden = waits === '';
    slow.dataset.level = f.job_state === 'failed' ? 'bad' : inGrace(f) ? '' : 'warn';
    put(slow, waits);
    const v = verdict(f);
    safe.hidden = v === null;
    if (v) { safe.dataset.level = v[0]; put(safe, v[1]); }
  }

  async function shardPart(it) {
    if (askingShards || document.hidden || Date.now() - shardsAt < SHARDS_MS) return;
    askingShards = true;
    shardsAt = Date.now();
    try {
      const got = await live.shards(it.f.filter);
      if (it === selected) drawShards(got);
    } catch (error) {
      if (error.status === 503) shardsAt = Date.now() - SHARDS_MS + 1000;
      if (it === selected) put(mapNote, error.message);
    } finally { askingShards = false; if (it !== selected) shardsAt = 0; }
  }

  function drawShards(got) {
    const wanted = [];
    got.generations.forEach((g, i) => g.layers.forEach((layer) => {
      const name = `Generation ${g.generation}${i === 0 ? ', in use' : got.phase === 'SWITCHED' ? ', the one before' : ', being built'}${g.layers.length > 1 ? `, layer ${layer.layer}` : ''}: ${exact(layer.shards)} shards${layer.shards_per_cell > 1 ? `, ${layer.shards_per_cell} a cell` : ''}`;
      wanted.push([`${g.generation}.${layer.layer}`, name, layer]);
    }));
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
    put(mapNote, 'keys of each shard, of its share of the capacity');
  }

  async function runsPart(it) {
    if (askingRuns || document.hidden || (!it.stale && Date.now() - historyAt < HISTORY_MS)) return;
    askingRuns = true;
    historyAt = Date.now();
    it.stale = false;
    try {
      const got = (await live.history(it.f.filter)).history;
      if (it === selected) { rows.replaceChildren(...got.map(historyRow)); table.hidden = got.length === 0; none.hidden = got.length > 0; }
    } catch { /* the next look asks again */ } finally { askingRuns = false; if (it !== selected) historyAt = 0; }
  }

  return {
    show(it) {
      shardsAt = historyAt = 0;
      for (const one of shown.values()) one.root.remove();
      shown.clear();
      rows.replaceChildren();
      table.hidden = true;
      none.hidden = true;
      if (!it) { root.replaceChildren(el('p', { class: 'empty wide' }, 'No filter is selected.')); return; }
      if (!head.isConnected) root.replaceChildren(...parts);
      this.curves(it);
    },
    curves(it) {
      const f = it.f;
      fill.draw(it.samples.map(fillOf), f.table && f.expand_at_ratio > 0 ? { value: f.expand_at_ratio, text: `expands at ${percent(f.expand_at_ratio)}` } : { value: 1, text: 'capacity' }, 1);
      fpr.draw(it.samples.filter((s) => s[3] < 1).map((s) => [s[0], s[3]]), f.error_rate ? { value: f.error_rate, text: `promised ${rate(f.error_rate)}` } : null);
    },
    update(it) {
      const f = it.f, [level, word, because] = judge(f), admin = session.role === 'admin';
      put(title, it.key);
      setPill(state, level, word);
      why.hidden = because === '' || because === undefined || runs(f);
      why.dataset.level = level;
      put(why, because || '');
      rights.hidden = admin;
      ACTIONS.forEach((action, i) => {
        const b = buttons[i], off = !admin || !action.may(f);
        if (b.disabled !== off) b.disabled = off;
        b.className = (action.danger && !off ? 'danger' : '') + (action.main && !off && action.main(f) ? ' main' : '');
      });
      jobPart(f, it);
      sheet.update(f, now());
      shardPart(it);
      runsPart(it);
    },
    soon() { shardsAt = Date.now() - SHARDS_MS + 2500; }, // the service keeps an answer for two seconds
    again() { if (selected) this.update(selected); },
  };
})();

// --- the stream ---

function setLive(level, text) { setPill($('live'), level, text); }

function banner(level, text) {
  const b = $('banner');
  b.hidden = text === '';
  b.dataset.level = level;
  put(b, text);
}

let connected = false; // of the stream
let told = null; // filters since the stream began, until all filters were
const hears = {
  filter: takeFilter,
  gone: dropFilter,
  coordinators(list) {
    $('coordinators').replaceChildren(...list.map((c) => coordinatorRow(c, session.coordinator)));
  },
  nodes(list) {
    $('nodes-panel').hidden = false; // who may not see all filters is not told
    $('nodes').replaceChildren(...list.map(nodeRow));
  },
  tick(t) {
    serverMs = t.sent_at * 1000;
    heard = Date.now();
    seen = seen || t.filters;
    if (told && t.filters && t.redis === 'ok') { // what was deleted while nobody listened is not told again
      for (const it of [...filters.values()]) if (!told.has(it.key)) dropFilter(it.f);
      told = null;
    }
    banner('bad', t.redis === 'ok' ? '' : `Redis is away: ${t.redis}. What is shown is what was known last.`);
    redraw();
  },
  state(state, retryMs) {
    if (state === 'lost') {
      connected = false;
      setLive('warn', 'Reconnecting');
      banner('warn', `The connection to the service is lost${heard ? `; what is shown is as of ${time(heard)}` : ''}. The next attempt is in ${span(retryMs / 1000)}.`);
    } else if (!connected) {
      connected = true;
      setLive('ok', 'Live');
    }
  },
  async open() {
    told = new Set();
    await knowMe();
  },
};

async function knowMe() {
  try {
    session = await live.whoAmI();
    put($('coordinator'), session.coordinator);
    put($('who'), session.login ? `${session.user} (${session.role})` : session.role === 'admin' ? 'no login needed' : session.role);
    if (selected) redraw(selected);
  } catch { /* the stream says that the service is away */ }
}

setInterval(() => { if (!document.hidden) detail.again(); }, 1000);
document.addEventListener('visibilitychange', () => { if (!document.hidden && selected) redraw(selected); });
$('search').addEventListener('input', () => redraw());

// --- colours ---

const THEMES = ['system', 'light', 'dark'];
function theme(name) {
  if (name === 'system') delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name;
  put($('theme-text'), name[0].toUpperCase() + name.slice(1));
  $('theme').setAttribute('aria-label', `Colours: ${name === 'system' ? 'as the system' : name}`);
  $('theme').dataset.theme = name;
  try { localStorage.setItem('theme', name); } catch { /* not kept */ }
}
theme(document.documentElement.dataset.theme || 'system'); // by theme.js, before the first frame
$('theme').addEventListener('click', () => {
  theme(THEMES[(THEMES.indexOf($('theme').dataset.theme) + 1) % THEMES.length]);
});
// Behind the first frame: the page is there before it is alive.
requestAnimationFrame(() => setTimeout(() => {
  detail.show(null);
  totals();
  live.listen(hears);
}));
