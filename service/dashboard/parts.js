// SPDX-License-Identifier: MIT
// The parts of the page: each makes its elements once and changes only what is new. Text comes in as text, never as HTML.
import { bytes, count, exact, percent, rate, relative, span, time } from './format.js';
import { keyOf } from './live.js';

export function el(name, properties, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(properties || {}))
    if (key === 'class') e.className = value; else if (key in e) e[key] = value; else e.setAttribute(key, value);
  e.append(...children);
  return e;
}

export function put(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

export function pill(level, text) {
  const out = el('span', { class: 'pill' }, el('span', { class: 'mark', 'aria-hidden': 'true' }), el('span'));
  setPill(out, level, text);
  return out;
}

export function setPill(e, level, text) {
  if (e.dataset.level !== level) e.dataset.level = level;
  put(e.lastElementChild, text);
}

// --- what a status means ---

export const runs = (f) => f.job_state === 'running' || f.job_state === 'waiting';

const after = (...steps) => (f) => runs(f) && steps.includes(f.job_step);
export const holds = after('hold');
export const inGrace = after('follow', 'confirm', 'grace', 'finish');
export const mayAbort = after('plan', 'open', 'settle', 'scan', 'catch_up', 'verify', 'hold', 'cutover', 'check');

// What matters most about a filter: [level, word, why]
export function judge(f) {
  const fill = f.fill_ratio || 0;
  if (f.state === 'unreachable') return ['bad', 'Unreachable', f.redis];
  if (f.problem) return ['bad', 'Problem', f.problem];
  if (f.next_attempt_at && !runs(f)) return ['bad', f.built ? 'Degraded' : 'Not built', `The next attempt is at ${time(f.next_attempt_at * 1000)}: ${f.next_attempt_reason}`];
  if (f.degraded) return ['bad', 'Degraded', f.degraded_scope || 'affected keys are answered "maybe present"'];
  if (f.redis && f.redis !== 'ok') return ['bad', 'Redis', f.redis];
  if (f.log_error) return ['warn', 'Log', f.log_error];
  if (f.fold_error) return ['warn', 'Not folded', f.fold_error];
  if (holds(f)) return ['warn', 'On hold', 'the new generation is ready: choose "Cut over" to switch to it'];
  if (runs(f)) return ['busy', stepWord(f), f.job_throttle_reason || f.job_waiting_for || ''];
  if (f.postgres && f.postgres !== 'ok' && f.postgres !== 'none') return ['warn', 'Postgres', f.postgres];
  if (f.state === 'building') return ['busy', 'Building', 'every key is answered "maybe present" until the filter is built'];
  if (f.state === 'not built') return ['warn', 'Not built', 'every key is answered "maybe present" until the filter is built, and no job builds it now'];
  if (f.nodes_down) return ['bad', 'Node unreachable', f.nodes_down];
  if (fill >= 1) return ['bad', 'Full', `${percent(fill)} of the capacity`];
  if (f.expected_error_rate > f.error_rate * 1.0001) return ['warn', 'FP rate high', `${rate(f.expected_error_rate)} expected, ${rate(f.error_rate)} allowed`];
  if (f.waiting_reason) return ['warn', 'Rebuild waits', f.waiting_reason];
  if (f.job_state === 'failed') return ['warn', 'Last job failed', f.job_error || f.job_reason];
  if (f.expand_at_ratio > 0 && f.table && fill >= f.expand_at_ratio) return ['warn', 'Rebuild due', `the fill is above ${percent(f.expand_at_ratio)}`];
  return ['ok', 'Healthy', ''];
}

const order = { bad: 0, warn: 1, busy: 2, ok: 3 };
export const urgency = (f) => order[judge(f)[0]];

const fillLevel = (f) => f.fill_ratio >= 1 ? 'bad' : f.fill_ratio >= (f.expand_at_ratio || 0.9) ? 'warn' : 'ok';

// --- steps of a job ---

const STAGES = [
  ['Plan', ['reclaim', 'plan', 'open']], ['Wait', ['settle']], ['Scan', ['scan']],
  ['Catch up', ['catch_up']], ['Verify', ['verify']], ['Hold', ['hold']], ['Cut over', ['cutover', 'follow', 'confirm']],
  ['Grace', ['grace']], ['Retire', ['finish']], ['Done', ['done']],
];
const WORDS = { rollback: 'Rolling back', abort: 'Aborting', check: 'Verifying',
  settle: 'Waiting for transactions', scan: 'Scanning', catch_up: 'Catching up', verify: 'Verifying', cutover: 'Cutting over', follow: 'Following', confirm: 'Confirming',
  grace: 'Grace time', finish: 'Finishing', hold: 'On hold' };
export const stepWord = (f) => f.job_state === 'waiting' ? 'Waiting for a coordinator' : f.job_paused ? 'Paused' : WORDS[f.job_step] || 'Starting';

export const progressOf = (f) => f.job_rows_total > 0 ? Math.min(1, (f.job_rows || 0) / f.job_rows_total) : 0;
export const reading = (f) => runs(f) && ['scan', 'catch_up'].includes(f.job_step);

export function steps() {
  const list = el('ol', { class: 'steps' }, ...STAGES.map(([name]) => el('li', {}, name)));
  return {
    root: list,
    update(f) {
      let now = STAGES.findIndex(([, of]) => of.includes(f.job_step));
      if (f.job_step === 'rollback') now = 6;
      const failed = f.job_state === 'failed';
      [...list.children].forEach((li, i) => {
        const done = f.job_step === 'done' && f.job_state === 'done';
        const is = done || (now > i) ? 'past' : now === i ? 'now' : '';
        if (li.dataset.is !== is) { li.dataset.is = is; if (is === 'now') li.setAttribute('aria-current', 'step'); else li.removeAttribute('aria-current'); }
      });
      list.hidden = failed || ['check', 'abort'].includes(f.job_step);
    },
  };
}

// --- cards ---

export function card(select) {
  const name = el('span', { class: 'card-name' }), state = pill('ok', ''), bar = el('i'), barBox = el('div', { class: 'bar' }, bar);
  const fill = el('b'), keys = el('span'), fpr = el('b'), promised = el('span'), job = el('div', { class: 'card-job', hidden: true });
  const curve = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  curve.setAttribute('class', 'spark');
  curve.setAttribute('aria-hidden', 'true');
  curve.setAttribute('preserveAspectRatio', 'none');
  const root = el('button', { type: 'button', class: 'card' }, el('div', { class: 'card-head' }, name, state), barBox,
    el('div', { class: 'card-figures' }, el('span', {}, fill, ' full'), keys), el('div', { class: 'card-figures' }, el('span', {}, 'FP rate ', fpr), promised), job, curve);
  root.setAttribute('aria-pressed', 'false');
  root.addEventListener('click', select);
  return {
    root, curve,
    update(f) {
      const [level, word] = judge(f);
      put(name, keyOf(f.filter));
      setPill(state, level, word);
      bar.style.transform = `scaleX(${Math.min(1, f.fill_ratio || 0)})`;
      barBox.dataset.level = fillLevel(f);
      put(fill, percent(f.fill_ratio));
      put(keys, `${count(f.keys)} of ${count(f.capacity)} keys`);
      put(fpr, f.built === false ? 'not built' : rate(f.expected_error_rate));
      put(promised, `of ${rate(f.error_rate)} allowed`);
      job.hidden = !reading(f);
      if (reading(f)) put(job, `${percent(progressOf(f))} of ${count(f.job_rows_total)} rows, ${span(Number(f.job_eta_seconds))} left`);
    },
  };
}

// --- facts ---

const when = (seconds, now) => `${relative(seconds * 1000, now)} (${time(seconds * 1000)})`;

export function nextRebuild(f, now) {
  if (!f.table) return 'none: the filter has no source';
  if (runs(f)) return 'a job runs now';
  if (f.waiting_reason) return `waits: ${f.waiting_reason}`;
  if (f.rebuild_expected_at) return when(f.rebuild_expected_at, now);
  if (f.schedule_next_at) return `${when(f.schedule_next_at, now)}, by schedule`;
  return f.expand_at_ratio > 0 ? `at ${percent(f.expand_at_ratio)} fill` : 'only by an operator';
}

// Of this coordinator: filters that are logs.
function inMemory(f) {
  if (f.log_state === 'unused') return 'nothing: nobody has asked this coordinator';
  if (f.resident_shards === undefined) return '';
  return `${exact(f.resident_shards)} of ${exact(f.shards)} shards, ${bytes(f.resident_bytes)}`
    + (f.loading_shards ? `, ${exact(f.loading_shards)} loading` : '') + (f.dirty_shards ? `, ${exact(f.dirty_shards)} dirty` : '');
}

export function factsOf(f, now) {
  return [
    ['Keys', `${exact(f.keys)} of ${exact(f.capacity)}`],
    ['False positives', f.built === false ? 'not built: every key is answered "maybe present"' : `${rate(f.expected_error_rate)} expected, ${rate(f.error_rate)} allowed`],
    ['Next rebuild', nextRebuild(f, now)],
    ['Window', f.window ? f.window + (f.window_opens_at ? `, opens ${when(f.window_opens_at, now)}` : ', open') : ''],
    ['Generation', f.generation === undefined ? '' : `${f.generation}, epoch ${f.epoch}, ${f.phase}`],
    ['Layers, shards', f.layers === undefined ? '' : `${f.layers}, ${exact(f.shards)} of ${bytes(f.shard_bytes)}`],
    ['Memory', bytes(f.memory_bytes)],
    ['In memory', inMemory(f)],
    ['Log', f.lanes ? `${bytes(f.lane_bytes)} in Redis, ${exact(f.fold_lag_entries)} entries to be folded` : ''],
    ['Nodes', f.nodes],
    ['Unreachable nodes', f.nodes_down],
    ['Source', f.table ? `${f.table}${f.source_rows !== null && f.source_rows !== undefined ? `, ${exact(f.source_rows)} rows (${f.source_rows_by})` : ''}` : 'none'],
    ['Dead keys', f.dead_keys ? `${exact(f.dead_keys)} (${percent(f.dead_ratio)})` : ''],
    ['Verified', f.verified_at ? `${f.verification}, ${relative(f.verified_at * 1000, now)}` : f.verification],
    ['Follower', f.follow_state && f.follow_state !== 'none' ? `${f.follow_state}${f.follow_lag_ms !== undefined ? `, ${f.follow_lag_ms} ms behind` : ''} ${f.follow_error || ''}` : ''],
    ['Lost shards', f.lost_shards ? `${f.lost_shards}: ${f.degraded_scope}` : ''],
  ].filter(([, value]) => value);
}

export function facts() {
  const root = el('dl', { class: 'facts' });
  let shown = '';
  return {
    root,
    update(f, now) {
      const list = factsOf(f, now), text = JSON.stringify(list);
      if (text === shown) return;
      shown = text;
      root.replaceChildren(...list.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, String(value))]));
    },
  };
}

