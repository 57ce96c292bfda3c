// Whoever aims at something takes a moment to press it. What has just appeared or moved under the pointer takes no press: it was meant for what
// was there before.

/** For so many milliseconds. */
const UNSEEN = 400;
/** @type {WeakMap<Element, ReturnType<typeof setTimeout>>} */
const timers = new WeakMap();

/** Lets presses on an element do nothing for a moment: its place or what is in it has changed. @param {Element} element */
export function unsettle(element) {
  clearTimeout(timers.get(element));
  element.classList.add('unsettled');
  timers.set(element, setTimeout(() => element.classList.remove('unsettled'), UNSEEN));
}
