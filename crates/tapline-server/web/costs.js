// What it all costs: bars to see it at a glance, exact numbers beneath.

/** @import { Budget, Costs, Sum, View } from './types' */
import { costsOf } from './api.js';
import { framed, h, put, svg, update, visible } from './dom.js';
import { countOf, exactMoney, money, percent, roundMoney, shareOf, short, whole } from './format.js';

const BY = ['day', 'project', 'model', 'tool', 'agent'];
const LAST = { '7d': '7 days', '30d': '30 days', '90d': '90 days', '365d': 'a year' };
/** More bars than this cannot be told apart; the table has them all. */
const MOST_BARS = 16;

/** @implements {View} */
export class CostsView {
  /** @param {HTMLElement} main */
  constructor(main) {
    this.ending = new AbortController();
    const query = new URLSearchParams(location.search);
    this.by = BY.find((by) => by === query.get('by')) ?? 'day';
    this.last = Object.hasOwn(LAST, query.get('last') ?? '') ? /** @type {keyof typeof LAST} */ (query.get('last')) : '30d';
    this.body = h('div', { class: 'costs-body', 'aria-busy': 'true' }, h('p', { class: 'note' }, 'Adding up …'));
    document.title = 'Costs · tapline';
    put(main, h('div', { class: 'costs' }, h('h1', { class: 'unseen' }, 'Costs'), this.choices(), this.body));
    this.redraw = framed(() => this.costs && this.draw(this.costs));
    addEventListener('resize', this.redraw, { signal: this.ending.signal });
    this.load();
  }

  close() {
    this.ending.abort();
  }

  choices() {
    const link = (/** @type {string} */ by, /** @type {string} */ last, /** @type {string} */ text, /** @type {boolean} */ on) =>
      h('a', { href: `/costs?by=${by}&last=${last}`, 'aria-current': on && 'true' }, text);
    return h('div', { class: 'choices' },
      h('nav', { 'aria-label': 'A bar for each' }, ...BY.map((by) => link(by, this.last, 'By ' + by, by === this.by))),
      h('nav', { 'aria-label': 'Time' }, ...Object.entries(LAST).map(([last, name]) => link(this.by, last, name, last === this.last))));
  }

  async load() {
    try {
      /** @type {Costs | undefined} */
      this.costs = await costsOf(`by=${this.by}&last=${this.last}`, this.ending.signal);
      this.redraw();
    } catch (error) {
      if (this.ending.signal.aborted) return;
      update(this.body, h('p', { class: 'note', role: 'alert' }, error instanceof Error ? error.message : String(error)));
    }
    this.body.removeAttribute('aria-busy');
  }

  /** @param {Costs} costs */
  draw(costs) {
    const { totals, rows } = costs;
    const about = totals.cost_unknown > 0 ? '≥ ' : '';
    update(this.body,
      costs.budgets.length > 0 && budgetLines(costs.budgets),
      h('div', { class: 'sum' }, h('b', { title: exactMoney(totals.cost_usd) }, about + money(totals.cost_usd)),
        h('span', { class: 'faint' }, `in ${LAST[this.last]} · ${countOf(totals.sessions, 'session')} · ${short(totals.tokens)} tokens`)),
      rows.length === 0 ? h('p', { class: 'note' }, 'Nothing was used in this time.') : this.by === 'day' ? columns(filled(rows), this.body.clientWidth) : bars(rows),
      costs.unknown_models.length > 0 && h('p', { class: 'note' }, unpriced(costs.unknown_models)),
      rows.length > 0 && table(rows, totals, this.by));
    // Where not all days fit, the newest are seen first.
    const chart = this.body.querySelector('.chart');
    if (chart) chart.scrollLeft = chart.scrollWidth;
  }
}

/** Says what has no price. A request that names no model has an empty name here. @param {string[]} models */
function unpriced(models) {
  const names = models.filter((name) => name !== '');
  const unnamed = names.length < models.length && 'requests that name no model';
  return `There is no price for ${[...names, unnamed].filter(Boolean).join(', ')}. Their tokens count, their cost does not.`;
}

/** A bar for each budget. @param {Budget[]} budgets */
function budgetLines(budgets) {
  return h('section', { class: 'budgets', 'aria-label': 'Budgets' }, ...budgets.map((budget) => {
    const share = shareOf(budget);
    const bar = h('i');
    bar.style.width = Math.min(100, share * 100) + '%';
    const word = { fine: 'Budget', near: 'Budget nearly used up', over: 'Budget used up' }[budget.level];
    return h('div', { class: `budget ${budget.level}`, role: budget.level === 'fine' ? null : 'alert' },
      h('b', null, budget.project === null ? word : `${visible(budget.project)}: ${word[0].toLowerCase()}${word.slice(1)}`), h('span', { class: 'bar wide' }, bar),
      h('span', { class: 'number', title: `${exactMoney(budget.spent_usd)} of ${exactMoney(budget.limit_usd)}` }, `${money(budget.spent_usd)} of ${money(budget.limit_usd)} this ${budget.period} (${percent(share)})`));
  }));
}

