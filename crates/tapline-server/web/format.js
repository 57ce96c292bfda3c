// Numbers and times for people: rounded, short. The exact value goes into a title.

/** @import { Budget, Row, Tokens } from './types' */
import { h, update, visible } from './dom.js';

// Making one of these takes longer than a row of the list has. Each is made once.
const wholes = new Intl.NumberFormat('en-US');
const dollars = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 6 });
const clocks = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const exactClocks = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const days = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const daysOfYears = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });
const moments = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

/**
 * Dollars: three digits that matter.
 * @param {number | null | undefined} usd
 * @param {boolean} [exact]
 */
export function money(usd, exact = true) {
  if (usd === null || usd === undefined) return '–';
  const about = exact ? '' : '≈ ';
  if (usd > 0 && usd < 0.005) return '< $0.01';
  return about + '$' + (usd >= 1000 ? wholes.format(Math.round(usd)) : usd >= 100 ? usd.toFixed(0) : usd.toFixed(2));
}

/** Dollars on a chart. @param {number} usd */
export function roundMoney(usd) {
  return usd >= 9.95 ? '$' + Math.round(usd) : usd >= 0.095 ? '$' + usd.toFixed(1) : '< $0.1';
}

/**
 * @param {number | null | undefined} usd
 * @param {boolean} [exact]
 */
export function exactMoney(usd, exact = true) {
  if (usd === null || usd === undefined) return 'The cost is not known';
  return '$' + dollars.format(usd) + (exact ? '' : ' (not exact)');
}

/** @param {number} count */
export function short(count) {
  if (count < 1000) return String(count);
  if (count < 9950) return (count / 1000).toFixed(1) + 'k';
  if (count < 999_500) return Math.round(count / 1000) + 'k';
  if (count < 9_950_000) return (count / 1e6).toFixed(1) + 'M';
  if (count < 999_500_000) return Math.round(count / 1e6) + 'M';
  return (count / 1e9).toFixed(1) + 'G';
}

/** @param {number} size */
export function bytes(size) {
  if (size < 1000) return countOf(size, 'byte');
  return size < 999_500 ? `${(size / 1000).toFixed(size < 9950 ? 1 : 0)} kB` : `${(size / 1e6).toFixed(1)} MB`;
}

/** @param {number} count */
export function whole(count) {
  return wholes.format(count);
}

/** A number of things: 1 turn, 2 turns. @param {number} count @param {string} noun */
export function countOf(count, noun) {
  return `${whole(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** @param {Tokens} tokens */
export function allTokens(tokens) {
  return tokens.input + tokens.output + tokens.cache_read + tokens.cache_write;
}

/** @param {Tokens} tokens */
export function exactTokens(tokens) {
  return `${whole(tokens.input)} in, ${whole(tokens.output)} out, ${whole(tokens.cache_read)} read from the cache, ${whole(tokens.cache_write)} written to it`;
}

/** @param {number} share */
export function percent(share) {
  return Math.round(share * 100) + ' %';
}

/** How much of a budget is used. @param {Budget} budget */
export function shareOf(budget) {
  return budget.limit_usd > 0 ? budget.spent_usd / budget.limit_usd : 1;
}

/** @param {number} ms */
export function span(ms) {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return seconds.toFixed(1) + ' s';
  if (seconds < 60) return Math.floor(seconds) + ' s';
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${pad(seconds % 60)} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${pad((seconds % 3600) / 60)} m`;
  return Math.floor(seconds / 86_400) + ' d';
}

/** In one unit: 4 m. @param {number} ms */
function rough(ms) {
  const minutes = Math.max(0, ms) / 60_000;
  if (minutes < 1) return Math.floor(minutes * 60) + ' s';
  if (minutes < 60) return Math.floor(minutes) + ' m';
  return minutes < 2880 ? Math.floor(minutes / 60) + ' h' : Math.floor(minutes / 1440) + ' d';
}

/** @param {number} number */
function pad(number) {
  return String(Math.floor(number)).padStart(2, '0');
}

/**
 * Like a stop-watch: 6:12, 1:04:10.
 * @param {number} ms
 */
export function watch(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const hours = Math.floor(seconds / 3600);
  if (hours > 99) return Math.floor(hours / 24) + ' d';
  if (hours > 9) return `${hours} h ${pad((seconds % 3600) / 60)}`;
  return hours > 0 ? `${hours}:${pad((seconds % 3600) / 60)}:${pad(seconds % 60)}` : `${Math.floor(seconds / 60)}:${pad(seconds % 60)}`;
}

/** @param {string | null | undefined} time */
export function millis(time) {
  const at = time ? Date.parse(time) : NaN;
  return Number.isNaN(at) ? null : at;
}

/**
 * The time of day.
 * @param {string | null | undefined} time
 */
