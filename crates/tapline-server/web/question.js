// A question of an agent: all that it asks, and its answers: one key each. Nothing can be allowed that is not shown, and an answer says what
// was shown.

/** @import { Decision, Question, QuestionText, Row } from './types' */
import { post, sessionPath } from './api.js';
import { readText, textOf, wholeText } from './asked.js';
import { answersOf, choices, forget } from './choices.js';
import { h, update } from './dom.js';
import { bytes, lasting, whole } from './format.js';
import { unsettle } from './still.js';
import { answerElsewhere, takesControl } from './rights.js';

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
/** @type {WeakMap<HTMLElement, { row: Row, keys: boolean, stage: string }>} what each place shows */
const shown = new WeakMap();
/** @type {Record<string, string>} */
const DONE = { allowed: 'Allowed.', refused: 'Refused.', answered: 'Answered.' };

/** @param {Row} row @param {Question} question */
function name(row, question) {
  return `${row.id} ${question.id} ${question.digest}`;
}

/** How tall the text of a question may be in the list: it stays so while the question is open. @param {Question} question @returns {'small' | 'medium' | 'large'} */
export function sizeOf({ has_options: options, lines, size }) {
  const rows = lines + size / 90;
  return options ? 'large' : rows <= 4 ? 'small' : rows <= 14 ? 'medium' : 'large';
}

/**
 * Shows the first question of a session, or nothing. What is shown already stays: somebody may be pressing its button, or writing a reason.
 * @param {HTMLElement} place
 * @param {Row} row
 * @param {boolean} keys whether the keys would answer this question
 */
export function showQuestion(place, row, keys) {
  const stage = shown.get(place)?.stage ?? '';
  if (row.questions.length === 0 && stage === '') return;
  shown.set(place, { row, keys, stage });
  draw(place);
}

/** Draws the newest that is known of a place. @param {HTMLElement} place */
function draw(place) {
  const last = shown.get(place);
  if (!last) return;
  const { row, keys } = last, question = row.questions[0];
  const known = question && textOf(row, question, () => draw(place));
  const key = question && name(row, question);
  const done = question && (answered.get(key) ?? (question.answered ? DONE[question.answered] ?? question.answered : undefined));
  update(place, question && questionCard(row, question, place, keys, known, done));
  if (question && known.text) fill(place, key, known.text);
  // What is under the pointer now is not what was there.
  const stage = !question ? '' : `${key} ${done ?? ''} ${reasons.has(key)} ${Boolean(known.text)} ${takesControl(row)}`;
  if (stage !== last.stage) unsettle(place.closest('.row, .talk') ?? place);
  last.stage = stage;
}

/**
 * Puts the text in its place, once: it may be long.
 * @param {HTMLElement} place
 * @param {string} key
 * @param {QuestionText} text
 */
function fill(place, key, text) {
  const holder = place.querySelector('.ask-text[data-own]');
  if (!holder || holder.hasChildNodes()) return;
  if (text.options.length === 0) holder.append(wholeText(text));
  else holder.append(...choices(key, text.options, () => draw(place)));
}

/**
 * The question with its buttons, which have the same place whatever else is there.
 * @param {Row} row
 * @param {Question} question
 * @param {HTMLElement} place
 * @param {boolean} keys
 * @param {{ text?: QuestionText, problem?: string, reading?: boolean }} text
 * @param {string | undefined} done
 */
