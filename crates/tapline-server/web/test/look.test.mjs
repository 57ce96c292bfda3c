// Costs, hostile text, axe-core, and pictures of every view: dark, light, on a phone. Look at them: target/web/shots.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { LOOKS, open, require, rowOf, shot, step } from './browser.mjs';
import { CANARY, HOSTILE, question } from './data.mjs';

test('costs: bars with the sum on top, exact numbers beneath, a budget that warns', async (t) => {
  const { mock, page } = await open(t, { path: '/costs' });
  await page.locator('.columns .column').first().waitFor();
  const { totals } = mock.costs('day', '30d');
  assert.equal(await page.locator('.sum b').textContent(), '$' + Math.round(totals.cost_usd));
  assert.equal(await page.locator('.columns .column').count(), 30, 'days without a cost have their place');
  assert.match(await page.getByRole('alert').textContent(), /Budget nearly used up.*\$172 of \$200 this month \(86 %\)/);
  assert.match(await page.locator('.budget.fine').textContent(), /^billing-api: budget.*\$11\.20 of \$40\.00 this month \(28 %\)/);
  assert.match(await page.locator('.numbers tfoot').textContent(), new RegExp(totals.input.toLocaleString('en-US')));
  for (const [by, first] of Object.entries({ project: 'dev/', model: 'claude', tool: '', agent: 'c' })) {
    await page.getByRole('link', { name: `By ${by}` }).click();
    await page.locator('.bars li').first().waitFor();
    const rows = mock.costs(by, '30d').rows;
    assert.equal(await page.locator('.bars li').count(), rows.length);
    assert.ok((await page.locator('.bars .key').first().textContent()).startsWith(first));
    assert.equal(await page.locator('.numbers tbody tr').count(), rows.length);
  }
  await page.getByRole('link', { name: 'By model' }).click();
  await page.getByText('There is no price for a-model-without-a-price.').waitFor();
  assert.match(await page.locator('.sum b').textContent(), /^≥ \$/);
  assert.match(await page.locator('.bars li').last().textContent(), /^a-model-without-a-priceunknown$/);
  // Requests without a model have no name that could be listed.
  mock.unknownModels = [''];
  await page.reload();
  await page.getByText('There is no price for a-model-without-a-price, requests that name no model.').waitFor();
  await page.getByRole('link', { name: 'By agent' }).click();
  await page.getByText('There is no price for requests that name no model.').waitFor();
  await page.getByRole('link', { name: 'By model' }).click();
  mock.budgets = [{ project: null, limit_usd: 100, spent_usd: 120, period: 'month', level: 'over', message: "This month's budget is used up." }];
  await page.reload();
  await page.getByText('Budget used up').waitFor();
});

test('a hostile session runs nothing: not by its title, not in the console, not over the network', async (t) => {
  const blocked = (problem) => /Content Security Policy|violates|Refused|ERR_|Failed to load resource/.test(problem);
  const { page } = await open(t, {
    tolerate: (problem) => blocked(problem) && !problem.startsWith(CANARY), prepare: (mock) => mock.row({ id: 'evil', questions: [question('q9', HOSTILE[5])] }),
  });
  const requests = [], said = [];
  page.on('request', (request) => requests.push(request.url()));
  page.on('console', (message) => message.type() !== 'error' && said.push(message.text()));
  page.on('dialog', (dialog) => said.push(dialog.message()));
  await rowOf(page, HOSTILE[0]).waitFor();
  assert.equal(await page.locator('.row img, .row svg, .row script').count(), 0);
  // What turns the direction of writing is shown, not obeyed: a command is asked about as it is.
  const hidden = () => page.evaluate(() => /[\0-\x08\x0b-\x1f\u202a-\u202e]/.test(document.title + document.querySelector('.table, .session-head').textContent + document.querySelector('.ask').outerHTML));
  assert.equal(await hidden(), false);
  assert.match(await rowOf(page, HOSTILE[0]).locator('.ask .part').first().textContent(), /<U\+202E>gnp\.exe <U\+0007>$/);
  await page.locator('#filter').fill('canary');
  await rowOf(page, HOSTILE[0]).locator('a.title').click();
  await step(page, 0).waitFor();
  const last = HOSTILE.length * 2 + 9;
  await step(page, last).waitFor();
  assert.equal(await page.locator('h1').textContent(), HOSTILE[0] + ' <U+202E>');
  assert.equal(await hidden(), false);
  assert.ok((await page.title()).startsWith('(1) ' + HOSTILE[0]));
  for (const link of await page.locator('.step .body a').all()) await link.click();
  for (const button of await page.locator('.step .body button').all()) await button.click();
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve)));
  assert.ok(page.url().endsWith('/sessions/evil'), page.url());
  assert.equal(await page.locator('.step :is(script, iframe, meta, form, style, link, base, object, embed)').count(), 0);
  assert.notEqual(await page.title(), CANARY);
  assert.deepEqual(requests.filter((url) => new URL(url).hostname !== '127.0.0.1' || new URL(url).pathname.includes(CANARY)), []);
  assert.deepEqual(said.filter((text) => text.includes(CANARY)), []);
  assert.match(await page.locator('.resume pre').textContent(), /^cd '.*' && claude --resume 'it'\\''s; \$\(rm -rf \/\)'$/);
});

