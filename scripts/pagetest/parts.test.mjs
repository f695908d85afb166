// The page's parts that need no browser.

import test from 'node:test';
import assert from 'node:assert/strict';
import { createHash, webcrypto } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { sha256 } from '../../wasm/web/page/sha256.mjs';
import { readLink, pageKey, BadLink } from '../../wasm/web/page/link.mjs';
import { smooth, ticks, logTicks } from '../../wasm/web/page/chart.mjs';
import { angles } from '../../wasm/web/page/ring.mjs';
import { bytes, count, many, value, duration, percent, short, plural } from '../../wasm/web/page/format.mjs';
import { states, sentence, plain, whatIsTrained, whoIsThere, whySlower } from '../../wasm/web/page/words.mjs';
import { makeLink, runID, secret, runJSON, members } from './fake.mjs';

const hex = (b) => Buffer.from(b).toString('hex');

test('SHA-256 is that of Node for all lengths around block borders', () => {
  for (let n = 0; n < 300; n++) {
    const bytes = Uint8Array.from({ length: n }, (_, i) => (i * 37 + n) & 255);
    assert.equal(hex(sha256(bytes)), createHash('sha256').update(bytes).digest('hex'), `${n} bytes`);
  }
});

test('the key for the server is the same with and without SubtleCrypto', async () => {
  const want = createHash('sha256').update('shoal page\0' + secret).digest('hex');
  const had = Object.getOwnPropertyDescriptor(globalThis, 'crypto');
  for (const crypto of [webcrypto, undefined, {}]) {
    Object.defineProperty(globalThis, 'crypto', { value: crypto, configurable: true });
    assert.equal(await pageKey(secret), want);
  }
  if (had) Object.defineProperty(globalThis, 'crypto', had);
  else delete globalThis.crypto;
});

// The link that the peer has to be able to read, too.
const golden = readFileSync(new URL('../../peer/link_test.go', import.meta.url), 'utf8').match(/const text = "(shoal:[a-z2-7]+)"/)[1];

test('links are read as the peer reads them', () => {
  assert.deepEqual(readLink(`#${golden}`), { text: golden, run: '0123456789abcdef'.repeat(4), secret: '0f0e0d0c0b0a09080706050403020100' });
  assert.deepEqual(readLink(`#${makeLink()}`), { text: makeLink(), run: runID, secret });
  for (const same of [golden.toUpperCase(), encodeURIComponent(golden), ` ${golden} `]) assert.equal(readLink(`#${same}`).text, golden);
  assert.equal(readLink(''), null);
  assert.equal(readLink('#'), null);
});

test('every damage of a link is noticed', () => {
  for (let i = 1; i < golden.length; i++) assert.throws(() => readLink(`#${golden.slice(0, i)}`), BadLink, `cut to ${i}`);
  for (let i = 0; i < golden.length; i++) {
    for (const c of ['a', 'q', '7', '1', '\n', '\u0666', '%']) {
      if (golden[i] !== c) assert.throws(() => readLink(`#${golden.slice(0, i)}${c}${golden.slice(i + 1)}`), BadLink, `${c} at ${i}`);
    }
  }
  for (const bad of ['shoal:', 'http://example.org', 'x'.repeat(1e6), `shoal:${'a'.repeat(8000)}`, '%E0%A4%A']) assert.throws(() => readLink(`#${bad}`), BadLink);
});

test('what is advice for a terminal is left out', () => {
  for (const [said, want] of [
    ['the run is full', 'the run is full'],
    ['it is gone: is the run over, or a firewall in between? shoal join shoal:abc --via HOST:PORT', 'it is gone: is the run over, or a firewall in between?'],
    ['waiting for b (one voter); if that is gone for good, shoal recover goes on without it', 'waiting for b (one voter)'],
    ['nobody else holds 3 of 9 ranges that b had: go on from the last checkpoint with shoal up --resume', 'nobody else holds 3 of 9 ranges that b had'],
    ['shoal recover goes back', ''],
  ]) {
    assert.equal(plain(said), want);
    for (const state in states) assert.doesNotMatch(sentence(state, said), /shoal (join|recover|up --resume)/, state);
  }
});

test('arcs go round once, in order, and nobody is invisible', () => {
  for (const shares of [[1], [0.5, 0.5], [0.999, 0.001], Array(32).fill(1 / 32), [0, 0.7, 0.3, 0], [...Array(31).fill(1e-6), 1]]) {
    const arcs = angles(shares);
    let at = -1e-9;
    arcs.forEach((arc, i) => {
      if (shares[i] === 0) return assert.equal(arc, null);
      assert.ok(arc[0] >= at && arc[1] > arc[0] && arc[1] <= 2 * Math.PI + 1e-9, `${shares}: ${arc} after ${at}`);
      at = arc[1];
    });
  }
  assert.deepEqual(angles([0, 0]), [null, null]);
  assert.deepEqual(angles([]), []);
  const [a, b] = angles([0.75, 0.25]).map(([from, to]) => to - from);
  assert.ok(Math.abs(a / b - 3) < 0.1, `${a} is not three times ${b}`);
});

