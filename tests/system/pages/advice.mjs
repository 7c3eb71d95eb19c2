// Checks the page of an advice: node advice.mjs ADDRESS ADVICE_AS_JSON
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { withPage } from './browser.mjs';

const [address, advicePath] = process.argv.slice(2);
const advice = JSON.parse(readFileSync(advicePath, 'utf8'));

await withPage(address, async (page) => {
  assert.deepEqual(await page.numbers('header [data-name=keys]'), [advice.keys]);
  assert.deepEqual(await page.numbers('[data-suggestion] [data-name=denied]'),
    advice.suggestions.map(({ denied }) => denied));
  assert.deepEqual(await page.numbers('td[data-name=needs]'),
    advice.hit_first.map(({ needs }) => needs));
  assert.deepEqual(await page.numbers('td[data-name=status_4xx]'),
    advice.hit_first.map((hit) => hit.status_4xx).filter((count) => count !== null));
  for (const share of ['5%', '1%', '0.1%']) {
    assert.deepEqual(await page.numbers(`td[data-name="keys ${share}"]`),
      advice.limits.map((row) => row.keys_denied[share]));
    assert.deepEqual(await page.numbers(`td[data-name="requests ${share}"]`),
      advice.limits.map((row) => row.requests_denied[share]));
  }
  assert.equal((await page.texts('header'))[0].includes('The key is'), advice.key !== '');
  assert.deepEqual(await page.texts('[data-suggestion] code'),
    advice.suggestions.map((each) => each.limit_expr));
  const csv = await page.saved('limits.csv', () => page.click('header button'));
  assert.equal(csv.trimEnd().split('\r\n').length, advice.limits.length + 1);
  await page.expectAccessible();
  await page.setSize(400, 800);
  assert.ok(await page.evaluate('document.documentElement.scrollWidth <= 400'));
  assert.equal(await page.evaluate('window.harmed'), undefined);
  assert.equal(await page.evaluate('/[\u202e]/.test(document.body.innerText)'), false);
  assert.deepEqual(page.loaded.filter((url) => !/^(file|blob):/.test(url)), []);
});
