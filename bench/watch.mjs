// The page of `tapline serve` in a real browser: how long until a run appears, and how long frames take while a long list and a large
// session are scrolled. scripts/bench watch runs it, and puts the rows that it prints into the table.

import { spawn } from 'node:child_process';
import { appendFileSync, closeSync, mkdirSync, mkdtempSync, openSync, rmSync, utimesSync, writeFileSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const { WEB_MODULES, CHROMIUM, BENCH } = process.env;
const { chromium } = createRequire(`${WEB_MODULES}/`)('playwright-core');
const pick = (full, quick, smoke) => process.argv.includes('--smoke') ? smoke : process.argv.includes('--quick') ? quick : full;
const RUNS = pick(20, 5, 3), ROWS = pick(10_000, 1_000, 200), MEGABYTES = pick(100, 20, 2), FRAMES = pick(300, 100, 30);

/** A row of the table. Times are in milliseconds here, and in seconds there. */
const seconds = (ms, worst) => ({ value: Number((ms / 1000).toFixed(4)), unit: 's', ...worst === undefined ? {} : { aside: worst / 1000 } });
const row = (benchmark, tapline, peer = null, promised = null) => console.log(JSON.stringify({ benchmark, tapline, peer, promised }));

const home = mkdtempSync(join(tmpdir(), 'tapline-bench-'));
const projects = join(home, '.claude', 'projects', '-home-dev-shop');
mkdirSync(projects, { recursive: true });
const id = (n) => `${String(n).padStart(8, '0')}-1111-4222-8333-444444444444`;
const line = (n, k, type, message, at = Date.now()) => JSON.stringify({
  parentUuid: k === 0 ? null : id(k - 1), uuid: id(k), type, message, timestamp: new Date(at).toISOString(),
  sessionId: id(n), cwd: '/home/dev/shop', gitBranch: 'main', version: '2.1.325', isSidechain: false, userType: 'external',
}) + '\n';
const usage = { input_tokens: 1000, cache_creation_input_tokens: 200, cache_read_input_tokens: 5000, output_tokens: 100 };
const said = (n, k, content, at) => line(n, k, 'assistant', { id: `msg_${n}_${k}`, type: 'message', role: 'assistant', model: 'claude-opus-5-5', content: [content], stop_reason: null, usage }, at);
const percentile = (values, share) => [...values].sort((one, other) => one - other)[Math.min(values.length - 1, Math.floor(values.length * share))];

// Sessions of the last months, and one of many megabytes.
for (let n = 1; n <= ROWS; n++) {
  const at = Date.now() - 7_200_000 - n * 600_000;
  const file = join(projects, `${id(n)}.jsonl`);
  writeFileSync(file, line(n, 0, 'user', { role: 'user', content: `Session ${n}: look why the cart is empty after a refresh` }, at) + said(n, 1, { type: 'text', text: 'It is a missing key.' }, at + 5000));
  utimesSync(file, at / 1000, at / 1000);
}
const LARGE = ROWS + 1;
{
  const at = Date.now() - 3_600_000;
  const path = join(projects, `${id(LARGE)}.jsonl`);
  const file = openSync(path, 'w');
  writeSync(file, line(LARGE, 0, 'user', { role: 'user', content: 'A large session' }, at));
  const output = 'cart.rs:12: warning: this value is never read, and nobody knows why\n'.repeat(120);
  for (let k = 1, size = 0; size < MEGABYTES * 1e6; k += 3) {
    const text = said(LARGE, k, { type: 'text', text: `Now part **${k}**:\n\n- one\n- two\n\n\`\`\`rust\nfn part_${k}() {}\n\`\`\`` }, at)
      + said(LARGE, k + 1, { type: 'tool_use', id: `t${k}`, name: 'Bash', input: { command: `make part-${k}` } }, at)
      + line(LARGE, k + 2, 'user', { role: 'user', content: [{ type: 'tool_result', tool_use_id: `t${k}`, content: output }] }, at);
    size += writeSync(file, text);
  }
  closeSync(file);
  utimesSync(path, at / 1000, at / 1000);
}

// tapline's server in the benchmark's program. It ends when its input does.
const server = spawn(BENCH, ['watch', 'serve', 'page', home], { env: { PATH: process.env.PATH, HOME: home }, stdio: ['pipe', 'pipe', 'inherit'] });
const ended = new Promise((resolve) => server.once('exit', resolve));
const link = await new Promise((resolve, reject) => {
  server.stdout.once('data', (data) => resolve(String(data).split('\n')[0].trim()));
  server.once('exit', (code) => reject(new Error(`the server ended with ${code}`)));
});
const url = new URL(link).origin;
// Chromium refuses its sandbox to root.
const browser = await chromium.launch({ executablePath: CHROMIUM, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 860 } });
  page.setDefaultTimeout(300_000);
  await page.goto(link);
  await page.waitForFunction((rows) => Number(document.querySelector('.table')?.getAttribute('aria-rowcount')) > rows, ROWS);

  /** The frames of an element that is scrolled a little in each of them, or of a page on which nothing happens. */
  const frames = (selector) => page.evaluate(([selector, count]) => new Promise((resolve) => {
    const scroller = selector === 'page' ? document.scrollingElement : selector === null ? {} : document.querySelector(selector);
    const frames = [];
    let last = performance.now();
    const frame = (now) => {
      frames.push(now - last);
      last = now;
      // As fast as a wheel that is turned without a pause.
      scroller.scrollTop += frames.length <= count / 2 ? 120 : -120;
      if (frames.length < count) requestAnimationFrame(frame);
      else resolve(frames.slice(5));
    };
    requestAnimationFrame(frame);
  }), [selector, FRAMES]);
  await page.goto('about:blank');
  const empty = seconds(percentile(await frames(null), 0.95));
  const scroll = async (what, selector) => row(`page, p95 of frames while ${what} is scrolled / an empty page`, seconds(percentile(await frames(selector), 0.95)), empty, { at_most: 0.0167 });

  await page.goto(url);
  await page.waitForFunction((rows) => Number(document.querySelector('.table')?.getAttribute('aria-rowcount')) > rows, ROWS);
  await scroll(`a list of ${ROWS.toLocaleString('en-US')} sessions`, 'page');
  let began = Date.now();
  await page.goto(`${url}/sessions/${id(LARGE)}`);
  await page.locator('.step').first().waitFor();
  row(`page, a session of ${MEGABYTES} MB opens, until its first step is there`, seconds(Date.now() - began));
  await page.locator('.conversation').evaluate((element) => { element.scrollTop = 4000; });
  await page.waitForTimeout(1000);
  await scroll(`a session of ${MEGABYTES} MB`, '.conversation');

  await page.goto(url);
  await page.waitForFunction((rows) => Number(document.querySelector('.table')?.getAttribute('aria-rowcount')) > rows, ROWS);
  const times = [];
  for (let run = 1; run <= RUNS; run++) {
    const n = LARGE + run, title = `Run number ${run} of the benchmark`;
    const appeared = page.evaluate((title) => new Promise((resolve) => {
      const look = () => {
        if (![...document.querySelectorAll('.row .title')].some((row) => row.textContent === title)) return;
        observer.disconnect();
        resolve(performance.timeOrigin + performance.now());
      };
      const observer = new MutationObserver(look);
      observer.observe(document.body, { childList: true, subtree: true, characterData: true });
      look();
    }), title);
    await page.waitForTimeout(150 + 37 * run % 200);
    began = performance.timeOrigin + performance.now();
    appendFileSync(join(projects, `${id(n)}.jsonl`), line(n, 0, 'user', { role: 'user', content: title }));
    times.push(await appeared - began);
  }
  const beside = `page, a run appears beside ${ROWS.toLocaleString('en-US')} others`;
  row(`${beside}, p50`, seconds(percentile(times, 0.5)));
  row(`${beside}, p95`, seconds(percentile(times, 0.95), Math.max(...times)), null, { at_most: 0.5 });
} finally {
  await browser.close();
  server.stdin.end();
  await ended;
  rmSync(home, { recursive: true, force: true });
}
