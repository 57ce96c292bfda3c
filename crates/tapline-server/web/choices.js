// A question with options: one or several of them, or words of one's own.

/** @import { Inquiry } from './types' */
import { exactly } from './asked.js';
import { h } from './dom.js';

/** The answers so far, by question. @typedef {Map<string, { chosen: Set<string>, own: string }>} Draft */

/** @type {Map<string, Draft>} */
const drafts = new Map();

/** @param {string} known the question that is answered @param {Inquiry[]} inquiries @returns {Draft} */
function draftOf(known, inquiries) {
  let draft = drafts.get(known);
  if (!draft) drafts.set(known, draft = new Map(inquiries.map(({ question }) => [question, { chosen: new Set(), own: '' }])));
  return draft;
}

/** @param {string} known */
export function forget(known) {
  drafts.delete(known);
}

/**
 * What was chosen or said for each question; null as long as one has no answer.
 * @param {string} known
 * @param {Inquiry[]} inquiries
 * @returns {Record<string, string[]> | null}
 */
export function answersOf(known, inquiries) {
  /** @type {Record<string, string[]>} */
  const answers = {};
  for (const [question, { chosen, own }] of draftOf(known, inquiries)) {
    const all = [...chosen, ...own.trim() === '' ? [] : [own.trim()]];
    if (all.length === 0) return null;
    answers[question] = all;
  }
  return answers;
}

/**
 * The options, to be put on the page once: the browser keeps what is chosen.
 * @param {string} known
 * @param {Inquiry[]} inquiries
 * @param {() => void} changed
 */
export function choices(known, inquiries, changed) {
  const draft = draftOf(known, inquiries);
  return inquiries.map(({ question, header, options, several }, at) => {
    const own = /** @type {{ chosen: Set<string>, own: string }} */ (draft.get(question)), name = `${known} ${at}`;
    const kind = several ? 'checkbox' : 'radio';
    const words = h('input', { type: 'text', class: 'own', 'aria-label': 'Your own words', placeholder: several ? 'And in your own words …' : 'Or in your own words …', maxlength: 4000, value: own.own });
    const set = h('fieldset', { class: 'inquiry' }, h('legend', null, header && h('span', { class: 'faint' }, exactly(header), ' '), exactly(question)),
      ...options.map(({ label, description, preview }) => {
        const box = h('input', { type: kind, name, value: label, checked: own.chosen.has(label) });
        box.addEventListener('change', () => {
          if (!several) {
            own.chosen.clear();
            words.value = own.own = '';
          }
          if (box.checked) own.chosen.add(label);
          else own.chosen.delete(label);
          changed();
        });
        return h('label', { class: 'option' }, box, h('span', null, h('b', null, exactly(label)), description && h('span', { class: 'dim' }, ' ', exactly(description)), preview && h('pre', { class: 'preview' }, exactly(preview))));
      }), words);
    words.addEventListener('input', () => {
      own.own = words.value;
      // One answer: either an option, or words.
      if (!several && own.own.trim() !== '') {
        own.chosen.clear();
        for (const box of set.querySelectorAll('input')) box.checked = false;
      }
      changed();
    });
    return set;
  });
}
