// A real browser with the page in it.

import { chromium, firefox } from 'playwright-core';
import { execFileSync } from 'node:child_process';

const patience = 10000; // milliseconds that a page has for whatever is waited for
const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome'];

function find(list, what, debian) {
  for (const name of list.filter(Boolean)) {
    try {
      return execFileSync('sh', ['-c', 'command -v "$0"', name], { encoding: 'utf8' }).trim();
    } catch { /* the next one */ }
  }
  throw new Error(`no ${what} on the PATH (Debian: apt-get install ${debian})`);
}

const options = () => ({
  executablePath: find([process.env.CHROMIUM, ...names], 'Chromium', 'chromium'), headless: true,
  args: ['--host-resolver-rules=MAP shoal.test 127.0.0.1', ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])],
});

/** Starts Chromium, or what CHROMIUM names. The page is reachable as shoal.test, too, which is no secure address. */
export const launch = () => chromium.launch(options());

/** Starts one that can be killed, as by a power cut. */
export async function launchApart() {
  const server = await chromium.launchServer(options());
  return { browser: await chromium.connect(server.wsEndpoint()), kill: () => server.kill() };
}

/** Starts the distribution's Firefox, which is driven by WebDriver BiDi. */
export function launchFirefox() {
  return firefox.launch({
    executablePath: find([process.env.FIREFOX, 'firefox-esr', 'firefox'], 'Firefox', 'firefox-esr'), headless: true, channel: 'moz-firefox',
  });
}

/**
 * Opens the page of a server in a context of its own. What it asks for, says on the console
 * and throws is kept in page.seen. url is what to open instead of page.address.
 */
export async function open(browser, server, { hash = '', host = '127.0.0.1', init, url, ...options } = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  page.seen = { requests: [], errors: [], console: [] };
  page.on('request', (r) => page.seen.requests.push(r));
  page.on('pageerror', (e) => page.seen.errors.push(e.message));
  page.on('console', (m) => { if (m.type() === 'error' || m.type() === 'warning') page.seen.console.push(m.text()); });
  await page.addInitScript(() => {
    globalThis.told = [];
    globalThis.sayChannel = new BroadcastChannel('shoal-say');
    globalThis.toldChannel = new BroadcastChannel('shoal-told');
    toldChannel.onmessage = (e) => told.push(e.data);
    globalThis.shifts = [];
    if (PerformanceObserver.supportedEntryTypes.includes('layout-shift')) {
      new PerformanceObserver((l) => shifts.push(...l.getEntries().filter((e) => !e.hadRecentInput).map((e) => e.value))).observe({ type: 'layout-shift', buffered: true });
    }
  });
  if (init) await page.addInitScript(init);
  page.address = `http://${host}:${server.port}/${hash && `#${hash}`}`;
  await page.goto(url ?? page.address);
  return page;
}

/** Has the invented peer say something to the page. */
export const say = (page, message) => page.evaluate((m) => sayChannel.postMessage(m), message);

/** What the page told the invented peer so far. */
export const told = (page) => page.evaluate(() => told);

/** Presses Join and waits until the invented peer is there. */
export async function joined(page) {
  await page.click('#main');
  await page.waitForFunction(() => told.some((m) => m.type === 'join'));
}

/** Waits for a word in the state's heading. */
export const word = (page, text) => page.waitForFunction((t) => document.querySelector('#word').textContent === t, text);

/** Waits until arcs and curve have come to rest. */
export const settled = (page) => page.waitForTimeout(700);

/** The longest task of the page's main thread in milliseconds of its own processor time, while body runs. */
export async function longestTask(browser, page, body) {
  await browser.startTracing(page, { categories: ['toplevel', 'blink.user_timing'] });
  let trace;
  try {
    await body();
    await page.evaluate(() => performance.mark('shoal-page'));
  } finally {
    trace = JSON.parse(await browser.stopTracing()).traceEvents;
  }
  const mark = trace.find((e) => e.name === 'shoal-page'); // the browser's own windows have main threads, too
  const tasks = trace.filter((e) => e.name.endsWith('RunTask') && e.tdur !== undefined && e.pid === mark.pid && e.tid === mark.tid);
  if (tasks.length < 100) throw new Error(`the trace has ${tasks.length} tasks of the main thread only`);
  return Math.max(...tasks.map((e) => e.tdur)) / 1000;
}
