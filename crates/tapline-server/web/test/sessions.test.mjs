// The list of sessions: what a person with ten agents wants to see, and to do, without a mouse.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, rowOf, titles } from './browser.mjs';
import { ago, question, row, state } from './data.mjs';

const active = (page) => page.evaluate(() => document.activeElement?.textContent);

test('what needs a person is first, live ones follow, then the others', async (t) => {
  const { page } = await open(t);
  await rowOf(page, 'Make the failing date test pass').waitFor();
  assert.deepEqual((await titles(page)).slice(0, 4), [
    'Make the failing date test pass', 'Upgrade axum from 0.7 to 0.8 in every service', 'Translate the onboarding mails', 'Nightly review of open pull requests',
  ]);
  assert.deepEqual(await page.locator('.group h2').allTextContents(), ['Needs you 1', 'Live 3', 'Earlier 3']);
  const axum = rowOf(page, 'Upgrade axum');
  assert.equal(await axum.locator('.state').textContent(), 'running');
  assert.equal(await axum.locator('.sub').textContent(), 'platform · wt/axum-08 · claude-opus-5-5');
  assert.match(await axum.locator('.c-now').textContent(), /^running cargo test --workspace · \d+ s$/);
  assert.equal(await axum.locator('.c-cost').textContent(), '$4.10');
  assert.match(await axum.locator('.c-tokens').textContent(), /^2\.1M/);
  assert.equal(await axum.locator('.bar').getAttribute('aria-label'), '71 % of the context used');
  assert.match(await rowOf(page, 'Nightly review').locator('.state').textContent(), /^limit until \d\d:\d\d$/);
  assert.match(await rowOf(page, 'Translate').locator('.state').textContent(), /^silent for 4 m$/);
  assert.match(await rowOf(page, 'Find out why').locator('.c-now').textContent(), /529/);
});

test('a run appears, changes its state and goes, without a reload', async (t) => {
  const { mock, page } = await open(t);
  await rowOf(page, 'Upgrade axum').waitFor();
  mock.row(row('new', { title: 'A run that was just started', state: state('running'), updated_at: ago(0) }));
  await rowOf(page, 'A run that was just started').waitFor();
  assert.equal(await rowOf(page, 'just started').locator('.state').textContent(), 'running');
  mock.row({ id: 'new', state: state('failed', { message: 'the model refused' }) });
  await rowOf(page, 'just started').locator('.state', { hasText: 'failed' }).waitFor();
  mock.gone('new');
  await rowOf(page, 'just started').waitFor({ state: 'detached' });
});

const { digest } = question('q1', 'rm -rf build/');

