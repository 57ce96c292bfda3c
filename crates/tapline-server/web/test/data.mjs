// Sessions for the mock: a few that are told in detail, thousands that are not, one of 100,000 steps, and one that attacks.

import { createHash } from 'node:crypto';

const NOW = Date.now();
export const ago = (seconds) => new Date(Date.now() - seconds * 1000).toISOString();
const at = (ms) => new Date(ms).toISOString();

/** What every attack tries to do: the tests look for the word in titles, in the console and among the requests. */
export const CANARY = 'canary';
export const HOSTILE = [
  `<img src=x onerror="document.title='${CANARY}'">`,
  `<script>console.log('${CANARY}')</script>`,
  `"><svg onload="fetch('/${CANARY}')">`,
  `</title><script>document.title='${CANARY}'</script>`,
  `javascript:console.log('${CANARY}')`,
  `<a href="javascript:document.title='${CANARY}'">click</a> \u202egnp.exe \u0007`,
];

/** @returns {import('../types').Row} */
export function row(id, more = {}) {
  return {
    id, agent: 'claude', title: `Session ${id}`, project: 'platform', folder: '/home/dev/platform', branch: 'main', model: 'claude-opus-5-5',
    state: { kind: 'finished', since: ago(3600), until: null, message: null }, now: null, cost_usd: 0.42, cost_exact: true,
    tokens: { input: 18_200, output: 3_900, cache_read: 380_000, cache_write: 10_000 }, context_used: 0.38,
    started_at: ago(7200), updated_at: ago(3600), source: 'recording', steps: 0, questions: [], controllable: false, messages: false, ...more,
  };
}

export const state = (kind, more = {}) => ({ kind, since: ago(60), until: null, message: null, ...more });
/** What the server says of a question: a small one has its text, a larger one is asked for. `whole` is what it answers then. */
export function asked(id, tool, input, options = []) {
  const json = JSON.stringify(input), text = { tool, input, options };
  const open = {
    id, digest: createHash('sha256').update(`${tool}\n${json}`).digest('hex').slice(0, 32), tool, summary: `${tool} \`${(input.command ?? input.file_path ?? '').slice(0, 200)}\``, since: ago(12),
    size: Buffer.byteLength(json), lines: json.split('\\n').length, has_options: options.length > 0, text: json.length <= 2048 ? text : null, answered: null,
  };
  return Object.defineProperty(open, 'whole', { value: { ...open, text } });
}
export const question = (id, command) => asked(id, 'Bash', { command, description: 'Do it' });
export const inquiry = (id) => {
  const options = [
    { question: 'Which colour?', header: 'Colour', several: false, options: [{ label: 'Red', description: 'warm' }, { label: 'Blue', description: 'cold\u00ad' }] },
    { question: 'Which sizes?', header: 'Size', several: true, options: [{ label: 'S', description: '' }, { label: 'M', description: '' }, { label: 'L', description: '' }] },
  ];
  return asked(id, 'AskUserQuestion', { questions: options }, options);
};

