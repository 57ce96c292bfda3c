// The keys.

import { h } from './dom.js';

/** @param {boolean} control whether runs may be controlled from here @returns {[string, [string, string][]][]} */
function keysOf(control) {
  return [
    ['Everywhere', [['/', 'filter and search'], ['?', 'this list'], ['Esc', 'back']]],
    ['Sessions', [['j k', 'next, previous'], ['Enter', 'open'], ['is:failed', 'in the filter: a state']]],
    ['One session', [['j k', 'next, previous step'], ['Enter', 'open the step’s card'], ['g', 'first step'], ['G', 'newest step, and follow'], ['c', 'copy the resume command']]],
    ...(control ? [/** @type {[string, [string, string][]]} */ (['Questions and messages', [['y', 'allow once'], ['n', 'no'], ['w', 'no, and say why'], ['m', 'write a message']]])] : []),
  ];
}

/** @param {boolean} control whether runs may be controlled from here */
export function helpDialog(control) {
  /** @type {HTMLDialogElement} */
  const dialog = h('dialog', { class: 'dialog', 'aria-labelledby': 'help-title', onclose: () => dialog.remove(), onclick: (/** @type {Event} */ event) => event.target === dialog && dialog.close() },
    h('form', { method: 'dialog' }, h('h2', { id: 'help-title' }, 'Keys'),
      h('div', { class: 'keys' }, ...keysOf(control).map(([name, keys]) => h('section', null, h('h3', null, name),
        h('dl', null, ...keys.map(([key, what]) => h('div', null, h('dt', null, ...key.split(' ').map((one) => h('kbd', null, one))), h('dd', null, what))))))),
      h('div', { class: 'ask-buttons' }, h('button', { class: 'main' }, 'Close'))));
  document.body.append(dialog);
  dialog.showModal();
}
