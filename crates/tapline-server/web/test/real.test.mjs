// The page on the real server: `tapline serve` in a home of its own, with sessions that this test writes, as agents would, without any set-up.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { appendFileSync, closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { browse, rowOf, shot, step } from './browser.mjs';
import { CANARY, HOSTILE } from './data.mjs';

const { TAPLINE } = process.env;
const ROWS_AT_MOST = 500;

/** A transcript that grows: its lines are those that Claude Code writes, as far as they matter. */
class Transcript {
  constructor(home, id, { project = 'shop', cwd = '/home/dev/shop', branch = 'main' } = {}) {
    const folder = join(home, '.claude', 'projects', `-home-dev-${project}`);
    mkdirSync(folder, { recursive: true });
    this.file = join(folder, `${id}.jsonl`);
    this.common = { sessionId: id, cwd, gitBranch: branch, version: '2.1.325', isSidechain: false, userType: 'external' };
    this.n = 0;
    writeFileSync(this.file, '');
  }

  line(type, message, more = {}) {
    const uuid = `00000000-0000-4000-8000-${String(++this.n).padStart(12, '0')}`;
    const parentUuid = this.n === 1 ? null : `00000000-0000-4000-8000-${String(this.n - 1).padStart(12, '0')}`;
    return JSON.stringify({ parentUuid, type, message, uuid, timestamp: new Date().toISOString(), ...this.common, ...more }) + '\n';
  }

  said(content) {
    const usage = { input_tokens: 1000, cache_creation_input_tokens: 200, cache_read_input_tokens: 5000, output_tokens: 100 };
    return this.line('assistant', { id: `msg_${this.n}`, type: 'message', role: 'assistant', model: 'claude-opus-5-5', content: [content], stop_reason: null, usage }, { requestId: `req_${this.n}` });
  }

  add(...lines) {
    appendFileSync(this.file, lines.join(''));
  }

  prompt(text) { return this.line('user', { role: 'user', content: text }); }
  text(text) { return this.said({ type: 'text', text }); }
  call(id, name, input) { return this.said({ type: 'tool_use', id, name, input }); }
  result(id, content, is_error = false) { return this.line('user', { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content, is_error }] }); }
}

const ID = (n) => `0000000${n}-1111-4222-8333-444444444444`;

/** The server in a home of its own, and a page that came in by the link. */
async function serve(t, prepare = () => {}, options = []) {
  const { page } = await browse(t);
  const home = mkdtempSync(join(tmpdir(), 'tapline-web-'));
  await prepare(home);
  const child = spawn(TAPLINE, ['serve', '--no-open', '--budget', '0.01', ...options.map((option) => option.replace('HOME', home))], { env: { PATH: process.env.PATH, HOME: home, TAPLINE_HOME: join(home, 'tapline') }, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  t.after(async () => {
    child.kill('SIGINT');
    await ended;
    rmSync(home, { recursive: true, force: true });
  });
  const link = await new Promise((resolve, reject) => {
    let text = '';
    child.stdout.on('data', (data) => {
      text += data;
      if (text.includes('\n')) resolve(text.split('\n')[0].trim());
    });
    child.once('exit', (code) => reject(new Error(`tapline serve ended with ${code}`)));
  });
  await page.goto(link);
  return { home, page, url: new URL(link).origin };
}

test('the real server: a run appears, its text comes, a tool goes from running to done, search and costs find it', async (t) => {
  const { home, page, url } = await serve(t);
  await page.getByText('There are no sessions yet.').waitFor();
  const talk = new Transcript(home, ID(1));
  talk.add(talk.prompt('Count the unicorns in the stable'));
  await rowOf(page, 'Count the unicorns').waitFor();
  assert.match(await rowOf(page, 'Count the unicorns').textContent(), /running.*shop/);
  await rowOf(page, 'Count the unicorns').locator('a.title').click();
  await page.locator('.step.prompt', { hasText: 'Count the unicorns in the stable' }).waitFor();
  talk.add(talk.text('I look into the **stable** first: `ls`.'));
  await page.locator('.step.text strong', { hasText: 'stable' }).waitFor();
  talk.add(talk.call('toolu_1', 'Bash', { command: 'ls stable' }));
  await page.locator('.step .tool.running', { hasText: 'ls stable' }).waitFor();
  const before = await page.locator('.step').count();
  talk.add(talk.result('toolu_1', 'sparkle\nglitter'));
  await page.locator('.step .tool.good', { hasText: 'ls stable' }).waitFor();
  assert.equal(await page.locator('.step').count(), before, 'the same card');
  await shot(page, 'real-session');
  await page.keyboard.press('Escape');
  // What the archive knows comes a little later: branch, model, tokens, cost.
  await rowOf(page, 'Count the unicorns').locator('.sub', { hasText: 'shop · main · claude-opus-5-5' }).waitFor();
  await rowOf(page, 'Count the unicorns').locator('.c-cost', { hasText: '$' }).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('glitter');
  await page.locator('.hits mark', { hasText: 'glitter' }).waitFor();
  await page.locator('.hits a').first().click();
  await page.locator('.step', { hasText: 'ls stable' }).waitFor();
  await page.goto(`${url}/costs?by=model`);
  await page.locator('.bars', { hasText: 'claude-opus-5-5' }).waitFor();
  await page.getByText('Budget used up').waitFor();
  await shot(page, 'real-costs');
});

test('the real server: a question of a pushed run is answered on the page', async (t) => {
  const token = 'a-token-of-this-test-with-44-characters-0123';
  const { page, url } = await serve(t, (home) => writeFileSync(join(home, 'token'), token + '\n'), ['--allow-control', '--token-file', 'HOME/token']);
  const ask = (path, body) => fetch(`${url}/api/v1/ingest/run-1${path}`, { method: body === undefined ? 'GET' : 'POST', headers: { Authorization: `Bearer ${token}` }, body });
  const push = async (...lines) => assert.equal((await ask('', lines.map((line) => JSON.stringify(line) + '\n').join(''))).status, 200);
  const common = { session_id: 'asked' };
  await push(
    { type: 'system', subtype: 'init', ...common, model: 'claude-opus-5-5', cwd: '/home/dev/shop', tools: [] },
    { type: 'assistant', ...common, message: { id: 'm1', role: 'assistant', content: [{ type: 'tool_use', id: 't-1', name: 'Bash', input: { command: 'make deploy' } }] } },
    { type: 'control_request', request_id: 'q-1', request: { subtype: 'can_use_tool', tool_name: 'Bash', input: { command: 'make deploy' }, tool_use_id: 't-1' } },
  );
  // The run asks for commands; then the page has buttons.
  const told = ask('/commands?after=0').then((response) => response.json());
  const card = page.locator('.row .ask', { hasText: 'make deploy' });
  await card.getByRole('button', { name: 'Allow once' }).waitFor();
  await shot(page, 'real-asks');
  await page.locator('.row a.title').click();
  await page.locator('.asked').getByRole('button', { name: 'No, because' }).click();
  await page.keyboard.type('not on a Friday');
  await page.keyboard.press('Enter');
  const { commands: [command] } = await told;
  assert.deepEqual([command.command, command.question, command.decision, command.message], ['answer', 'q-1', 'deny', 'not on a Friday']);
  await push({ type: 'user', ...common, message: { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't-1', content: 'not on a Friday', is_error: true }] } });
  await page.locator('.asked .ask').waitFor({ state: 'detached' });
});