export function demoRows() {
  return [
    row('asks', {
      title: 'Make the failing date test pass', project: 'billing-api', state: state('waiting'), questions: [question('q1', 'rm -rf build/')], controllable: true, messages: true,
      cost_usd: 0.8412, started_at: ago(372), updated_at: ago(12), tokens: { input: 18_200, output: 3_900, cache_read: 380_000, cache_write: 10_000 },
    }),
    row('axum', {
      title: 'Upgrade axum from 0.7 to 0.8 in every service', branch: 'wt/axum-08', state: state('running'), now: { tool: 'Bash', summary: 'running `cargo test --workspace`', since: ago(48) },
      cost_usd: 4.1, context_used: 0.71, started_at: ago(1867), updated_at: ago(1), controllable: true, tokens: { input: 120_000, output: 41_000, cache_read: 1_900_000, cache_write: 40_000 },
    }),
    row('review', {
      agent: 'codex', title: 'Nightly review of open pull requests', project: 'web', model: 'gpt-6-codex', cost_usd: 0.21, context_used: 0.12, cost_exact: false,
      state: state('limited', { until: new Date(NOW + 5_400_000).toISOString(), message: 'waits, 2nd try' }), started_at: ago(1110), updated_at: ago(300),
    }),
    row('mails', {
      title: 'Translate the onboarding mails', project: 'mail', model: 'claude-sonnet-5-5', state: state('silent', { since: ago(240) }), now: { tool: 'Write', summary: 'writing de/welcome.md', since: ago(240) },
      cost_usd: 0.19, context_used: 0.92, started_at: ago(584), updated_at: ago(240),
    }),
    row('broken', {
      title: 'Find out why the nightly build is slow, and write down what would have to change for it to take less than ten minutes', project: 'ci', state: state('failed', { message: 'API error 529: overloaded, after 10 retries' }),
      updated_at: ago(1500), context_used: null, cost_usd: 0.004,
    }),
    row('big', { title: 'A session of 100,000 steps', started_at: ago(400_000), updated_at: ago(50_000), cost_usd: 118.4 }),
    row('evil', { title: HOSTILE[0] + ' \u202e', project: HOSTILE[1], branch: HOSTILE[2], model: HOSTILE[3], folder: HOSTILE[4], state: state('failed', { message: HOSTILE[5] }), updated_at: ago(4100) }),
  ];
}

const VERBS = ['Add', 'Remove', 'Rename', 'Explain', 'Fix', 'Review', 'Speed up', 'Document', 'Test', 'Port'];
const THINGS = ['the login form', 'flaky tests', 'the price table', 'error messages', 'the release script', 'date arithmetic', 'the search index', 'the retry loop', 'the settings page', 'cache headers'];
const PROJECTS = ['billing-api', 'platform', 'web', 'mail', 'ci', 'docs', 'search'];

/** Old sessions: as many as wanted, always the same. */
export function oldRows(count) {
  return Array.from({ length: count }, (_, n) => row(`old-${n}`, {
    title: `${VERBS[n % 10]} ${THINGS[Math.floor(n / 10) % 10]}${n < 100 ? '' : `, part ${Math.floor(n / 100) + 1}`}`, project: PROJECTS[n % 7], branch: n % 3 ? 'main' : `fix/${n}`,
    state: state(n % 11 === 5 ? 'failed' : 'finished', n % 11 === 5 ? { message: 'timeout after 30 m' } : {}), cost_usd: ((n * 37) % 900) / 100, cost_exact: n % 9 !== 0,
    context_used: ((n * 13) % 100) / 100, started_at: at(NOW - 86_400_000 - n * 300_000), updated_at: at(NOW - 86_000_000 - n * 300_000),
    tokens: { input: (n * 997) % 90_000, output: (n * 331) % 20_000, cache_read: (n * 7919) % 4_000_000, cache_write: (n * 211) % 60_000 },
  }));
}

export const escaped = (text) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

// Fragments as the renderer of tapline-session makes them.
export const prompt = (text) => `<div class=prompt>${escaped(text)}</div>`;
export const text = (html) => `<div class=prose>${html}</div>`;
export function call(mood, name, input, output, took) {
  const mark = { running: '◌', good: '✓', bad: '✗' }[mood];
  const head = `<span class=mark>${mark}</span> <span class=what>${escaped(name)} <code>${escaped(input)}</code></span>${took ? ` <span class=took>${took}</span>` : ''}`;
  if (output === null) return `<div class="tool ${mood}"><div class=head>${head}</div></div>`;
  return `<details class="tool ${mood}"${mood === 'bad' ? ' open' : ''}><summary class=head>${head}</summary>${output.startsWith('<pre') ? output : `<pre>${output}</pre>`}</details>`;
}
const diff = (lines) => `<pre class=diff>${lines.map((line) => `<span class=${line[0] === '+' ? 'add' : 'del'}>${escaped(line)}</span>`).join('')}</pre>`;

