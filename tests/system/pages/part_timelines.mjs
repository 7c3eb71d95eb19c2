// Checks a page on which the timeline of the first key has only its last requests: node
// part_timelines.mjs PAGE
import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';
import { withBrowser } from './browser.mjs';

await withBrowser(async (browser) => {
  const page = await browser.open(pathToFileURL(process.argv[2]).href);
  const numbers = () => page.evaluate(`[...document.querySelectorAll(
    '[data-limit="0"] .keys [data-name^=key_]')].map((e) => e.textContent)`);
  const isPart = (text) => text.startsWith('at least ');
  assert.equal((await numbers()).filter(isPart).length, 0);
  // Without the last step: the key's two numbers are lower bounds, those of other keys are not.
  await page.evaluate('document.querySelectorAll(".range input")[1].focus()');
  await page.press('ArrowLeft');
  assert.equal((await numbers()).filter(isPart).length, 2);
  // Only the last steps, which its timeline has.
  await page.evaluate('document.querySelectorAll(".range input")[1].focus()');
  await page.press('End');
  await page.evaluate(`(() => {
    const from = document.querySelector('.range input');
    from.value = from.max;
    from.dispatchEvent(new Event('input'));
  })()`);
  assert.equal((await numbers()).filter(isPart).length, 0);
  assert.deepEqual(page.faults, []);
  console.log('part timelines: ok');
});
