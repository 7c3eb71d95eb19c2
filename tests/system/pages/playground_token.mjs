// Uses the playground of a server that has users: node playground_token.mjs ADDRESS TOKEN.
import assert from 'node:assert/strict';
import { withBrowser } from './browser.mjs';

const [address, token] = process.argv.slice(2);

await withBrowser(async (browser) => {
  const page = await browser.open(`${address}#limit=fixed_window+5/1s`);
  const send = (text) => page.evaluate(`(() => {
    const field = document.querySelector('input[name=token]');
    field.value = ${JSON.stringify(text)};
    field.dispatchEvent(new Event('change', {bubbles: true}));
  })()`);
  const says = (text) => page.until(
    `document.querySelector('[role=status]').textContent.includes(${JSON.stringify(text)})`);

  await says('this server asks for a token');
  await send('wrong');
  await says('the token is wrong');
  await send(token);
  await page.until('document.querySelector("[data-name=admitted]")');
  assert.equal(await page.evaluate(`location.href.includes(${JSON.stringify(token)})`), false);
  assert.equal(await page.evaluate('Object.keys(localStorage).length + ' +
    'Object.keys(sessionStorage).length + document.cookie.length'), 0);
});
