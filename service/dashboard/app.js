// SPDX-License-Identifier: MIT
// The page as a whole: what it knows, which filter is selected, and what happens when something changes.
import { Activity } from './activity.js';
import { spark } from './charts.js';
import { fillOf, makeDetail } from './detail.js';
import { bytes, count, exact, percent, perSecond, span, time, took } from './format.js';
import * as live from './live.js';
import { card, coordinatorRow, el, judge, nodeRow, put, runs, setPill, urgency } from './parts.js';
import { Traffic } from './traffic.js';

const $ = (id) => document.getElementById(id);
const SAMPLES_MAX = 1000, SAMPLE_S = 10, DAY_S = 86400;

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
    mergeSamples(it, (await live.samples(it.f.filter)).samples);
  } catch { it.asked = false; } finally { underWay--; nextSamples(); }
}

// Of the service: they have counters, those of the stream have none.
function mergeSamples(it, got) {
  const have = new Set(it.samples.filter((s) => s.length > 5).map((s) => s[0]));
  it.samples = it.samples.concat(got.filter((s) => !have.has(s[0]))).sort((a, b) => a[0] - b[0]);
  curve(it);
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
  if (!empty.hidden && list.length > 0) put(empty, 'No filter name contains this text.');
  else if (!empty.hidden) empty.replaceChildren('There are no filters yet. Create one with ', el('code', {}, 'BF.RESERVE name 0.001 1000000'), ', or configure one for a table.');
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
  if (before !== f) activity.changed(now(), key, before, f);
  else if (seen && !told) activity.tell(now(), key, 'ok', 'filter created');
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
  if (seen) activity.tell(now(), it.key, 'warn', 'filter deleted');
  if (selected === it) select(null, false);
  redraw();
}

const total = (label) => { const value = el('b'); return { root: el('div', { class: 'total' }, value, el('span', {}, label)), value }; };
const sums = { filters: total('filters'), keys: total('keys'), memory: total('memory'), jobs: total('jobs running'), trouble: total('need attention'),
  requests: total('requests per second*'), latency: total('latency p99*'), maybe: total('“maybe” answers*') };
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
  const t = traffic.figures();
  put(sums.requests.value, perSecond(t.perSecond));
  put(sums.latency.value, took(t.p99));
  put(sums.latency.root.lastElementChild, `latency p99*${Number.isFinite(t.p50) ? `, p50 ${took(t.p50)}` : ''}`);
  put(sums.maybe.value, percent(t.maybe));
  sums.requests.root.dataset.level = t.failed > 0 ? 'bad' : '';
  put(sums.requests.root.lastElementChild, t.failed > 0 ? `requests per second*, ${percent(t.failed)} failed` : 'requests per second*');
  document.title = (trouble ? `(${trouble}) ` : '') + 'Twinbloom';
}

let said = 0;
function say(text) {
  put($('said'), text);
  $('said').classList.add('shown');
  clearTimeout(said);
  said = setTimeout(() => $('said').classList.remove('shown'), 5000);
}

const traffic = new Traffic();
const activity = new Activity($('events'), $('events-empty'), $('spoken'));
const detail = makeDetail($('detail'), { now, session: () => session, say, past: (key, history) => activity.past(key, history), samples: mergeSamples });

// --- the stream ---

function setLive(level, text) { setPill($('live'), level, text); }

function banner(level, text) {
  const b = $('banner');
  b.hidden = text === '';
  b.dataset.level = level;
  put(b, text);
}

let connected = false; // of the stream
let coordinators = null; // their states, by name
let redis = 'ok';
let told = null; // filters since the stream began, until all filters were
const hears = {
  filter: takeFilter,
  gone: dropFilter,
  traffic(t) {
    traffic.take(t);
    redraw();
  },
  coordinators(list) {
    const names = new Map(list.map((c) => [c.coordinator, c.state]));
    if (coordinators) {
      for (const [name, state] of names) if (coordinators.get(name) !== state) activity.tell(now(), 'coordinators', state === 'serving' ? 'ok' : state === 'gone' ? 'bad' : 'warn', `${name} is ${state}`);
      for (const name of coordinators.keys()) if (!names.has(name)) activity.tell(now(), 'coordinators', 'warn', `${name} is no longer listed`);
    }
    coordinators = names;
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
    if (t.redis !== redis) activity.tell(now(), 'Redis', t.redis === 'ok' ? 'ok' : 'bad', t.redis === 'ok' ? 'reachable again' : `unreachable: ${t.redis}`);
    redis = t.redis;
    banner('bad', t.redis === 'ok' ? '' : `Redis is unreachable: ${t.redis}. The page shows the last known figures.`);
    redraw();
  },
  state(state, retryMs) {
    if (state === 'lost') {
      if (connected) activity.add(Date.now(), 'this page', 'warn', 'connection to the service lost');
      connected = false;
      setLive('warn', 'Reconnecting');
      banner('warn', `The connection to the service is lost${heard ? `; the page shows the figures of ${time(heard)}` : ''}. The next attempt is in ${span(retryMs / 1000)}.`);
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

setInterval(() => { if (!document.hidden && selected) detail.update(selected); }, 1000);
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
