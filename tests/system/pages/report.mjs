// Checks the page of `sluice replay --html` in Chromium: node report.mjs ADDRESS SUMMARY DECISIONS
// SUMMARY is the output of --json of the same replay, DECISIONS that of --decisions; what the page
// says is compared with both.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { withPage } from './browser.mjs';

const [address, summaryPath, decisionsPath] = process.argv.slice(2);
const summary = JSON.parse(readFileSync(summaryPath, 'utf8'));
const decisions = readFileSync(decisionsPath, 'utf8').trim().split('\n')
  .map((line) => JSON.parse(line));
const limits = summary.limits.map((limit) => limit.limit_expr);
const maxLoadMs = 1000;

function count(limit, wanted) {
  const own = decisions.filter((row) => row.limit_expr === limit && wanted(row));
  return [own.length, own.filter((row) => !row.allowed).length];
}

// The time to open is measured on the processor, since other tests run at the same time.
async function checkLoading(page) {
  assert.deepEqual(page.faults, []);
  assert.deepEqual(page.loaded.filter((loaded) => !loaded.startsWith('data:')), [address]);
  const busyMs = await page.busyMs();
  assert.ok(busyMs > 0 && busyMs < maxLoadMs, `opens in ${busyMs} ms`);
}

async function checkNumbers(page) {
  assert.deepEqual(await page.numbers('header [data-name=requests]'), [summary.requests]);
  for (const [i, limit] of summary.limits.entries()) {
    const of = (name) => page.numbers(`[data-limit="${i}"] [data-name=${name}]`);
    for (const name of ['requests', 'admitted', 'denied', 'keys_limited']) {
      assert.deepEqual(await of(name), [limit[name]], `${limit.limit_expr} ${name}`);
    }
    assert.deepEqual(await of('worst_minute'), [limit.worst_minute.denied]);
    const few = limit.most_denied;
    assert.deepEqual((await of('key_denied')).slice(0, few.length), few.map((key) => key.denied));
    assert.deepEqual((await of('key_requests')).slice(0, few.length),
      few.map((key) => key.requests));
    assert.deepEqual((await page.texts(`[data-limit="${i}"] .keys button`)).slice(0, few.length),
      few.map((key) => key.key));
    assert.deepEqual(await of('sweep_100'), [limit.keys_limited]);
    const shares = await page.numbers(`[data-limit="${i}"] [data-name^=share_]`);
    assert.equal(shares.reduce((sum, keys) => sum + keys), limit.keys_seen);
    assert.equal(shares[0], limit.keys_seen - limit.keys_limited);
  }
}

// The totals and the keys of a range are those of the decisions in it.
async function checkRange(page) {
  await page.evaluate('document.querySelector(".range input").focus()');
  await page.press('ArrowRight', 60);
  await page.evaluate('document.querySelectorAll(".range input")[1].focus()');
  await page.press('ArrowLeft', 70);
  const [status] = await page.texts('.range [role=status]');
  const [from, to] = status.match(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g)
    .map((text) => Date.parse(text.replace(' ', 'T') + 'Z'));
  const isIn = ({ time_ns: time }) => time / 1e6 >= from && time / 1e6 < to;
  for (const [i, limit] of limits.entries()) {
    const [requests, denied] = count(limit, isIn);
    assert.ok(requests > 0 && requests < summary.requests);
    const of = (name) => page.numbers(`[data-limit="${i}"] [data-name=${name}]`);
    assert.deepEqual(await of('requests'), [requests]);
    assert.deepEqual(await of('denied'), [denied]);
    const [key] = await page.texts(`[data-limit="${i}"] .keys button`);
    assert.deepEqual([(await of('key_requests'))[0], (await of('key_denied'))[0]],
      count(limit, (row) => row.key === key && isIn(row)));
  }
  await page.click('.range button');
  await checkNumbers(page);
}

// Drags over a chart, from one share of its width to another.
async function drag(page, chart, from, to) {
  const { x, y, width } = await page.evaluate(`(() => {
    const chart = document.querySelector('${chart}');
    chart.scrollIntoView({block: 'center', behavior: 'instant'});
    const {x, y, width} = chart.getBoundingClientRect();
    return {x, y, width};
  })()`);
  await page.drag({ x: x + width * from, y: y + 60 }, { x: x + width * to, y: y + 60 });
}

// The chart's own range: a drag over a part of the chart zooms into it.
async function checkBrush(page) {
  await drag(page, '.chart', 0.3, 0.6);
  const [requests] = await page.numbers('[data-limit="0"] [data-name=requests]');
  assert.ok(requests > 0 && requests < summary.requests, `${requests} requests in the range`);
  await page.click('.range button');
  await checkNumbers(page);
}

