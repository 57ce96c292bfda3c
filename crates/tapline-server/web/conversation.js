// The steps of a session, in pages. At most four pages are in the document; spacers stand for the others. Text that grows is replaced in
// place, and what the reader looks at stays where it is, whatever happens above or below.

/** @import { Step, StepsPage } from './types' */
import { get, sessionPath } from './api.js';
import { attribute, fragment, framed, h, put, update } from './dom.js';
import { clock, exactTime, millis, watch } from './format.js';

const PAGE = 100;
const MOST_PAGES = 4;
/** How far beyond the screen pages are read. */
const AHEAD = 1200;
/** After a failure pages are read again in so many milliseconds. */
const AGAIN = 2000;
/** What a step takes until some were measured. */
const GUESS = 72;
/** Browsers cannot show more than some 33 million pixels. */
const TALLEST = 30_000_000;

/** @typedef {{ index: number, node: HTMLElement }} Page */

export class Conversation {
  /**
   * @param {string} id the session
   * @param {{ started: () => string | null, depth: (agent: string) => number, changed: () => void, failed: (message: string | null) => void }} how
   */
  constructor(id, how) {
    this.id = id;
    this.how = how;
    this.total = 0;
    /** Whether the newest step is kept in sight. */
    this.follow = false;
    /** Steps that came since the reader left the end. */
    this.unseen = 0;
    /** @type {Page[]} neighbours, in order */
    this.pages = [];
    /** @type {Map<number, number>} how tall pages are that were in the document */
    this.heights = new Map();
    /** @type {Step[]} what arrived while pages were being read, and may be newer than those */
    this.meanwhile = [];
    this.reading = false;
    /** Which reading of pages counts: a newer one ends an older one. */
    this.jumps = 0;
    this.closed = false;
    /** @type {number | null} */
    this.current = null;

    this.above = h('div', { class: 'spacer' });
    this.below = h('div', { class: 'spacer' });
    this.body = h('div', { class: 'steps' });
    this.ending = '';
    this.last = h('footer', { class: 'ending', hidden: true });
    this.node = h('div', { class: 'conversation', tabindex: 0, role: 'region', 'aria-label': 'Conversation' }, this.above, this.body, this.below, this.last);
    this.later = framed(() => this.fit());
    this.node.addEventListener('scroll', () => this.scrolled(), { passive: true });
    // Who opens a card wants to read it: it must not be scrolled away.
    this.body.addEventListener('click', (event) => {
      if (event.target instanceof Element && event.target.closest('summary')) this.leave();
    });
    // A resized window, an opened card: the end stays in sight.
    this.resizing = new ResizeObserver(() => {
      if (this.follow) this.toEnd();
      this.later();
    });
    this.resizing.observe(this.node);
    this.resizing.observe(this.body);
  }

  close() {
    this.closed = true;
    this.resizing.disconnect();
  }

  /**
   * Reads the first page to be shown: the one with the step, or the newest.
   * @param {number | 'end'} at
   * @param {number} total how many steps there are about
   * @returns {Promise<number>} the last event that the page knows of
   */
  async open(at, total) {
    this.total = total;
    for (;;) {
      const target = () => Math.min(this.lastPage(), at === 'end' ? Infinity : Math.floor(at / PAGE));
      const index = target();
      const page = await this.read(index);
      this.total = page.total;
      if (index !== target()) continue;
      this.replaceAll(index, page.steps);
      this.follow = at === 'end';
      if (at === 'end') this.toEnd();
      else if (at > 0) this.show(at);
      this.later();
      return page.event_id;
    }
  }

  /** @param {number} index @returns {Promise<StepsPage>} */
  read(index) {
    return get(`${sessionPath(this.id)}/steps?from=${index * PAGE}&limit=${PAGE}`);
  }

  lastPage() {
    return Math.max(0, Math.ceil(this.total / PAGE) - 1);
  }

