// Drives Chromium without a window, over its DevTools protocol on two pipes.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const axePath = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
const axeSource = readFileSync(axePath, 'utf8');
const patienceMs = 20_000;

// Calls use(browser), then ends Chromium.
export async function withBrowser(use) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-chromium-'));
  // The tests may run as root, for which Chromium has no sandbox; the pages are the project's own.
  const chromium = spawn('chromium', ['--headless=new', '--no-sandbox', '--disable-gpu',
    '--no-first-run', '--disable-dev-shm-usage', '--window-size=1400,1000',
    `--user-data-dir=${folder}`, '--remote-debugging-pipe', 'about:blank'],
  { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'], detached: true });
  const ended = new Promise((resolve) => chromium.on('exit', resolve));
  try {
    await use(new Browser(chromium.stdio[3], chromium.stdio[4], folder));
  } finally {
    process.kill(-chromium.pid, 'SIGKILL');  // With the processes that it has started.
    await ended;
    // Processes of Chromium may be about to end, and write a last file meanwhile.
    rmSync(folder, { recursive: true, force: true, maxRetries: 40, retryDelay: 20 });
  }
}

// Calls use(page) with the page at this address, in which nothing may go wrong.
export function withPage(address, use) {
  return withBrowser(async (browser) => {
    const page = await browser.open(address);
    await use(page);
    assert.deepEqual(page.faults, []);
  });
}

class Browser {
  constructor(input, output, folder) {
    this.input = input;
    this.folder = folder;
    this.lastId = 0;
    this.calls = new Map();
    this.listeners = new Set();
    let rest = '';
    output.setEncoding('utf8');
    output.on('data', (text) => {
      const messages = (rest + text).split('\0');
      rest = messages.pop();
      messages.forEach((message) => this.receive(JSON.parse(message)));
    });
  }

  receive(message) {
    if (message.id === undefined) {
      this.listeners.forEach((listener) => listener(message));
      return;
    }
    const { resolve, reject } = this.calls.get(message.id);
    this.calls.delete(message.id);
    message.error ? reject(new Error(JSON.stringify(message.error))) : resolve(message.result);
  }

  call(method, params = {}, sessionId = undefined) {
    const id = ++this.lastId;
    this.input.write(JSON.stringify({ id, method, params, sessionId }) + '\0');
    return new Promise((resolve, reject) => this.calls.set(id, { resolve, reject }));
  }

  // Opens a page and waits until it is loaded and drawn.
  async open(address) {
    const { targetId } = await this.call('Target.createTarget', { url: 'about:blank' });
    const { sessionId } =
      await this.call('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(this, sessionId);
    await page.load(address);
    return page;
  }
}

class Page {
  constructor(browser, sessionId) {
    this.browser = browser;
    this.sessionId = sessionId;
    // What the page has asked the browser to load, and what went wrong in it.
    this.loaded = [];
    this.faults = [];
    browser.listeners.add(({ sessionId: session, method, params }) => {
      if (session !== sessionId) return;
      if (method === 'Network.requestWillBeSent') this.loaded.push(params.request.url);
      if (method === 'Runtime.exceptionThrown') this.faults.push(params.exceptionDetails);
      if (method === 'Log.entryAdded') this.faults.push(params.entry.text);
    });
  }

  call(method, params = {}) {
    return this.browser.call(method, params, this.sessionId);
  }

  async load(address) {
    for (const domain of ['Page', 'Network', 'Runtime', 'Log']) await this.call(`${domain}.enable`);
    await this.call('Performance.enable', { timeDomain: 'threadTicks' });
    await this.call('Page.navigate', { url: address });
    await this.until('document.readyState === "complete"');
    await this.drawn();
  }

  // How long the page's thread has used a processor.
  async busyMs() {
    const { metrics } = await this.call('Performance.getMetrics');
    return metrics.find(({ name }) => name === 'TaskDuration').value * 1000;
  }

  // Runs an expression in the page; a promise is awaited.
  async evaluate(expression) {
    const { result, exceptionDetails } = await this.call('Runtime.evaluate',
      { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) {
      throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    }
    return result.value;
  }

  // Of each element that the selector finds.
  all(selector, what) {
    return this.evaluate(
      `[...document.querySelectorAll(${JSON.stringify(selector)})].map((e) => ${what})`);
  }
  texts(selector) { return this.all(selector, 'e.textContent'); }
  // The numbers that the texts of elements stand for.
  numbers(selector) { return this.all(selector, 'Number(e.dataset.value)'); }

  async until(expression) {
    const end = Date.now() + patienceMs;
    while (!await this.evaluate(expression).catch(() => false)) {
      assert.ok(Date.now() < end, `never true: ${expression}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  // Waits until the page is painted.
  drawn() {
    return this.evaluate('new Promise((done) => ' +
      'requestAnimationFrame(() => requestAnimationFrame(() => done())))');
  }

  async press(key, times = 1) {
    const code = { Enter: 13, Escape: 27, Tab: 9, End: 35, Home: 36, ArrowLeft: 37,
      ArrowRight: 39 }[key];
    const event = { key, code: key, windowsVirtualKeyCode: code,
      text: key === 'Enter' ? '\r' : undefined };
    for (let i = 0; i < times; ++i) {
      await this.call('Input.dispatchKeyEvent', { type: 'keyDown', ...event });
      await this.call('Input.dispatchKeyEvent', { type: 'keyUp', ...event });
    }
    await this.drawn();
  }

  // Clicks the middle of the element.
  async click(selector) {
    const { x, y } = await this.evaluate(`(() => {
      const element = document.querySelector(${JSON.stringify(selector)});
      element.scrollIntoView({block: 'center', behavior: 'instant'});
      const box = element.getBoundingClientRect();
      return {x: box.x + box.width / 2, y: box.y + box.height / 2};
    })()`);
    await this.drag({ x, y }, { x, y });
  }

  // Presses the mouse at one point, and releases it at another one.
  async drag(from, to) {
    const button = { button: 'left', clickCount: 1 };
    await this.call('Input.dispatchMouseEvent', { type: 'mouseMoved', ...from });
    await this.call('Input.dispatchMouseEvent', { type: 'mousePressed', ...from, ...button });
    await this.call('Input.dispatchMouseEvent', { type: 'mouseMoved', ...to, ...button });
    await this.call('Input.dispatchMouseEvent', { type: 'mouseReleased', ...to, ...button });
    await this.drawn();
  }

  async setScheme(scheme) {
    await this.call('Emulation.setEmulatedMedia',
      { features: [{ name: 'prefers-color-scheme', value: scheme }] });
    await this.drawn();
  }

  setSize(width, height) {
    return this.call('Emulation.setDeviceMetricsOverride',
      { width, height, deviceScaleFactor: 1, mobile: false });
  }

  // Fails if axe-core finds anything, in light or in dark.
  async expectAccessible() {
    for (const scheme of ['light', 'dark']) {
      await this.setScheme(scheme);
      await this.evaluate(`${axeSource}; undefined`);
      const { violations } = await this.evaluate('axe.run()');
      const found = violations.map(({ id, help, nodes }) =>
        ({ id, help, nodes: nodes.slice(0, 3).map((node) => node.html + node.failureSummary) }));
      assert.deepEqual(found, [], `${scheme}: ${JSON.stringify(found, null, 1)}`);
    }
  }

  // The text of the file that the page saves when `act` is done.
  async saved(name, act) {
    await this.browser.call('Browser.setDownloadBehavior',
      { behavior: 'allow', downloadPath: this.browser.folder, eventsEnabled: true });
    const done = new Promise((resolve) => {
      const listener = ({ method, params }) => {
        if (method !== 'Browser.downloadProgress' || params.state !== 'completed') return;
        this.browser.listeners.delete(listener);
        resolve();
      };
      this.browser.listeners.add(listener);
    });
    await act();
    await done;
    return readFileSync(join(this.browser.folder, name), 'utf8');
  }
}