const VIEWS = {
  sessions: { path: '/', ready: (page) => rowOf(page, 'Upgrade axum').waitFor() },
  found: { path: '/?q=divmod', ready: (page) => page.locator('.hits mark').first().waitFor() },
  session: { path: '/sessions/asks', ready: (page) => page.locator('.turns').waitFor() },
  long: { path: '/sessions/big#step-50000', ready: (page) => page.locator('#step-50000.current').waitFor() },
  days: { path: '/costs', ready: (page) => page.locator('.columns').waitFor() },
  models: { path: '/costs?by=model', ready: (page) => page.locator('.bars').waitFor() },
  keys: { path: '/', ready: async (page) => { await rowOf(page, 'Upgrade axum').waitFor(); await page.keyboard.press('?'); } },
  absent: { path: '/sessions/nope', ready: (page) => page.getByRole('heading', { name: 'There is no such session' }).waitFor() },
  panel: { path: '/sessions/asks', only: 'phone', ready: async (page) => { await page.locator('.turns').waitFor({ state: 'attached' }); await page.locator('.more').click(); } },
};

for (const [look, settings] of Object.entries(LOOKS)) {
  test(`axe-core finds nothing serious: ${look}`, async (t) => {
    const { page, mock } = await open(t, { old: 10_000, look: settings, tolerate: (problem) => problem.startsWith('Applying inline style') || problem.includes('status of 404') });
    // axe-core tries to copy style sheets into the page, which the policy does not allow.
    const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
    for (const [name, { path, ready, only }] of Object.entries(VIEWS)) {
      if (only && only !== look) continue;
      await page.goto('about:blank');
      await page.goto(mock.url + path);
      await (name === 'session' && look === 'phone' ? step(page, 8).waitFor() : ready(page));
      await shot(page, `${name}-${look}`);
      // Nothing is wider than the screen.
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} on ${look} scrolls sideways`);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
      const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
      assert.deepEqual(serious.map(({ id, nodes }) => [id, nodes.slice(0, 3).map(({ html, failureSummary }) => html + failureSummary)]), [], `${name} on ${look}`);
    }
  });
}

test('one turn is one turn', async (t) => {
  const turn = { n: 1, started_at: null, duration_ms: 1000, cost_usd: 0.1, tokens: { input: 1, output: 1, cache_read: 0, cache_write: 0 } };
  const { page } = await open(t, { path: '/sessions/broken', look: LOOKS.phone, prepare: (mock) => mock.details.set('broken', { turns: [turn] }) });
  await page.locator('.more', { hasText: /^1 turn · / }).waitFor();
});

test('the table of costs fits, and where it does not, it scrolls in its own box', async (t) => {
  const long = (mock) => {
    const costs = mock.costs.bind(mock);
    mock.costs = (...how) => {
      const all = costs(...how);
      for (const row of all.rows) Object.assign(row, { key: `/home/dev/${'work/on/'.repeat(12)}${row.key}`, cache_read: 1_234_567_890, exact: false });
      return all;
    };
  };
  const sizes = (page) => page.locator('.scrolls').evaluate((box) => [box.scrollWidth - box.clientWidth, document.documentElement.scrollWidth - innerWidth]);
  const { page } = await open(t, { path: '/costs?by=project', prepare: long });
  await page.locator('.numbers').waitFor();
  assert.deepEqual(await sizes(page), [0, 0]);
  await shot(page, 'costs-long-light');
  const phone = await open(t, { path: '/costs?by=project', prepare: long, look: LOOKS.phone });
  await phone.page.locator('.numbers').waitFor();
  const [inside, outside] = await sizes(phone.page);
  assert.ok(inside > 0 && outside <= 0, `${inside} ${outside}`);
  await phone.page.locator('.scrolls').evaluate((box) => { box.scrollLeft = box.scrollWidth; });
  assert.ok(await phone.page.evaluate(() => document.querySelector('.numbers tfoot td:last-child').getBoundingClientRect().right <= innerWidth));
  await phone.page.locator('.scrolls').scrollIntoViewIfNeeded();
  await shot(phone.page, 'costs-long-phone');
});
