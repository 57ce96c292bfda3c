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

/**
 * @param {Element} element
 * @param {Record<string, unknown> | null} props attributes; a function is a listener (`onclick`)
 * @param {Child[]} children
 */
function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (typeof value === 'function') element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
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
 * Replaces what an element holds.
 * @param {Element} element
 * @param {...Child} children
 */
export function put(element, ...children) {
  element.replaceChildren(...texts(children));
}

/** What the Tab key reaches. @param {Node} node */
function stops(node) {
  return node instanceof Element ? [node, ...node.querySelectorAll('*')].filter((one) => one.matches('a, button, summary, input, [tabindex]')) : [];
}

/**
 * Replaces only those children that differ, and keeps the focus. A button that is pressed just now must not be another one when it is let go.
 * @param {Element} element
 * @param {...Child} children
 */
export function update(element, ...children) {
  const fresh = texts(children).map((child) => (child instanceof Node ? child : document.createTextNode(child)));
  const old = [...element.childNodes];
  if (old.length !== fresh.length) {
    element.replaceChildren(...fresh);
    return;
  }
  old.forEach((node, at) => {
    if (node.isEqualNode(fresh[at])) return;
    const focused = document.activeElement && node.contains(document.activeElement) ? stops(node).indexOf(document.activeElement) : -1;
    node.replaceWith(fresh[at]);
    const again = stops(fresh[at])[focused];
    if (again instanceof HTMLElement) again.focus({ preventScroll: true });
  });
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
    button.textContent = 'Copied';
  } catch {
    // Without permission, or on plain HTTP beyond loopback.
    button.textContent = 'Select and copy it by hand';
  }
  setTimeout(() => { button.textContent = before; }, 1500);
}

/**
 * Runs a task at most once a frame.
 * @param {() => void} task
 */
export function framed(task) {
  let asked = 0;
  return () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      task();
    });
  };
}