  /** How tall a page is, or will be about. @param {number} index */
  heightOf(index) {
    const known = this.heights.get(index);
    if (known !== undefined) return known;
    const size = Math.min(PAGE, this.total - index * PAGE);
    return size * Math.min(this.each ?? GUESS, TALLEST / Math.max(1, this.total));
  }

  /** @param {number} from @param {number} to */
  sum(from, to) {
    let all = 0;
    for (let index = from; index < to; index++) all += this.heightOf(index);
    return all;
  }

  measure() {
    for (const { index, node } of this.pages) this.heights.set(index, node.getBoundingClientRect().height);
    // Measured once: a guess that changes would move everything below it.
    const first = this.pages[0];
    if (this.each === undefined && first?.node.childElementCount) this.each = first.node.getBoundingClientRect().height / first.node.childElementCount;
  }

  space() {
    const first = this.pages[0]?.index ?? 0, last = this.pages.at(-1)?.index ?? -1;
    this.above.style.height = this.sum(0, first) + 'px';
    this.below.style.height = this.sum(last + 1, this.lastPage() + 1) + 'px';
  }

  /**
   * Changes the document, and keeps what is at the top of the screen where it is.
   * @param {() => void} change
   */
  steadily(change) {
    const edge = this.node.getBoundingClientRect().top;
    const anchor = this.follow ? undefined : this.rows().find((row) => row.getBoundingClientRect().bottom > edge);
    const before = anchor?.getBoundingClientRect().top ?? 0;
    change();
    this.measure();
    this.space();
    const after = anchor && document.getElementById(anchor.id);
    if (this.follow) this.toEnd();
    else if (after) this.node.scrollTop += after.getBoundingClientRect().top - before;
  }

  /** @returns {HTMLElement[]} */
  rows() {
    return [...this.body.querySelectorAll('article')];
  }

  /** @param {number} n @returns {HTMLElement | null} */
  row(n) {
    return this.body.querySelector(`#step-${n}`);
  }

  /**
   * @param {number} index
   * @param {Step[]} steps
   * @returns {Page}
   */
  page(index, steps) {
    return { index, node: h('div', { class: 'page' }, ...steps.map((step) => this.article(step))) };
  }

  /**
   * A page with these steps: the one that is in the document, if it is.
   * @param {Page | undefined} old
   * @param {number} index
   * @param {Step[]} steps
   */
  refilled(old, index, steps) {
    if (!old) return this.page(index, steps);
    const rows = /** @type {HTMLElement[]} */ ([...old.node.children]);
    steps.forEach((step, at) => (rows[at] ? this.fill(rows[at], step) : old.node.append(this.article(step))));
    rows.slice(steps.length).forEach((row) => row.remove());
    return old;
  }

  /** @param {number} index @param {Step[]} steps */
  replaceAll(index, steps) {
    this.steadily(() => {
      this.pages = [this.page(index, steps)];
      put(this.body, this.pages[0].node);
    });
  }

  /**
   * Puts a page into the document, next to the others if it is their neighbour, otherwise in their place.
   * @param {number} index
   * @param {Step[]} steps
   */
  mount(index, steps) {
    const [first, last] = [this.pages[0], this.pages.at(-1)];
    if (last && index === last.index + 1) {
      this.steadily(() => {
        const page = this.page(index, steps);
        this.pages.push(page);
        this.body.append(page.node);
        if (this.pages.length > MOST_PAGES) this.drop(0);
      });
    } else if (first && index === first.index - 1) {
      this.steadily(() => {
        const page = this.page(index, steps);
        this.pages.unshift(page);
        this.body.prepend(page.node);
        if (this.pages.length > MOST_PAGES) this.drop(this.pages.length - 1);
      });
    } else this.replaceAll(index, steps);
  }

  /** @param {number} at */
  drop(at) {
    const [page] = this.pages.splice(at, 1);
    this.heights.set(page.index, page.node.getBoundingClientRect().height);
    page.node.remove();
  }

  /** The page at this height of the scrolled content. @param {number} y */
  pageAt(y) {
    let top = 0;
    for (let index = 0; index <= this.lastPage(); index++) {
      top += this.heightOf(index);
      if (y < top) return index;
    }
    return this.lastPage();
  }

