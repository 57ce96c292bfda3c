// The page and the real Claude Code, on a scripted model: `tapline serve` runs, and what is started afterwards is on the page as it is, without any set-up.
// scripts/web installs the program and says where it is.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { browse, rowOf, shot } from './browser.mjs';

const { TAPLINE, CLAUDE } = process.env;
const TOKEN = 'a-token-of-this-test-with-44-characters-0123';
/** For what the page shows only once the agent has done something: it takes seconds to start, and longer on a busy machine. No speed is tested. */
const AGENT = { timeout: 90_000 };

/** @type {{ home: string, work: string, url: string, link: string, end: () => Promise<void> }} */
let serving;
const running = new Set();

/** Starts a program, and keeps what it writes. */
function start(program, args, { env, stdin = 'ignore' }) {
  const child = spawn(program, args, { cwd: serving?.work, env, stdio: [stdin, 'pipe', 'pipe'] });
  const started = { child, text: '', ended: new Promise((resolve) => child.once('close', (code, signal) => resolve(code ?? signal))), waiting: new Set() };
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8');
    stream.on('data', (data) => {
      started.text += data;
      for (const look of started.waiting) look();
    });
  }
  running.add(started);
  started.ended.then(() => {
    running.delete(started);
    for (const look of started.waiting) look();
  });
  return started;
}

/** Waits until a program has written this so often. */
function wrote(started, text, times = 1) {
  // Colours and moves of the cursor are not what it says.
  const has = () => started.text.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, '').split(text).length > times;
  return new Promise((resolve, reject) => {
    const look = () => {
      if (has()) resolve();
      else if (started.child.exitCode !== null || started.child.signalCode !== null) reject(new Error(`it ended without "${text}":\n${started.text}`));
      else return;
      started.waiting.delete(look);
    };
    started.waiting.add(look);
    look();
  });
}

/** Runs a command on a model that follows this script, in the home that the server watches. */
function onSim(name, scenario, command, how = {}) {
  const { home } = serving;
  const file = join(home, `${name}.toml`);
  writeFileSync(file, scenario);
  const env = { PATH: process.env.PATH, HOME: home, LANG: 'C.UTF-8', TERM: 'xterm-256color' };
  const set = { TAPLINE_HOME: join(home, 'tapline'), TAPLINE_PUSH_TOKEN: TOKEN, CLAUDE_CODE_MAX_RETRIES: '1' };
  const options = Object.entries(set).flatMap(([key, value]) => ['--env', `${key}=${value}`]);
  return start(TAPLINE, ['sim', file, '--home', home, ...options, '--', ...command], { env, ...how });
}

const says = (when, text, more = '') => `[[turn]]\nwhen = { last = ${JSON.stringify(when)} }\ntext = ${JSON.stringify(text)}\n${more}\n`;
const bash = (when, command, more = '') => `[[turn]]\nwhen = { last = ${JSON.stringify(when)} }\ntool = [{ name = "Bash", input = { command = ${JSON.stringify(command)}, description = "Run it" } }]\n${more}\n`;

before(async () => {
  const home = mkdtempSync(join(tmpdir(), 'tapline-web-'));
  const work = join(home, 'shop');
  mkdirSync(work);
  writeFileSync(join(home, 'token'), TOKEN + '\n', { mode: 0o600 });
  const env = { PATH: process.env.PATH, HOME: home, TAPLINE_HOME: join(home, 'tapline') };
  const server = start(TAPLINE, ['serve', '--no-open', '--allow-control', '--token-file', join(home, 'token')], { env });
  await wrote(server, '\n');
  const link = server.text.split('\n')[0].trim();
  serving = {
    home, work, link, url: new URL(link).origin,
    end: async () => {
      for (const { child } of running) child.kill('SIGTERM');
      await Promise.all([...running].map(({ ended }) => ended));
      rmSync(home, { recursive: true, force: true });
    },
  };
});
after(() => serving.end());

/** A page that is in by the token: the link is good once. */
async function open(t) {
  const { page, context } = await browse(t);
  if (!serving.cookies) {
    await page.goto(serving.link);
    await page.waitForURL(`${serving.url}/`);
    serving.cookies = await context.cookies();
  } else {
    await context.addCookies(serving.cookies);
    await page.goto(serving.url);
  }
  return page;
}

const state = (page, title) => rowOf(page, title).locator('.state');

