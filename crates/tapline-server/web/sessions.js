// The list of all sessions: what needs a person first, then what runs, then the others.

/** @import { Budget, Found, Row, View } from './types' */
/** @import { Item } from './filter.js' */
/** @import { Store } from './store.js' */
import { costsOf, get, sessionLink } from './api.js';
import { h, put, update, visible } from './dom.js';
import { clock, dayBefore, exactMoney, isLive, money, needsPerson, percent, shareOf, updated, when, whole } from './format.js';
import { arrange, parse } from './filter.js';
import { answerKey, sizeOf } from './question.js';
import { COLUMNS, rowNode } from './row.js';
import { Virtual } from './virtual.js';

const HITS = 6;
/** When sessions cost more than before, the sum of the day is asked for after so many milliseconds. */
const RECOUNT = 10_000;
/** A new order alone waits for so many milliseconds after the one before. */
const REORDER = 3000;
const narrow = matchMedia('(max-width: 760px)');

/** @param {Item} item @returns {item is Row} */
function isRow(item) {
  return 'id' in item;
}

/** Rows that ask, in rem: the whole question is in them, and scrolls if it is longer. */
const ASKS = { small: [12, 16.5], medium: [17, 21], large: [23, 28] };

/** @implements {View} */
export class SessionsView {
  /**
   * @param {HTMLElement} main
   * @param {Store} store
   * @param {HTMLInputElement} input the filter, in the page's header
   * @param {(path: string) => void} go
   */
  constructor(main, store, input, go) {
    this.store = store;
    this.input = input;
    this.go = go;
    this.order = 'time';
    this.backwards = false;
    const { path, y, selected } = store.place;
    const back = path === location.pathname + location.search;
    /** @type {string | null} */
    this.selected = back ? selected : null;
    this.ending = new AbortController();
    const { signal } = this.ending;

    this.tiles = h('div', { class: 'tiles' });
    this.today = h('span');
    /** @type {{ id: string, size: 'small' | 'medium' | 'large', question: string }[]} rows that asked, in their places: see `hold` */
    this.slots = [];
    /** @type {Item[]} what is shown, and when it was put in order */
    this.last = [];
    this.ordered = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.calming = undefined;
    /** @type {number | null} what all sessions cost when that was last looked at */
    this.counted = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.counting = undefined;
    this.budgets = h('div', { class: 'warnings', role: 'status' });
    this.hits = h('section', { class: 'hits', 'aria-label': 'Found in conversations', hidden: true });
    this.note = h('p', { class: 'note', role: 'status' });
    this.body = h('div', { class: 'rows', role: 'rowgroup' });
    this.heads = h('div', { class: 'heads', role: 'row' });
    this.table = h('div', { class: 'table', role: 'table', 'aria-label': 'Sessions' }, h('div', { role: 'rowgroup', class: 'heads-group' }, this.heads), this.body);
    put(main, h('h1', { class: 'unseen' }, 'Sessions'), this.budgets, this.tiles, this.sorter(), this.hits, this.note, this.table);
    this.drawHeads();
    this.drawBudgets(store.budgets);

    /** @type {Virtual<Item>} */
    this.list = new Virtual(this.body, {
      key: (item) => (isRow(item) ? item.id : 'group ' + item.group),
      heights: () => this.heights(),
      gap: () => (narrow.matches ? 8 : 0),
      node: (item, old) => (isRow(item) ? this.row(item, old) : this.group(item, old)),
    });
    this.changed = () => this.draw();
    store.watchers.add(this.changed);
    store.open();
    input.value = new URLSearchParams(location.search).get('q') ?? '';
    input.addEventListener('input', () => this.filtered(), { signal });
    input.addEventListener('keydown', (event) => {
      if (event.key === 'ArrowDown' || event.key === 'Enter') {
        event.preventDefault();
        const first = this.hits.querySelector('a');
        if (first && this.rows().length === 0) first.focus();
        else this.move(0);
      }
    }, { signal });
    narrow.addEventListener('change', () => this.list.redraw(), { signal });
    this.body.addEventListener('focusin', (event) => {
      const row = event.target instanceof Element ? event.target.closest('[data-row]') : null;
      if (row instanceof HTMLElement) this.select(row.dataset.row ?? null);
    }, { signal });
    this.draw();
    // Back from a session: where the reader was, with the focus there, so that the next key goes on.
    if (back && y > 0) scrollTo(0, y);
    this.list.draw();
    if (back && selected !== null) this.list.shown.get(selected)?.node.querySelector('a')?.focus({ preventScroll: true });
    this.search();
    this.costToday();
    this.timer = setInterval(() => this.costToday(), 60_000);
  }

