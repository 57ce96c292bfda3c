// Draws the pictures of the docs: a terminal's screen as SVG, and pages as PNG. scripts/pictures starts it.

import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [screen, page, link, folder] = process.argv.slice(2);
const { chromium } = createRequire(`${process.env.WEB_MODULES}/`)('playwright-core');

const COLOURS = { 31: '#e5484d', 32: '#46a758', 33: '#e2a336', 34: '#5b8def', 35: '#b278d6', 36: '#3fb1c5' };
const [WIDTH, HEIGHT, MARGIN] = [8.4, 19, 20];

const escaped = (text) => text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);

/** The parts of a line that look the same. */
function parts(line, look) {
  const found = [];
  for (const piece of line.split(/(\x1b\[[0-9;]*m)/)) {
    const codes = /^\x1b\[([0-9;]*)m$/.exec(piece);
    if (!codes) {
      if (piece) found.push({ text: piece, ...look });
      continue;
    }
    for (const code of (codes[1] || '0').split(';').map(Number)) {
      if (code === 0) for (const key of Object.keys(look)) delete look[key];
      if (code === 1) look.bold = true;
      if (code === 2) look.dim = true;
      if (code === 3) look.italic = true;
      if (code === 4) look.underlined = true;
      if (code === 22) delete look.bold, delete look.dim;
      if (code === 39) delete look.colour;
      if (COLOURS[code]) look.colour = COLOURS[code];
    }
  }
  return found;
}

function terminal(text) {
  const lines = text.trimEnd().split('\n');
  const look = {};
  const drawn = lines.map((line, row) => {
    let column = 0;
    const spans = parts(line, look).map(({ text, bold, dim, italic, underlined, colour }) => {
      const x = MARGIN + column * WIDTH;
      column += [...text].length;
      const style = [bold && 'font-weight="bold"', italic && 'font-style="italic"', underlined && 'text-decoration="underline"', `fill="${colour ?? (dim ? '#8b8f98' : '#e6e6e6')}"`];
      return `<tspan x="${x.toFixed(1)}" ${style.filter(Boolean).join(' ')}>${escaped(text)}</tspan>`;
    });
    return `<text y="${MARGIN + 30 + row * HEIGHT}">${spans.join('')}</text>`;
  });
  const columns = Math.max(...lines.map((line) => [...line.replace(/\x1b\[[0-9;]*m/g, '')].length));
  const [width, height] = [Math.ceil(2 * MARGIN + columns * WIDTH), MARGIN + 40 + lines.length * HEIGHT];
  const dots = ['#e5484d', '#e2a336', '#46a758'].map((fill, at) => `<circle cx="${MARGIN + 6 + at * 18}" cy="20" r="5.5" fill="${fill}"/>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="tapline demo in a terminal">
<rect width="100%" height="100%" rx="10" fill="#1b1d21"/>${dots.join('')}
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14" xml:space="preserve">
${drawn.join('\n')}
</g></svg>
`;
}

writeFileSync(`${folder}/terminal.svg`, terminal(readFileSync(screen, 'utf8')));

// Chromium refuses its sandbox to root.
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
for (const colorScheme of ['light', 'dark']) {
  const context = await browser.newContext({ colorScheme, reducedMotion: 'reduce', viewport: { width: 1180, height: 760 } });
  const tab = await context.newPage();
  await tab.goto(pathToFileURL(page).href);
  await tab.screenshot({ path: `${folder}/page-${colorScheme}.png` });
  if (colorScheme === 'light') await tab.goto(link);
  else await tab.context().addCookies(await light.cookies());
  const at = new URL(link).origin;
  await tab.goto(at);
  await tab.locator('.row .title').first().click();
  await tab.locator('[data-n], .step').first().waitFor();
  await tab.screenshot({ path: `${folder}/serve-${colorScheme}.png` });
  if (colorScheme === 'light') globalThis.light = context;
  else await context.close();
}
await browser.close();
