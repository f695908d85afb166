// What takes minutes, and runs with SHOAL_LONG=1 only: what a tab's memory does over a thousand steps.

import test from 'node:test';
import assert from 'node:assert/strict';
import { launch, launchApart } from './browser.mjs';
import { startDaemon } from './daemon.mjs';

const patience = 60000; // milliseconds for the next thing to happen
const minutes = 60000;
const warm = 200, over = 1000; // steps until the first look, and from there to the last
const looks = 5;               // of which the least counts: what is used for a moment only is no leak

async function join(browser, address) {
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  await page.goto(address);
  await page.click('#main');
  await page.waitForFunction(() => document.querySelector('#word').textContent === 'Computing');
  return page;
}

const step = (page) => page.$eval('#progress', (e) => e.value);
const until = (page, n) => page.waitForFunction((n) => document.querySelector('#progress').value >= n, n, { timeout: 10 * minutes });

/** Bytes of each kind that the page and its workers hold after a collection of garbage, by the browser's own account. */
async function memory(page) {
  let least = null;
  for (let i = 0; i < looks; i++) {
    const m = await page.evaluate(() => performance.measureUserAgentSpecificMemory());
    if (!least || m.bytes < least.bytes) least = m;
  }
  const scope = (b) => b.attribution.map((a) => a.scope).join() || 'shared';
  const parts = least.breakdown.filter((b) => b.bytes > 0).map((b) => `${scope(b)} ${b.types.join()}: ${b.bytes}`);
  return { bytes: least.bytes, parts };
}

test('over a thousand steps a tab holds no more memory than after the first ones, and three killed tabs cost no step',
  { timeout: 30 * minutes, skip: process.env.SHOAL_LONG ? false : 'SHOAL_LONG=1 runs it' }, async (t) => {
    const daemon = await startDaemon();
    const browser = await launch();
    try {
      const page = await join(browser, daemon.address);
      const from = await step(page) + warm;
      await until(page, from);
      const first = await memory(page);
      for (let i = 1; i <= 3; i++) {
        const other = await launchApart();
        try {
          await join(other.browser, daemon.address);
          await until(page, await step(page) + 5);
        } finally {
          await other.kill();
        }
        const at = await step(page);
        await until(page, Math.max(at + 20, from + i * over / 4));
      }
      await until(page, from + over);
      const last = await memory(page);
      t.diagnostic(`at step ${from}: ${first.bytes} bytes (${first.parts.join('; ')})`);
      t.diagnostic(`${over} steps later: ${last.bytes} bytes (${last.parts.join('; ')})`);
      assert.ok(last.bytes <= 1.05 * first.bytes, `${first.bytes} bytes have become ${last.bytes}`);
      assert.equal(await page.textContent('#word'), 'Computing');
    } finally {
      await browser.close();
      await daemon.stop();
    }
  });