  close() {
    const text = this.input.value.trim();
    this.store.place = { path: text ? `/?q=${encodeURIComponent(text)}` : '/', y: scrollY, selected: this.selected };
    this.ending.abort();
    this.list.close();
    this.store.watchers.delete(this.changed);
    clearInterval(this.timer);
    clearTimeout(this.counting);
    clearTimeout(this.pausing);
    clearTimeout(this.calming);
  }

  rows() {
    return this.list.all.filter(isRow);
  }

  /** Heights of the rows; style.css makes what is in them fit. @returns {(item: Item) => number} */
  heights() {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize), phone = narrow.matches ? 1 : 0;
    const [more, plain] = phone ? [7.25, 5.75] : [3.75, 3.75], slots = new Map(this.slots.map(({ id, size }) => [id, size]));
    return (item) => {
      if (!isRow(item)) return 2.75 * rem;
      const size = slots.get(item.id);
      return (size ? ASKS[size][phone] : isLive(item) || item.state.message ? more : plain) * rem;
    };
  }

  /**
   * No button moves while its question is open, whatever happens to others: rows that ask stay in the order in which they came, and one that
   * has its answer keeps its place until none below it asks.
   * @param {Item[]} all
   * @returns {Item[]}
   */
  hold(all) {
    const { rows } = this.store, questionOf = (/** @type {string} */ id) => rows.get(id)?.questions[0];
    this.slots = this.slots.filter(({ id }) => rows.has(id));
    const last = this.slots.findLastIndex(({ id }) => questionOf(id));
    this.slots.length = last + 1;
    for (const item of all) {
      const question = isRow(item) && item.questions[0];
      if (question && !this.slots.some(({ id }) => id === item.id)) this.slots.push({ id: item.id, size: sizeOf(question), question: question.id });
    }
    // Below the last one, nothing asks: it may become as tall as its next question.
    const end = this.slots.at(-1), next = end && questionOf(end.id);
    if (end && next && next.id !== end.question) Object.assign(end, { size: sizeOf(next), question: next.id });
    if (!end) return all;
    const held = new Set(this.slots.map(({ id }) => id));
    const groups = [{ group: 'Needs you', rows: this.slots.map(({ id }) => /** @type {Row} */ (rows.get(id))) }];
    for (const item of all) {
      if (isRow(item)) held.has(item.id) || groups[groups.length - 1].rows.push(item);
      else if (item.group !== 'Needs you') groups.push({ group: item.group, rows: [] });
    }
    return groups.filter((group) => group.rows.length > 0).flatMap(({ group, rows: some }) => [{ group, count: some.length }, ...some]);
  }

  /**
   * Many sessions are heard of every second. If nothing but their order changes, it is made anew only now and then: what moves cannot be pressed.
   * @param {Item[]} all
   * @returns {Item[]}
   */
  calm(all) {
    const keyOf = (/** @type {Item} */ item) => isRow(item) ? item.id : item.group;
    /** @type {Map<string, string>} */
    const places = new Map();
    const each = (/** @type {Item[]} */ items, /** @type {(id: string, group: string) => boolean} */ look) => {
      let group = '';
      return items.every((item) => isRow(item) ? look(item.id, group) : (group = item.group));
    };
    clearTimeout(this.calming);
    this.calming = undefined;
    const wait = this.ordered + REORDER - Date.now();
    each(this.last, (id, group) => Boolean(places.set(id, group)));
    if (wait <= 0 || this.last.length !== all.length || !each(all, (id, group) => places.get(id) === group)) {
      this.ordered = Date.now();
      return this.last = all;
    }
    this.calming = setTimeout(() => this.draw(), wait);
    const fresh = new Map(all.map((item) => [keyOf(item), item]));
    return this.last = this.last.map((item) => fresh.get(keyOf(item)) ?? item);
  }

  draw() {
    const all = this.calm(this.hold(arrange(this.store.rows.values(), parse(this.input.value), this.order, this.backwards)));
    const rows = all.filter(isRow);
    // The first question is one key away. One that comes later does not take the place of another.
    if (this.selected === null || !this.store.rows.has(this.selected)) this.selected = rows.find(needsPerson)?.id ?? null;
    this.list.pinned = this.selected;
    this.table.setAttribute('aria-rowcount', String(all.length + 1));
    this.table.hidden = rows.length === 0;
    this.list.set(all);
    this.drawTiles();
    update(this.note, this.store.error ?? (rows.length > 0 ? null : this.empty()));
    this.note.hidden = !this.note.hasChildNodes();
    const asking = [...this.store.rows.values()].filter((row) => row.questions.length > 0).length;
    document.title = asking > 0 ? `(${asking}) tapline` : 'tapline';
  }

  empty() {
    if (!this.store.loaded) return 'Reading sessions …';
    if (!this.hits.hidden) return 'No title, project, branch or model matches.';
    if (this.input.value.trim() !== '') return 'No session matches. Press Esc to see all.';
    return 'There are no sessions yet. Start an agent, or “tapline run”: it appears here by itself.';
  }

  /** @param {Row} row @param {HTMLElement | null} old */
  row(row, old) {
    const selected = row.id === this.selected;
    return rowNode(row, old, { selected, keys: selected });
  }

  /** @param {{ group: string, count: number }} item @param {HTMLElement | null} old */
  group(item, old) {
    const node = old ?? h('div', { class: 'group', role: 'row' });
    update(node, h('h2', { role: 'cell' }, item.group, ' ', h('small', null, whole(item.count))));
    return node;
  }

  /** @param {string | null} id */
  select(id) {
    if (id === this.selected) return;
    const before = this.selected;
    this.selected = this.list.pinned = id;
    for (const one of [before, id]) {
      const shown = one === null ? undefined : this.list.shown.get(one);
      if (shown && isRow(shown.item)) this.row(shown.item, shown.node);
    }
  }

  /** Selects the row so many further on. @param {number} by */
  move(by) {
    const rows = this.rows();
    if (rows.length === 0) return;
    const at = rows.findIndex((row) => row.id === this.selected);
    // The first key goes to the row that is selected already, as long as it does not have the focus.
    const focused = at >= 0 && this.list.shown.get(rows[at].id)?.node.contains(document.activeElement);
    const next = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : focused ? at + by : at))];
    this.select(next.id);
    this.list.reveal(this.list.all.indexOf(next), this.covered());
    this.list.shown.get(next.id)?.node.querySelector('a')?.focus({ preventScroll: true });
  }

  /** What of the window's top is under the header. */
  covered() {
    return this.heads.getBoundingClientRect().height + (document.querySelector('.top')?.getBoundingClientRect().height ?? 0);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { key } = event;
    const inList = this.body.contains(document.activeElement) || document.activeElement === document.body;
    if (key === 'j' || (key === 'ArrowDown' && inList)) this.move(1);
    else if (key === 'k' || (key === 'ArrowUp' && inList)) this.move(-1);
    else if (key === 'Enter' && this.selected && document.activeElement === document.body) this.go(sessionLink(this.selected));
    else if (key === 'Escape') this.clear();
    else return answerKey(key, this.store.rows.get(this.selected ?? ''), this.list.shown.get(this.selected ?? '')?.node);
    return true;
  }

  clear() {
    this.input.value = '';
    this.input.blur();
    this.filtered();
  }

  filtered() {
    this.slots = [];
    this.ordered = 0;
    const text = this.input.value.trim();
    history.replaceState(null, '', text ? `/?q=${encodeURIComponent(text)}` : '/');
    scrollTo(0, 0);
    this.draw();
    clearTimeout(this.pausing);
    this.pausing = setTimeout(() => this.search(), 150);
  }

  /** Looks for the words in the conversations, too. */
  async search() {
    const text = parse(this.input.value).words.join(' ');
    this.searching?.abort();
    this.searching = new AbortController();
    const { signal } = this.searching;
    /** @type {Found} */
    let found = { hits: [] };
    if (text.length > 1) {
      try {
        found = await get(`/api/v1/search?q=${encodeURIComponent(text)}&limit=${HITS}`, signal);
      } catch {
        // The list is filtered all the same; whether the server is there says the connection line.
      }
    }
    if (signal.aborted) return;
    this.hits.hidden = found.hits.length === 0;
    update(this.hits, h('h2', null, 'In conversations'), h('ul', null, ...found.hits.map((hit) => h('li', null,
      h('a', { href: sessionLink(hit.session, hit.step) },
        h('span', { class: 'hit-title' }, hit.title || 'A session without a prompt'),
        h('span', { class: 'hit-text' }, ...hit.snippet.map((part) => (part.hit ? h('mark', null, part.text) : part.text)))),
      h('time', { class: 'faint', datetime: hit.time }, when(hit.time))))));
    this.draw();
  }

  drawHeads() {
    update(this.heads, ...COLUMNS.map(({ name, label, sort }) => {
      const on = sort !== null && sort === this.order;
      const direction = (sort === 'title') === this.backwards ? 'descending' : 'ascending';
      return h('div', { class: `c-${name}`, role: 'columnheader', 'aria-sort': on && direction },
        sort === null ? label : h('button', { type: 'button', class: on && 'on', onclick: () => this.sort(sort, on) }, label, on && h('span', { 'aria-hidden': 'true' }, direction === 'ascending' ? ' ↑' : ' ↓')));
    }));
  }

  /** The columns' heads do not exist on a phone: a menu sorts there. */
  sorter() {
    const names = { time: 'Newest first', cost: 'Most expensive first', tokens: 'Most tokens first', context: 'Fullest context first', title: 'By title' };
    const menu = h('select', { onchange: () => this.sort(menu.value, false) }, ...Object.entries(names).map(([value, name]) => h('option', { value }, name)));
    return h('label', { class: 'sorter' }, 'Order ', menu);
  }

  /** @param {string} order @param {boolean} again */
  sort(order, again) {
    this.backwards = again && !this.backwards;
    this.order = order;
    this.slots = [];
    this.ordered = 0;
    this.drawHeads();
    this.draw();
    /** @type {HTMLElement | null} */ (this.heads.querySelector('button.on'))?.focus();
  }

  drawTiles() {
    const rows = [...this.store.rows.values()];
    if (this.store.loaded) this.recount(rows.reduce((sum, row) => sum + (row.cost_usd ?? 0), 0));
    const midnight = new Date().setHours(0, 0, 0, 0);
    const asking = rows.filter(needsPerson).length;
    const failed = rows.filter((row) => row.state.kind === 'failed' && updated(row) >= midnight).length;
    const limited = rows.filter((row) => row.state.kind === 'limited');
    const running = rows.filter((row) => row.state.kind === 'running' && row.questions.length === 0).length;
    const until = limited.map((row) => row.state.until).filter(Boolean).sort()[0];
    const tile = (/** @type {string} */ name, /** @type {string} */ value, /** @type {string} */ is, /** @type {Node | string | null} */ small) => {
      const on = this.input.value.trim() === is;
      return h('button', { type: 'button', class: 'tile', 'aria-pressed': String(on), onclick: () => this.only(on ? '' : is) },
        h('span', { class: 'tile-name' }, name), h('b', null, value), h('span', { class: 'tile-small' }, small));
    };
    update(this.tiles,
      tile('Need you', whole(asking), 'is:waiting', asking === 0 ? 'nothing waits' : 'first in the list'),
      tile('Running', whole(running), 'is:running', limited.length === 0 ? null : `${limited.length} at a limit${until ? ` until ${clock(until)}` : ''}`),
      tile('Failed today', whole(failed), 'is:failed', null),
      h('a', { class: 'tile', href: '/costs' }, h('span', { class: 'tile-name' }, 'Today'), this.today.cloneNode(true)));
  }

  /** Asks for the sum of the day again if sessions cost more than before. @param {number} cost of all of them */
  recount(cost) {
    if (this.counted !== null && this.counted !== cost) this.counting ??= setTimeout(() => this.costToday(), RECOUNT);
    this.counted = cost;
  }

  /** What is nearly used up, or more than that, in one line each. @param {Budget[]} budgets */
  drawBudgets(budgets) {
    update(this.budgets, ...budgets.filter((budget) => budget.level !== 'fine').map((budget) =>
      h('a', { class: `warning ${budget.level}`, href: '/costs?by=project' }, h('b', null, visible(budget.message ?? '')),
        h('span', { class: 'faint' }, `${money(budget.spent_usd)} of ${money(budget.limit_usd)} (${percent(shareOf(budget))})`))));
  }

  /** @param {string} text */
  only(text) {
    this.input.value = text;
    this.filtered();
  }

  async costToday() {
    clearTimeout(this.counting);
    this.counting = undefined;
    try {
      // Yesterday may have 25 hours.
      const costs = await costsOf('by=day&last=3d', this.ending.signal);
      const cost = (/** @type {string} */ key) => costs.rows.find((row) => row.key === key)?.cost_usd ?? 0;
      const [today, yesterday] = [cost(costs.today), cost(dayBefore(costs.today))];
      this.store.budgets = costs.budgets;
      this.drawBudgets(costs.budgets);
      update(this.today, h('b', { title: exactMoney(today) }, money(today)), h('span', { class: 'tile-small', title: exactMoney(yesterday) }, `yesterday ${money(yesterday)}`));
      this.drawTiles();
    } catch {
      // The tile stays as it was.
    }
  }
}
