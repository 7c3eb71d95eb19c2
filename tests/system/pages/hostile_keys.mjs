// Checks that keys are shown as text: node hostile_keys.mjs ADDRESS
// The replayed log has keys that would set window.harmed if the page took them for markup.
import assert from 'node:assert/strict';
import { withPage } from './browser.mjs';

await withPage(process.argv[2], async (page) => {
  const keys = await page.texts('.keys button');
  assert.ok(keys.includes('</script><script>window.harmed=1</script>'));
  assert.ok(keys.includes('<img src=x onerror=window.harmed=1>'));
  assert.ok(keys.includes('a\\u{202e}b'));
  const requests = await page.numbers('.keys [data-name=key_requests]');
  for (let i = 0; i < keys.length; ++i) {
    await page.evaluate(`document.querySelectorAll(".keys button")[${i}].click()`);
    await page.drawn();
    assert.deepEqual(await page.texts('dialog h2'), [keys[i]]);
    assert.deepEqual(await page.numbers('dialog [data-name=key_requests]'), [requests[i]]);
    await page.evaluate('document.querySelector("dialog button").click()');
    await page.drawn();
  }
  assert.equal(await page.evaluate('window.harmed'), undefined);
  // The steps are shorter than a second, and each has a name of its own.
  await page.evaluate('document.querySelector("details").open = true');
  await page.until('document.querySelector("details th[scope=row]")');
  const steps = await page.texts('details th[scope=row]');
  assert.equal(steps[0], '2023-11-14 22:13:20.050');
  assert.equal(new Set(steps).size, steps.length);
  assert.deepEqual(await page.texts('main img[src=x]'), []);
  const csv = await page.saved('keys.csv', () => page.click('header button:nth-of-type(2)'));
  assert.match(csv, /,'=1\+1,/);
  const times = await page.saved('time.csv', () => page.click('header button:nth-of-type(3)'));
  assert.match(times, /^2023-11-14T22:13:20\.050Z,/m);
});
