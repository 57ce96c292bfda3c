// A browser for the tests: Debian's Chromium, driven by playwright-core. scripts/web says where both are.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before } from 'node:test';
import { Mock } from './mock.mjs';

const { WEB_MODULES, CHROMIUM, WEB_SHOTS } = process.env;
export const require = createRequire(`${WEB_MODULES}/`);
const { chromium } = require('playwright-core');

export const LOOKS = {
  dark: { colorScheme: 'dark', viewport: { width: 1280, height: 860 } },
  light: { colorScheme: 'light', viewport: { width: 1280, height: 860 } },
  phone: { colorScheme: 'dark', viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true },
};

let browser;
before(async () => {
  // Chromium refuses its sandbox to root.
  browser = await chromium.launch({ executablePath: CHROMIUM, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
});
after(() => browser.close());

/** A page in a fresh browser context; at the end nothing may have gone wrong in it. */
export async function browse(t, { look = LOOKS.light, tolerate = () => false } = {}) {
  const context = await browser.newContext({ ...look, reducedMotion: 'reduce', permissions: ['clipboard-read', 'clipboard-write'] });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  const problems = [];
  page.on('pageerror', (error) => problems.push(String(error.stack)));
  page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
  t.after(async () => {
    await context.close();
    assert.deepEqual(problems.filter((problem) => !tolerate(problem)), []);
  });
  return { page, context };
}

/** A signed-in page on a mock of its own. */
export async function open(t, { path = '/', old = 0, prepare = () => {}, signIn = true, ...how } = {}) {
  // First the page ends, then what it talks to: a stream that breaks is an error in its console.
  const { page, context } = await browse(t, how);
  const mock = await new Mock(old).start();
  t.after(() => mock.close());
  await prepare(mock);
  if (signIn) await page.goto(mock.link);
  await page.goto(mock.url + path);
  return { mock, page, context };
}

/** Waits until a question about the page has the answer wanted. */
export async function until(page, wanted, question, argument) {
  try {
    await page.waitForFunction(([text, wanted, argument]) => JSON.stringify(eval(text)(argument)) === wanted, [String(question), JSON.stringify(wanted), argument]);
  } catch (error) {
    assert.deepEqual(await page.evaluate(question, argument), wanted, String(error));
  }
}

/** Waits until nothing has moved for a moment: what has takes no press. */
export const settled = (page) => page.waitForFunction(() => !document.querySelector('.unsettled'));

export const titles = (page) => page.locator('.row .title').allTextContents();
export const rowOf = (page, title) => page.locator('.row', { hasText: title });
export const step = (page, n) => page.locator(`#step-${n}`);

export async function shot(page, name) {
  mkdirSync(WEB_SHOTS, { recursive: true });
  await page.screenshot({ path: `${WEB_SHOTS}/${name}.png` });
}
