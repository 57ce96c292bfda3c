// A session as a row of the list; on a phone the same cells are a card.

/** @import { Row } from './types' */
import { sessionLink } from './api.js';
import { attribute, h, update } from './dom.js';
import {
  allTokens, exactMoney, exactTime, exactTokens, isLive, lasting, money, percent, phrase, short, stateWord, titleOf, when, whereabouts,
} from './format.js';
import { showQuestion } from './question.js';

/** @type {{ name: string, label: string, sort: string | null }[]} */
export const COLUMNS = [
  { name: 'state', label: 'State', sort: null },
  { name: 'session', label: 'Session', sort: 'title' },
  { name: 'now', label: 'Now', sort: null },
  { name: 'context', label: 'Context', sort: 'context' },
  { name: 'tokens', label: 'Tokens', sort: 'tokens' },
  { name: 'cost', label: 'Cost', sort: 'cost' },
  { name: 'time', label: 'Last', sort: 'time' },
];

/**
 * What it does now, and for how long.
 * @param {Row} row
 */
export function nowOf(row) {
  const said = (/** @type {(Node | string)[]} */ ...words) => h('span', { class: 'now-text' }, ...words);
  if (row.questions.length > 0) return [said('asks: ', ...phrase(row.questions[0].summary))];
  if (!row.now || !isLive(row)) return [said(row.state.message ?? '')];
  const since = row.state.kind === 'running' && lasting(row.now.since, 'span');
  return [said(row.state.kind === 'silent' ? 'last: ' : '', ...phrase(row.now.summary || row.now.tool)), since && h('span', { class: 'now-time' }, ' · ', since)];
}

/** @param {number | null} share */
export function contextBar(share) {
  if (share === null) return '';
  const inner = h('i');
  inner.style.width = Math.min(100, Math.max(0, share * 100)) + '%';
  const text = `${percent(share)} of the context used`;
  return h('span', { class: share > 0.85 ? 'bar full' : 'bar', role: 'img', 'aria-label': text, title: text }, inner);
}

/**
 * When it was last heard of; when it began is beneath the mouse.
 * @param {Row} row
 */
function timeOf(row) {
  const began = row.started_at ? `Began ${exactTime(row.started_at)}, last heard of ` : 'Last heard of ';
  return h('time', { datetime: row.updated_at, title: began + exactTime(row.updated_at) }, when(row.updated_at));
}

/**
 * @param {Row} row
 * @param {HTMLElement | null} old
 * @param {{ selected: boolean, keys: boolean }} how
 */
export function rowNode(row, old, how) {
  const node = old ?? emptyRow(row.id);
  const cell = (/** @type {string} */ name) => /** @type {HTMLElement} */ (node.querySelector(`.c-${name}`));
  node.classList.toggle('selected', how.selected);
  node.classList.toggle('live', isLive(row));
  node.classList.toggle('asks', row.questions.length > 0);
  update(cell('state'), stateWord(row));
  const link = /** @type {HTMLAnchorElement} */ (node.querySelector('a.title'));
  update(link, titleOf(row));
  attribute(link, 'title', titleOf(row));
  update(/** @type {HTMLElement} */ (node.querySelector('.sub')), whereabouts(row));
  update(cell('now'), ...nowOf(row));
  update(cell('context'), contextBar(row.context_used));
  update(cell('tokens'), h('span', { title: exactTokens(row.tokens) }, short(allTokens(row.tokens)), h('span', { class: 'unit' }, ' tokens')));
  update(cell('cost'), h('span', { title: exactMoney(row.cost_usd, row.cost_exact) }, money(row.cost_usd, row.cost_exact)));
  update(cell('time'), timeOf(row));
  showQuestion(cell('ask'), row, how.keys);
  return node;
}

// What all rows have. A copy of it takes a fraction of the time that its parts take.
const EMPTY = h('div', { class: 'row', role: 'row' },
  h('div', { class: 'c-state', role: 'cell' }),
  h('div', { class: 'c-session', role: 'cell' }, h('a', { class: 'title' }), h('span', { class: 'sub' })),
  ...['now', 'context', 'tokens', 'cost', 'time', 'ask'].map((name) => h('div', { class: `c-${name}`, role: 'cell' })));

/** @param {string} id */
function emptyRow(id) {
  const row = /** @type {HTMLElement} */ (EMPTY.cloneNode(true));
  row.dataset.row = id;
  /** @type {HTMLAnchorElement} */ (row.querySelector('a.title')).href = sessionLink(id);
  return row;
}