  /** The page that the screen needs next. */
  wanted() {
    const top = this.node.scrollTop, bottom = top + this.node.clientHeight;
    const first = this.pages[0]?.index ?? 0, last = this.pages.at(-1)?.index ?? -1;
    const from = this.pageAt(top), to = Math.min(this.pageAt(bottom), from + MOST_PAGES - 1);
    if (from > last || to < first) return from;
    if (from < first) return first - 1;
    if (to > last) return last + 1;
    // Ahead of the screen, as long as that drops nothing that is near it.
    const [before, after] = [this.pageAt(top - AHEAD), this.pageAt(bottom + AHEAD)];
    const room = this.pages.length < MOST_PAGES;
    if (before < first && (room || after < last)) return first - 1;
    if (after > last && (room || before > first)) return last + 1;
    return null;
  }

  /** Reads the pages that the screen needs, one after the other. */
  async fit() {
    if (this.reading || this.closed || this.pages.length === 0) return;
    const wanted = this.wanted();
    if (wanted === null) return;
    const done = await this.whileReading(async () => {
      const page = await this.read(wanted);
      return () => {
        this.total = Math.max(this.total, page.total);
        this.mount(wanted, page.steps);
      };
    });
    if (done) this.later();
  }

  /**
   * Reads something and then shows it, unless the reader has jumped elsewhere. What arrives in the meantime may be newer, and is shown after it.
   * @param {() => Promise<() => void>} read
   * @returns {Promise<boolean>} whether it is shown
   */
  async whileReading(read) {
    const jump = ++this.jumps;
    this.reading = true;
    // What arrived before is in what is read now.
    this.meanwhile = [];
    try {
      const show = await read();
      if (this.closed || jump !== this.jumps) return false;
      show();
      for (const step of this.meanwhile.splice(0)) this.place(step);
      this.how.failed(null);
      return true;
    } catch (error) {
      if (this.closed) return false;
      this.how.failed(error instanceof Error ? error.message : String(error));
      setTimeout(this.later, AGAIN);
      return false;
    } finally {
      if (jump === this.jumps) this.reading = false;
    }
  }

  /** @param {Step} step */
  article(step) {
    const row = h('article', { id: `step-${step.n}`, tabindex: -1 });
    this.fill(row, step);
    return row;
  }

  /** @param {HTMLElement} row @param {Step} step */
  fill(row, step) {
    const depth = step.agent === null ? 0 : Math.min(4, this.how.depth(step.agent));
    // The renderer's style names these classes: see `Card` in tapline-session.
    attribute(row, 'class', `step card ${step.kind}${depth > 0 ? ` d${depth}` : ''}${step.n === this.current ? ' current' : ''}`);
    row.hidden = step.html === '';
    attribute(row, 'aria-label', `Step ${step.n}, ${step.kind}${step.time ? `, ${clock(step.time)}` : ''}`);
    const started = millis(this.how.started()), at = millis(step.time);
    const shown = at === null ? '·' : started === null || step.n === 0 ? clock(step.time) : watch(at - started);
    update(row,
      h('a', { class: 'time', href: `#step-${step.n}`, title: at === null ? `Link to step ${step.n}` : `${exactTime(step.time)}, step ${step.n}` }, shown),
      h('div', { class: 'body' }, fragment(step.html)));
  }

  /** A step that is new, or that has grown. @param {Step} step */
  take(step) {
    if (this.reading) this.meanwhile.push(step);
    const known = this.total;
    this.total = Math.max(known, step.n + 1);
    if (step.n > known) this.reload();
    else this.place(step);
    if (step.n < known) return;
    if (!this.follow && step.html !== '') this.unseen++;
    this.how.changed();
  }

