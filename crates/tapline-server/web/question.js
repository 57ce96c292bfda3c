// A question of an agent, and its answers: one key each.

/** @import { Decision, Question, Row } from './types' */
import { post, sessionPath } from './api.js';
import { h, update } from './dom.js';
import { lasting, phrase } from './format.js';

/** A key does not answer what appeared just before it was pressed: it was meant for something else. */
const UNSEEN = 400;
/** @type {Map<string, number>} when each question was first shown */
const seen = new Map();
/** @type {Map<string, string>} what was answered, until the server says that the question is gone */
const answered = new Map();
/** @type {Map<string, string>} why an answer did not arrive */
const problems = new Map();
/** @type {Set<string>} questions whose no gets a reason */
const reasons = new Set();
/** @type {WeakMap<HTMLElement, { row: Row, keys: boolean }>} what each place shows */
const shown = new WeakMap();

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
  shown.set(place, { row, keys });
  draw(place);
}

/** Draws the newest that is known of a place. @param {HTMLElement} place */
function draw(place) {
  const { row, keys } = shown.get(place) ?? {};
  const question = row?.questions[0];
  update(place, row && question && questionCard(row, question, place, Boolean(keys)));
}

/**
 * The question with its buttons.
 * @param {Row} row
 * @param {Question} question
 * @param {HTMLElement} place
 * @param {boolean} keys
 */
function questionCard(row, question, place, keys) {
  const known = name(row, question);
  if (!seen.has(known)) seen.set(known, performance.now());
  const { tool, summary } = question;
  const rest = summary.startsWith(tool) ? summary.slice(tool.length).replace(/^[:\s]+/, '') : summary;
  const what = h('p', { class: 'ask-what', title: summary },
    h('b', null, tool ? `May it use ${tool}?` : 'It asks:'), ' ', ...phrase(rest), ' ', h('span', { class: 'faint' }, lasting(question.since, 'span')));
  const done = answered.get(known), problem = problems.get(known);
  return h('div', { class: 'ask', 'data-key': question.id, role: 'group', 'aria-label': `Question: ${tool} ${summary}` }, what,
    done && h('p', { class: 'ask-done', role: 'status' }, done),
    problem && h('p', { class: 'ask-done', role: 'alert' }, problem),
    !done && !row.controllable && h('p', { class: 'ask-done' }, 'Answer it where this session runs.'),
    !done && row.controllable && (reasons.has(known) ? reasonForm(row, question, place) : buttons(row, question, place, keys)));
}

/**
 * The letters of the keys always have their room, so that no button moves when its question is selected.
 * @param {Row} row
 * @param {Question} question
 * @param {HTMLElement} place
 * @param {boolean} keys
 */
function buttons(row, question, place, keys) {
  const key = (/** @type {string} */ letter) => h('kbd', { 'aria-hidden': 'true', class: keys ? 'key' : 'key off' }, letter);
  return h('div', { class: 'ask-buttons' },
    h('button', { type: 'button', class: 'main', 'aria-keyshortcuts': keys && 'y', onclick: () => answer(row, question, place, 'allow') }, 'Allow once', key('y')),
    h('button', { type: 'button', class: 'no', 'aria-keyshortcuts': keys && 'n', onclick: () => answer(row, question, place, 'deny') }, 'No', key('n')),
    h('button', { type: 'button', class: 'because', 'aria-keyshortcuts': keys && 'w', onclick: () => because(row, question, place) }, 'No, because …', key('w')));
}

/**
 * Asks for the reason of a no.
 * @param {Row} row
 * @param {Question} question
 * @param {HTMLElement} place
 */
function because(row, question, place) {
  reasons.add(name(row, question));
  draw(place);
  place.querySelector('input')?.focus();
}

/**
 * @param {Row} row
 * @param {Question} question
 * @param {HTMLElement} place
 */
function reasonForm(row, question, place) {
  const why = 'Why not? The agent reads this.';
  const back = () => {
    reasons.delete(name(row, question));
    draw(place);
    /** @type {HTMLElement | null} */ (place.closest('[data-row]')?.querySelector('a'))?.focus();
  };
  return h('form', {
    class: 'ask-buttons',
    onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      answer(row, question, place, 'deny', place.querySelector('input')?.value.trim() || undefined);
    },
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== 'Escape') return;
      event.stopPropagation();
      back();
    },
  }, h('input', { type: 'text', 'aria-label': why, placeholder: why, maxlength: 2000 }),
  h('button', { type: 'submit', class: 'main' }, 'Send'), h('button', { type: 'button', class: 'back', onclick: back }, 'Back'));
}

/**
 * @param {Row} row
 * @param {Question} question
 * @param {HTMLElement} place
 * @param {Decision} decision
 * @param {string} [message]
 */
async function answer(row, question, place, decision, message) {
  const known = name(row, question);
  if (answered.has(known)) return;
  answered.set(known, decision === 'allow' ? 'Allowed.' : 'Refused.');
  problems.delete(known);
  draw(place);
  try {
    await post(`${sessionPath(row.id)}/answer`, { question: question.id, decision, ...(message && { message }) });
  } catch (error) {
    answered.delete(known);
    problems.set(known, error instanceof Error ? error.message : String(error));
    draw(place);
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
  if (!row || !question || !row.controllable || !['y', 'n', 'w'].includes(key)) return false;
  const place = /** @type {HTMLElement | null} */ (inside?.querySelector('.ask')?.parentElement ?? null);
  const since = seen.get(name(row, question));
  if (!place || since === undefined || performance.now() - since < UNSEEN) return true;
  if (key === 'w') because(row, question, place);
  else answer(row, question, place, key === 'y' ? 'allow' : 'deny');
  return true;
}
