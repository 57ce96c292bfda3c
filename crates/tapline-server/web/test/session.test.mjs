// One session: it grows, it asks, it is long.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, rowOf, shot, step, until } from './browser.mjs';
import { LONG, call, question, state, text } from './data.mjs';

const ROWS_AT_MOST = 500;
const scroll = (page, to) => page.evaluate((to) => {
  const box = document.querySelector('.conversation');
  box.scrollTop = to * (box.scrollHeight - box.clientHeight);
}, to);
/** The steps in the document follow one another, and the screen shows some. */
async function settled(page) {
  await page.waitForFunction(() => {
    const box = document.querySelector('.conversation').getBoundingClientRect();
    const middle = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    return middle?.closest('.step') || middle?.closest('.page');
  });
  const numbers = await page.$$eval('.step', (all) => all.map((one) => Number(one.id.slice(5))));
  assert.ok(numbers.length <= ROWS_AT_MOST, `${numbers.length} rows`);
  numbers.forEach((n, at) => assert.equal(n, numbers[0] + at));
  return numbers;
}
/** Where a step is on the screen. */
const top = (page, n) => page.evaluate((n) => document.getElementById(`step-${n}`).getBoundingClientRect().top, n);
/** The browser scrolls by whole pixels, and steps are not whole pixels tall: each change above may leave the rest of one. */
const stays = async (page, n, before) => {
  const moved = Math.abs(await top(page, n) - before);
  assert.ok(moved < 2, `step ${n} moved by ${moved} pixels`);
};

test('the conversation has times in its margin, cards that open, sub-agents indented', async (t) => {
  const { mock, page } = await open(t, { path: '/sessions/asks' });
  await step(page, 8).waitFor();
  assert.equal(await page.title(), '(1) Make the failing date test pass · tapline');
  assert.match(await step(page, 0).locator('.time').textContent(), /^\d\d:\d\d$/);
  assert.equal(await step(page, 7).locator('.time').textContent(), '0:33');
  assert.match(await step(page, 5).getAttribute('class'), /\bd1\b/);
  assert.match(await step(page, 7).getAttribute('class'), /\bcall$/);
  await step(page, 5).locator('summary').click();
  await step(page, 5).getByText('src/billing/run.py:14').waitFor();
  // The kind of a step is a class; none of them means something else on this page.
  const left = (n) => step(page, n).locator('.body').evaluate((body) => body.getBoundingClientRect().left);
  for (const kind of ['session', 'prompt', 'text', 'thinking', 'call', 'turn', 'remark']) {
    const n = mock.step('asks', { kind, html: text(`<p>one ${kind}</p>`) });
    await step(page, n).waitFor();
    assert.equal(await left(n), await left(8), kind);
  }
});

test('text grows in place, and a tool goes from running to done', async (t) => {
  const { mock, page } = await open(t, { path: '/sessions/axum' });
  await step(page, 3).waitFor();
  const n = mock.step('axum', { kind: 'text', html: text('<p>I wi</p>') });
  await step(page, n).getByText('I wi', { exact: true }).waitFor();
  await step(page, n).evaluate((node) => { node.same = true; });
  for (const said of ['I will', 'I will look', 'I will look at the services.']) mock.step('axum', { n, kind: 'text', html: text(`<p>${said}</p>`) });
  await step(page, n).getByText('I will look at the services.').waitFor();
  assert.ok(await step(page, n).evaluate((node) => node.same), 'the row is the same');
  const tool = mock.step('axum', { kind: 'call', html: call('running', 'runs', 'cargo test', null) });
  await step(page, tool).locator('.tool.running').waitFor();
  mock.step('axum', { n: tool, kind: 'call', html: call('good', 'ran', 'cargo test', 'ok. 12 passed', '3.1 s') });
  await step(page, tool).locator('.tool.good').waitFor();
  // What the reader opened stays open when it changes.
  await step(page, tool).locator('summary').click();
  mock.step('axum', { n: tool, kind: 'call', html: call('good', 'ran', 'cargo test', 'ok. 13 passed', '3.2 s') });
  await step(page, tool).getByText('ok. 13 passed').waitFor();
  assert.equal(await page.locator('.step').count(), tool + 1);
});

