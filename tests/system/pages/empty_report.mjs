// Checks the page of a replay without requests: node empty_report.mjs PAGE
import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';
import { withBrowser } from './browser.mjs';

await withBrowser(async (browser) => {
  const page = await browser.open(pathToFileURL(process.argv[2]).href);
  assert.equal(await page.evaluate(
    'document.querySelector("[data-limit] [data-name=requests]").dataset.value'), '0');
  assert.doesNotMatch(await page.evaluate('document.querySelector("header").textContent'),
    /The key is/);
  await page.expectAccessible();
  assert.deepEqual(page.faults, []);
  console.log('empty report: ok');
});
