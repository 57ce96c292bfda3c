// Elements without markup in strings: whatever a session says becomes text, never markup.

/** @typedef {Node | string | number | null | undefined | false} Child */

const SVG = 'http://www.w3.org/2000/svg';

/**
 * Text with its control characters visible: what turns the direction of writing could make a command look like another one.
 * @param {string} text
 */
export function visible(text) {
  const hidden = /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;
  return text.replace(hidden, (one) => `<U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}>`);
}

/** @type {WeakMap<Element, Map<string, EventListener>>} what an element does when something happens to it; `update` writes it again */
const listeners = new WeakMap();

/** @param {Event} event */
function dispatch(event) {
  const { currentTarget } = event;
  if (currentTarget instanceof Element) listeners.get(currentTarget)?.get(event.type)?.call(currentTarget, event);
}

/** @param {Element} element @param {string} type @param {EventListener} listener */
function listen(element, type, listener) {
  let own = listeners.get(element);
  if (!own) listeners.set(element, own = new Map());
  if (!own.has(type)) element.addEventListener(type, dispatch);
  own.set(type, listener);
}

/**
 * @param {Element} element
 * @param {Record<string, unknown> | null} props attributes; a function is a listener (`onclick`)
 * @param {Child[]} children
 */
function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (typeof value === 'function') listen(element, name.slice(2), /** @type {EventListener} */ (value));
    else if (value === true) element.setAttribute(name, '');
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, visible(String(value)));
  }
  element.append(...texts(children));
}

/**
 * @param {Child[]} children
 * @returns {(Node | string)[]}
 */
function texts(children) {
  const kept = [];
  for (const child of children) {
    if (child instanceof Node) kept.push(child);
    else if (child !== null && child !== undefined && child !== false) kept.push(visible(String(child)));
  }
  return kept;
}

/**
 * An HTML element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown> | null} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props = null, ...children) {
  const element = document.createElement(tag);
  fill(element, props, children);
  return element;
}

/**
 * An SVG element.
 * @param {string} tag
 * @param {Record<string, unknown> | null} [props]
 * @param {...Child} children
 */
export function svg(tag, props = null, ...children) {
  const element = document.createElementNS(SVG, tag);
  fill(element, props, children);
  return element;
}

/**
 * Replaces what an element holds. This is for elements that are made once; what is drawn again and again uses `update`.
 * @param {Element} element
 * @param {...Child} children
 */
export function put(element, ...children) {
  element.replaceChildren(...texts(children));
}

/**
 * Makes an element hold these children, and keeps every node that can stay. A browser drops a click if the pressed element is replaced, or if
 * its text is, before the pointer is released. So text and attributes are written only where they differ.
 * @param {Element} element
 * @param {...Child} children
 */
export function update(element, ...children) {
  const holder = document.createDocumentFragment();
  holder.append(...texts(children));
  keep(element, holder);
}

/** What tells one child from another: two links to different places are not the same link. @param {Node} node */
function nameOf(node) {
  if (!(node instanceof Element)) return node.nodeName;
  const own = node.getAttribute('data-key') ?? node.getAttribute('href') ?? node.id;
  return [node.nodeName, node.getAttribute('class')?.split(' ')[0], own].join(' ');
}

/**
 * Makes the children of one node like those of another.
 * @param {Node} old
 * @param {Node} fresh loses the children that are taken over
 */
function keep(old, fresh) {
  fresh.normalize();
  let next = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const name = nameOf(child);
    let same = next;
    while (same && nameOf(same) !== name) same = same.nextSibling;
    if (!same) {
      old.insertBefore(child, next);
      continue;
    }
    for (; next && next !== same; next = remove(next));
    next = same.nextSibling;
    if (same instanceof Element && child instanceof Element) become(same, child);
    else if (same.nodeValue !== child.nodeValue) same.nodeValue = child.nodeValue;
  }
  while (next) next = remove(next);
}

/** @param {ChildNode} node @returns {ChildNode | null} the one after it */
function remove(node) {
  const { nextSibling } = node;
  node.remove();
  return nextSibling;
}

/** @param {Element} old @param {Element} fresh */
function become(old, fresh) {
  for (const { name, value } of fresh.attributes) attribute(old, name, value);
  for (const { name } of [...old.attributes]) {
    // What the reader opened stays open.
    if (!fresh.hasAttribute(name) && !(name === 'open' && old instanceof HTMLDetailsElement)) old.removeAttribute(name);
  }
  const now = listeners.get(fresh);
  for (const [type, listener] of now ?? []) listen(old, type, listener);
  for (const type of [...listeners.get(old)?.keys() ?? []]) if (!now?.has(type)) listen(old, type, () => {});
  // What is long, or has a state of its own, is put in once by whoever made the element.
  if (!old.hasAttribute('data-own')) keep(old, fresh);
}

/** Writes an attribute if it differs. @param {Element} element @param {string} name @param {string} value */
export function attribute(element, name, value) {
  if (element.getAttribute(name) === value) return;
  // The page's content policy forbids styles in markup; a script may set them.
  if (name === 'style') /** @type {HTMLElement} */ (element).style.cssText = value;
  else element.setAttribute(name, value);
}

/**
 * A step's markup as nodes. The server escapes everything that an agent wrote, and the page's content policy allows no script and no
 * other host. What could still lead away from the page, ask for something or
 * change its look is removed, should the server ever fail.
 * @param {string} html
 */
export function fragment(html) {
  const template = document.createElement('template');
  template.innerHTML = html;
  template.content.querySelectorAll('script,style,link,meta,base,iframe,frame,object,embed,form,img,video,audio').forEach((element) => element.remove());
  return template.content;
}

/**
 * Copies text, and says so on the button for a moment.
 * @param {HTMLButtonElement} button
 * @param {string} text
 */
export async function copy(button, text) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    update(button, 'Copied');
  } catch {
    // Without permission, or on plain HTTP beyond loopback.
    update(button, 'Select and copy it by hand');
  }
  setTimeout(() => update(button, before), 1500);
}

/** A tab that nobody sees has no frames. Its title is seen all the same, so a task waits this long for a frame, in milliseconds. */
const FRAME = 200;

/**
 * Runs a task at most once a frame.
 * @param {() => void} task
 */
export function framed(task) {
  let asked = false;
  const run = () => {
    if (!asked) return;
    asked = false;
    task();
  };
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(run);
    setTimeout(run, FRAME);
  };
}