/** Days without a cost have a place, too. @param {Sum[]} rows @returns {{ key: string, cost_usd: number }[]} */
function filled(rows) {
  const known = new Map(rows.map((row) => [row.key, row.cost_usd]));
  const days = [...known.keys()].filter((key) => /^\d{4}-\d\d-\d\d$/.test(key)).sort();
  const all = [];
  const last = Date.parse(days.at(-1) ?? '');
  for (let at = Date.parse(days[0] ?? ''); at <= last && all.length < 400; at += 86_400_000) {
    const key = new Date(at).toISOString().slice(0, 10);
    all.push({ key, cost_usd: known.get(key) ?? 0 });
  }
  return all;
}

/** @param {string} key a day */
function dayName(key) {
  return new Date(key + 'T12:00').toLocaleDateString('en-GB', { day: 'numeric', month: 'short' });
}

/**
 * A column for each day, its sum on top.
 * @param {{ key: string, cost_usd: number }[]} days
 * @param {number} room pixels
 */
function columns(days, room) {
  const width = Math.max(room, days.length * (room < 700 ? 26 : 3)), height = 220, floor = height - 24, step = width / Math.max(days.length, 7), most = Math.max(...days.map((day) => day.cost_usd), 0.01);
  // Where columns are narrow, only some of them have words.
  const [everyDay, everyValue] = [Math.ceil(56 / step), Math.ceil(36 / step)];
  const picture = svg('svg', { viewBox: `-8 0 ${width + 16} ${height}`, width, height, class: 'columns', role: 'img', 'aria-label': `Cost of ${days.length} days; the table below has the numbers` });
  const words = svg('g');
  days.forEach((day, at) => {
    const tall = (day.cost_usd / most) * (floor - 24), x = at * step, middle = x + step / 2, back = days.length - 1 - at;
    picture.append(svg('g', null,
      svg('title', null, `${dayName(day.key)}: ${exactMoney(day.cost_usd)}`),
      svg('rect', { x, y: 0, width: step, height: floor, class: 'hover' }),
      svg('rect', { x: x + step * 0.14, y: floor - tall, width: step * 0.72, height: tall, rx: Math.min(3, step * 0.1), class: 'column' })));
    // Words are above all columns: they may be wider than theirs.
    if (back % everyValue === 0 && day.cost_usd > 0) words.append(svg('text', { x: middle, y: floor - tall - 6, 'text-anchor': 'middle', class: 'value' }, roundMoney(day.cost_usd)));
    if (back % everyDay === 0) words.append(svg('text', { x: middle, y: height - 6, 'text-anchor': 'middle' }, dayName(day.key)));
  });
  picture.append(svg('line', { x1: 0, x2: width, y1: floor, y2: floor, class: 'floor' }), words);
  return h('div', { class: 'chart', tabindex: 0, role: 'group', 'aria-label': 'Chart' }, picture);
}

/** A path is known by its end. @param {string} key */
function shortKey(key) {
  return key.startsWith('/') ? key.split('/').slice(-2).join('/') : key;
}

/** @param {Sum[]} rows */
function bars(rows) {
  const most = Math.max(...rows.map((row) => row.cost_usd), 0.01);
  const shown = rows.slice(0, MOST_BARS), rest = rows.slice(MOST_BARS);
  const line = (/** @type {string} */ key, /** @type {string} */ title, /** @type {number} */ cost, /** @type {number} */ unknown) => {
    const bar = cost > 0 && svg('rect', { x: 0, y: 0, width: `${Math.max(0.3, (cost / most) * 100)}%`, height: 14, rx: 3, class: 'column' });
    const value = unknown === 0 ? money(cost) : cost === 0 ? 'unknown' : '≥ ' + money(cost);
    return h('li', { title: `${title}: ${exactMoney(cost)}` }, h('span', { class: 'key' }, key), svg('svg', { height: 14, 'aria-hidden': 'true' }, bar), h('span', { class: 'number' }, value));
  };
  const sum = (/** @type {'cost_usd' | 'cost_unknown'} */ of) => rest.reduce((all, row) => all + row[of], 0);
  return h('ul', { class: 'bars' }, ...shown.map((row) => line(shortKey(row.key), row.key, row.cost_usd, row.cost_unknown)),
    rest.length > 0 && line(`${whole(rest.length)} others`, 'Others', sum('cost_usd'), sum('cost_unknown')));
}

/**
 * @param {Sum[]} rows
 * @param {Sum} totals
 * @param {string} by
 */
function table(rows, totals, by) {
  const heads = [by[0].toUpperCase() + by.slice(1), 'Cost', 'Sessions', 'Requests', 'Tool calls', 'Input', 'Output', 'Cache read', 'Cache write'];
  const line = (/** @type {string} */ key, /** @type {Sum} */ sum) => h('tr', null, h('th', { scope: 'row' }, key),
    h('td', { title: sum.cost_unknown > 0 ? `The cost of ${countOf(sum.cost_unknown, 'request')} is not known` : null }, (sum.cost_unknown > 0 ? '≥ ' : '') + exactMoney(sum.cost_usd, sum.exact)),
    ...[sum.sessions, sum.requests, sum.calls, sum.input, sum.output, sum.cache_read, sum.cache_write].map((number) => h('td', null, whole(number))));
  const ordered = by === 'day' ? [...rows].reverse() : rows;
  return h('div', { class: 'scrolls', tabindex: 0, role: 'region', 'aria-label': 'Exact numbers' }, h('table', { class: 'numbers' },
    h('thead', null, h('tr', null, ...heads.map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', null, ...ordered.map((row) => line(row.key, row))),
    h('tfoot', null, line('All', totals))));
}