export function clock(time) {
  const at = millis(time);
  return at === null ? '' : clocks.format(at);
}

/** Less than this has no two ends if only minutes are shown. */
const SHORT = 600_000;

/** The times of day at which something began and ended: with seconds, if it was short. @param {number} from @param {number} to */
export function clocksOf(from, to) {
  const clock = to - from < SHORT ? exactClocks : clocks;
  return [clock.format(from), clock.format(to)];
}

/** The day before a day, both as the server writes them: 2026-11-01. @param {string} day */
export function dayBefore(day) {
  return new Date(Date.parse(day) - 86_400_000).toISOString().slice(0, 10);
}

/**
 * The time of day if it was today, otherwise the day.
 * @param {string | null | undefined} time
 */
export function when(time) {
  const at = millis(time);
  if (at === null) return '';
  const date = new Date(at), today = new Date();
  if (date.toDateString() === today.toDateString()) return clock(time);
  return (date.getFullYear() === today.getFullYear() ? days : daysOfYears).format(date);
}

/** @param {string | null | undefined} time */
export function exactTime(time) {
  const at = millis(time);
  return at === null ? '' : moments.format(at);
}

/**
 * An element whose text is how long something lasts; `tick` keeps it current.
 * @param {string | null | undefined} since
 * @param {'span' | 'watch' | 'rough'} form
 */
export function lasting(since, form) {
  const at = millis(since);
  if (at === null) return null;
  return h('time', { 'data-since': at, 'data-form': form, datetime: since, title: 'Since ' + exactTime(since) }, lasted(at, form));
}

/**
 * @param {number} at
 * @param {string | undefined} form
 */
function lasted(at, form) {
  const ms = Date.now() - at;
  return form === 'watch' ? watch(ms) : form === 'rough' ? rough(ms) : ms < 10_000 ? Math.max(0, Math.floor(ms / 1000)) + ' s' : span(ms);
}

/** Keeps every `lasting` element of the page current, in place. */
export function tick() {
  for (const element of document.querySelectorAll('time[data-since]')) {
    const { since, form } = /** @type {HTMLElement} */ (element).dataset;
    update(element, lasted(Number(since), form));
  }
}

/** @param {Row} row */
export function needsPerson(row) {
  return row.questions.length > 0 || row.state.kind === 'waiting';
}

/** @type {WeakMap<Row, number>} */
const times = new WeakMap();

/** When it was last heard of, in milliseconds; read once, because lists are long. @param {Row} row */
export function updated(row) {
  let time = times.get(row);
  if (time === undefined) times.set(row, time = millis(row.updated_at) ?? 0);
  return time;
}

/** What is silent for longer than this is over, though nothing said so. */
const LONG_SILENT = 3_600_000;

/** @param {Row} row */
export function isLive(row) {
  const { kind } = row.state;
  if (kind === 'silent') return Date.now() - updated(row) < LONG_SILENT;
  return kind === 'waiting' || kind === 'limited' || kind === 'running';
}

/**
 * The state in words, with a dot before it.
 * @param {Row} row
 */
export function stateWord(row) {
  const { kind, since, until, message } = row.state;
  const word = h('span', { class: `state ${needsPerson(row) ? 'waiting' : kind}`, title: message });
  if (row.questions.length > 0) word.append('needs you');
  else if (kind === 'waiting') word.append('waits for you');
  else if (kind === 'limited') word.append(until ? `limit until ${clock(until)}` : 'limit reached');
  else if (kind === 'silent') word.append(h('span', null, 'silent', since && ' for ', lasting(since, 'rough')));
  else word.append(visible(kind));
  return word;
}

/**
 * The prompt is a session's name.
 * @param {Row} row
 */
export function titleOf(row) {
  return visible(row.title.trim()) || 'A session without a prompt';
}

/**
 * A phrase in which code stands between backticks: running `make`.
 * @param {string} text
 * @returns {(Node | string)[]}
 */
export function phrase(text) {
  const found = /^([^`]*)`(.*)`([^`]*)$/s.exec(text);
  return found ? [found[1], h('code', { title: found[2] }, found[2]), found[3]] : [text];
}

/**
 * Project, branch, model: what is known of them.
 * @param {Row} row
 */
export function whereabouts(row) {
  return [row.project ?? row.folder, row.branch, row.model ?? row.agent].filter(Boolean).join(' · ');
}

/**
 * A command as a shell takes it.
 * @param {string[]} words
 */
export function command(words) {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(' ');
}

/**
 * The command that resumes a session. Agents find a session only from its own folder.
 * @param {import('./types').Session} session
 */
export function resumeCommand({ folder, resume }) {
  return (folder ? `${command(['cd', folder])} && ` : '') + command(resume);
}
