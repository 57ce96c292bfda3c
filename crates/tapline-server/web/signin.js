// A page that is not signed in asks for a token. The server turns it into a cookie; the page keeps nothing of it.

import { signIn } from './api.js';
import { h, put } from './dom.js';

export function signInDialog() {
  if (document.querySelector('#sign-in')) return;
  const token = h('input', { type: 'password', name: 'token', required: true, autofocus: true, autocomplete: 'off', spellcheck: 'false', 'aria-label': 'Token' });
  const wrong = h('p', { role: 'alert' });
  /** @param {Event} event */
  const send = async (event) => {
    event.preventDefault();
    try {
      await signIn(token.value.trim());
      location.reload();
    } catch (error) {
      put(wrong, error instanceof Error ? error.message : String(error));
      token.select();
    }
  };
  /** @type {HTMLDialogElement} */
  const dialog = h('dialog', { class: 'dialog', id: 'sign-in', 'aria-labelledby': 'sign-in-title', onclose: () => dialog.remove() },
    h('form', { onsubmit: send }, h('h2', { id: 'sign-in-title' }, 'Sign in'),
      h('p', null, 'Open the link that “tapline serve link” prints where the server runs, or paste a token of the file that it was given (--token-file).'),
      h('p', null, token), wrong,
      h('div', { class: 'ask-buttons' }, h('button', { class: 'main' }, 'Sign in'))));
  document.body.append(dialog);
  dialog.showModal();
}