// A drag over a limit's chart chooses for the overview too, which does not forget it when it is
// drawn again.
async function checkLimitBrush(page) {
  const sliders = () => page.all('.range input', 'Number(e.value)');
  const handles = () => page.all('.dygraph-rangesel-zoomhandle', 'e.style.left');
  const whole = [await sliders(), await handles()];
  await drag(page, '.limits .chart', 0.4, 0.7);
  const chosen = await sliders();
  assert.notDeepEqual(chosen, whole[0]);
  for (const i of [0, 1]) assert.notEqual((await handles())[i], whole[1][i], 'a handle');
  await page.setSize(1000, 900);
  await page.drawn();
  await page.drawn();
  assert.deepEqual(await sliders(), chosen);
  await page.setSize(1400, 900);
  await page.drawn();
  await page.drawn();
  await page.click('.range button');
  assert.deepEqual([await sliders(), await handles()], whole);
  await checkNumbers(page);
}

// Enter on a key opens its own timeline, Escape closes it and returns.
async function checkKey(page) {
  await page.evaluate('document.querySelector(".keys button").focus()');
  await page.press('Enter');
  const { key, denied, requests } = summary.limits[0].most_denied[0];
  assert.deepEqual(await page.texts('dialog[open] h2'), [key]);
  assert.deepEqual(await page.numbers('dialog [data-name=key_denied]'), [denied]);
  assert.deepEqual(await page.numbers('dialog [data-name=key_requests]'), [requests]);
  assert.equal(await page.evaluate('document.querySelectorAll("dialog canvas").length > 0'), true);
  await page.expectAccessible();
  await page.press('Escape');
  assert.equal(await page.evaluate('document.querySelector("dialog")'), null);
  assert.equal(await page.evaluate('document.activeElement.textContent'), key);
}

async function checkComparison(page) {
  const choose = (place, limit) => page.evaluate(`(() => {
    const select = document.querySelectorAll('.compare-choice select')[${place}];
    select.value = '${limit}';
    select.dispatchEvent(new Event('change'));
  })()`);
  const denials = limits.map((limit) =>
    decisions.filter((row) => row.limit_expr === limit).map((row) => row.allowed ? null : row.key));
  const only = (by, not) => denials[by].filter((key, i) => key && !denials[not][i]).length;
  const keys = (by, not) => {
    const others = new Set(denials[not]);
    return new Set(denials[by].filter((key) => key && !others.has(key))).size;
  };
  for (const [a, b] of [[0, 1], [1, 0]]) {
    await choose(0, a);
    await choose(1, b);
    const of = (side, name) => page.numbers(`[data-side=${side}] [data-name=${name}]`);
    assert.deepEqual(await of('newly', 'requests'), [only(b, a)]);
    assert.deepEqual(await of('no_more', 'requests'), [only(a, b)]);
    assert.deepEqual(await of('newly', 'keys'), [keys(b, a)]);
    assert.deepEqual(await of('no_more', 'keys'), [keys(a, b)]);
  }
}

async function checkExport(page) {
  const buttons = await page.texts('header button');
  const save = (text, name) => page.saved(name, () =>
    page.click(`header button:nth-of-type(${buttons.indexOf(text) + 1})`));
  const report = JSON.parse(await save('All as JSON', 'report.json'));
  assert.equal(report.report.requests, summary.requests);
  const rows = (await save('Limits as CSV', 'limits.csv')).trim().split('\r\n');
  assert.equal(rows.length, 1 + limits.length);
  assert.deepEqual(rows[1].split(',').slice(1, 4).map(Number),
    ['requests', 'admitted', 'denied'].map((name) => summary.limits[0][name]));
  const keys = (await save('Keys as CSV', 'keys.csv')).trim().split('\r\n');
  const { key, denied, requests } = summary.limits[0].most_denied[0];
  assert.equal(keys[1], [limits[0], key, denied, requests].join(','));
  const times = (await save('Time as CSV', 'time.csv')).trim().split('\r\n').slice(1);
  assert.equal(times.reduce((sum, row) => sum + Number(row.split(',')[1]), 0), summary.requests);
}

await withPage(address, async (page) => {
  await checkLoading(page);
  await page.expectAccessible();
  await checkNumbers(page);
  await checkRange(page);
  await checkBrush(page);
  await checkLimitBrush(page);
  await checkKey(page);
  await checkComparison(page);
  await checkExport(page);
  await page.evaluate('document.querySelector("details").open = true');
  await page.drawn();
  await page.expectAccessible();
  await page.setSize(360, 800);
  await page.drawn();
  assert.ok(await page.evaluate('document.documentElement.scrollWidth') <= 360, 'wider than 360');
});
