// What ran when, and what ran at the same time: a lane for each, as few as it takes.

/** @import { Span } from './types' */
import { h, svg } from './dom.js';
import { clocksOf, countOf, millis, span as lasted } from './format.js';

const WIDTH = 270, LANE = 12, BAR = 8, MOST_LANES = 8;
/** More than this many bars cannot be told apart. */
const MOST_BARS = 600;

/** @typedef {{ from: number, to: number, names: string[], step: number, sub: boolean, open: boolean }} Bar */

/**
 * @param {Span[]} spans
 * @param {number} now
 */
function lanes(spans, now) {
  const times = spans.map((span) => ({ span, from: millis(span.start) ?? now, to: millis(span.end) ?? now })).sort((a, b) => a.from - b.from);
  const start = times[0]?.from ?? now;
  const end = times.reduce((latest, { to }) => Math.max(latest, to), start + 1);
  const pixel = (end - start) / WIDTH;
  /** @type {Bar[][]} */
  const found = [];
  let bars = 0;
  for (const { span, from, to } of times) {
    const sub = span.agent !== null;
    let lane = found.find((lane) => lane[0].sub === sub && (lane.at(-1)?.to ?? 0) <= from);
    // What is narrower than a pixel, and what has no lane any more, joins its neighbour.
    const near = found.find((lane) => lane[0].sub === sub && from - (lane.at(-1)?.to ?? 0) < pixel && to - from < pixel);
    const last = (near ?? (!lane && found.length >= MOST_LANES ? found.find((lane) => lane[0].sub === sub) ?? found[0] : undefined))?.at(-1);
    if (last && (near || !lane)) {
      last.to = Math.max(last.to, to);
      last.names.push(span.name);
      last.open ||= span.end === null;
      continue;
    }
    if (bars++ >= MOST_BARS) break;
    if (!lane) found.push(lane = []);
    lane.push({ from, to, names: [span.name], step: span.step, sub, open: span.end === null });
  }
  return { lanes: found.sort((a, b) => Number(a[0].sub) - Number(b[0].sub)), start, end };
}

/**
 * @param {Span[]} spans
 * @param {boolean} live whether more may come
 * @param {(step: number) => void} go
 */
export function timeline(spans, live, go) {
  if (spans.length === 0) return h('p', { class: 'faint' }, live ? 'No tool has run yet.' : 'No tool ran.');
  const { lanes: all, start, end } = lanes(spans, Date.now());
  const height = all.length * LANE;
  const picture = svg('svg', { viewBox: `0 0 ${WIDTH} ${height}`, class: 'timeline', role: 'group', 'aria-label': `Timeline of ${countOf(spans.length, 'tool call')}` });
  all.forEach((lane, at) => lane.forEach((bar) => {
    const x = ((bar.from - start) / (end - start)) * WIDTH, width = Math.max(2, ((bar.to - bar.from) / (end - start)) * WIDTH - 0.5);
    const names = bar.names.length > 3 ? `${bar.names.slice(0, 3).join(', ')} and ${bar.names.length - 3} more` : bar.names.join(', ');
    picture.append(svg('rect', {
      x: Math.min(x, WIDTH - 2), y: at * LANE + 2, width, height: BAR, rx: 2, 'data-key': bar.step, class: bar.open ? 'open' : bar.sub ? 'sub' : 'own', onclick: () => go(bar.step),
    }, svg('title', null, `${names}: ${lasted(bar.to - bar.from)}${bar.open ? ' so far' : ''}`)));
  }));
  const [first, last] = clocksOf(start, end);
  return h('div', null, picture, h('p', { class: 'ends' },
    h('span', null, first), h('span', null, 'tools', all.some((lane) => lane[0].sub) && ', sub-agents below'),
    h('span', null, spans.some((one) => one.end === null) ? 'now' : last)));
}