test('axes have round numbers', () => {
  assert.deepEqual(ticks(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(ticks(1, 450, 3), [200, 400]);
  assert.deepEqual(logTicks(0.03, 2.5), [0.05, 0.1, 0.2, 0.5, 1, 2]);
  assert.deepEqual(logTicks(0.001, 5), [0.001, 0.01, 0.1, 1]);
  assert.deepEqual(logTicks(1e-8, 3), [1e-8, 1e-6, 1e-4, 0.01, 1]);
  for (let low = 1e-6; low < 1e6; low *= 3.7) {
    for (const n of [2, 5]) {
      const list = ticks(low, low * 9, n);
      assert.ok(list.length >= 2 && list.length <= n + 3, `${low}: ${list}`);
    }
    assert.ok(logTicks(low, low * 12).length >= 2);
  }
});

test('the smoothed curve keeps a straight line and lies between its points', () => {
  const line = Array.from({ length: 200 }, (_, i) => [i + 1, 5 - i / 50]);
  smooth(line).slice(10, -10).forEach(([s, l], i) => assert.ok(Math.abs(l - line[i + 10][1]) < 1e-9, `step ${s}`));
  const jagged = line.map(([s], i) => [s, i % 2 ? 1 : 3]);
  for (const log of [false, true]) for (const [s, l] of smooth(jagged, log)) assert.ok(l >= 1 && l <= 3, `step ${s}: ${l}`);
  assert.equal(smooth([[1, 2]])[0][0], 1);
  assert.ok(Math.abs(smooth([[1, 2]], true)[0][1] - 2) < 1e-9);
  assert.deepEqual(smooth([]), []);
});

test('numbers for people', () => {
  assert.deepEqual([0, 1023, 1024, 5.1 * 2 ** 20, 2 ** 31, 3 * 2 ** 40, NaN].map(bytes), ['0 B', '1023 B', '1.00 KiB', '5.10 MiB', '2.00 GiB', '3.00 TiB', '–']);
  assert.deepEqual([999, 1000, 1234567].map(count), ['999', '1\u202f000', '1\u202f234\u202f567']);
  assert.deepEqual([605322, 1210000, 64e6, 7e9].map(many), ['605\u202f322', '1.21 million', '64.0 million', '7.00 billion']);
  assert.deepEqual([0, 2.3026, 0.0647123, 0.00001, 123456, NaN].map(value), ['0', '2.303', '0.0647', '1.0e-5', '1.2e5', '–']);
  assert.deepEqual([0, 99999, 100000, 6.5 * 3600e3, -1].map(duration), ['0 s', '99 s', '1 min', '6 h 30 min', '–']);
  assert.deepEqual([0, 0.001, 0.126, 1, NaN].map(percent), ['0%', '< 1%', '13%', '100%', '–']);
  assert.deepEqual([short('12D3KooWAAAAAAA1'), short('abc'), plural(1, 'tab'), plural(2, 'tab')], ['…AAAAAAA1', 'abc', '1 tab', '2 tabs']);
});

test('every state has words, and reasons become sentences', () => {
  for (const name of Object.keys(states)) {
    for (const reason of ['', 'the disk is full', 'The disk is full.']) {
      const s = sentence(name, reason);
      assert.match(s, /^[A-Z].*\.$/u, `${name}: ${s}`);
      assert.doesNotMatch(s, /\.\.|undefined|null/, `${name}: ${s}`);
    }
  }
  assert.equal(sentence('refused', 'its numbers differ'), 'The run does not take this device: its numbers differ.');
});

test('the run in words', () => {
  const { run } = runJSON();
  assert.match(whatIsTrained(run), /^A vision transformer with 605\u202f322 parameters learns from drawn digits,/);
  assert.match(whatIsTrained({ ...run, model: 'GPT, 4 blocks', data: 'text', parameters: 6.4e6 }), /^A language model \(GPT\) with 6.40 million parameters learns from text,/);
  assert.match(whatIsTrained({ ...run, model: 'a program\'s own model', data: 'own' }), /^A program's own model with .* learns from own,/);
  assert.deepEqual([members(3, 1), members(0, 2), members(1, 0), []].map(whoIsThere), ['3 daemons, 1 tab', '2 tabs', '1 daemon', 'nobody']);
  assert.equal(whySlower({ secure: true, isolated: true, transport: true }), '');
  assert.match(whySlower({ secure: false, isolated: false, transport: false }), /plain http/);
});