/** The steps of the session that asks: [seconds since its start, kind, markup, agent]. */
export const DEMO = [
  [0, 'prompt', prompt('Make the failing date test pass. Do not touch the public API.'), null],
  [2, 'thinking', '<details class=thought><summary class=line><span class=mark>◦</span> thought (41 words)</summary><div class=prose><p>The test says “day is out of range for month”. I should run it first and look at what <code>month_end</code> does with the 31st.</p></div></details>', null],
  [3, 'text', text('<p>I’ll run the tests first, then look at <code>dates.py</code>.</p>'), null],
  [4, 'call', call('bad', 'ran', 'python3 -m pytest -q tests/test_dates.py', 'E   ValueError: day is out of range for month\n1 failed, 41 passed in 1.93s', '2.1 s'), null],
  [9, 'call', call('good', 'asked a sub-agent: ', 'find who calls month_end()', 'Three callers, all in src/billing.', '21 s'), null],
  [12, 'call', call('good', 'searched for', 'month_end( in src', 'src/billing/run.py:14\nsrc/billing/plan.py:88\nsrc/billing/plan.py:131', '0.1 s'), 'sub1'],
  [25, 'text', text('<p>Three callers, all in <code>src/billing</code>. None relies on the day.</p>'), 'sub1'],
  [33, 'call', call('good', 'edited', 'src/dates.py', diff(['- return d.replace(month=d.month + 1, day=1)', '+ year, month = divmod(d.month, 12)', '+ return d.replace(year=d.year + year, month=month + 1, day=1)']), '0.0 s').replace('<details', '<details open'), null],
  [38, 'text', text('<h3>What was wrong</h3><p>In December <code>month + 1</code> is 13. Now the year is carried over:</p><ul><li><code>divmod(12, 12)</code> is <code>(1, 0)</code></li><li>so the month becomes 1 and the year one more</li></ul><div class=table><table><thead><tr><th>day<th>before<th>now<tbody><tr><td>2026-11-30<td>2026-12-01<td>2026-12-01<tr><td>2026-12-31<td>ValueError<td>2027-01-01</table></div><p>I want a clean build before the last run.</p>'), null],
];

export const demoSteps = (start) => DEMO.map(([seconds, kind, html, agent], n) => ({ n, kind, time: at(start + seconds * 1000), agent, html }));

export const LONG = 100_000;
export function bigStep(n) {
  const time = at(NOW - 400_000_000 + n * 3500);
  if (n === 0) return { n, kind: 'prompt', time, agent: null, html: prompt('Go through every file.') };
  if (n % 3 === 0) return { n, kind: 'text', time, agent: null, html: text(`<p>Step ${n}: ${'the file looks fine. '.repeat(1 + (n % 7))}</p>`) };
  return { n, kind: 'call', time, agent: null, html: call(n % 17 === 0 ? 'bad' : 'good', 'read', `src/file_${n}.rs`, 'fn main() {}\n'.repeat(1 + (n % 5)), '0.1 s') };
}

/** The renderer escapes all of this. Here it fails on purpose: the content policy alone has to hold. */
export const evilSteps = () => HOSTILE.flatMap((attack) => [escaped(attack), attack])
  .concat([
    `<a href="javascript:document.title='${CANARY}'">a link</a>`, `<iframe srcdoc="<script>parent.document.title='${CANARY}'</script>"></iframe>`,
    `<meta http-equiv=refresh content="0;url=/${CANARY}">`, `<form action="/${CANARY}"><button>send</button></form>`, `<style>@import url(https://${CANARY}.example/x.css)</style>`,
    `<img src="https://${CANARY}.example/x.png">`, `<link rel=stylesheet href="https://${CANARY}.example/x.css">`, `<base href="https://${CANARY}.example/">`,
    `<object data="https://${CANARY}.example/"></object><embed src="https://${CANARY}.example/">`, `<p style="background:url(https://${CANARY}.example/bg)">styled</p>`,
  ])
  .map((html, n) => ({ n, kind: 'text', time: ago(4200), agent: null, html }));