test('the newest step stays in sight, until the reader goes back: then a button counts what is new', async (t) => {
  const { mock, page } = await open(t, { path: '/sessions/axum' });
  await step(page, 3).waitFor();
  for (let n = 0; n < 60; n++) mock.step('axum', { html: text(`<p>line ${n}</p>`) });
  const inSight = (n) => until(page, true, (n) => {
    const [row, box] = [document.getElementById(`step-${n}`), document.querySelector('.conversation')];
    return Boolean(row) && row.getBoundingClientRect().bottom <= box.getBoundingClientRect().bottom;
  }, n);
  await inSight(63);
  await scroll(page, 0.3);
  await page.getByRole('button', { name: 'Newest' }).waitFor();
  const [first] = (await page.$$eval('.step', (all) => all.filter((one) => one.getBoundingClientRect().top > 200).map((one) => Number(one.id.slice(5)))));
  const before = await top(page, first);
  for (let n = 0; n < 3; n++) mock.step('axum', { html: text('<p>more</p>') });
  mock.step('axum', { n: 0, kind: 'prompt', html: text('<p>taller</p>'.repeat(5)) });
  await page.getByRole('button', { name: '3 new' }).waitFor();
  await step(page, 0).getByText('taller').first().waitFor();
  await stays(page, first, before);
  await page.keyboard.press('G');
  await inSight(66);
  await page.getByRole('button', { name: /new|Newest/ }).waitFor({ state: 'hidden' });
});

test('a card that is opened at the end is not scrolled away', async (t) => {
  const { mock, page } = await open(t, { path: '/sessions/axum' });
  await step(page, 3).waitFor();
  for (let n = 0; n < 40; n++) mock.step('axum', { kind: 'call', html: call('good', 'read', `file ${n}`, 'line\n'.repeat(80), '0.1 s') });
  await step(page, 43).waitFor();
  await until(page, true, () => document.querySelector('.conversation').scrollHeight - document.querySelector('.conversation').scrollTop - document.querySelector('.conversation').clientHeight < 2);
  const before = await top(page, 43);
  await step(page, 43).locator('summary').click();
  await step(page, 43).locator('details[open]').waitFor();
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  await stays(page, 43, before);
  await page.getByRole('button', { name: 'Newest' }).waitFor();
});

test('steps that cannot be read are read again', async (t) => {
  const { page } = await open(t, { path: '/sessions/big', tolerate: (problem) => problem.includes('500') });
  await step(page, 0).waitFor();
  let failing = true;
  await page.route('**/steps?*', (route) => (failing ? route.fulfill({ status: 500, json: { error: { message: 'The disk is on fire.' } } }) : route.continue()));
  await scroll(page, 0.5);
  await page.getByRole('alert').getByText('The disk is on fire.').waitFor();
  failing = false;
  await settled(page);
  await page.getByRole('alert').waitFor({ state: 'hidden' });
});

test('a session of 100,000 steps opens and scrolls with at most 500 rows', async (t) => {
  const { page } = await open(t, { path: '/sessions/big' });
  await step(page, 0).waitFor();
  for (const to of [0.02, 0.5, 0.51, 1, 0.25, 0]) {
    await scroll(page, to);
    const numbers = await settled(page);
    if (to === 0) assert.equal(numbers[0], 0);
    if (to === 1) await step(page, LONG - 1).waitFor();
    else await page.waitForFunction((to) => Math.abs(Number(document.querySelector('.step').id.slice(5)) / 100_000 - to) < 0.1, to);
  }
  // By small steps, over the edges of pages: no step is left out.
  for (let n = 0; n < 60; n++) {
    await page.mouse.move(400, 400);
    await page.mouse.wheel(0, 700);
    await settled(page);
  }
  await page.waitForFunction(() => Number(document.querySelector('.step:last-child').id.slice(5)) > 400);
});

test('pages that are read above do not move what is on the screen', async (t) => {
  const { page } = await open(t, { path: '/sessions/big#step-50000' });
  await page.locator('#step-50000.current').waitFor();
  const before = await top(page, 50_000);
  await page.waitForFunction(() => document.getElementById('step-49900'));
  await stays(page, 50_000, before);
  await settled(page);
});