// --- tables ---

const outcomes = { done: 'ok', healed: 'warn', failed: 'bad', aborted: 'warn' };

export function historyRow(h) {
  const seconds = (h.finished_at - h.started_at);
  return el('tr', {}, el('td', { class: 'nowrap' }, time(h.finished_at * 1000)), el('td', {}, pill(outcomes[h.outcome] || 'warn', String(h.outcome))),
    el('td', {}, String(h.error || h.reason || h.trigger || '')), el('td', { class: 'num nowrap' }, span(seconds)), el('td', { class: 'num' }, h.rows === undefined ? '–' : count(h.rows)),
    el('td', { class: 'num nowrap' }, h.generation === undefined ? '–' : `${h.generation_from ?? ''} → ${h.generation}`));
}

export function coordinatorRow(c, self) {
  const level = c.state === 'serving' ? 'ok' : c.state === 'gone' ? 'bad' : 'warn';
  const fine = (text) => el('td', {}, ['ok', 'none', ''].includes(text) ? text || '–' : pill('bad', text));
  return el('tr', {}, el('td', {}, el('span', { class: 'mono' }, c.coordinator), el('span', { class: 'muted' }, c.coordinator === self ? ' this one' : '')),
    el('td', {}, pill(level, c.state)), el('td', {}, c.version), el('td', { class: 'num nowrap' }, span(c.uptime_ms / 1000)), el('td', { class: 'num' }, exact(c.clients)),
    el('td', { class: 'num' }, exact(c.behind)), el('td', {}, c.jobs.map(keyOf).join(', ') || '–'), fine(c.redis), fine(c.postgres));
}

const nodeLevels = { up: 'ok', down: 'bad', unused: 'none' };

// Of Redis. A limit of 0 is none.
export function nodeRow(n) {
  const failure = n.error ? `${time(n.error_at * 1000)} ${n.error}` : '–';
  return el('tr', {}, el('td', { class: 'mono' }, n.node), el('td', {}, pill(nodeLevels[n.state] || 'warn', n.state)),
    el('td', { class: 'num nowrap' }, n.used_bytes === null ? '–' : bytes(n.used_bytes)), el('td', { class: 'num nowrap' }, n.maxmemory_bytes ? bytes(n.maxmemory_bytes) : n.maxmemory_bytes === 0 ? 'none' : '–'),
    el('td', { class: 'num' }, n.slots === undefined ? '–' : exact(n.slots)), el('td', { class: 'num' }, exact(n.connections)), el('td', { class: 'num' }, exact(n.reconnects)), el('td', {}, failure));
}
