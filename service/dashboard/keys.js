// SPDX-License-Identifier: MIT
// A box to check a key of the selected filter, and to add one.
import * as live from './live.js';
import { el, pill, put, setPill } from './parts.js';

const ANSWERS = {
  check: { true: ['warn', 'Maybe present', 'Ask the table.'], false: ['ok', 'Certainly absent', 'No row has this key.'] },
  add: { true: ['ok', 'Added', 'The key was new.'], false: ['warn', 'Added', 'The key was not new: its bits were already set, so it is not counted.'] },
};

export class KeyBox {
  constructor() {
    this.input = el('input', { type: 'text', id: 'key', autocomplete: 'off', spellcheck: false, maxlength: 4096, placeholder: 'for example c17' });
    this.check = el('button', { type: 'submit', class: 'main' }, 'Check');
    this.addButton = el('button', { type: 'button' }, 'Add');
    this.check.dataset.key = 'check';
    this.addButton.dataset.key = 'add';
    this.why = el('span', { class: 'unseen', id: 'why-add' });
    this.addButton.setAttribute('aria-describedby', 'why-add');
    this.state = pill('ok', '');
    this.text = el('span');
    this.answer = el('p', { class: 'answer', hidden: true }, this.state, ' ', this.text);
    const form = el('form', { class: 'key-form' }, el('label', { for: 'key' }, 'Key'), this.input, this.check, this.addButton, this.why);
    form.addEventListener('submit', (event) => { event.preventDefault(); this.ask('check'); });
    this.addButton.addEventListener('click', () => {
      if (this.addButton.getAttribute('aria-disabled') === 'true') this.tell('warn', 'Not added', this.why.textContent);
      else this.ask('add');
    });
    this.root = el('div', { class: 'panel wide' }, el('div', { class: 'panel-head' }, el('h2', {}, 'Check or add a key')), form, el('div', { 'aria-live': 'polite' }, this.answer));
  }

  // Another filter: what was answered is of the one before.
  show(it) {
    this.it = it;
    this.answer.hidden = true;
  }

  update(role) {
    const why = role === 'read' ? 'This needs the role write; you have the role read.' : '';
    this.addButton.setAttribute('aria-disabled', String(why !== ''));
    this.addButton.title = why;
    put(this.why, why);
  }

  tell(level, word, text) {
    this.answer.hidden = false;
    setPill(this.state, level, word);
    put(this.text, text);
  }

  async ask(what) {
    const key = this.input.value, it = this.it;
    if (key === '') { this.input.focus(); this.tell('warn', 'No key', 'Type a key first.'); return; }
    try {
      const [result] = (await live.change(it.f.filter, what, { keys: [key] })).results;
      if (it !== this.it) return;
      const known = ANSWERS[what][result];
      if (known) this.tell(known[0], known[1], `"${key}". ${known[2]}${result && what === 'check' && it.f.degraded ? ' The filter is degraded: affected keys are never reported absent.' : ''}`);
      else this.tell('bad', 'Error', `"${key}": ${result.detail}`);
    } catch (error) {
      if (it === this.it) this.tell('bad', 'Error', error.message);
    }
  }
}
