// What takes minutes, and runs with SHOAL_LONG=1 only: what a tab's memory does over a thousand steps.

import test from 'node:test';
import assert from 'node:assert/strict';
import { launch, launchApart } from './browser.mjs';
import { startDaemon } from './daemon.mjs';

const patience = 60000; // milliseconds for the next thing to happen
const minutes = 60000;
const warm = 6000, over = 1000; // steps until the first look, and from there to the last
const looks = 20;              // of which the least counts: what is used for a moment only is no leak

async function join(browser, address, init) {
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  if (init) await page.addInitScript(init);
  await page.goto(address);
  await page.click('#main');
  await page.waitForFunction(() => document.querySelector('#word').textContent === 'Computing');
  return page;
}

const step = (page) => page.$eval('#progress', (e) => e.value);
const until = (page, n) => page.waitForFunction((n) => document.querySelector('#progress').value >= n, n, { timeout: 10 * minutes });

/** Joins, and follows what the page and its peer's worker hold: look() collects their garbage and gives the bytes. */
async function watched(browser, address) {
  const page = await join(browser, address, () => { // what the peer says of its WebAssembly memory
    const Real = Worker;
    globalThis.Worker = class extends Real {
      constructor(...args) {
        super(...args);
        this.addEventListener('message', (e) => { if (e.data.type === 'usage') globalThis.peerBytes = e.data.program; });
      }
    };
  });
  const devtools = await page.context().newCDPSession(page);
  const answers = new Map();
  let session, asked = 0;
  devtools.on('Target.attachedToTarget', (e) => { session = e.sessionId; });
  devtools.on('Target.receivedMessageFromTarget', (e) => {
    const m = JSON.parse(e.message);
    answers.get(m.id)?.(m.result); // others are events
  });
  await devtools.send('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: false, flatten: false });
  const ask = (method) => new Promise((resolve) => {
    answers.set(++asked, resolve);
    devtools.send('Target.sendMessageToTarget', { sessionId: session, message: JSON.stringify({ id: asked, method }) });
  });
  async function once() {
    await devtools.send('HeapProfiler.collectGarbage');
    await ask('HeapProfiler.collectGarbage');
    const all = (u) => u.usedSize + u.embedderHeapUsedSize;
    return {
      page: all(await devtools.send('Runtime.getHeapUsage')), worker: all(await ask('Runtime.getHeapUsage')),
      wasm: await page.waitForFunction(() => globalThis.peerBytes).then((h) => h.jsonValue()),
    };
  }
  async function look() {
    const least = await once();
    for (let i = 1; i < looks; i++) {
      await until(page, await step(page) + 40);
      const now = await once();
      for (const k of Object.keys(least)) least[k] = Math.min(least[k], now[k]);
    }
    return least;
  }
  return { page, look };
}

test('over a thousand steps a tab holds no more memory than after the first ones, and three killed tabs cost no step',
  { timeout: 30 * minutes, skip: process.env.SHOAL_LONG ? false : 'SHOAL_LONG=1 runs it' }, async (t) => {
    const daemon = await startDaemon();
    const browser = await launch();
    try {
      const { page, look } = await watched(browser, daemon.address);
      const from = await step(page) + warm;
      await until(page, from);
      const first = await look();
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
      const last = await look();
      t.diagnostic(`bytes at step ${from}: ${JSON.stringify(first)}, ${over} steps later: ${JSON.stringify(last)}`);
      const sum = (m) => m.page + m.worker + m.wasm;
      assert.ok(sum(last) <= 1.1 * sum(first), `${sum(first)} bytes have become ${sum(last)}`);
      assert.equal(await page.textContent('#word'), 'Computing');
    } finally {
      await browser.close();
      await daemon.stop();
    }
  });