function questionCard(row, question, place, keys, text, done) {
  const known = name(row, question);
  if (!seen.has(known)) seen.set(known, performance.now());
  const { tool, has_options: options } = question;
  const problem = problems.get(known), more = row.questions.length - 1;
  const what = h('p', { class: 'ask-what' }, h('b', null, options ? 'It asks you:' : tool ? `May it use ${tool}?` : 'It asks:'), ' ',
    h('span', { class: 'faint' }, lasting(question.since, 'span'), !options && ` · ${bytes(question.size)}${question.lines > 1 ? `, about ${whole(question.lines)} lines` : ''}`,
      more > 0 && ` · ${whole(more)} more after this one`));
  const show = () => {
    readText(row, question, () => draw(place));
    draw(place);
  };
  const body = text.text ? h('div', { class: 'ask-text', 'data-key': question.digest, 'data-own': true, tabindex: 0, role: 'region', 'aria-label': 'What it asks' })
    : h('div', { class: 'ask-wait', 'data-key': 'wait' }, text.reading ? 'Reading what it asks …' : h('button', { type: 'button', class: 'show', onclick: show }, text.problem ? `${text.problem} Try again` : `Show all of it (${bytes(question.size)})`));
  return h('div', { class: 'ask', 'data-key': known, role: 'group', 'aria-label': `Question: ${tool}` }, what, body,
    done ? h('p', { class: 'ask-done', role: 'status' }, done)
      : !takesControl(row) ? h('p', { class: 'ask-done' }, answerElsewhere(row))
        : reasons.has(known) ? reasonForm(row, question, place) : buttons(row, question, place, keys, text.text),
    !done && problem && h('p', { class: 'ask-problem', role: 'alert' }, problem));
}

/**
 * The letters of the keys always have their room, so that no button moves when its question is selected, and so has the one that allows.
 * @param {Row} row
 * @param {Question} question
 * @param {HTMLElement} place
 * @param {boolean} keys
 * @param {QuestionText | undefined} text
 */
function buttons(row, question, place, keys, text) {
  const key = (/** @type {string} */ letter) => h('kbd', { 'aria-hidden': 'true', class: keys ? 'key' : 'key off' }, letter);
  const options = question.has_options, word = options ? 'Answer' : 'Allow once';
  const ready = Boolean(text) && (!options || answersOf(name(row, question), text?.options ?? []) !== null);
  const yes = !text ? h('span', { class: 'room', 'aria-hidden': 'true' }, word, key('y'))
    : h('button', { type: 'button', class: 'main', disabled: !ready, 'aria-keyshortcuts': keys && 'y', onclick: () => allow(row, question, place) }, word, key('y'));
  return h('div', { class: 'ask-buttons' }, yes,
    h('button', { type: 'button', class: 'no', 'aria-keyshortcuts': keys && 'n', onclick: () => answer(row, question, place, 'deny') }, options ? 'No answer' : 'No', key('n')),
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
  reasonOf(place)?.focus();
}

/** @param {HTMLElement} place @returns {HTMLInputElement | null} */
function reasonOf(place) {
  return place.querySelector('form input');
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
      answer(row, question, place, 'deny', { message: reasonOf(place)?.value.trim() || undefined });
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
 * Allows what is shown, or answers what is asked. Without its text on the page, nothing happens.
 * @param {Row} row
 * @param {Question} question
 * @param {HTMLElement} place
 */
function allow(row, question, place) {
  const { text } = textOf(row, question, () => draw(place));
  if (!text || !place.querySelector('.ask-text[data-own]')?.hasChildNodes()) return;
  const answers = question.has_options ? answersOf(name(row, question), text.options) : undefined;
  if (answers !== null) answer(row, question, place, 'allow', answers && { answers });
}

/**
 * @param {Row} row
 * @param {Question} question
 * @param {HTMLElement} place
 * @param {Decision} decision
 * @param {{ message?: string, answers?: Record<string, string[]> }} [more]
 */
async function answer(row, question, place, decision, more = {}) {
  const known = name(row, question);
  if (answered.has(known)) return;
  answered.set(known, decision === 'deny' ? DONE.refused : more.answers ? DONE.answered : DONE.allowed);
  problems.delete(known);
  draw(place);
  try {
    await post(`${sessionPath(row.id)}/answer`, { question: question.id, digest: question.digest, decision, ...more });
    forget(known);
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
  if (!row || !question || !takesControl(row) || question.answered || !['y', 'n', 'w'].includes(key)) return false;
  const place = /** @type {HTMLElement | null} */ (inside?.querySelector('.ask')?.parentElement ?? null);
  const since = seen.get(name(row, question));
  if (!place || since === undefined || performance.now() - since < UNSEEN) return true;
  if (key === 'w') because(row, question, place);
  else if (key === 'y') allow(row, question, place);
  else answer(row, question, place, 'deny');
  return true;
}
