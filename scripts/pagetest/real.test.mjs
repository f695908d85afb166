// The page, the peer behind it and a daemon, all real: in Chromium, and in the distribution's Firefox.

import test, { before, after } from 'node:test';
import assert from 'node:assert/strict';
import { launch, launchFirefox } from './browser.mjs';
import { startDaemon, startOther } from './daemon.mjs';

const patience = 40000; // milliseconds for the next thing to happen, on a machine that does much else
let daemon;

before(async () => { daemon = await startDaemon(); });
after(() => daemon?.stop());

async function openPage(browser, address = daemon.address) {
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  page.said = [];
  page.on('pageerror', (e) => { if (!/ws:\/\//.test(e.message)) page.said.push(e.message); }); // Firefox tells of connections, too, that were closed in the middle
  await page.goto(address);
  await state(page, 'Not joined');
  return page;
}

const state = (page, word) => page.waitForFunction((w) => {
  const is = document.querySelector('#word').textContent;
  if (['Stopped', 'Refused', 'No answer'].includes(is) && is !== w) throw new Error(`${is}: ${document.querySelector('#sentence').textContent}`);
  return is === w;
}, word);

const samples = (page) => page.$eval('#samples', (e) => Number(e.textContent.replace(/\D/g, '')));
const step = (page) => page.$eval('#progress', (e) => e.value);

/** Waits until the device has a share and has computed more than so many samples. */
const works = (page, than) => page.waitForFunction((n) => Number(document.querySelector('#samples').textContent.replace(/\D/g, '')) > n &&
  /[1-9]/.test(document.querySelector('#share').textContent) && document.querySelector('#ring .own') && document.querySelector('#list .own'), than);

async function joinAndTrain(page) {
  assert.equal(await page.locator('#list li').count(), 1);
  await page.click('#main');
  await state(page, 'Computing');
  await works(page, 0);
  assert.match(await page.textContent('#ring .who'), /^1 daemon, 1 tab$/);
  assert.match(await page.textContent('#received'), /[1-9].* [KMG]iB/);
  const at = await step(page);
  await page.waitForFunction((n) => document.querySelector('#progress').value > n + 3, at);
}

async function leave(page) {
  await page.click('#leave');
  await state(page, 'Left');
  const at = await step(page);
  await page.waitForFunction((n) => document.querySelector('#progress').value > n && document.querySelectorAll('#list li').length === 1, at); // the daemon goes on alone
  assert.deepEqual(page.said, []);
}

test('Chromium joins, trains, pauses, resumes and leaves', { timeout: 180000 }, async () => {
  const browser = await launch();
  try {
    const page = await openPage(browser);
    await joinAndTrain(page);
    const had = await samples(page);
    await page.click('#pause');
    await state(page, 'Paused');
    assert.equal(await page.textContent('#share'), '0%');
    await page.click('#main');
    await state(page, 'Computing');
    await works(page, had);
    await leave(page);
  } finally {
    await browser.close();
  }
});

test('Chromium joins and trains from an insecure address, which has no shared memory', { timeout: 180000 }, async () => {
  const browser = await launch();
  try {
    const page = await openPage(browser, daemon.address.replace('127.0.0.1', 'shoal.test'));
    assert.equal(await page.evaluate(() => isSecureContext || crossOriginIsolated), false);
    assert.match(await page.textContent('#slower'), /plain http/);
    await joinAndTrain(page);
    await leave(page);
  } finally {
    await browser.close();
  }
});

test('a tab goes on without the daemon that served its page, and comes back after a pause', { timeout: 180000 }, async () => {
  const serving = await startDaemon();
  const others = [];
  const browser = await launch();
  try {
    for (let i = 0; i < 2; i++) others.push(await startOther(serving)); // two of three still agree without the third
    const page = await openPage(browser, serving.address);
    await page.click('#main');
    await state(page, 'Computing');
    await works(page, 0);
    await serving.stop();
    const at = await step(page);
    await page.waitForFunction((n) => document.querySelector('#progress').value > n + 20, at);
    assert.match(await page.textContent('#ring .who'), /^2 daemons, 1 tab$/);
    await page.click('#pause');
    await state(page, 'Paused');
    const had = await samples(page);
    await page.click('#main');
    await state(page, 'Computing');
    await works(page, had);
    assert.deepEqual(page.said, []);
  } finally {
    await browser.close();
    await Promise.all([serving, ...others].map((d) => d.stop()));
  }
});

test('Firefox joins, trains and leaves', { timeout: 180000 }, async () => {
  const browser = await launchFirefox();
  try {
    const page = await openPage(browser);
    await joinAndTrain(page);
    await leave(page);
  } finally {
    await browser.close();
  }
});
