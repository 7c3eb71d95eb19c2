// Checks a page on which the timeline of the first key has only its last requests: node
// part_timelines.mjs ADDRESS
import assert from 'node:assert/strict';
import { withPage } from './browser.mjs';

await withPage(process.argv[2], async (page) => {
  const parts = async () => (await page.texts('[data-limit="0"] .keys [data-name^=key_]'))
    .filter((text) => text.startsWith('at least ')).length;
  assert.equal(await parts(), 0);
  // Without the last step: the key's two numbers are lower bounds, those of other keys are not.
  await page.evaluate('document.querySelectorAll(".range input")[1].focus()');
  await page.press('ArrowLeft');
  assert.equal(await parts(), 2);
  // Only the last steps, which its timeline has.
  await page.evaluate('document.querySelectorAll(".range input")[1].focus()');
  await page.press('End');
  await page.evaluate(`(() => {
    const from = document.querySelector('.range input');
    from.value = from.max;
    from.dispatchEvent(new Event('input'));
  })()`);
  assert.equal(await parts(), 0);
});
