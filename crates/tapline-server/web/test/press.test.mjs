// A press that lasts while everything changes: whatever is pressed is still there, and is clicked, when the pointer is released.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LOOKS, open, rowOf, settled, step } from './browser.mjs';
import { ago, prompt, question, row, state } from './data.mjs';

// A press on the filter leads to the list at once.
const TARGETS = 'a, button, summary, select, input:not(#filter), textarea, svg.timeline rect[data-key]';
const HELD = 300;

/** Everything that the list shows changes, and so does the session. */
function change(mock, n) {
  for (const [id, one] of mock.rows) {
    if (id.startsWith('old-')) continue;
    mock.row({ id, cost_usd: (one.cost_usd ?? 0) + 0.01, tokens: { ...one.tokens, output: one.tokens.output + 1 }, branch: `wt/${n}`, updated_at: ago(n % 2 ? Math.random() : 0) });
  }
  mock.step('asks', { kind: 'text', html: prompt(`Something new ${n}`) });
  for (const grown of mock.steps.get('asks').slice(0, 9)) mock.step('asks', { ...grown, html: grown.html.replace(/(<p>changed .*<\/p>)?$/, `<p>changed ${n}</p>`) });
}

/** Where the targets on the screen are; each gets a number. */
const find = (page) => page.evaluate((targets) => {
  const found = [];
  for (const element of document.querySelectorAll(targets)) {
    const { x, y, width, height } = element.getBoundingClientRect();
    const [left, top] = [x + width / 2, y + Math.min(height / 2, 12)];
    const there = document.elementFromPoint(left, top);
    if (width === 0 || height === 0 || !there || (there !== element && !element.contains(there))) continue;
    element.pressed = found.length;
    found.push({ x: left, y: top, name: `${element.localName}.${element.getAttribute('class') ?? ''} ${element.textContent.trim().slice(0, 40)}` });
  }
  return found;
}, TARGETS);

/** Notes which target each click arrives at, and lets it do nothing. */
const note = (page) => page.evaluate((targets) => {
  window.clicked = [];
  addEventListener('click', (event) => {
    window.clicked.push(event.target.closest(targets)?.pressed ?? event.target.localName);
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);
  // A menu that opens would cover what is pressed next.
  addEventListener('mousedown', (event) => event.target.closest('select') && event.preventDefault(), true);
}, TARGETS);

async function holdAll(mock, page, least) {
  await note(page);
  change(mock, 1000);
  await page.evaluate((held) => new Promise((resolve) => setTimeout(resolve, held)), HELD);
  await settled(page);
  const targets = await find(page);
  assert.ok(targets.length >= least, `only ${targets.length} targets: ${JSON.stringify(targets)}`);
  const lost = [];
  for (let n = 0; n < targets.length; n++) {
    // What changed meanwhile may have moved the target: it is aimed at anew, as a person would.
    await settled(page);
    const target = await page.evaluate(([targets, n]) => {
      const element = [...document.querySelectorAll(targets)].find((one) => one.pressed === n);
      element?.scrollIntoView({ block: 'nearest' });
      const box = element?.getBoundingClientRect();
      window.clicked = [];
      return box && { x: box.x + box.width / 2, y: box.y + Math.min(box.height / 2, 12) };
    }, [TARGETS, n]);
    if (!target) {
      lost.push([targets[n].name, 'is not in the document any more']);
      continue;
    }
    await page.mouse.move(target.x, target.y);
    await page.mouse.down();
    change(mock, n);
    await page.evaluate((held) => new Promise((resolve) => setTimeout(() => requestAnimationFrame(() => resolve()), held)), HELD);
    await page.mouse.up();
    // What waited for the release has its place when the next target is aimed at.
    const clicked = await page.evaluate(() => new Promise((resolve) => setTimeout(() => requestAnimationFrame(() => resolve(window.clicked)), 50)));
    if (clicked.length !== 1 || clicked[0] !== n) lost.push([targets[n].name, clicked]);
  }
  assert.deepEqual(lost, []);
}

test('a press on anything in the list arrives, whatever changes meanwhile', async (t) => {
  const { mock, page } = await open(t, { old: 30 });
  mock.row(row('second', { title: 'Asks, too', state: state('waiting'), questions: [question('q2', 'git push --force')], controllable: true, updated_at: ago(0) }));
  await rowOf(page, 'Asks, too').locator('.ask').waitFor();
  await holdAll(mock, page, 20);
});

test('a press on anything in a session arrives, whatever changes meanwhile', async (t) => {
  const { mock, page } = await open(t, { path: '/sessions/asks#step-3' });
  await step(page, 3).waitFor();
  await page.locator('.panel .resume').waitFor();
  await holdAll(mock, page, 20);
});

test('a press on anything in the costs arrives', async (t) => {
  const { mock, page } = await open(t, { path: '/costs?by=project' });
  await page.locator('.bars').waitFor();
  await holdAll(mock, page, 10);
});

test('a press on a row that is not selected opens it at the first time', async (t) => {
  const { mock, page } = await open(t);
  const title = rowOf(page, 'Upgrade axum').locator('a.title');
  await title.hover();
  await page.mouse.down();
  change(mock, 1);
  await page.evaluate((held) => new Promise((resolve) => setTimeout(resolve, held)), HELD);
  await page.mouse.up();
  await page.locator('.conversation').waitFor();
});

test('the buttons of a question stay where they are when it is selected, and a tap answers it', async (t) => {
  for (const look of [LOOKS.light, LOOKS.phone]) {
    const { mock, page } = await open(t, { look });
    mock.row(row('second', { title: 'Asks, too', state: state('waiting'), questions: [question('q2', 'git push --force')], controllable: true, updated_at: ago(0) }));
    const buttons = rowOf(page, 'Asks, too').locator('.ask button');
    await buttons.first().waitFor();
    const boxes = async () => Promise.all((await buttons.all()).map((button) => button.boundingBox()));
    const before = await boxes();
    await rowOf(page, 'Asks, too').locator('a.title').focus();
    await page.locator('.row.selected', { hasText: 'Asks, too' }).waitFor();
    assert.deepEqual(await boxes(), before);
    await rowOf(page, 'Make the failing').locator('a.title').focus();
    const no = buttons.nth(1);
    const answered = page.waitForResponse((response) => response.request().method() === 'POST');
    if (look.hasTouch) await no.tap();
    else await no.click({ delay: HELD });
    await rowOf(page, 'Asks, too').locator('.ask-buttons').waitFor({ state: 'detached' });
    await answered;
    assert.deepEqual(mock.posts.map(([what, { question, decision }]) => [what, question, decision]), [['answer', 'q2', 'deny']]);
  }
});
