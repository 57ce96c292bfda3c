// Beside the conversation: what ran when, totals, cost per turn, sub-agents, and how to go on elsewhere.

/** @import { Session, SubAgent, Turn } from './types' */
import { downloadLink } from './api.js';
import { copy, h, update } from './dom.js';
import {
  allTokens, countOf, resumeCommand, exactMoney, exactTime, exactTokens, isLive, lasting, millis, money, percent, short, span, watch, whole,
} from './format.js';
import { timeline } from './timeline.js';

/** How many turns are listed before the rest is folded. */
const TURNS = 8;
/** How many more can be unfolded. */
const EARLIER = 500;

/**
 * @param {string} title
 * @param {...(Node | string | null)} body
 */
function section(title, ...body) {
  return h('section', null, h('h2', null, title), ...body);
}

/** @param {Session} session */
function totals(session) {
  const { tokens } = session;
  const input = tokens.input + tokens.cache_read + tokens.cache_write;
  const ended = millis(session.updated_at), began = millis(session.started_at);
  /** @type {[string, Node | string | null, string?][]} */
  const rows = [
    ['Cost', money(session.cost_usd, session.cost_exact), exactMoney(session.cost_usd, session.cost_exact)],
    ['Time', isLive(session) ? lasting(session.started_at, 'watch') : began !== null && ended !== null ? watch(ended - began) : null],
    ['Turns', whole(session.turns.length)],
    ['Tool calls', whole(session.spans.length)],
    ['Input', `${short(tokens.input)} + ${short(tokens.cache_read + tokens.cache_write)} cached`, exactTokens(tokens)],
    ['Output', short(tokens.output), whole(tokens.output) + ' tokens'],
    ['Cache hits', input > 0 ? percent(tokens.cache_read / input) : null],
    ['Context', session.context_used === null ? null : percent(session.context_used)],
  ];
  return h('dl', { class: 'totals' }, ...rows.filter(([, value]) => value !== null && value !== '').map(([name, value, title]) =>
    h('div', null, h('dt', null, name), h('dd', { title }, value))));
}

/**
 * @param {Turn[]} turns
 * @param {number} before how many turns were before these
 */
function turnTable(turns, before) {
  // Where no cost is known, the bars compare how long turns took.
  const priced = turns.some((turn) => turn.cost_usd !== null);
  const size = (/** @type {Turn} */ turn) => (priced ? turn.cost_usd : turn.duration_ms) ?? 0;
  const most = Math.max(...turns.map(size), 1e-9);
  return h('table', { class: 'turns' },
    h('thead', { class: 'unseen' }, h('tr', null, ...['Turn', 'Share', 'Time', 'Cost'].map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', null, ...turns.map((turn, at) => {
      const bar = h('i');
      bar.style.width = (size(turn) / most) * 100 + '%';
      return h('tr', { title: `${exactTime(turn.started_at)}: ${exactTokens(turn.tokens)}` },
        h('th', { scope: 'row' }, before + at + 1), h('td', null, h('span', { class: 'bar wide' }, bar)),
        h('td', { class: 'number' }, turn.duration_ms === null ? '' : span(turn.duration_ms)),
        h('td', { class: 'number', title: exactMoney(turn.cost_usd) }, money(turn.cost_usd)));
    })));
}

/** @param {Turn[]} turns */
function perTurn(turns) {
  const last = turns.slice(-TURNS), before = turns.slice(-TURNS - EARLIER, -TURNS);
  const first = turns.length - last.length - before.length;
  return h('div', null,
    before.length > 0 && h('details', null, h('summary', null, countOf(before.length, 'earlier turn')), turnTable(before, first)), turnTable(last, first + before.length));
}

/**
 * @param {SubAgent[]} agents
 * @param {string | null} parent
 * @param {(step: number) => void} go
 * @param {Set<string>} above keeps a circle in the data from becoming one here
 * @returns {HTMLElement | null}
 */
function tree(agents, parent, go, above = new Set()) {
  const known = new Set(agents.map((agent) => agent.id));
  const kids = agents.filter((agent) => (parent === null ? agent.parent === null || !known.has(agent.parent) : agent.parent === parent) && !above.has(agent.id));
  if (kids.length === 0) return null;
  return h('ul', { class: 'tree' }, ...kids.slice(0, 200).map((agent) => {
    const step = agent.first_step;
    const name = agent.name || 'sub-agent';
    return h('li', null,
      h('span', { class: `state ${agent.state}`, title: agent.state }, agent.state),
      step === null ? h('span', { class: 'kid' }, name) : h('a', { class: 'kid', href: `#step-${step}`, onclick: () => go(step), title: name }, name),
      tree(agents, agent.id, go, new Set([...above, agent.id])));
  }));
}

/** @param {Session} session */
function resume(session) {
  const text = resumeCommand(session);
  const button = h('button', { type: 'button', class: 'copy', onclick: (/** @type {{ currentTarget: HTMLButtonElement }} */ event) => copy(event.currentTarget, text) }, 'Copy');
  return h('div', { class: 'resume' }, h('pre', { tabindex: 0, 'aria-label': 'Command that goes on with this session' }, text), button);
}

/** @param {string} id */
function downloads(id) {
  const one = (/** @type {'html' | 'markdown' | 'jsonl'} */ format, /** @type {string} */ name) => h('a', { href: downloadLink(id, format), download: '' }, name);
  return h('p', { class: 'downloads' }, one('html', 'HTML'), one('markdown', 'Markdown'), one('jsonl', 'JSONL'));
}

/** The runs before this one: each has a recording of its own. @param {string} id @param {string[]} runs */
function earlier(id, runs) {
  return h('ul', { class: 'tree' }, ...runs.map((run) => h('li', null, h('a', { href: downloadLink(id, 'html', run), download: '' }, run))));
}

/**
 * @param {HTMLElement} panel
 * @param {Session} session
 * @param {(step: number) => void} go
 */
export function drawPanel(panel, session, go) {
  const agents = tree(session.agents, null, go);
  update(panel,
    section('Timeline', timeline(session.spans, isLive(session), go)),
    section(isLive(session) ? 'So far' : 'In all', totals(session)),
    session.turns.length > 0 && section(session.turns.some((turn) => turn.cost_usd !== null) ? 'Cost per turn' : 'Turns', perTurn(session.turns)),
    agents && section('Sub-agents', agents),
    session.earlier && section('Earlier runs of this session, as HTML', earlier(session.id, session.earlier)),
    session.resume.length > 0 && section('Resume', resume(session)),
    section('Download, redacted', downloads(session.id)));
}

/** One line that stands for the panel where there is no room for it. @param {Session} session */
export function panelLine(session) {
  return [countOf(session.turns.length, 'turn'), `${short(allTokens(session.tokens))} tokens`, money(session.cost_usd, session.cost_exact)].join(' · ');
}
