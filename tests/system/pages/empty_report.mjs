// Checks the page of a replay without requests: node empty_report.mjs ADDRESS
import assert from 'node:assert/strict';
import { withPage } from './browser.mjs';

await withPage(process.argv[2], async (page) => {
  assert.equal((await page.numbers('[data-limit] [data-name=requests]'))[0], 0);
  assert.doesNotMatch((await page.texts('header'))[0], /The key is/);
  await page.expectAccessible();
});