test('the real server: a hostile transcript runs nothing', async (t) => {
  const { page } = await serve(t, (home) => {
    const talk = new Transcript(home, ID(2), { branch: HOSTILE[1] });
    talk.add(talk.prompt(HOSTILE[0]));
    for (const attack of [...HOSTILE, `[a link](javascript:document.title='${CANARY}')`, `![an image](https://${CANARY}.example/x.png)`, `<https://${CANARY}.example>`, `\`\`\`html\n${HOSTILE[1]}\n\`\`\``]) {
      talk.add(talk.text(attack), talk.call(`toolu_${talk.n}`, attack, { command: attack, file_path: attack, old_string: attack, new_string: attack }), talk.result(`toolu_${talk.n - 1}`, attack, true));
      talk.add(talk.prompt(attack));
    }
  });
  const requests = [], said = [];
  page.on('request', (request) => requests.push(request.url()));
  page.on('console', (message) => said.push(message.text()));
  page.on('dialog', (dialog) => said.push(dialog.message()));
  await rowOf(page, HOSTILE[0]).locator('a.title').click();
  await page.locator('.step .tool').nth(8).waitFor();
  for (const summary of await page.locator('.step summary').all()) await summary.click();
  assert.equal(await page.locator('.step :is(script, iframe, img, svg, form, style, object, embed)').count(), 0);
  for (const link of await page.locator('.step .body a').all()) assert.match(await link.getAttribute('href'), /^(https?:|mailto:)/);
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve)));
  assert.notEqual(await page.title(), CANARY);
  assert.deepEqual(requests.filter((url) => new URL(url).hostname !== '127.0.0.1' || new URL(url).pathname.includes(CANARY)), []);
  assert.deepEqual(said, []);
  await shot(page, 'real-hostile');
});

test('the real server: a session of 100 MB opens and scrolls with at most 500 rows', async (t) => {
  const MANY = 12_000;
  const { page } = await serve(t, (home) => {
    const talk = new Transcript(home, ID(3));
    const file = openSync(talk.file, 'a');
    writeSync(file, talk.prompt('Read everything'));
    for (let n = 0; n < MANY; n++) writeSync(file, talk.call(`toolu_${n}`, 'Read', { file_path: `/home/dev/shop/${n}.txt` }) + talk.result(`toolu_${n}`, `line of file ${n}\n`.repeat(430)));
    writeSync(file, talk.text('That was the last one.'));
    closeSync(file);
  });
  // The server reads it all first.
  await rowOf(page, 'Read everything').waitFor({ timeout: 90_000 });
  await rowOf(page, 'Read everything').locator('a.title').click();
  await page.locator('.step.prompt, .step.text').first().waitFor({ timeout: 90_000 });
  const rows = async () => assert.ok(await page.locator('.step').count() <= ROWS_AT_MOST);
  await rows();
  for (const to of [0.5, 0.9, 0.1]) {
    await page.evaluate((to) => {
      const box = document.querySelector('.conversation');
      box.scrollTop = to * (box.scrollHeight - box.clientHeight);
    }, to);
    await page.waitForFunction(([to, many]) => Math.abs(Number(document.querySelector('.step')?.id.slice(5)) / many - to) < 0.1, [to, MANY]);
    await rows();
  }
  await page.keyboard.press('G');
  await page.getByText('That was the last one.').waitFor();
  await page.keyboard.press('g');
  await step(page, 0).waitFor();
  await rows();
});
