// A question of an agent, and its answers: one key each.

/** @import { Decision, Question, Row } from './types' */
import { post, sessionPath } from './api.js';
import { h, put } from './dom.js';
import { lasting, phrase } from './format.js';

/** A key does not answer what appeared just before it was pressed: it was meant for something else. */
const UNSEEN = 400;
/** @type {Map<string, number>} when each question was first shown */
const seen = new Map();
/** @type {Map<string, string>} what was answered, until the server says that the question is gone */
const answered = new Map();

/** @param {Row} row @param {Question} question */
function name(row, question) {
  return `${row.id} ${question.id}`;
}

/**
 * Shows the first question of a session, or nothing. What is shown already stays: somebody may be pressing its button, or writing a reason.
 * @param {HTMLElement} place
 * @param {Row} row
 * @param {boolean} keys whether the keys would answer this question
 */
export function showQuestion(place, row, keys) {
  const question = row.questions[0];
  const shown = place.querySelector('.ask');
  if (!question) {
    put(place);
    return;
  }
  const mark = [keys, row.controllable, answered.get(name(row, question))].join(' ');
  if (shown instanceof HTMLElement && shown.dataset.question === question.id && (shown.dataset.mark === mark || shown.querySelector('form'))) return;
  const card = questionCard(row, question, keys);
  card.dataset.mark = mark;
  put(place, card);
}

/**
 * The question with its buttons.
 * @param {Row} row
 * @param {Question} question
 * @param {boolean} keys
 */
function questionCard(row, question, keys) {
  const known = name(row, question);
  if (!seen.has(known)) seen.set(known, performance.now());
  const card = h('div', { class: 'ask', 'data-question': question.id, role: 'group', 'aria-label': `Question: ${question.tool} ${question.summary}` });
  const { tool, summary } = question;
  const rest = summary.startsWith(tool) ? summary.slice(tool.length).replace(/^[:\s]+/, '') : summary;
  const what = h('p', { class: 'ask-what', title: summary },
    h('b', null, tool ? `May it use ${tool}?` : 'It asks:'), ' ', ...phrase(rest), ' ', h('span', { class: 'faint' }, lasting(question.since, 'span')));
  const done = answered.get(known);
  if (done) put(card, what, h('p', { class: 'ask-done', role: 'status' }, done));
  else if (!row.controllable) put(card, what, h('p', { class: 'ask-done' }, 'Answer it where this session runs.'));
  else put(card, what, buttons(row, question, card, keys));
  return card;
}

/**
 * @param {Row} row
 * @param {Question} question
 * @param {HTMLElement} card
 * @param {boolean} keys
 */
function buttons(row, question, card, keys) {
  const key = (/** @type {string} */ letter) => keys && h('kbd', { 'aria-hidden': 'true' }, letter);
  return h('div', { class: 'ask-buttons' },
    h('button', { type: 'button', class: 'main', 'aria-keyshortcuts': keys && 'y', onclick: () => answer(row, question, card, 'allow') }, 'Allow once', key('y')),
    h('button', { type: 'button', 'aria-keyshortcuts': keys && 'n', onclick: () => answer(row, question, card, 'deny') }, 'No', key('n')),
    h('button', { type: 'button', 'aria-keyshortcuts': keys && 'w', onclick: () => because(row, question, card, keys) }, 'No, because …', key('w')));
}

/**
 * Asks for the reason of a no.
 * @param {Row} row
 * @param {Question} question
 * @param {HTMLElement} card
 * @param {boolean} keys
 */
function because(row, question, card, keys) {
  const input = h('input', { type: 'text', 'aria-label': 'Why not? The agent reads this.', placeholder: 'Why not? The agent reads this.', maxlength: 2000 });
  const back = () => {
    form.replaceWith(buttons(row, question, card, keys));
    /** @type {HTMLElement | null} */ (card.closest('[data-row]')?.querySelector('a'))?.focus();
  };
  const form = h('form', {
    class: 'ask-buttons',
    onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      answer(row, question, card, 'deny', input.value.trim() || undefined);
    },
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== 'Escape') return;
      event.stopPropagation();
      back();
    },
  }, input, h('button', { type: 'submit', class: 'main' }, 'Send'), h('button', { type: 'button', onclick: back }, 'Back'));
  card.querySelector('.ask-buttons')?.replaceWith(form);
  input.focus();
}

/**
 * @param {Row} row
 * @param {Question} question
 * @param {HTMLElement} card
 * @param {Decision} decision
 * @param {string} [message]
 */
async function answer(row, question, card, decision, message) {
  const known = name(row, question);
  if (answered.has(known)) return;
  answered.set(known, decision === 'allow' ? 'Allowed.' : 'Refused.');
  const before = card.querySelector('.ask-buttons');
  const said = h('p', { class: 'ask-done', role: 'status' }, answered.get(known));
  before?.replaceWith(said);
  try {
    await post(`${sessionPath(row.id)}/answer`, { question: question.id, decision, ...(message && { message }) });
  } catch (error) {
    answered.delete(known);
    put(said, error instanceof Error ? error.message : String(error));
    said.setAttribute('role', 'alert');
    said.after(buttons(row, question, card, true));
  }
}

/**
 * Answers by key, if the key is one.
 * @param {string} key
 * @param {Row | undefined} row
 * @param {HTMLElement | null | undefined} inside where the question is shown
 */
export function answerKey(key, row, inside) {
  const question = row?.questions[0];
  const decisions = { y: 'allow', n: 'deny', w: 'because' };
  if (!row || !question || !row.controllable || !Object.hasOwn(decisions, key)) return false;
  const card = /** @type {HTMLElement | null} */ (inside?.querySelector('.ask') ?? null);
  const since = seen.get(name(row, question));
  if (!card || since === undefined || performance.now() - since < UNSEEN) return true;
  if (key === 'w') because(row, question, card, true);
  else answer(row, question, card, key === 'y' ? 'allow' : 'deny');
  return true;
}
