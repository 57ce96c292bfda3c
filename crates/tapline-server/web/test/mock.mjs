// The API of `tapline serve` with made-up sessions, for the tests of the page. `node mock.mjs` starts it alone.

import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { LONG, ago, bigStep, demoRows, demoSteps, evilSteps, oldRows, prompt } from './data.mjs';

const WEB = new URL('..', import.meta.url);
const SESSION_CSS = new URL('../../tapline-session/src/render/html/style.css', WEB);
export const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = { js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml', html: 'text/html; charset=utf-8' };
/** How many events each stream remembers. */
const REMEMBERED = 1000;

/** Events with numbers, and who listens to them. */
class Topic {
  last = 0;
  events = [];
  clients = new Set();

  send(event, data) {
    const message = { id: ++this.last, text: `id: ${this.last}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n` };
    this.events.push(message);
    if (this.events.length > REMEMBERED) this.events.shift();
    for (const client of this.clients) client.write(message.text);
  }

  join(response, after, snapshot) {
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
    const oldest = this.events[0]?.id ?? this.last + 1;
    if (after < oldest - 1) response.write(`id: ${this.last}\nevent: snapshot\ndata: ${JSON.stringify(snapshot)}\n\n`);
    else response.write(': here\n\n' + this.events.filter(({ id }) => id > after).map(({ text }) => text).join(''));
    this.clients.add(response);
    response.on('close', () => this.clients.delete(response));
  }
}

export class Mock {
  rows = new Map();
  steps = new Map();
  topics = new Map();
  list = new Topic();
  /** What the page posted: [path, body]. */
  posts = [];
  /** Answers to questions that are not open, or not these any more. */
  refused = [];
  /** The ids of the questions whose whole text was asked for, and what that waits for. */
  asked = [];
  slow = Promise.resolve();
  /** The headers of the requests for streams. */
  streams = [];
  /** While true, streams are refused. */
  down = false;
  budgets = [
    { project: null, limit_usd: 200, spent_usd: 172.3, period: 'month', level: 'near', message: "This month's budget is nearly used up." },
    { project: 'billing-api', limit_usd: 40, spent_usd: 11.2, period: 'month', level: 'fine', message: null },
  ];
  control = true;
  rights = ['push', 'read', 'control'];
  /** What single sessions say otherwise than the others. */
  details = new Map();
  unknownModels = [];

  constructor(old = 0) {
    for (const row of [...demoRows(), ...oldRows(old)]) this.rows.set(row.id, row);
    this.steps.set('asks', demoSteps(Date.now() - 372_000));
    this.steps.set('evil', evilSteps());
    this.steps.set('axum', demoSteps(Date.now() - 1_867_000).slice(0, 4));
    for (const [id, steps] of this.steps) this.rows.get(id).steps = steps.length;
    this.rows.get('big').steps = LONG;
  }

  async start(port = 0) {
    this.server = createServer((request, response) => this.answer(request, response).catch((error) => response.destroy(error)));
    await new Promise((resolve) => this.server.listen(port, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    this.link = `${this.url}/open?ticket=once`;
    return this;
  }

  close() {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(resolve));
  }

  topic(id) {
    if (!this.topics.has(id)) this.topics.set(id, new Topic());
    return this.topics.get(id);
  }

  /** A session that is new, or that has changed. */
  row(row) {
    this.rows.set(row.id, { ...this.rows.get(row.id), ...row });
    this.list.send('session', this.rows.get(row.id));
    this.topic(row.id).send('row', this.rows.get(row.id));
  }

  gone(id) {
    this.rows.delete(id);
    this.list.send('gone', { id });
  }

  /** A step that is new, or that has grown. */
  step(id, step) {
    const steps = this.steps.get(id) ?? [];
    this.steps.set(id, steps);
    const whole = { n: steps.length, kind: 'text', time: ago(0), agent: null, ...step };
    steps[whole.n] = whole;
    this.rows.get(id).steps = steps.length;
    this.topic(id).send('step', whole);
    return whole.n;
  }

  /** Breaks all streams. */
  cut() {
    for (const topic of [this.list, ...this.topics.values()]) for (const client of topic.clients) client.destroy();
  }

  /** Events that nobody has seen yet cannot be told any more. */
  forget() {
    for (const topic of [this.list, ...this.topics.values()]) {
      topic.events = [];
      topic.last += 10;
    }
  }

  async answer(request, response) {
    const url = new URL(request.url, this.url), path = url.pathname;
    const send = (status, body, type = 'application/json') => {
      response.writeHead(status, { 'Content-Type': type, 'Content-Security-Policy': POLICY, 'X-Content-Type-Options': 'nosniff' });
      response.end(type === 'application/json' ? JSON.stringify(body) : body);
    };
    const refuse = (status, message) => send(status, { error: { code: 'no', message } });
    if (path === '/open') {
      response.writeHead(303, { 'Set-Cookie': 'tapline=token; HttpOnly; SameSite=Strict; Path=/', Location: '/' }).end();
      return;
    }
    if (path === '/' || path === '/costs' || /^\/sessions\/[^/]+$/.test(path)) return send(200, await readFile(new URL('index.html', WEB)), TYPES.html);
    const asset = /^\/assets\/([a-z]+\.(js|css|svg))$/.exec(path);
    if (asset) return send(200, await readFile(asset[1] === 'session.css' ? SESSION_CSS : new URL(asset[1], WEB)), TYPES[asset[2]]);
    if (!path.startsWith('/api/v1/')) return refuse(404, 'There is no such page.');
    if (path === '/api/v1/sign-in' && request.headers.authorization === 'Bearer a-token-of-the-mock') {
      response.writeHead(200, { 'Set-Cookie': 'tapline=token; HttpOnly; SameSite=Strict; Path=/', 'Content-Type': 'application/json' }).end('{"ok":true}');
      return;
    }
    if (!request.headers.cookie?.includes('tapline=token')) return refuse(401, 'Open the link.');
    this.api(request, response, path.slice(8), url.searchParams, send, refuse);
  }

  async api(request, response, path, query, send, refuse) {
    const [, id, what, which] = (/^sessions\/([^/]+)(?:\/([a-z]+)(?:\/([^/]+))?)?$/.exec(path) ?? []).map((part) => part && decodeURIComponent(part));
    if (request.method === 'POST') return this.take(request, id, what, send, refuse);
    if (path === 'sessions') return send(200, this.page(query));
    if (path === 'events') return this.stream(request, response, this.list, {}, refuse);
    if (path === 'search') return send(200, this.search(query.get('q')));
    if (path === 'costs') return send(200, this.costs(query.get('by'), query.get('last'), query.get('tz')));
    const row = this.rows.get(id);
    if (!row) return refuse(404, 'There is no such session. It may have been deleted: look in the list.');
    if (what === undefined) return send(200, this.whole(row));
    if (what === 'questions') {
      const open = row.questions.find((question) => question.id === which);
      this.asked.push(which);
      await this.slow;
      return open ? send(200, open.whole) : refuse(409, 'This question is not open any more.');
    }
    if (what === 'steps') return send(200, this.read(id, Number(query.get('from')), Number(query.get('limit'))));
    if (what === 'events') return this.stream(request, response, this.topic(id), { total: this.total(id), event_id: this.topic(id).last }, refuse);
    if (what === 'download') {
      response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Disposition': `attachment; filename="session.${query.get('format')}"` }).end('the session');
      return;
    }
    return refuse(404, 'There is no such thing.');
  }

  stream(request, response, topic, snapshot, refuse) {
    this.streams.push({ url: request.url, after: request.headers['last-event-id'] });
    if (this.down) return refuse(503, 'Try again.');
    topic.join(response, Number(request.headers['last-event-id'] ?? -1), snapshot);
  }

  async take(request, id, what, send, refuse) {
    let text = '';
    for await (const chunk of request) text += chunk;
    const body = JSON.parse(text || '{}'), row = this.rows.get(id);
    if (!row?.controllable) return refuse(403, 'This session cannot be controlled from here.');
    const open = row.questions.find((question) => question.id === body.question);
    if (what === 'answer' && open?.digest !== body.digest) {
      this.refused.push(body);
      return refuse(409, 'This is not the question that you saw.');
    }
    this.posts.push([what, body]);
    send(200, {});
    if (what === 'answer') {
      const questions = row.questions.filter((question) => question.id !== body.question);
      this.row({ id, questions, state: questions.length ? row.state : { kind: 'running', since: ago(0), until: null, message: null } });
    } else if (what === 'stop') this.row({ id, state: { kind: 'finished', since: ago(0), until: null, message: null } });
    else if (what === 'message') this.step(id, { kind: 'prompt', html: prompt(body.text) });
  }

  page(query) {
    const order = (row) => ['waiting', 'running', 'limited', 'silent'].includes(row.state.kind) ? 0 : 1;
    const all = [...this.rows.values()].sort((a, b) => order(a) - order(b) || (a.updated_at < b.updated_at ? 1 : -1));
    const from = Number(query.get('after') ?? 0), limit = Math.min(500, Number(query.get('limit') ?? 100));
    return { sessions: all.slice(from, from + limit), next: from + limit < all.length ? String(from + limit) : null, event_id: this.list.last, control: this.control, rights: this.rights };
  }

  total(id) {
    return id === 'big' ? LONG : this.steps.get(id)?.length ?? 0;
  }

  read(id, from, limit) {
    const total = this.total(id), event_id = this.topic(id).last;
    if (id !== 'big') return { total, steps: (this.steps.get(id) ?? []).slice(from, from + limit), event_id };
    return { total, steps: Array.from({ length: Math.max(0, Math.min(limit, total - from)) }, (_, n) => bigStep(from + n)), event_id };
  }

  whole(row) {
    const started = Date.parse(row.started_at), time = (seconds) => new Date(started + seconds * 1000).toISOString();
    const demo = row.id === 'asks', big = row.id === 'big';
    const turn = (n) => ({ n: n - 1, started_at: time(n * 60), duration_ms: 8000 + ((n * 7919) % 60_000), cost_usd: ((n * 37) % 50) / 100 + 0.02, tokens: row.tokens });
    return {
      ...row, control: this.control, rights: this.rights, verdict: null, ending: '', resume: ['claude', '--resume', row.id === 'evil' ? "it's; $(rm -rf /)" : 'fbb02d28-0c1e-4d0a-9b57'],
      turns: Array.from({ length: demo ? 5 : big ? 60 : 2 }, (_, n) => turn(n + 1)),
      agents: demo ? [{ id: 'sub1', parent: null, name: 'find who calls month_end()', state: 'finished', first_step: 5 }, { id: 'sub2', parent: 'sub1', name: 'read the callers', state: 'running', first_step: 6 }] : [],
      spans: big ? Array.from({ length: 3000 }, (_, n) => ({ step: n * 33, name: 'Read', start: time(n * 2), end: time(n * 2 + 1), agent: null }))
        : demo ? [[3, 'Bash', 4, 90, null], [4, 'Task', 95, 230, null], [5, 'Grep', 110, 130, 'sub1'], [6, 'Read', 115, 200, 'sub1'], [7, 'Edit', 235, 240, null], [8, 'Bash', 250, null, null]]
          .map(([step, name, start, end, agent]) => ({ step, name, start: time(start), end: end && time(end), agent })) : [],
      ...this.details.get(row.id),
    };
  }

  search(words) {
    const all = { session: 'asks', title: 'Make the failing date test pass', step: 7, time: ago(300), snippet: [{ text: 'year, month = ', hit: false }, { text: 'divmod', hit: true }, { text: '(d.month, 12)', hit: false }] };
    const big = { session: 'big', title: 'A session of 100,000 steps', step: 61_234, time: ago(90_000), snippet: [{ text: 'Step 61234: the ', hit: false }, { text: 'divmod', hit: true }, { text: ' looks fine', hit: false }] };
    return { hits: words.includes('divmod') ? [all, big] : [] };
  }

  costs(by, last) {
    const days = Math.min(parseInt(last ?? '30', 10), 120);
    const sum = (key, n) => ({
      key, input: 1000 * n, output: 300 * n, cache_read: 20_000 * n, cache_write: 900 * n, tokens: 22_200 * n, cost_usd: by === 'model' && n === 5 ? 0 : ((n * 7919) % 1900) / 100 + 0.017, cost_unknown: by === 'model' && n === 5 ? 3 : 0, exact: true,
      requests: 12 * n, calls: 31 * n, sessions: n,
    });
    const keys = {
      day: Array.from({ length: days }, (_, n) => localDay(days - 1 - n)), project: ['platform', 'billing-api', 'web', 'mail', 'ci', 'docs', 'search'].map((name) => `/home/dev/${name}`),
      model: ['claude-opus-5-5', 'claude-sonnet-5-5', 'gpt-6-codex', 'claude-haiku-5-5', 'a-model-without-a-price'], tool: ['Bash', 'Edit', '(answer)', 'Read', 'Grep', 'Write', 'Task', 'WebSearch'], agent: ['claude', 'codex'],
    }[by];
    const rows = keys.filter((_, n) => by !== 'day' || n % 7 !== 4).map((key, n) => sum(key, n + 1));
    if (by !== 'day') rows.sort((a, b) => b.cost_usd - a.cost_usd);
    const totals = rows.reduce((all, one) => Object.fromEntries(Object.entries(all).map(([key, value]) => [key, typeof value === 'number' ? value + one[key] : value])), { ...sum('', 0), cost_usd: 0 });
    return { today: localDay(0), totals, rows, unknown_models: by === 'model' ? ['a-model-without-a-price', ...this.unknownModels] : this.unknownModels, damaged_lines: 0, damaged_files: [], prices_dated: '2026-11-01', budgets: this.budgets };
  }
}

function localDay(back) {
  const now = new Date(), date = new Date(now.getFullYear(), now.getMonth(), now.getDate() - back);
  return `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, '0')}-${String(date.getDate()).padStart(2, '0')}`;
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const mock = await new Mock(10_000).start(Number(process.argv[2] ?? 0));
  console.log(mock.link);
}
