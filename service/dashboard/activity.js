// SPDX-License-Identifier: MIT
// What changed, newest first: from the stream while the page is open, and from the history of filters that were looked at.
import { el, judge, pill, runs } from './parts.js';
import { time } from './format.js';

const MOST = 100, SAY_MS = 1500;
const OUTCOMES = { done: ['ok', 'job done'], healed: ['ok', 'job done, with healing'], failed: ['bad', 'job failed'], aborted: ['warn', 'job aborted'], trusted: ['warn', 'masters trusted'] };

// What is different between two states of a filter: [[level, text, true where a job ended], ...]
export function changesOf(before, f) {
  const out = [], ran = runs(before), runsNow = runs(f);
  if (!ran && runsNow || ran && runsNow && before.job_started_at !== f.job_started_at) out.push(['busy', `job started: ${f.job_reason || f.job_trigger || ''}`]);
  if (ran && runsNow && !before.job_paused !== !f.job_paused) out.push(['busy', f.job_paused ? 'job paused' : 'job resumed']);
  if (ran && runsNow && before.job_step !== f.job_step && f.job_step === 'hold' && f.job_hold) out.push(['warn', 'rebuild holds before the cutover']);
  if (before.phase !== 'SWITCHED' && f.phase === 'SWITCHED') out.push(['ok', `cutover to generation ${f.generation}`]);
  if (before.phase === 'SWITCHED' && f.phase === 'BUILDING') out.push(['warn', `rollback to generation ${f.generation}`]);
  if (ran && !runsNow) { const [level, text] = OUTCOMES[f.job_state] || ['warn', `job ended: ${f.job_state}`]; out.push([level, f.job_error ? `${text}: ${f.job_error}` : text, true]); }
  const [was, word] = judge(before), [is, now, why] = judge(f);
  if (is !== 'busy' && was !== 'busy' && word !== now) out.push([is, why ? `${now}: ${why}` : now]);
  return out;
}

export class Activity {
  // body: of the table; empty: what is shown without events; spoken: a live region
  constructor(body, empty, spoken) {
    Object.assign(this, { body, empty, spoken, list: [], known: new Set(), waiting: [], timer: 0 });
  }

  // at: Unix ms. An event with the same id is the same one.
  add(at, who, level, text, id) {
    if (id !== undefined) {
      if (this.known.has(id)) return;
      this.known.add(id);
    }
    const row = el('tr', {}, el('td', { class: 'nowrap' }, el('time', { dateTime: new Date(at).toISOString() }, time(at))), el('td', {}, who), el('td', {}, pill(level, text)));
    row.lastElementChild.firstElementChild.classList.add('long');
    const older = this.list.findIndex((x) => x.at <= at), one = { at, row };
    if (older < 0) { this.list.push(one); this.body.append(row); } else { this.list.splice(older, 0, one); this.body.insertBefore(row, this.body.children[older]); }
    while (this.list.length > MOST) this.list.pop().row.remove();
    this.empty.hidden = true;
  }

  // It happens now: it is said, too. What comes close together is said together.
  tell(at, who, level, text, id) {
    this.add(at, who, level, text, id);
    this.waiting.push(`${who}: ${text}`);
    if (this.timer) return;
    this.timer = setTimeout(() => {
      this.spoken.textContent = this.waiting.length > 4 ? `${this.waiting.length} changes; see the list of events` : this.waiting.join('. ');
      this.waiting = [];
      this.timer = 0;
    }, SAY_MS);
  }

  changed(at, key, before, f) {
    for (const [level, text, ended] of changesOf(before, f)) this.tell(at, key, level, text, ended ? `${key} ${f.job_finished_at}` : undefined);
  }

  past(key, history) {
    for (const h of history) {
      const [level, text] = OUTCOMES[h.outcome] || ['warn', `job ended: ${h.outcome}`];
      this.add(h.finished_at * 1000, key, level, h.error ? `${text}: ${h.error}` : h.reason ? `${text} (${h.reason})` : text, `${key} ${h.finished_at}`);
    }
  }
}
