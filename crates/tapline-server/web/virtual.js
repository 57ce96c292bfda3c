// A long list of which only the rows on the screen exist. It scrolls with the window. A row's node lives as long as its row is near the
// screen, so focus and selection stay where they are while everything around changes.

import { framed } from './dom.js';
import { unsettle } from './still.js';

/** How far beyond the screen rows exist. */
const MARGIN = 600;
/** A mouse that was not moved for so many milliseconds rests, and the list goes on. */
const RESTING = 1000;

/**
 * @template T
 * @typedef {object} Items
 * @property {T[]} all
 * @property {(item: T) => string} key
 * @property {() => (item: T) => number} heights how tall rows are now, in pixels
 * @property {() => number} gap pixels that stay empty below each row
 * @property {(item: T, old: HTMLElement | null) => HTMLElement} node makes a row's node, or brings the old one up to date
 */

/** @template T */
export class Virtual {
  /**
   * @param {HTMLElement} root
   * @param {Omit<Items<T>, 'all'>} how
   */
  constructor(root, how) {
    this.root = root;
    this.how = how;
    /** @type {T[]} */
    this.all = [];
    /** The top of each item, and the bottom of the last one. */
    this.tops = new Float64Array(1);
    /** @type {Map<string, { node: HTMLElement, item: T, at: number, top: number, bottom: number }>} */
    this.shown = new Map();
    /** @type {string | null} the row that exists wherever the window is: the one with the focus */
    this.pinned = null;
    /** @type {T[] | null} what comes when the pointer is released: no row moves away under a pressed one */
    this.held = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.resting = undefined;
    /** Whether rows move because the list changes, and not because somebody scrolls. */
    this.changing = false;
    /** Where the list begins in the document. */
    this.offset = NaN;
    this.later = framed(() => this.draw());
    // What stands above the list may grow, and moves all of it.
    this.sizes = new ResizeObserver(() => this.unsettleMoved());
    this.sizes.observe(document.body);
    this.ending = new AbortController();
    const { signal } = this.ending;
    addEventListener('scroll', this.later, { passive: true, signal });
    addEventListener('resize', this.later, { signal });
    // The menu of another button swallows its release.
    root.addEventListener('pointerdown', ({ button }) => { if (button === 0) this.held ??= this.all; }, { signal });
    // The click comes right after the release.
    for (const type of ['pointerup', 'pointercancel']) addEventListener(type, () => setTimeout(() => this.release()), { signal });
    // Somebody who moves the mouse over the list is about to press something.
    root.addEventListener('pointermove', ({ pointerType, buttons }) => {
      if (pointerType !== 'mouse' || buttons !== 0) return;
      this.held ??= this.all;
      clearTimeout(this.resting);
      this.resting = setTimeout(() => this.release(), RESTING);
    }, { passive: true, signal });
    root.addEventListener('pointerdown', () => clearTimeout(this.resting), { signal });
    root.addEventListener('pointerleave', ({ buttons }) => { if (buttons === 0) this.release(); }, { signal });
  }

  close() {
    clearTimeout(this.resting);
    this.ending.abort();
    this.sizes.disconnect();
  }

  /** Rows that have moved with the whole list take no press for a moment. */
  unsettleMoved() {
    const offset = this.root.getBoundingClientRect().top + scrollY, moved = Math.abs(offset - this.offset) > 1;
    this.offset = offset;
    if (moved) for (const { node } of this.shown.values()) unsettle(node);
  }

  release() {
    const { held } = this;
    this.held = null;
    clearTimeout(this.resting);
    if (held && !this.ending.signal.aborted) this.set(held);
  }

  /** @param {T[]} all */
  set(all) {
    if (this.held) {
      this.held = all;
      const fresh = new Map(all.map((item) => [this.how.key(item), item]));
      this.all = this.all.map((item) => fresh.get(this.how.key(item)) ?? item);
      this.draw();
      return;
    }
    this.changing = this.all.length > 0;
    this.all = all;
    this.tops = new Float64Array(all.length + 1);
    const height = this.how.heights();
    let top = 0;
    all.forEach((item, at) => {
      top += height(item);
      this.tops[at + 1] = top;
    });
    this.root.style.height = top + 'px';
    this.draw();
    this.changing = false;
    this.unsettleMoved();
  }

  /** The item at this height. @param {number} y */
  at(y) {
    let low = 0, high = this.all.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  draw() {
    const above = this.root.getBoundingClientRect().top;
    const first = this.at(-above - MARGIN), last = this.at(innerHeight - above + MARGIN);
    const { key, node } = this.how, gap = this.how.gap();
    const pinned = this.pinned === null ? -1 : this.all.findIndex((item) => key(item) === this.pinned);
    /** @type {number[]} */
    const places = [];
    if (pinned >= 0 && pinned < first) places.push(pinned);
    for (let at = first; at <= last && at < this.all.length; at++) places.push(at);
    if (pinned > last) places.push(pinned);
    // First what is not wanted any more: if it stood before the others, each of them would be moved, and laid out again.
    const wanted = new Set(places.map((at) => key(this.all[at])));
    for (const [id, { node: old }] of this.shown) {
      if (wanted.has(id)) continue;
      old.remove();
      this.shown.delete(id);
    }
    /** @type {HTMLElement | null} */
    let before = null;
    const place = (/** @type {number} */ at) => {
      const item = this.all[at], id = key(item), old = this.shown.get(id);
      const element = old && old.item === item ? old.node : node(item, old?.node ?? null);
      const [top, bottom] = [this.tops[at], this.tops[at + 1] - gap];
      if (this.changing && old?.top !== top) unsettle(element);
      // What is as it was is not written again: that would cost a layout.
      if (old?.at !== at) element.setAttribute('aria-rowindex', String(at + 2));
      if (old?.top !== top) element.style.top = top + 'px';
      if (old?.top !== top || old?.bottom !== bottom) element.style.height = bottom - top + 'px';
      this.shown.set(id, { node: element, item, at, top, bottom });
      // The order of the nodes is the order for the Tab key and for screen readers. A node with the focus is not moved: that would lose it.
      const next = before ? before.nextElementSibling : this.root.firstElementChild;
      if (next !== element && (element.parentNode !== this.root || !element.contains(document.activeElement))) {
        this.root.insertBefore(element, next);
      }
      before = element;
    };
    places.forEach(place);
  }

  /** Draws all rows anew, whether they changed or not. */
  redraw() {
    for (const shown of this.shown.values()) shown.item = /** @type {T} */ (/** @type {unknown} */ (null));
    this.set(this.all);
  }

  /**
   * Scrolls as little as needed for an item to be seen whole.
   * @param {number} at
   * @param {number} covered pixels at the top of the window under what is fixed there
   */
  reveal(at, covered) {
    const above = this.root.getBoundingClientRect().top;
    const top = above + this.tops[at], bottom = above + this.tops[at + 1];
    if (top < covered) scrollBy(0, top - covered);
    else if (bottom > innerHeight) scrollBy(0, bottom - innerHeight + 12);
    this.draw();
  }
}
