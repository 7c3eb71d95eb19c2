// Uses the playground in Chromium: node playground.mjs ADDRESS
import assert from 'node:assert/strict';
import { withBrowser } from './browser.mjs';

const address = process.argv[2];

// Of the first limit.
const number = async (page, name) =>
  (await page.numbers(`.results article [data-name=${name}]`))[0];

// Writes into the field as a user does, and waits for the answer.
async function write(page, selector, index, text) {
  await page.evaluate(`(() => {
    const field = document.querySelectorAll(${JSON.stringify(selector)})[${index}];
    field.value = ${JSON.stringify(text)};
    field.dispatchEvent(new Event('input', {bubbles: true}));
    field.dispatchEvent(new Event('change', {bubbles: true}));
  })()`);
}

await withBrowser(async (browser) => {
  // Ten at once, twice, 4 s apart; one fixed window, which admits 5 in each second.
  const experiment = 'arrivals=bursts&rate=10&period=4&span=8&limit=fixed_window 5/1s';
  const page = await browser.open(`${address}#${encodeURI(experiment)}`);
  await page.until('document.querySelector("[data-name=admitted]")');
  assert.deepEqual(page.faults, []);
  assert.deepEqual(await page.texts('input[name=token]'), []);  // The server has no users.
  assert.equal(await number(page, 'admitted'), 10);
  assert.equal(await number(page, 'denied'), 10);
  assert.equal(await number(page, 'worst_window'), 5);

  // A dot for each request, and the level between them: all units are back before the end.
  const dotsOf = (name) => page.evaluate(
    `document.querySelector("path.dots.${name}").getAttribute("d").split("M").length - 1`);
  assert.deepEqual([await dotsOf('admitted'), await dotsOf('denied')], [10, 10]);
  const level = await page.evaluate('document.querySelector("path.level").getAttribute("d")');
  assert.ok(level.split('H').length > 200);
  assert.match(level, /V150\.0$/);

  // One request is chosen with the keyboard, and each limit tells its decision.
  await page.evaluate('document.querySelector("input[name=request]").focus()');
  await page.press('ArrowRight', 5);
  assert.match((await page.texts('.decision'))[0],
    /^Request 6: denied, retry_after 995 ms, 0 left$/);
  await page.press('End');
  assert.match((await page.texts('.chooser'))[0], /20 of 20, at 4\.01 s/);

  // Another limit, and the address holds it.
  await write(page, '.results input', 0, 'token_bucket 1/1s burst=3');
  await page.until('document.querySelector("[data-name=admitted]").dataset.value === "6"');
  assert.match(await page.evaluate('location.hash'), /limit=token_bucket\+1%2F1s\+burst%3D3/);

  // What is wrong is shown at its character; the arrivals stay. What was decided about the former
  // limits is not shown beneath it.
  const areShown = () => page.evaluate('[...document.querySelectorAll(".chooser, .decisions")]' +
    '.map((each) => each.checkVisibility({visibilityProperty: true}))');
  await page.click('.results + p button');  // Another limit, which is right.
  await page.until('document.querySelectorAll(".decisions").length === 2');
  assert.deepEqual(await areShown(), [true, true, true]);
  await write(page, '.results input', 0, 'token_bucket 1/1x');
  await page.until('document.querySelector("mark")');
  assert.match((await page.texts('.results .error'))[0], /the unit 'x' is unknown/);
  assert.deepEqual(await page.texts('mark'), ['x']);
  assert.deepEqual(await areShown(), [false, false]);
  assert.deepEqual(await page.texts('[role=status]'), ['']);
  await write(page, '.results input', 0, 'fixed_window 5/1s');
  await page.until('!document.querySelector("mark")');
  assert.deepEqual(await areShown(), [true, true, true]);
  await page.click('.results article:last-child button');

  // The attack: all of a window's units before its end, and all of the next one's after it.
  await write(page, 'select[name=arrivals]', 0, 'boundary');
  await page.until('document.querySelector(".controls input[name=period]").value === "4"');
  await page.until('document.querySelector("[data-name=worst_window]").dataset.value === "10"');

  // Of a log in whole seconds, the picture has the last second too, and so has what is drawn on it.
  const label = () => page.evaluate(
    'document.querySelector("svg.drawing").getAttribute("aria-label")');
  const line = (second) => `::1 - - [19/May/2015:09:05:${second} +0000] "GET / HTTP/1.1" 200 1`;
  const before = await page.evaluate('location.href');
  await write(page, 'select[name=arrivals]', 0, 'times');
  // Of a slice, the first and the last line may be cut.
  const slice = ['200 1 "-" "curl"', ...['00', '01', '10', '10'].map(line), '192.0.2.1 - - [19/'];
  await write(page, 'textarea[name=times]', 0, slice.join('\n'));
  assert.equal(await label(), 'The arrivals over time: 4 in all');
  await page.evaluate('location.hash = "#arrivals=times&span=2&times=0+1+2"');
  await page.until('document.querySelector("textarea").value === "0\\n1\\n2"');
  assert.equal(await label(), 'The arrivals over time: 3 in all');
  await page.evaluate('location.hash = "#arrivals=steady&rate=0.5&span=3"');
  await page.until('document.querySelector("input[name=rate]")?.value === "0.5"');
  assert.equal(await label(), 'The arrivals over time: 2 in all');
  await page.evaluate(`location.href = ${JSON.stringify(before)}`);
  await page.until('document.querySelector("select[name=arrivals]").value === "boundary"');

  // Drawn by hand: the pointer sets how many arrive.
  const box = await page.evaluate(`(() => {
    const {x, y, width, height} = document.querySelector('svg.drawing').getBoundingClientRect();
    return {x, y, width, height};
  })()`);
  const at = (share) => ({ x: box.x + box.width * share, y: box.y + box.height / 2 });
  await page.drag(at(0.1), at(0.105));
  await page.until('document.querySelector("select[name=arrivals]").value === "drawn"');
  assert.match(await page.evaluate('location.hash'), /arrivals=drawn.*drawn=0\+/);

  // Another gesture takes the pointer away: what has been drawn is decided.
  const hash = await page.evaluate('location.hash');
  await page.evaluate(`(() => {
    const picture = document.querySelector('svg.drawing');
    const {x, y, width} = picture.getBoundingClientRect();
    picture.setPointerCapture = () => {};  // No real pointer is down.
    for (const type of ['pointerdown', 'pointercancel']) {
      picture.dispatchEvent(new PointerEvent(type,
        {clientX: x + width * 0.9, clientY: y + 1, buttons: 1, bubbles: true}));
    }
  })()`);
  await page.until(`location.hash !== ${JSON.stringify(hash)}`);

  // The drawing can be written too. What is wrong stays to be corrected, and changes nothing.
  const drawn = await page.evaluate('location.hash');
  await write(page, 'input[name=drawn]', 0, `${'0 '.repeat(58)}7`);
  const mistake = async () => (await page.texts('[aria-label=Arrivals] > .error'))[0];
  assert.match(await mistake(), /^A drawing has 60 integers from 0 to 20,000/);
  assert.match(await page.evaluate('document.querySelector("input[name=drawn]").value'),
    /^(0 ){58}7$/);
  assert.equal(await page.evaluate('location.hash'), drawn);
  await write(page, 'input[name=span]', 0, '0');
  assert.match(await mistake(),
    /"seconds in all" must be a number from 1 to 86,400/);
  await write(page, 'input[name=drawn]', 0, `${'0 '.repeat(59)}7`);
  await page.until('/drawn=(0\\+){59}7&/.test(location.hash)');
  await page.until('document.querySelector("[data-name=admitted]").dataset.value === "5"');
  // The other field is still wrong, and its sentence stays until it is right.
  assert.match(await mistake(), /"seconds in all" must be a number from 1 to 86,400/);
  await write(page, 'input[name=span]', 0, '8');
  assert.equal(await mistake(), '');

  // A pointer far above the picture draws no more than an address can hold.
  const drawnHash = () => page.evaluate('new URLSearchParams(location.hash.slice(1)).get("drawn")');
  for (let i = 0; i < 5; ++i) {
    await page.evaluate(`(() => {
      const picture = document.querySelector('svg.drawing');
      const {x, y, width, height} = picture.getBoundingClientRect();
      picture.setPointerCapture = () => {};  // No real pointer is down.
      for (const type of ['pointerdown', 'pointerup']) {
        picture.dispatchEvent(new PointerEvent(type,
          {clientX: x + width * 0.5, clientY: y - 10 * height, buttons: 1, bubbles: true}));
      }
    })()`);
  }
  const most = await drawnHash();
  assert.equal(Math.max(...most.split(' ').map(Number)), 20_000);
  const drawnAt = await page.evaluate('location.href');

  // More arrivals than one question may have: the page says that some are left out. Each part of a
  // limit decides, and so do the instants at which the page asks what remains.
  const cut = (limits) => `arrivals=steady&rate=1000&span=60&${limits.map((limit) =>
    `limit=${encodeURIComponent(limit)}`).join('&')}`;
  for (const [limits, arrivals] of [
    [['token_bucket 1/1s'], 9_759], [['token_bucket 1/1s', 'fixed_window 1/1s & sliding_log 9/1d'],
      6_425], [Array(16).fill('token_bucket 1/1s & fixed_window 1/1s'), 384]]) {
    const full = await browser.open(`${address}#${cut(limits)}`);
    await full.until('document.querySelector("[data-name=admitted]")');
    assert.equal(await number(full, 'admitted') + await number(full, 'denied'), arrivals);
    assert.match((await full.texts('[role=status]')).join(), /There are more, which are left out/);
    assert.deepEqual(full.faults, []);
  }

  // A slice of a log.
  await write(page, 'select[name=arrivals]', 0, 'times');
  await page.until('document.querySelector("textarea")');
  await write(page, 'textarea', 0,
    '1.2.3.4 - - [19/May/2015:09:05:31 +0000] "GET / HTTP/1.1" 200 1\n' +
    '1.2.3.4 - - [19/May/2015:09:05:32 +0000] "GET / HTTP/1.1" 200 1\n');
  await page.until('document.querySelector("[data-name=admitted]").dataset.value === "2"');

  // The address holds the whole drawing.
  const again = await browser.open(drawnAt);
  await again.until('document.querySelector("[data-name=admitted]")');
  assert.equal(await again.evaluate('document.querySelector("input[name=drawn]").value'), most);

  // An edit of a limit does not change the first experiment.
  const start = await browser.open(address);
  await start.until('document.querySelectorAll("svg.decisions").length === 6');
  await write(start, '.results input', 0, 'fixed_window 7/1s');
  await start.until('location.hash.includes("fixed_window+7%2F1s")');
  await start.evaluate('location.hash = ""');
  await start.until('document.querySelector(".results input").value.endsWith(" burst=5")');

  // Six limits side by side, in light and in dark.
  const first = await browser.open(address);
  await first.until('document.querySelectorAll("svg.decisions").length === 6');
  await first.expectAccessible();
  await first.setSize(400, 800);
  assert.ok(await first.evaluate('document.documentElement.scrollWidth <= 400'));
  assert.deepEqual(first.faults, []);
  assert.deepEqual(first.loaded.filter((url) => !url.startsWith(new URL(address).origin)), []);
});