test('a link to a step leads there, and every step has one', async (t) => {
  const { page } = await open(t, { path: '/sessions/big#step-61234' });
  await page.locator('#step-61234.current').waitFor();
  await until(page, true, () => {
    const at = document.getElementById('step-61234').getBoundingClientRect().top - document.querySelector('.conversation').getBoundingClientRect().top;
    return at >= 0 && at < 100;
  });
  await step(page, 61_235).locator('.time').click();
  await page.locator('#step-61235.current').waitFor();
  assert.match(page.url(), /#step-61235$/);
  await page.evaluate(() => { location.hash = 'step-7'; });
  await page.locator('#step-7.current').waitFor();
  await page.keyboard.press('j');
  await page.locator('#step-8.current').waitFor();
  await page.keyboard.press('k');
  await page.keyboard.press('k');
  await page.locator('#step-6.current').waitFor();
  await page.keyboard.press('G');
  await step(page, LONG - 1).waitFor();
  await page.keyboard.press('g');
  await page.locator('#step-0.current').waitFor();
});

test('the keyboard walks over the edges of pages and opens cards', async (t) => {
  const { page } = await open(t, { path: '/sessions/big#step-398' });
  await page.locator('#step-398.current').waitFor();
  for (const n of [399, 400, 401]) {
    await page.keyboard.press('j');
    await page.locator(`#step-${n}.current`).waitFor();
  }
  await page.keyboard.press('Enter');
  await page.locator('#step-401 details[open]').waitFor();
  await page.keyboard.press('Enter');
  await page.locator('#step-401 details:not([open])').waitFor();
});

test('questions are answered, a message is sent, the agent is interrupted and stopped', async (t) => {
  const { mock, page } = await open(t, { path: '/sessions/asks' });
  await page.locator('.asked .ask').waitFor();
  await page.locator('.asked').getByRole('button', { name: 'No', exact: true }).click();
  await page.locator('.asked .ask').waitFor({ state: 'detached' });
  mock.row({ id: 'asks', state: state('waiting'), questions: [question('q7', 'git push')] });
  await page.locator('.asked').getByText('git push').waitFor();
  while (mock.posts.length < 2) {
    await page.keyboard.press('y');
    await page.evaluate(() => new Promise(requestAnimationFrame));
  }
  await page.locator('.asked .ask').waitFor({ state: 'detached' });
  await page.keyboard.press('m');
  await page.keyboard.type('y is fine, <b>go on</b>');
  await page.keyboard.press('Enter');
  await page.locator('.step.prompt', { hasText: 'y is fine, <b>go on</b>' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Interrupt' }).click();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByRole('button', { name: 'Let it run' }).click();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByRole('button', { name: 'Stop it' }).click();
  await page.locator('.session-head .state', { hasText: 'finished' }).waitFor();
  assert.deepEqual(mock.posts, [
    ['answer', { question: 'q1', digest: question('q1', 'rm -rf build/').digest, decision: 'deny' }], ['answer', { question: 'q7', digest: question('q7', 'git push').digest, decision: 'allow' }], ['message', { text: 'y is fine, <b>go on</b>' }], ['interrupt', {}], ['stop', {}],
  ]);
  assert.equal(await page.getByRole('button', { name: 'Interrupt' }).count(), 0);
});

test('an answer that the server refuses can be given again', async (t) => {
  const { mock, page } = await open(t, { path: '/sessions/asks', tolerate: (problem) => problem.includes('403') });
  await page.locator('.asked .ask').waitFor();
  mock.rows.get('asks').controllable = false;
  await page.locator('.asked').getByRole('button', { name: 'Allow once' }).click();
  await page.getByText('This session cannot be controlled from here.').waitFor();
  mock.rows.get('asks').controllable = true;
  await page.locator('.asked').getByRole('button', { name: 'Allow once' }).click();
  await page.locator('.asked .ask').waitFor({ state: 'detached' });
  assert.equal(mock.posts.length, 1);
});

test('beside the conversation: timeline, totals, cost per turn, sub-agents, resume, downloads', async (t) => {
  const { page } = await open(t, { path: '/sessions/asks' });
  const panel = page.getByRole('complementary');
  await panel.locator('.timeline rect').first().waitFor();
  assert.equal(await panel.locator('.timeline rect').count(), 6);
  // What ran at the same time is not in the same lane.
  const lanes = await panel.locator('.timeline rect.sub').evaluateAll((all) => all.map((one) => one.getAttribute('y')));
  assert.equal(new Set(lanes).size, 2);
  assert.deepEqual((await panel.locator('.totals dt').allTextContents()), ['Cost', 'Time', 'Turns', 'Tool calls', 'Input', 'Output', 'Cache hits', 'Context']);
  assert.equal(await panel.locator('.totals dd').first().getAttribute('title'), '$0.8412');
  assert.equal(await panel.locator('.turns tbody tr').count(), 5);
  assert.equal(await panel.locator('.tree .tree a').textContent(), 'read the callers');
  await panel.locator('.tree .tree a').click();
  await page.locator('#step-6.current').waitFor();
  await panel.getByRole('button', { name: 'Copy' }).click();
  await panel.getByRole('button', { name: 'Copied' }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'cd /home/dev/platform && claude --resume fbb02d28-0c1e-4d0a-9b57');
  const [download] = await Promise.all([page.waitForEvent('download'), panel.getByRole('link', { name: 'Markdown' }).click()]);
  assert.match(download.url(), /\/api\/v1\/sessions\/asks\/download\?format=markdown$/);
  assert.match(page.url(), /\/sessions\/asks#step-6$/);
});

test('the panel keeps focus and what is open while its numbers change', async (t) => {
  const { mock, page } = await open(t, { path: '/sessions/big' });
  const panel = page.getByRole('complementary');
  await panel.locator('summary').click();
  await panel.getByRole('button', { name: 'Copy' }).focus();
  mock.row({ id: 'big', cost_usd: 222.4 });
  await panel.locator('.totals dd', { hasText: '$222' }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Copy');
  assert.ok(await panel.locator('details').evaluate((details) => details.open));
});

test('a session that is not there says so', async (t) => {
  const { page } = await open(t, { path: '/sessions/nobody', tolerate: (problem) => problem.includes('404') });
  await page.getByRole('alert').getByText('There is no such session').waitFor();
  await page.keyboard.press('Escape');
  await rowOf(page, 'Upgrade axum').waitFor();
});

test('a session that has ended says how, below its steps, and what cannot be resumed has no command', async (t) => {
  const ending = '<p class=verdict>✗ claude: cannot start: no such file</p><p class=verdict>✗ failure (startup) · 0 turns</p>';
  const { mock, page } = await open(t, { path: '/sessions/broken', prepare: (mock) => {
    mock.step('broken', { kind: 'prompt', html: '<div class=prompt>Find out</div>' });
    mock.details.set('broken', { ending, resume: [], turns: [], spans: [] });
  } });
  await page.locator('.ending', { hasText: 'cannot start: no such file' }).waitFor();
  const below = await page.evaluate(() => document.querySelector('.ending').getBoundingClientRect().top >= document.querySelector('#step-0').getBoundingClientRect().bottom);
  assert.ok(below, 'it is the last thing of the conversation');
  await page.getByRole('heading', { name: 'In all' }).waitFor();
  await page.getByText('No tool ran.').waitFor();
  assert.equal(await page.getByRole('heading', { name: 'Resume' }).count(), 0);
  await shot(page, 'failed-light');
  // One that runs says nothing like that, until it has ended: then its reader sees it.
  await page.goto(`${mock.url}/sessions/axum`);
  await step(page, 3).waitFor();
  await page.getByRole('heading', { name: 'So far' }).waitFor();
  await page.getByRole('heading', { name: 'Resume' }).waitFor();
  await page.getByText('No tool has run yet.').waitFor();
  assert.ok(await page.locator('.ending').isHidden());
  mock.details.set('axum', { ending });
  mock.row({ id: 'axum', state: state('failed') });
  await page.locator('.ending', { hasText: 'failure (startup)' }).waitFor();
  await until(page, true, () => document.querySelector('.ending').getBoundingClientRect().bottom <= document.querySelector('.conversation').getBoundingClientRect().bottom);
});

test('the ends of a short timeline are told apart', async (t) => {
  const start = Date.parse('2026-11-18T10:00:05Z'), at = (seconds) => new Date(start + seconds * 1000).toISOString();
  const span = (from, to) => ({ step: 0, name: 'Bash', start: at(from), end: at(to), agent: null });
  const { mock, page } = await open(t, { path: '/sessions/old-0', old: 1, prepare: (mock) => mock.details.set('old-0', { spans: [span(0, 4), span(6, 20)] }) });
  const ends = () => page.locator('.ends span').allTextContents();
  await page.locator('.ends').waitFor();
  assert.match((await ends())[0], /^\d\d:\d\d:05$/);
  assert.match((await ends())[2], /^\d\d:00:25$/);
  mock.details.set('old-0', { spans: [span(0, 4), span(6, 7200)] });
  await page.reload();
  await page.locator('.ends').waitFor();
  assert.match((await ends()).join(' '), /^\d\d:00 tools \d\d:00$/);
});
