// Checks the page of an advice: node advice.mjs PAGE ADVICE_AS_JSON [SCREENSHOT]
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { withBrowser } from './browser.mjs';

const advice = JSON.parse(readFileSync(process.argv[3], 'utf8'));

await withBrowser(async (browser) => {
  const page = await browser.open(pathToFileURL(process.argv[2]).href);
  const numbers = (selector) => page.evaluate(
    `[...document.querySelectorAll(${JSON.stringify(selector)})].map((e) => +e.dataset.value)`);
  assert.deepEqual(await numbers('header [data-name=keys]'), [advice.keys]);
  assert.deepEqual(await numbers('[data-suggestion] [data-name=denied]'),
    advice.suggestions.map(({ denied }) => denied));
  assert.deepEqual(await numbers('td[data-name=needs]'),
    advice.hit_first.map(({ needs }) => needs));
  assert.deepEqual(await numbers('td[data-name=status_4xx]'),
    advice.hit_first.map((hit) => hit.status_4xx).filter((count) => count !== null));
  for (const share of ['5%', '1%', '0.1%']) {
    assert.deepEqual(await numbers(`td[data-name="keys ${share}"]`),
      advice.limits.map((row) => row.keys_denied[share]));
    assert.deepEqual(await numbers(`td[data-name="requests ${share}"]`),
      advice.limits.map((row) => row.requests_denied[share]));
  }
  const head = await page.evaluate('document.querySelector("header").textContent');
  assert.equal(head.includes('The key is'), advice.key !== '');
  const texts = await page.evaluate(
    '[...document.querySelectorAll("[data-suggestion] code")].map((e) => e.textContent)');
  assert.deepEqual(texts, advice.suggestions.map((each) => each.limit_expr));
  const csv = await page.saved('limits.csv', () => page.click('header button'));
  assert.equal(csv.trimEnd().split('\r\n').length, advice.limits.length + 1);
  await page.expectAccessible();
  await page.setSize(400, 800);
  assert.ok(await page.evaluate('document.documentElement.scrollWidth <= 400'));
  assert.equal(await page.evaluate('window.harmed'), undefined);
  assert.equal(await page.evaluate('/[\u202e]/.test(document.body.innerText)'), false);
  assert.equal(page.loaded.filter((url) => !url.startsWith('file:') && !url.startsWith('blob:'))
    .length, 0);
  assert.deepEqual(page.faults, []);
  if (process.argv[4]) {
    await page.setSize(1400, 1000);
    await page.screenshot(process.argv[4], { x: 0, y: 0, width: 1400, height: 2000, scale: 1 });
  }
  console.log('advice: ok');
});
