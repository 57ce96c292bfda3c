// Streams break. The page goes on where it was, says so calmly, and neither loses nor repeats anything.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, rowOf, step } from './browser.mjs';
import { ago, row, state, text } from './data.mjs';

const tolerate = (problem) => /503|ERR_|Failed to load/.test(problem);

test('the list goes on after the last event that it has seen', async (t) => {
  const { mock, page } = await open(t, { tolerate });
  await rowOf(page, 'Upgrade axum').waitFor();
  mock.row(row('one', { title: 'Before the break', state: state('running'), updated_at: ago(0) }));
  await rowOf(page, 'Before the break').waitFor();
  mock.down = true;
  mock.cut();
  await page.getByText('Connection lost. Trying again').waitFor();
  mock.row(row('two', { title: 'During the break', state: state('running'), updated_at: ago(0) }));
  mock.down = false;
  await rowOf(page, 'During the break').waitFor();
  await page.getByText('Connection lost').waitFor({ state: 'hidden' });
  // Two events were sent before: of the session, in the list.
  assert.equal(mock.streams.filter(({ url }) => url.endsWith('/events')).at(-1).after, '1');
});

test('when the server does not know any more what was missed, the list is read again', async (t) => {
  const { mock, page } = await open(t, { tolerate });
  await rowOf(page, 'Upgrade axum').waitFor();
  mock.down = true;
  mock.cut();
  await page.getByText('Connection lost').waitFor();
  mock.rows.set('new', row('new', { title: 'Nobody told about it', state: state('running'), updated_at: ago(0) }));
  mock.rows.delete('axum');
  mock.forget();
  mock.down = false;
  await rowOf(page, 'Nobody told about it').waitFor();
  await rowOf(page, 'Upgrade axum').waitFor({ state: 'detached' });
});

test('a session goes on after the last event, and nothing is shown twice', async (t) => {
  const { mock, page } = await open(t, { path: '/sessions/axum', tolerate });
  await step(page, 3).waitFor();
  mock.step('axum', { html: text('<p>before</p>') });
  await step(page, 4).waitFor();
  mock.down = true;
  mock.cut();
  await page.getByText('Connection lost').waitFor();
  mock.step('axum', { n: 4, html: text('<p>before, and grown</p>') });
  mock.step('axum', { html: text('<p>during</p>') });
  mock.down = false;
  await step(page, 5).getByText('during').waitFor();
  await step(page, 4).getByText('before, and grown').waitFor();
  assert.equal(await page.locator('.step').count(), 6);
  assert.equal(mock.streams.at(-1).after, '1');
});

test('a session that fell behind is read again', async (t) => {
  const { mock, page } = await open(t, { path: '/sessions/axum', tolerate });
  await step(page, 3).waitFor();
  mock.down = true;
  mock.cut();
  await page.getByText('Connection lost').waitFor();
  for (let n = 0; n < 250; n++) mock.step('axum', { html: text(`<p>missed ${n}</p>`) });
  mock.step('axum', { n: 2, html: text('<p>changed meanwhile</p>') });
  mock.forget();
  mock.down = false;
  await page.getByText('Connection lost').waitFor({ state: 'hidden' });
  await page.keyboard.press('G');
  await step(page, 253).waitFor();
  await page.keyboard.press('g');
  await step(page, 2).getByText('changed meanwhile').waitFor();
  assert.equal(await page.locator('[id="step-2"]').count(), 1);
});

test('steps that arrive while pages are read are neither lost nor doubled', async (t) => {
  const { mock, page } = await open(t, { path: '/sessions/axum' });
  await step(page, 3).waitFor();
  for (let n = 0; n < 700; n++) mock.step('axum', { html: text(`<p>row ${n}</p>`) });
  await step(page, 703).waitFor();
  await page.locator('.conversation').evaluate((box) => { box.scrollTop -= 300; });
  await page.getByRole('button', { name: 'Newest' }).waitFor();
  // The page that is asked for is older than the events that arrive before it.
  await page.route('**/steps?*', async (route) => {
    const response = await route.fetch();
    mock.step('axum', { n: 5, html: text('<p>newer than the page</p>') });
    mock.step('axum', { html: text('<p>another one</p>') });
    await page.getByRole('button', { name: '1 new' }).waitFor();
    await route.fulfill({ response });
  }, { times: 1 });
  await page.evaluate(() => { location.hash = 'step-3'; });
  await page.locator('#step-3.current').waitFor();
  await step(page, 5).getByText('newer than the page').waitFor();
  assert.equal(await page.locator('[id="step-5"]').count(), 1);
  await page.keyboard.press('G');
  await step(page, 704).getByText('another one').waitFor();
  assert.equal(await page.locator('[id="step-704"]').count(), 1);
});

test('a tab has one stream: the list is not followed while a session is', async (t) => {
  const { mock, page } = await open(t);
  await rowOf(page, 'Upgrade axum').click();
  await step(page, 3).waitFor();
  await page.waitForFunction(() => true);
  while (mock.list.clients.size > 0 || mock.topic('axum').clients.size === 0) await page.evaluate(() => new Promise(requestAnimationFrame));
  mock.row(row('quiet', { title: 'Came while away', state: state('running'), updated_at: ago(0) }));
  await page.keyboard.press('Escape');
  await rowOf(page, 'Came while away').waitFor();
  while (mock.topic('axum').clients.size > 0) await page.evaluate(() => new Promise(requestAnimationFrame));
});
