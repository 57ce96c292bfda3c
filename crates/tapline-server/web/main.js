// The page: which view is shown, the keys that work everywhere, and the line about the connection.

/** @import { View } from './types' */
import { onConnection, onSignedOut } from './api.js';
import { CostsView } from './costs.js';
import { h, put, update } from './dom.js';
import { tick } from './format.js';
import { helpDialog } from './help.js';
import { SessionView } from './session.js';
import { SessionsView } from './sessions.js';
import { signInDialog } from './signin.js';
import { Store } from './store.js';

const main = /** @type {HTMLElement} */ (document.getElementById('main'));
const filter = /** @type {HTMLInputElement} */ (document.getElementById('filter'));
const connection = /** @type {HTMLElement} */ (document.getElementById('connection'));
const store = new Store();
/** @type {View | null} */
let view = null;
let shown = '';

/** Shows what the address says. */
function route() {
  const path = location.pathname + location.search;
  // Only the step within a session changed.
  if (path === shown) return;
  shown = path;
  view?.close();
  view = null;
  scrollTo(0, 0);
  const session = /^\/sessions\/([^/]+)$/.exec(location.pathname);
  document.body.className = session ? 'view-session' : location.pathname === '/costs' ? 'view-costs' : 'view-sessions';
  for (const link of document.querySelectorAll('.top nav a')) {
    const on = link.getAttribute('href') === '/costs' ? location.pathname === '/costs' : location.pathname !== '/costs';
    if (on) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (session) view = new SessionView(main, store, decoded(session[1]), go);
  else if (location.pathname === '/costs') view = new CostsView(main);
  else if (location.pathname === '/') view = new SessionsView(main, store, filter, go);
  else put(main, h('p', { class: 'note' }, 'There is no such page. ', h('a', { href: '/' }, 'All sessions')));
}

/** @param {string} part of an address */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @param {string} path */
function go(path) {
  // From elsewhere, the list is as it was left. From the list itself, it begins anew.
  const home = path === '/' && location.pathname !== '/';
  history.pushState(null, '', home ? store.place.path : path);
  if (!home && path === '/') shown = '';
  route();
}

document.addEventListener('click', (event) => {
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (!(link instanceof HTMLAnchorElement) || event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.hasAttribute('download') || link.target) return;
  if (link.origin !== location.origin || link.pathname.startsWith('/api/')) return;
  // A link to a step of this session is the browser's own business.
  if (link.pathname === location.pathname && link.search === location.search && link.hash) return;
  event.preventDefault();
  go(link.pathname + link.search + link.hash);
});

addEventListener('popstate', route);

/** Whether a key is meant for a field. @param {EventTarget | null} target */
function isField(target) {
  return target instanceof HTMLElement && (target.matches('input, textarea, select') || target.isContentEditable);
}

document.addEventListener('keydown', (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (isField(event.target)) {
    // Esc leaves the filter; every other key belongs to the field.
    if (event.key !== 'Escape' || event.target !== filter) return;
  } else if (event.key === '/') {
    event.preventDefault();
    search();
    return;
  } else if (event.key === '?') {
    event.preventDefault();
    helpDialog(store.control);
    return;
  } else if ((event.key === 'Enter' || event.key === ' ') && event.target instanceof Element && event.target.closest('a, button, summary')) return;
  if (view?.key?.(event)) event.preventDefault();
  else if (event.key === 'Escape' && location.pathname !== '/') go('/');
});

function search() {
  if (location.pathname !== '/') go('/');
  filter.focus();
  filter.select();
}

filter.addEventListener('focus', () => {
  if (location.pathname === '/') return;
  search();
});
document.getElementById('help')?.addEventListener('click', () => helpDialog(store.control));
onConnection((lost) => {
  connection.hidden = lost === null;
  update(connection, lost);
});
onSignedOut(signInDialog);
setInterval(tick, 1000);
history.scrollRestoration = 'manual';
route();
