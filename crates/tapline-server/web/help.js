// The keys.

import { h } from './dom.js';

/** @type {[string, [string, string][]][]} */
const KEYS = [
  ['Everywhere', [['/', 'filter and search'], ['?', 'this list'], ['Esc', 'back']]],
  ['Questions', [['y', 'allow once'], ['n', 'no'], ['w', 'no, and say why']]],
  ['Sessions', [['j k', 'next, previous'], ['Enter', 'open'], ['is:failed', 'in the filter: a state']]],
  ['One session', [['j k', 'next, previous step'], ['Enter', 'open the step’s card'], ['g', 'first step'], ['G', 'newest step, and follow'], ['m', 'write a message'], ['c', 'copy the resume command']]],
];

export function helpDialog() {
  /** @type {HTMLDialogElement} */
  const dialog = h('dialog', { class: 'dialog', 'aria-labelledby': 'help-title', onclose: () => dialog.remove(), onclick: (/** @type {Event} */ event) => event.target === dialog && dialog.close() },
    h('form', { method: 'dialog' }, h('h2', { id: 'help-title' }, 'Keys'),
      h('div', { class: 'keys' }, ...KEYS.map(([name, keys]) => h('section', null, h('h3', null, name),
        h('dl', null, ...keys.map(([key, what]) => h('div', null, h('dt', null, ...key.split(' ').map((one) => h('kbd', null, one))), h('dd', null, what))))))),
      h('div', { class: 'ask-buttons' }, h('button', { class: 'main' }, 'Close'))));
  document.body.append(dialog);
  dialog.showModal();
}