test('a question is answered from the list by one key', async (t) => {
  const { mock, page } = await open(t);
  const ask = rowOf(page, 'Make the failing').locator('.ask');
  await ask.waitFor();
  assert.match(await ask.textContent(), /May it use Bash\?.*rm -rf build\//);
  assert.equal(await page.title(), '(1) tapline');
  // A key that comes right after the question appeared was meant for something else, so it may take more than one.
  while (mock.posts.length === 0) {
    await page.keyboard.press('y');
    await page.evaluate(() => new Promise(requestAnimationFrame));
  }
  await ask.waitFor({ state: 'detached' });
  assert.deepEqual(mock.posts, [['answer', { question: 'q1', digest, decision: 'allow' }]]);
  assert.equal(await page.title(), 'tapline');
});

test('a no with its reason is written without leaving the list, while the list changes', async (t) => {
  const { mock, page } = await open(t);
  const ask = rowOf(page, 'Make the failing').locator('.ask');
  await ask.getByRole('button', { name: 'No, because' }).click();
  await page.keyboard.type('use the y');
  mock.row({ id: 'asks', cost_usd: 9.87 });
  await rowOf(page, 'Make the failing').locator('.c-cost', { hasText: '$9.87' }).waitFor();
  await page.keyboard.type('ear');
  await page.keyboard.press('Enter');
  await ask.waitFor({ state: 'detached' });
  assert.deepEqual(mock.posts, [['answer', { question: 'q1', digest, decision: 'deny', message: 'use the year' }]]);
});

test('a button that is pressed while its row changes still does what it says', async (t) => {
  const { mock, page } = await open(t);
  const button = rowOf(page, 'Make the failing').getByRole('button', { name: 'No', exact: true });
  await button.hover();
  await page.mouse.down();
  mock.row({ id: 'asks', cost_usd: 9.87 });
  await rowOf(page, 'Make the failing').locator('.c-cost', { hasText: '$9.87' }).waitFor();
  await page.mouse.up();
  await page.locator('.ask').waitFor({ state: 'detached' });
  assert.deepEqual(mock.posts, [['answer', { question: 'q1', digest, decision: 'deny' }]]);
  const tile = page.getByRole('button', { name: 'Running' });
  await tile.hover();
  await page.mouse.down();
  mock.row({ id: 'mails', cost_usd: 1.23 });
  await rowOf(page, 'Translate').locator('.c-cost', { hasText: '$1.23' }).waitFor();
  await page.mouse.up();
  await rowOf(page, 'Translate').waitFor({ state: 'detached' });
});

test('a later question does not take the place of the one that a key would answer', async (t) => {
  const { mock, page } = await open(t);
  await page.locator('.row.selected', { hasText: 'Make the failing' }).waitFor();
  mock.row(row('later', { title: 'Another one', state: state('waiting'), questions: [question('q2', 'git push --force')], controllable: true, updated_at: ago(0) }));
  await rowOf(page, 'Another one').locator('.ask').waitFor();
  // Its buttons stay where they are, too.
  assert.deepEqual((await titles(page)).slice(0, 2), ['Make the failing date test pass', 'Another one']);
  assert.match(await page.locator('.row.selected').textContent(), /Make the failing/);
});

test('what cannot be controlled from here says where to answer', async (t) => {
  const { page } = await open(t, { prepare: (mock) => mock.row({ id: 'asks', controllable: false }) });
  const ask = rowOf(page, 'Make the failing').locator('.ask');
  await ask.getByText('Answer it where this session runs.').waitFor();
  assert.equal(await ask.getByRole('button').count(), 0);
});

test('who may only look has no buttons, and is told why', async (t) => {
  const prepare = (mock) => { mock.rights = ['read']; };
  const { mock, page } = await open(t, { prepare });
  const ask = rowOf(page, 'Make the failing').locator('.ask');
  await ask.getByText('Your token may only look.').waitFor();
  assert.equal(await ask.getByRole('button').count(), 0);
  await page.keyboard.press('j');
  await page.keyboard.press('n');
  const one = await open(t, { path: '/sessions/asks', prepare });
  await one.page.locator('.asked').getByText('Your token may only look.').waitFor();
  for (const name of ['Stop', 'Interrupt', 'Allow once']) assert.equal(await one.page.getByRole('button', { name }).count(), 0);
  assert.equal(await one.page.getByLabel('Message to the agent').count(), 0);
  assert.deepEqual([...mock.posts, ...one.mock.posts], []);
});

test('words and states filter as they are typed, and the address remembers them', async (t) => {
  const { mock, page } = await open(t, { old: 300 });
  await rowOf(page, 'Upgrade axum').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('AXUM plat');
  await rowOf(page, 'Make the failing').waitFor({ state: 'detached' });
  assert.deepEqual(await titles(page), ['Upgrade axum from 0.7 to 0.8 in every service']);
  await page.keyboard.press('Escape');
  await rowOf(page, 'Make the failing').waitFor();
  await page.getByRole('button', { name: 'Failed today' }).click();
  await rowOf(page, 'Make the failing').waitFor({ state: 'detached' });
  assert.equal(new URL(page.url()).search, '?q=is%3Afailed');
  assert.deepEqual([...new Set(await page.locator('.row .state').allTextContents())], ['failed']);
  mock.row({ id: 'axum', state: state('failed') });
  await rowOf(page, 'Upgrade axum').waitFor();
  await page.reload();
  await rowOf(page, 'Upgrade axum').waitFor();
  assert.deepEqual([...new Set(await page.locator('.row .state').allTextContents())], ['failed']);
});

test('the search finds words in conversations and leads to the step', async (t) => {
  const { page } = await open(t);
  await rowOf(page, 'Upgrade axum').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('divmod');
  await page.locator('.hits mark').first().waitFor();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.locator('#step-7.current').waitFor();
  assert.match(page.url(), /\/sessions\/asks#step-7$/);
  assert.match(await page.locator('#step-7').textContent(), /divmod/);
});

test('columns sort, within what needs a person, what is live, and the rest', async (t) => {
  const { page } = await open(t);
  await rowOf(page, 'Upgrade axum').waitFor();
  await page.getByRole('button', { name: 'Cost' }).click();
  assert.deepEqual((await titles(page)).slice(0, 5), [
    'Make the failing date test pass', 'Upgrade axum from 0.7 to 0.8 in every service', 'Nightly review of open pull requests', 'Translate the onboarding mails', 'A session of 100,000 steps',
  ]);
  assert.equal(await page.locator('.heads [aria-sort]').getAttribute('aria-sort'), 'descending');
  await page.getByRole('button', { name: 'Cost' }).click();
  assert.equal(await page.locator('.heads [aria-sort]').getAttribute('aria-sort'), 'ascending');
  assert.equal((await titles(page))[1], 'Translate the onboarding mails');
});

test('10,000 sessions are all there, and only those on the screen are in the document', async (t) => {
  const { mock, page } = await open(t, { old: 10_000 });
  await page.locator('.group', { hasText: 'Earlier 10,003' }).waitFor();
  assert.equal(await page.getByRole('table').getAttribute('aria-rowcount'), String(10_007 + 3 + 1));
  const most = async () => assert.ok(await page.locator('.row').count() < 80);
  await most();
  for (const share of [0.3, 0.9, 0.5, 1]) {
    await page.evaluate((share) => scrollTo(0, document.documentElement.scrollHeight * share), share);
    await page.waitForFunction(() => document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest('.row'));
    await most();
  }
  await rowOf(page, 'Port cache headers, part 100').waitFor();
  // What changes far away moves nothing here.
  const before = await rowOf(page, 'Port cache headers, part 100').boundingBox();
  mock.row({ id: 'axum', cost_usd: 5.55 });
  mock.row({ id: 'old-9999', cost_usd: 7.77 });
  await rowOf(page, 'Port cache headers, part 100').locator('.c-cost', { hasText: '$7.77' }).waitFor();
  assert.deepEqual(await rowOf(page, 'Port cache headers, part 100').boundingBox(), before);
});

test('the keyboard alone suffices, and the focus stays on its row while the list changes', async (t) => {
  const { mock, page } = await open(t, { old: 500 });
  await rowOf(page, 'Upgrade axum').waitFor();
  await page.keyboard.press('j');
  assert.equal(await active(page), 'Make the failing date test pass');
  await page.keyboard.press('j');
  assert.equal(await active(page), 'Upgrade axum from 0.7 to 0.8 in every service');
  mock.row(row('new', { title: 'New and second', state: state('waiting'), updated_at: ago(0) }));
  mock.row({ id: 'axum', cost_usd: 6.66 });
  await rowOf(page, 'Upgrade axum').locator('.c-cost', { hasText: '$6.66' }).waitFor();
  await rowOf(page, 'New and second').waitFor();
  assert.equal(await active(page), 'Upgrade axum from 0.7 to 0.8 in every service');
  for (let n = 0; n < 40; n++) await page.keyboard.press('j');
  const at = await page.evaluate(() => document.activeElement.closest('.row').getBoundingClientRect().bottom <= innerHeight);
  assert.ok(at, 'the row with the focus is on the screen');
  for (let n = 0; n < 42; n++) await page.keyboard.press('k');
  assert.equal(await active(page), 'Make the failing date test pass');
  await page.keyboard.press('Enter');
  await page.locator('.conversation').waitFor();
  await page.keyboard.press('Escape');
  await rowOf(page, 'Upgrade axum').waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  // From the start of the page, Tab reaches the links, the field, the tiles, the columns and the rows.
  await page.reload();
  await rowOf(page, 'Upgrade axum').waitFor();
  const reached = [];
  for (let n = 0; n < 24; n++) {
    await page.keyboard.press('Tab');
    reached.push(await page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent));
  }
  for (const wanted of ['Skip to the content', 'Costs', 'Filter and search sessions', 'Keys', 'Cost', 'Make the failing date test pass', 'Allow oncey', 'Upgrade axum from 0.7 to 0.8 in every service']) {
    assert.ok(reached.includes(wanted), `${wanted} in ${JSON.stringify(reached)}`);
  }
});

test('back from a session, the list is as it was left', async (t) => {
  const { page } = await open(t, { old: 2000 });
  await rowOf(page, 'Upgrade axum').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('billing');
  await page.locator('.group', { hasText: 'Earlier 286' }).waitFor();
  await page.keyboard.press('ArrowDown');
  for (let n = 0; n < 100; n++) await page.keyboard.press('j');
  const [title, y] = [await active(page), await page.evaluate(() => scrollY)];
  assert.ok(y > 3000);
  await page.keyboard.press('Enter');
  await page.locator('.conversation').waitFor();
  await page.keyboard.press('Escape');
  await rowOf(page, title).waitFor();
  assert.equal(await active(page), title);
  assert.equal(await page.evaluate(() => scrollY), y);
  assert.match(page.url(), /\?q=billing$/);
  await page.goBack();
  await page.locator('.conversation').waitFor();
  await page.goBack();
  await rowOf(page, title).waitFor();
  await page.getByRole('link', { name: 'Sessions', exact: true }).click();
  await page.locator('.group', { hasText: 'Earlier 2,003' }).waitFor();
});

test('without a session the page says what to do; without a cookie it says how to come in', async (t) => {
  const { page } = await open(t, { prepare: (mock) => mock.rows.clear() });
  await page.getByText('There are no sessions yet.').waitFor();
  const other = await open(t, { signIn: false, tolerate: (problem) => problem.includes('401') });
  await other.page.getByText('Open the link that “tapline serve link” prints').first().waitFor();
  await other.page.getByLabel('Token', { exact: true }).fill('another');
  await other.page.getByRole('button', { name: 'Sign in' }).click();
  await other.page.getByText('The token is wrong').waitFor();
  await other.page.getByLabel('Token', { exact: true }).fill('a-token-of-the-mock');
  await other.page.keyboard.press('Enter');
  await rowOf(other.page, 'Upgrade axum').waitFor();
  assert.equal(await other.page.locator('dialog').count(), 0);
});

test('budgets that are nearly or quite used up are told above the list, calmly; the others are not', async (t) => {
  const { mock, page } = await open(t);
  await page.locator('.warning', { hasText: "This month's budget is nearly used up." }).waitFor();
  assert.equal(await page.locator('.warning').count(), 1);
  assert.match(await page.locator('.warning').textContent(), /\$172 of \$200 \(86 %\)$/);
  mock.budgets = [{ project: 'shop', limit_usd: 10, spent_usd: 12, period: 'month', level: 'over', message: "This month's budget for shop is used up." }];
  await page.reload();
  await page.locator('.warning.over', { hasText: 'for shop is used up' }).click();
  await page.locator('.budget.over', { hasText: 'shop: budget used up' }).waitFor();
});

test('the keys that steer runs are listed only where they do something', async (t) => {
  const { page } = await open(t, { prepare: (mock) => { mock.control = false; } });
  await rowOf(page, 'Upgrade axum').waitFor();
  await page.keyboard.press('?');
  await page.locator('dialog').getByText('next, previous step').waitFor();
  assert.equal(await page.locator('dialog').getByText('allow once').count(), 0);
  const allowed = await open(t);
  await rowOf(allowed.page, 'Upgrade axum').waitFor();
  await allowed.page.keyboard.press('?');
  await allowed.page.locator('dialog').getByText('allow once').waitFor();
});

test('when a session was last heard of is a time of day or a day, whether it lives or not', async (t) => {
  const { page } = await open(t);
  await rowOf(page, 'Upgrade axum').waitFor();
  for (const text of await page.locator('.row .c-time').allTextContents()) assert.match(text, /^(\d\d:\d\d|\d+ \w+( \d{4})?)$/);
});

test('when a session costs more, the sum of the day is asked for again', async (t) => {
  const { mock, page } = await open(t);
  await rowOf(page, 'Upgrade axum').waitFor();
  const today = page.locator('a.tile b');
  await today.waitFor();
  const before = await today.textContent();
  const costs = mock.costs.bind(mock);
  mock.costs = (...how) => {
    const all = costs(...how);
    all.rows.at(-1).cost_usd = 7.77;
    return all;
  };
  mock.row({ id: 'axum', cost_usd: 4.2 });
  await today.filter({ hasText: '$7.77' }).waitFor();
  assert.notEqual(before, '$7.77');
});

test('today is the day that the server says, in the zone of the browser', async (t) => {
  const zones = new Set();
  const prepare = (mock) => {
    const costs = mock.costs.bind(mock);
    mock.costs = (by, last, tz) => {
      zones.add(tz);
      const all = costs(by, last), row = (key, cost_usd) => ({ ...all.rows[0], key, cost_usd });
      return { ...all, today: '2031-03-01', rows: [row('2031-02-28', 1.5), row('2031-03-01', 2.5)] };
    };
  };
  const { page } = await open(t, { prepare });
  await page.locator('a.tile b', { hasText: '$2.50' }).waitFor();
  await page.locator('a.tile', { hasText: 'yesterday $1.50' }).waitFor();
  assert.deepEqual([...zones], [await page.evaluate(() => Intl.DateTimeFormat().resolvedOptions().timeZone)]);
});
