// Pictures of the page in its states, into build/screens, or with --docs into docs/screens.
//   node screens.mjs [--docs]

import { mkdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import path from 'node:path';
import { serve, makeLink, runJSON, status, members, losses } from './fake.mjs';
import { fewColours } from './png.mjs';
import { launch, open, say, joined, settled } from './browser.mjs';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const largest = 120e3; // bytes of a picture

const looks = {
  wide: { size: { width: 1080, height: 900 }, colorScheme: 'light' },
  dark: { size: { width: 1080, height: 900 }, colorScheme: 'dark' },
  narrow: { size: { width: 390, height: 844 }, colorScheme: 'light' },
};

const idle = members(3, 1);
const training = members(3, 3);
const own = training.at(-1).peer;

const scenes = {
  async idle() {},
  async training(page) {
    await joined(page);
    await say(page, { type: 'self', peer: own, backend: 'wasm/relaxed', workers: 7, shared: true, transport: 'websocket' });
    await say(page, { type: 'state', state: 'computing' });
    await say(page, { type: 'usage', memory: 212 * 2 ** 20, cores: 6.4, samples: 1984 });
    const loss = losses(268);
    for (const [step, l] of loss.slice(120)) await say(page, { type: 'progress', step, steps: 450, loss: l, samples: 0, elapsedMs: 0, peers: 6 });
    await say(page, { type: 'status', status: status({ peer: own, step: 268, loss: loss.at(-1)[1], members: training, samples_per_second: 402 }) });
  },
  async paused(page, server) {
    await scenes.training(page);
    await page.click('#pause');
    server.answer = runJSON({ status: status({ step: 271, members: members(3, 2), samples_per_second: 377 }) });
    await say(page, { type: 'state', state: 'paused' });
    await page.waitForFunction(() => document.querySelector('#figures').textContent.startsWith('Step 271'));
  },
  async refused(page) {
    await joined(page);
    await say(page, { type: 'state', state: 'refused', reason: 'this browser’s numbers differ from the run’s: its WebAssembly has no SIMD' });
  },
};

function laptop() { // the same one on whatever machine the pictures are taken
  Object.defineProperty(navigator, 'hardwareConcurrency', { value: 8 });
  Object.defineProperty(navigator, 'deviceMemory', { value: 8 });
}

/** Has pieces move, and stops them under way: pictures of the ring in which nothing flies tell less. */
async function stir(page) {
  await say(page, { type: 'pieces', list: Array.from({ length: 64 }, (_, i) => [i % 2 ? 'reduce' : 'gather', i]) });
  await page.waitForSelector('#ring .dot.out', { state: 'attached' });
  await page.evaluate(() => {
    const flights = document.getAnimations().filter((a) => a.effect.target.matches('.dot'));
    flights.forEach((a, i) => {
      a.pause();
      a.currentTime = a.effect.getTiming().duration * (0.15 + 0.7 * i / flights.length);
    });
  });
}

/** Takes all pictures into a folder and returns their names. */
export async function take(browser, folder) {
  await mkdir(folder, { recursive: true });
  const taken = [];
  for (const [scene, play] of Object.entries(scenes)) {
    const server = await serve();
    server.answer = runJSON({ status: status({ members: idle }) });
    const page = await open(browser, server, { hash: makeLink(), init: laptop, viewport: looks.wide.size });
    await page.waitForSelector('#main:not([hidden])');
    await play(page, server);
    for (const [look, { size, colorScheme }] of Object.entries(looks)) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize(size);
      await settled(page);
      if (scene === 'training') await stir(page);
      const file = path.join(folder, `${scene}-${look}.png`);
      const picture = fewColours(await page.screenshot({ fullPage: true, animations: 'allow' }));
      if (picture.length > largest) throw new Error(`${file} has ${picture.length} bytes, at most ${largest}`);
      await writeFile(file, picture);
      taken.push(file);
    }
    await page.context().close();
    await server.close();
  }
  return taken;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const browser = await launch();
  for (const f of await take(browser, path.join(root, process.argv.includes('--docs') ? 'docs/screens' : 'build/screens'))) console.log(path.relative(root, f));
  await browser.close();
}
