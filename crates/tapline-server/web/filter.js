// Which sessions are shown, and in which order.

/** @import { Row } from './types' */
import { allTokens, isLive, needsPerson, titleOf, updated } from './format.js';

/** @typedef {{ words: string[], is: string[] }} Filter */
/** @typedef {{ group: string, count: number } | Row} Item */

/** @type {WeakMap<Row, string>} */
const texts = new WeakMap();

/** What the filter's words are looked for in. @param {Row} row */
function textOf(row) {
  let text = texts.get(row);
  if (text === undefined) {
    text = [row.title, row.project, row.folder, row.branch, row.model, row.agent, row.id, row.now?.tool, row.now?.summary, row.questions[0]?.summary]
      .filter(Boolean).join('\n').toLowerCase();
    texts.set(row, text);
  }
  return text;
}

/**
 * Words that all must be there, and states: `is:failed`, `is:live`.
 * @param {string} text
 * @returns {Filter}
 */
export function parse(text) {
  const parts = text.toLowerCase().split(/\s+/).filter(Boolean);
  return {
    words: parts.filter((part) => !part.startsWith('is:')),
    is: parts.filter((part) => part.startsWith('is:') && part.length > 3).map((part) => part.slice(3)),
  };
}

/**
 * @param {Row} row
 * @param {Filter} filter
 */
export function matches(row, filter) {
  const state = (/** @type {string} */ is) =>
    (is === 'live' && isLive(row)) || ('waiting'.startsWith(is) && needsPerson(row)) || row.state.kind.startsWith(is);
  return filter.is.every(state) && filter.words.every((word) => textOf(row).includes(word));
}

/** @type {Record<string, (row: Row) => number | string>} */
const ORDERS = {
  time: updated,
  cost: (row) => row.cost_usd ?? -1,
  tokens: (row) => allTokens(row.tokens),
  context: (row) => row.context_used ?? -1,
  title: (row) => titleOf(row).toLowerCase(),
};

/**
 * The list: what needs a person, what is live, the others. Within each, by the order wanted.
 * @param {Iterable<Row>} rows
 * @param {Filter} filter
 * @param {string} order
 * @param {boolean} backwards
 * @returns {Item[]}
 */
export function arrange(rows, filter, order, backwards) {
  /** @type {Row[][]} */
  const groups = [[], [], []];
  for (const row of rows) {
    if (matches(row, filter)) groups[needsPerson(row) ? 0 : isLive(row) ? 1 : 2].push(row);
  }
  const value = ORDERS[order] ?? ORDERS.time;
  const sign = (order === 'title') === backwards ? -1 : 1;
  /** @type {Item[]} */
  const items = [];
  groups.forEach((group, at) => {
    if (group.length === 0) return;
    const pairs = group.map((row) => ({ row, value: value(row), asks: row.questions.length > 0 }));
    pairs.sort((a, b) => {
      // Questions come before chats that merely wait, whatever the order. Equal rows stay where they are.
      if (a.asks !== b.asks) return a.asks ? -1 : 1;
      return a.value < b.value ? -sign : a.value > b.value ? sign : a.row.id < b.row.id ? -1 : 1;
    });
    items.push({ group: ['Needs you', 'Live', 'Earlier'][at], count: group.length });
    for (const { row } of pairs) items.push(row);
  });
  return items;
}
