import { launch } from './browser.mjs';
const url = process.argv[2], wait = Number(process.argv[3] ?? 20);
const b = await launch();
const page = await (await b.newContext()).newPage();
page.on('console', (m) => console.log('console', m.type(), m.text()));
page.on('pageerror', (e) => console.log('pageerror', e.message));
page.on('requestfailed', (r) => console.log('requestfailed', r.url(), r.failure()?.errorText));
let t0 = Date.now();
await page.goto(url);
await page.waitForSelector('#main:not([hidden])');
console.log('main button after', Date.now() - t0, 'isolated', await page.evaluate(() => crossOriginIsolated), await page.locator('#what').textContent());
await page.evaluate(() => { globalThis.words = []; let last = ''; new MutationObserver(() => { const w = document.getElementById('word').textContent + ' | ' + document.getElementById('sentence').textContent; if (w !== last) { last = w; words.push([Math.round(performance.now()), w]); } }).observe(document.getElementById('state'), { subtree: true, childList: true, characterData: true }); });
t0 = await page.evaluate(() => performance.now());
await page.click('#main');
for (let i = 0; i < wait * 2; i++) {
  await page.waitForTimeout(500);
  const s = await page.locator('#samples').textContent();
  if (i % 6 === 0) console.log(Math.round(await page.evaluate(() => performance.now()) - t0), await page.locator('#word').textContent(), s, await page.locator('#share').textContent(), await page.locator('#figures').textContent());
}
await page.click('#pause'); await page.waitForTimeout(3000);
console.log(await page.locator('#word').textContent());
await page.click('#main'); await page.waitForTimeout(6000);
console.log(await page.locator('#word').textContent());
await page.click('#leave'); await page.waitForTimeout(4000);
console.log(await page.locator('#word').textContent());
console.log((await page.evaluate(() => words)).map(([t, w]) => `${t - Math.round(t0)}  ${w}`).join('\n'));
await b.close();
