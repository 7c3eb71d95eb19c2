// Checks that keys are shown as text: node hostile_keys.mjs PAGE
// The replayed log has keys that would set window.harmed if the page took them for markup.
import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';
import { withBrowser } from './browser.mjs';

await withBrowser(async (browser) => {
  const page = await browser.open(pathToFileURL(process.argv[2]).href);
  const keys = await page.evaluate(
    '[...document.querySelectorAll(".keys button")].map((button) => button.textContent)');
  assert.ok(keys.includes('</script><script>window.harmed=1</script>'));
  assert.ok(keys.includes('<img src=x onerror=window.harmed=1>'));
  assert.ok(keys.includes('a\\u{202e}b'));
  const requests = (selector, i = 0) => page.evaluate(
    `document.querySelectorAll(${JSON.stringify(selector)})[${i}].dataset.value`);
  for (let i = 0; i < keys.length; ++i) {
    await page.evaluate(`document.querySelectorAll(".keys button")[${i}].click()`);
    await page.drawn();
    assert.equal(await page.evaluate('document.querySelector("dialog h2").textContent'), keys[i]);
    assert.equal(await requests('dialog [data-name=key_requests]'),
      await requests('.keys [data-name=key_requests]', i));
    await page.evaluate('document.querySelector("dialog button").click()');
    await page.drawn();
  }
  assert.equal(await page.evaluate('window.harmed'), undefined);
  // The steps are shorter than a second, and each has a name of its own.
  await page.evaluate('document.querySelector("details").open = true');
  await page.until('document.querySelector("details th[scope=row]")');
  const steps = await page.evaluate(
    '[...document.querySelectorAll("details th[scope=row]")].map((head) => head.textContent)');
  assert.equal(steps[0], '2023-11-14 22:13:20.050');
  assert.equal(new Set(steps).size, steps.length);
  assert.equal(await page.evaluate('document.querySelectorAll("main img[src=x]").length'), 0);
  assert.deepEqual(page.faults, []);
  const csv = await page.saved('keys.csv', () => page.click('header button:nth-of-type(2)'));
  assert.match(csv, /,'=1\+1,/);
  const times = await page.saved('time.csv', () => page.click('header button:nth-of-type(3)'));
  assert.match(times, /^2023-11-14T22:13:20\.050Z,/m);
  console.log('hostile keys: ok');
});