test('a chat at a terminal asks, and is answered, told more, interrupted and stopped on the page', async (t) => {
  const page = await open(t);
  const story = 'Once upon a time there was a very long story. '.repeat(400);
  const scenario = [
    bash('make one', 'touch one && echo made-one'), says('made-one', 'One is there.'),
    bash('make two', 'touch two && echo made-two'), says('made-two', 'Two is there.'),
    says('thank you', 'You are welcome.'), says('tell a story', story, 'chunk = 8\npace_ms = 100'),
  ].join('');
  // `script` gives it a terminal.
  const command = `exec ${TAPLINE} chat --bin ${CLAUDE} --push ${serving.url} --no-history 'Please make one'`;
  const chat = onSim('chat', scenario, ['script', '-qefc', command, '/dev/null'], { stdin: 'pipe' });
  await wrote(chat, 'y once');
  // The first question is answered on the page.
  const row = rowOf(page, 'Please make one');
  await row.getByRole('button', { name: 'Allow once' }).waitFor(AGENT);
  assert.equal(await page.locator('.row').count(), 1, 'what is recorded and pushed here is one session');
  assert.equal(await state(page, 'Please make one').textContent(), 'needs you');
  assert.ok(!existsSync(join(serving.work, 'one')));
  await shot(page, 'claude-asks');
  await row.getByRole('button', { name: 'Allow once' }).click();
  await wrote(chat, 'answered on the page');
  await wrote(chat, 'One is there.');
  await state(page, 'Please make one').filter({ hasText: 'finished' }).waitFor(AGENT);
  assert.ok(existsSync(join(serving.work, 'one')));
  // The second one at the terminal; then it is gone on the page, too.
  await row.locator('a.title').click();
  chat.child.stdin.write('make two\r');
  await page.locator('.asked').getByRole('button', { name: 'Allow once' }).waitFor(AGENT);
  await wrote(chat, 'y once', 2);
  // A key that is pressed too soon after a question appeared was meant for something else.
  const pressing = setInterval(() => chat.child.stdin.write('y'), 700);
  await wrote(chat, 'allowed, once').finally(() => clearInterval(pressing));
  await page.locator('.asked .ask').waitFor({ state: 'detached', ...AGENT });
  await page.locator('.step.text', { hasText: 'Two is there.' }).waitFor(AGENT);
  // A message is a turn.
  await page.locator('.composer textarea').fill('thank you');
  await page.keyboard.press('Enter');
  await page.locator('.step.prompt', { hasText: 'thank you' }).waitFor(AGENT);
  await page.locator('.step.text', { hasText: 'You are welcome.' }).waitFor(AGENT);
  await wrote(chat, 'You are welcome.');
  // An interrupt ends the turn, not the chat.
  await page.locator('.composer textarea').fill('tell a story');
  await page.keyboard.press('Enter');
  await page.locator('.step', { hasText: 'Once upon a time' }).first().waitFor(AGENT);
  await page.getByRole('button', { name: 'Interrupt' }).click();
  await wrote(chat, 'interrupted on the page');
  await page.locator('.session-head .state', { hasText: 'interrupted' }).waitFor(AGENT);
  await page.locator('.totals div', { hasText: 'Turns' }).filter({ hasText: '4' }).waitFor(AGENT);
  await shot(page, 'claude-chat');
  assert.equal(chat.child.exitCode, null);
});

test('a run that fails, a run with sub-agents, and a plain claude -p are shown as they are', async (t) => {
  const page = await open(t);
  // A failure.
  const failing = onSim('fails', '[[turn]]\ntext = "never"\nfault = [{ kind = "error", status = 401, times = "forever" }]\n', [TAPLINE, 'run', 'Fail with dignity', '--bin', CLAUDE, '--format', 'quiet']);
  await state(page, 'Fail with dignity').filter({ hasText: 'failed' }).waitFor(AGENT);
  assert.equal(await failing.ended, 1, failing.text);
  assert.notEqual(await rowOf(page, 'Fail with dignity').locator('.c-now').textContent(), '', 'it says why');
  // Sub-agents.
  const waits = (file) => `until [ -e ${file} ]; do sleep 0.05; done; echo seen-${file}`;
  const subagents = [
    '[[turn]]\ntext = "Delegating."\ntool = [{ name = "Agent", input = { description = "Explore the code", prompt = "find endpoints", subagent_type = "Explore", run_in_background = false } }]\n',
    `[[turn]]\nwhen = { agent = "sub", count = 0 }\ntext = "Looking."\ntool = [{ name = "Bash", input = { command = ${JSON.stringify(waits('go-sub'))}, description = "Wait" } }]\n`,
    '[[turn]]\nwhen = { agent = "sub" }\ntext = "Found 5 endpoints."\n', '[[turn]]\ntext = "The sub-agent found five."\n',
  ].join('');
  const delegating = onSim('delegates', subagents, [TAPLINE, 'run', 'Delegate the search', '--bin', CLAUDE, '--permission-mode', 'bypassPermissions', '--format', 'quiet']);
  await state(page, 'Delegate the search').filter({ hasText: 'running' }).waitFor(AGENT);
  // Its transcript may be seen before the recording says that it is of the same session.
  await rowOf(page, 'Delegate the search').nth(1).waitFor({ state: 'detached', ...AGENT });
  await rowOf(page, 'Delegate the search').locator('a.title').click();
  const kid = page.locator('.tree li', { hasText: 'Explore the code' });
  await kid.locator('.state.running').waitFor(AGENT);
  await page.locator('.step .tool.running', { hasText: 'until [ -e go-sub ]' }).waitFor(AGENT);
  await shot(page, 'claude-subagent');
  writeFileSync(join(serving.work, 'go-sub'), '');
  await kid.locator('.state.finished').waitFor(AGENT);
  await page.locator('.step.text', { hasText: 'The sub-agent found five.' }).waitFor(AGENT);
  await page.locator('.session-head .state', { hasText: 'finished' }).waitFor(AGENT);
  assert.equal(await delegating.ended, 0, delegating.text);
  await page.keyboard.press('Escape');
  // Nothing of tapline starts it: its transcript is enough.
  const plain = onSim('plain', bash('Look at the moon', waits('go-moon')) + says('seen-go-moon', 'It is full.'), [CLAUDE, '-p', 'Look at the moon', '--dangerously-skip-permissions']);
  await state(page, 'Look at the moon').filter({ hasText: 'running' }).waitFor(AGENT);
  await rowOf(page, 'Look at the moon').locator('a.title').click();
  await page.locator('.step .tool.running', { hasText: 'until [ -e go-moon ]' }).waitFor(AGENT);
  writeFileSync(join(serving.work, 'go-moon'), '');
  await page.locator('.step .tool.good', { hasText: 'until [ -e go-moon ]' }).waitFor(AGENT);
  await page.locator('.step.text', { hasText: 'It is full.' }).waitFor(AGENT);
  await page.locator('.session-head .state', { hasText: 'finished' }).waitFor(AGENT);
  await page.locator('.totals div', { hasText: 'Turns' }).filter({ hasText: '1' }).waitFor(AGENT);
  assert.equal(await plain.ended, 0, plain.text);
});

