// All that a question asks, as text: never cut, and with everything visible that a reader could miss. A large one is asked for first.

/** @import { Question, QuestionText, Row } from './types' */
import { get, sessionPath } from './api.js';
import { h } from './dom.js';

/** What is larger than this is read only when somebody wants to see it. */
const UNASKED = 256 << 10;
/** How many texts are kept. */
const KEPT = 16;
/** A text is put on the page in parts of about so many characters: only those on the screen are laid out. */
const PART = 4096;
/** Edits of more lines than this, multiplied, are not compared line by line. */
const COMPARED = 250_000;

/** @typedef {{ text?: QuestionText, problem?: string, reading?: boolean, waiting?: Set<() => void> }} Known */
/** @type {Map<string, Known>} */
const texts = new Map();

/** @param {Row} row @param {Question} question */
const keyOf = (row, question) => `${row.id} ${question.id} ${question.digest}`;

/**
 * What is known of a question's text. One that is not there yet is read, unless it is large.
 * @param {Row} row
 * @param {Question} question
 * @param {() => void} changed
 * @returns {Known}
 */
export function textOf(row, question, changed) {
  if (question.text) return { text: question.text };
  const known = texts.get(keyOf(row, question));
  if (known) {
    if (known.reading) known.waiting?.add(changed);
    return known;
  }
  return question.size > UNASKED ? {} : readText(row, question, changed);
}

/**
 * Reads all that a question asks.
 * @param {Row} row
 * @param {Question} question
 * @param {() => void} changed
 * @returns {Known}
 */
export function readText(row, question, changed) {
  const key = keyOf(row, question);
  /** @type {Known} */
  const known = { reading: true, waiting: new Set([changed]) };
  for (const old of [...texts.keys()].slice(0, -KEPT)) texts.delete(old);
  texts.set(key, known);
  get(`${sessionPath(row.id)}/questions/${encodeURIComponent(question.id)}`).then((whole) => {
    const { digest, text } = /** @type {Question} */ (whole);
    if (digest === question.digest && text) known.text = text;
    else known.problem = 'It asks for something else now.';
  }).catch((error) => {
    known.problem = error instanceof Error ? error.message : String(error);
  }).finally(() => {
    known.reading = false;
    known.waiting?.forEach((one) => one());
  });
  return known;
}

/** Every character that could be missed: what controls, steers, joins or is blank, other than spaces and line ends. @param {string} text */
export function exactly(text) {
  return text.replace(/[^\P{C}\n\t]|[^\P{Z} ]|\p{Default_Ignorable_Code_Point}/gu,
    (one) => `<U+${/** @type {number} */ (one.codePointAt(0)).toString(16).toUpperCase().padStart(4, '0')}>`);
}

/** @param {string} text @param {string} [kind] @returns {HTMLElement[]} */
function blocks(text, kind) {
  const all = exactly(text), made = [];
  for (let from = 0; from < all.length || made.length === 0;) {
    // A part ends with a line, if one ends soon.
    const end = all.lastIndexOf('\n', from + 2 * PART);
    let to = all.length - from <= PART ? all.length : end > from + PART / 2 ? end + 1 : from + PART;
    // A character of two units stays one.
    if (to < all.length && /[\ud800-\udbff]/.test(all[to - 1])) to++;
    const block = document.createElement('div');
    block.className = kind ? `part ${kind}` : 'part';
    block.textContent = all.slice(from, to);
    made.push(block);
    from = Math.max(to, from + 1);
  }
  return made;
}

/** @param {string} text */
const linesOf = (text) => text.split(/(?<=\n)/);

/**
 * All lines of both texts, those of both once.
 * @param {string} before
 * @param {string} after
 * @returns {[string, string][]} the sign and the lines
 */
function changes(before, after) {
  const old = linesOf(before), fresh = linesOf(after);
  let head = 0, tail = 0;
  while (head < old.length && head < fresh.length && old[head] === fresh[head]) head++;
  while (tail < old.length - head && tail < fresh.length - head && old[old.length - 1 - tail] === fresh[fresh.length - 1 - tail]) tail++;
  const gone = old.slice(head, old.length - tail), come = fresh.slice(head, fresh.length - tail);
  /** @type {[string, string][]} */
  const found = [];
  const say = (/** @type {string} */ sign, /** @type {string} */ line) => {
    const last = found.at(-1);
    if (line === '') return;
    if (last?.[0] === sign) last[1] += line;
    else found.push([sign, line]);
  };
  old.slice(0, head).forEach((line) => say(' ', line));
  let from = 0, to = 0;
  if (gone.length * come.length <= COMPARED) {
    // How many lines the rests have in common.
    const common = Array.from({ length: gone.length + 1 }, () => new Uint32Array(come.length + 1));
    for (let a = gone.length - 1; a >= 0; a--) {
      for (let b = come.length - 1; b >= 0; b--) common[a][b] = gone[a] === come[b] ? common[a + 1][b + 1] + 1 : Math.max(common[a + 1][b], common[a][b + 1]);
    }
    while (from < gone.length && to < come.length) {
      if (gone[from] === come[to]) say(' ', gone[from++]), to++;
      else if (common[from + 1][to] >= common[from][to + 1]) say('-', gone[from++]);
      else say('+', come[to++]);
    }
  }
  gone.slice(from).forEach((line) => say('-', line));
  come.slice(to).forEach((line) => say('+', line));
  old.slice(old.length - tail).forEach((line) => say(' ', line));
  return found;
}

const NAMES = new Map([['-', 'removed'], ['+', 'added'], [' ', 'same']]);

/** @param {string} before @param {string} after */
function diff(before, after) {
  return h('div', { class: 'diff' }, ...changes(before, after).flatMap(([sign, lines]) => blocks(lines, NAMES.get(sign))));
}

/** @param {unknown} edit @returns {edit is { old_string: string, new_string: string }} */
function isEdit(edit) {
  const { old_string: before, new_string: after } = /** @type {Record<string, unknown>} */ (edit ?? {});
  return typeof before === 'string' && typeof after === 'string';
}

/** @param {string} key @param {HTMLElement[]} value */
function field(key, value) {
  return h('div', { class: 'field' }, h('div', { class: 'field-name' }, exactly(key)), ...value);
}

/**
 * The whole input of a call. The fields are as the agent wrote them; what an edit replaces is a diff.
 * @param {QuestionText} text
 */
export function wholeText({ input }) {
  const all = document.createDocumentFragment();
  if (input === null || typeof input !== 'object' || Array.isArray(input)) {
    all.append(...blocks(typeof input === 'string' ? input : JSON.stringify(input, null, 2)));
    return all;
  }
  const isDiff = isEdit(input);
  const value = (/** @type {string} */ key, /** @type {unknown} */ one) => {
    if (key === 'edits' && Array.isArray(one) && one.every(isEdit)) {
      return one.flatMap(({ old_string: before, new_string: after, ...rest }) => [diff(before, after), ...Object.keys(rest).length ? blocks(JSON.stringify(rest)) : []]);
    }
    return blocks(typeof one === 'string' ? one : JSON.stringify(one, null, 2));
  };
  for (const [key, one] of Object.entries(input)) {
    if (isDiff && key === 'old_string') all.append(field('change', [diff(String(input.old_string), String(input.new_string))]));
    else if (!(isDiff && key === 'new_string')) all.append(field(key, value(key, one)));
  }
  return all;
}