  /** Puts a step where it belongs, if that is in the document. @param {Step} step */
  place(step) {
    const row = this.row(step.n);
    if (row) {
      this.steadily(() => this.fill(row, step));
      return;
    }
    const index = Math.floor(step.n / PAGE), last = this.pages.at(-1);
    if (last?.index === index && last.node.childElementCount === step.n % PAGE) this.steadily(() => last.node.append(this.article(step)));
    else if (step.n % PAGE === 0 && (last ? last.index + 1 === index && last.node.childElementCount === PAGE : index === 0)) this.mount(index, [step]);
    else this.space();
  }

  /** Reads again what is in the document: the server does not know what was missed. @param {number} [total] */
  async reload(total) {
    if (total !== undefined) this.total = total;
    await this.whileReading(async () => {
      const mounted = this.pages.map(({ index }) => index).filter((index) => index <= this.lastPage());
      const indices = mounted.length > 0 ? mounted : [this.lastPage()];
      const pages = await Promise.all(indices.map(async (index) => ({ index, read: await this.read(index) })));
      return () => this.steadily(() => {
        this.total = Math.max(this.total, ...pages.map(({ read }) => read.total));
        const mountedNow = new Map(this.pages.map((page) => [page.index, page]));
        this.pages = pages.map(({ index, read }) => this.refilled(mountedNow.get(index), index, read.steps));
        for (const node of [...this.body.children]) if (!this.pages.some((page) => page.node === node)) node.remove();
        this.pages.forEach(({ node }, at) => this.body.children[at] === node || this.body.insertBefore(node, this.body.children[at] ?? null));
      });
    });
    this.how.changed();
    this.later();
  }

  /** Says how it ended, below all steps. @param {string} html the server escapes it; empty while it goes on */
  end(html) {
    if (html === this.ending) return;
    this.ending = html;
    put(this.last, fragment(html));
    this.last.hidden = html === '';
    if (this.follow) this.toEnd();
  }

  toEnd() {
    this.node.scrollTop = this.node.scrollHeight;
  }

  /** Does not keep the newest step in sight any more. */
  leave() {
    this.follow = false;
    this.how.changed();
  }

  scrolled() {
    const end = this.node.scrollHeight - this.node.scrollTop - this.node.clientHeight < 32 && this.pages.at(-1)?.index === this.lastPage();
    if (end !== this.follow || (end && this.unseen > 0)) {
      this.follow = end;
      if (end) this.unseen = 0;
      this.how.changed();
    }
    this.later();
  }

  /** Goes to the newest step and stays there. */
  async newest() {
    this.follow = true;
    this.unseen = 0;
    this.how.changed();
    if (this.pages.at(-1)?.index !== this.lastPage()) await this.goTo(this.total - 1);
    this.follow = true;
    this.toEnd();
    this.how.changed();
  }

  /** @param {number} n */
  async goTo(n) {
    if (!this.row(n)) {
      const index = Math.min(this.lastPage(), Math.max(0, Math.floor(n / PAGE)));
      await this.whileReading(async () => {
        const page = await this.read(index);
        return () => {
          this.total = Math.max(this.total, page.total);
          this.follow = false;
          this.replaceAll(index, page.steps);
        };
      });
    }
    this.show(n);
    this.later();
  }

  /** @param {number} n */
  show(n) {
    const row = this.row(n);
    if (!row) return;
    this.follow = false;
    this.body.querySelector('.step.current')?.classList.remove('current');
    row.classList.add('current');
    this.current = n;
    row.scrollIntoView({ block: 'start' });
    row.focus({ preventScroll: true });
  }

  /** Goes to the step before or after the current one; those that show nothing are skipped. @param {number} by */
  async move(by) {
    const edge = this.node.getBoundingClientRect().top;
    let n = this.current;
    if (n === null || !this.row(n)) {
      const first = this.rows().find((row) => !row.hidden && row.getBoundingClientRect().bottom > edge + 8);
      n = first ? Number(first.id.slice(5)) - (by > 0 ? by : 0) : 0;
    }
    do {
      n += by;
      if (n < 0 || n >= this.total) return;
      if (!this.row(n)) await this.goTo(n);
    } while (this.row(n)?.hidden);
    await this.goTo(n);
  }
}