test('what the agent asks a person is answered with options on the page, in a run and in a chat', async (t) => {
  const page = await open(t);
  const tool = (last) => `[[turn]]
when = { last = ${JSON.stringify(last)} }
tool = [{ name = "AskUserQuestion", input = { questions = [
  { question = "Which colour?", header = "Colour", multiSelect = false, options = [{ label = "Red", description = "warm" }, { label = "Blue", description = "cold" }] },
  { question = "Which sizes?", header = "Size", multiSelect = true, options = [{ label = "S", description = "" }, { label = "M", description = "" }, { label = "L", description = "" }] },
] } }]
[[turn]]
expect = { last = "Which colour\\\\?.=.green, like grass.*Which sizes\\\\?.=.S, L" }
text = "So it is."
`;
  const ways = {
    'Ask in a run': ['sh', '-c', `exec ${TAPLINE} run 'Ask in a run' --bin ${CLAUDE} --push ${serving.url} --ask --format text`],
    'Ask in a chat': ['script', '-qefc', `exec ${TAPLINE} chat --bin ${CLAUDE} --push ${serving.url} --no-history 'Ask in a chat'`, '/dev/null'],
  };
  for (const [prompt, command] of Object.entries(ways)) {
    const asking = onSim(prompt.replaceAll(' ', '-'), tool(prompt), command, { stdin: 'pipe' });
    const ask = rowOf(page, prompt).locator('.ask');
    const send = ask.getByRole('button', { name: 'Answer', exact: true });
    await send.waitFor(AGENT);
    await ask.locator('.own').first().fill('green, like grass');
    await ask.getByLabel('S', { exact: true }).check();
    await ask.getByLabel('L', { exact: true }).check();
    await shot(page, `claude-${prompt.replaceAll(' ', '-').toLowerCase()}`);
    await send.click();
    await wrote(asking, 'So it is.');
    asking.child.kill('SIGTERM');
    await asking.ended;
  }
});

test('a run with --ask waits for the page, and --ask-timeout is a no', async (t) => {
  const page = await open(t);
  const ask = (name, prompt, ...more) => onSim(name, bash(prompt, `touch ${name} && echo made-${name}`) + says(`made-${name}`, 'Deployed.') + says('.', 'Not deployed.'),
    [TAPLINE, 'run', prompt, '--bin', CLAUDE, '--push', serving.url, '--ask', '--format', 'text', ...more]);
  const run = ask('deploy', 'Deploy it now');
  const allow = rowOf(page, 'Deploy it now').getByRole('button', { name: 'Allow once' });
  await allow.waitFor(AGENT);
  await allow.click();
  assert.equal(await run.ended, 0, run.text);
  assert.match(run.text, /Deployed\./);
  assert.ok(existsSync(join(serving.work, 'deploy')));
  await state(page, 'Deploy it now').filter({ hasText: 'finished' }).waitFor(AGENT);
  const late = ask('late', 'Deploy it later', '--ask-timeout', '1s');
  assert.equal(await late.ended, 0, late.text);
  assert.match(late.text, /Not deployed\./);
  assert.ok(!existsSync(join(serving.work, 'late')));
  await state(page, 'Deploy it later').filter({ hasText: 'finished' }).waitFor(AGENT);
  // A stop on the page is the end of the run, and of the chat that still runs.
  await rowOf(page, 'Please make one').locator('a.title').click();
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await page.getByRole('button', { name: 'Stop it' }).click();
  await page.locator('.composer').waitFor({ state: 'detached', ...AGENT });
});
