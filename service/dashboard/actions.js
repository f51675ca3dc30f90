// SPDX-License-Identifier: MIT
// What an operator can do with a filter: each action, why it is not possible now, and the dialog that asks before it is done.
import * as live from './live.js';
import { el, holds, inGrace, mayAbort, put, runs } from './parts.js';

const $ = (id) => document.getElementById(id);

// A reason, or '' where there is none.
const noSource = (f) => f.table ? '' : 'the filter has no source';
const busy = (f) => runs(f) ? 'a job runs already' : '';
const idle = (f) => runs(f) ? '' : 'no job runs';
const notBuilt = (f) => f.built ? '' : f.built === false ? 'the filter is not built yet' : 'the filter is unreachable';
const building = (f) => f.phase === 'SWITCHED' ? 'the new generation is in use already' : '';
const rebuilds = (f) => f.job_step === 'check' ? 'the job is not a rebuild' : '';

// why(f): the reason why it is not possible now; hidden(f): another action has its place; number: what the dialog asks for.
export const ACTIONS = [
  { name: 'rebuild', group: 'Rebuild', text: 'Rebuild', path: 'rebuild', why: (f) => noSource(f) || busy(f),
    ask: 'Builds a new generation from the source, verifies it and switches to it. Checks and adds continue throughout.' },
  { name: 'hold', group: 'Rebuild', text: 'Rebuild and hold', path: 'rebuild', body: { hold: true }, why: (f) => noSource(f) || busy(f),
    ask: 'Builds a new generation from the source and verifies it. It then waits until you choose "Cut over".' },
  { name: 'cutover', group: 'Rebuild', text: 'Cut over', path: 'cutover', main: holds, why: (f) => idle(f) || rebuilds(f) || building(f) || (f.job_hold ? '' : 'the rebuild does not hold: it switches by itself'),
    ask: 'Checks are answered by the new generation from then on. Until the grace time ends you can roll back, and lose no added key.' },
  { name: 'rollback', group: 'Rebuild', text: 'Roll back', path: 'rollback', danger: true, why: (f) => inGrace(f) ? '' : 'there is no cutover to undo: this is possible in the grace time only',
    ask: 'Checks are answered by the former generation again. The new one is kept, and the rebuild holds.' },
  { name: 'finish', group: 'Rebuild', text: 'End the grace time', path: 'finish', why: (f) => inGrace(f) ? '' : 'no grace time runs',
    ask: 'The former generation is deleted now. A rollback is no longer possible.' },
  { name: 'pause', group: 'Job', text: 'Pause', path: 'pause', hidden: (f) => runs(f) && f.job_paused, why: idle,
    ask: 'The job stops reading until you choose "Resume". Checks and adds continue.' },
  { name: 'resume', group: 'Job', text: 'Resume', path: 'resume', hidden: (f) => !(runs(f) && f.job_paused), why: idle,
    ask: 'The job continues where it was paused.' },
  { name: 'throttle', group: 'Job', text: 'Throttle', path: 'throttle', why: idle, number: { label: 'Rows per second (0: no limit)', member: 'rows_per_second_limit', from: (f) => f.job_rows_per_second_limit || 0 },
    ask: 'Limits how many rows the job reads each second.' },
  { name: 'abort', group: 'Job', text: 'Abort', path: 'abort', danger: true, why: (f) => idle(f) || (inGrace(f) ? 'the new generation is in use already: roll back instead' : mayAbort(f) ? '' : 'the job cannot be aborted in this step'),
    ask: 'The job ends, and what it has built is deleted. The generation in use stays.' },
  { name: 'verify', group: 'Check', text: 'Verify a sample', path: 'verify', why: (f) => noSource(f) || notBuilt(f) || busy(f),
    ask: 'Looks up a sample of the keys of the source in the filter. Missing keys are added.' },
  { name: 'verify-full', group: 'Check', text: 'Verify all', path: 'verify', body: { verify_full: true }, why: (f) => noSource(f) || notBuilt(f) || busy(f),
    ask: 'Looks up every key of the source in the filter. Missing keys are added. This reads the whole table.' },
  { name: 'trust', group: 'Check', text: 'Trust', path: 'trust', danger: true, why: (f) => f.degraded ? '' : 'the filter is healthy',
    ask: 'You accept what Redis has lost of this filter. Missing shards are made empty: keys that were lost are reported absent from then on. A filter with a source heals by itself instead.' },
];

export const whyNot = (action, f, role) => role !== 'admin' ? `this needs the role admin; you have the role ${role}` : action.why(f);

// --- the buttons ---

export class Buttons {
  // act(action): it was chosen and is possible. refuse(text): it is not.
  constructor(act, refuse) {
    this.list = ACTIONS.map((action) => {
      const why = el('span', { class: 'unseen', id: `why-${action.name}` }), button = el('button', { type: 'button' }, action.text);
      button.dataset.action = action.name;
      button.setAttribute('aria-describedby', why.id);
      button.addEventListener('click', () => { if (button.getAttribute('aria-disabled') === 'true') refuse(`${action.text}: ${why.textContent}.`); else act(action); });
      return { action, why, button };
    });
    const groups = [...new Set(ACTIONS.map((a) => a.group))];
    this.root = el('div', { class: 'action-groups' }, ...groups.map((name) => el('div', { class: 'actions', role: 'group', 'aria-label': name },
      el('span', { class: 'muted', 'aria-hidden': 'true' }, name), ...this.list.filter((x) => x.action.group === name).flatMap((x) => [x.button, x.why]))));
  }

  update(f, role) {
    for (const { action, why, button } of this.list) {
      const reason = whyNot(action, f, role), off = String(reason !== '');
      if (button.getAttribute('aria-disabled') !== off) button.setAttribute('aria-disabled', off);
      if (button.title !== reason) button.title = reason;
      put(why, reason);
      button.hidden = Boolean(action.hidden && action.hidden(f));
      button.className = (action.danger && !reason ? 'danger' : '') + (action.main && !reason && action.main(f) ? ' main' : '');
    }
  }
}

// --- the dialog ---

// done(text): it was accepted.
export function confirmChange(action, it, done) {
  const box = $('dialog'), fault = $('dialog-fault'), go = $('dialog-do'), field = $('dialog-number');
  put($('dialog-title'), `${action.text}: ${it.key}`);
  put($('dialog-text'), action.ask);
  put(go, action.text);
  go.className = 'main' + (action.danger ? ' danger' : '');
  fault.hidden = true;
  go.disabled = false;
  field.parentNode.hidden = !action.number;
  if (action.number) { put($('dialog-label'), action.number.label); field.value = action.number.from(it.f); }
  go.onclick = async () => {
    if (action.number && !field.reportValidity()) return;
    go.disabled = true;
    try {
      await live.change(it.f.filter, action.path, action.number ? { [action.number.member]: Number(field.value) } : action.body);
      box.close();
      done(`${action.text}: accepted.`);
    } catch (error) {
      put(fault, error.message);
      fault.hidden = false;
      go.disabled = false;
    }
  };
  box.showModal();
  (action.number ? field : $('dialog-cancel')).focus();
}
