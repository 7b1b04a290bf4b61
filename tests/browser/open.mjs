// Opens pages in the browser that CHROMIUM names. The pages are named by REPORT_HTML (a standard run), QUICK_HTML,
// MORE_HTML and KINDS_HTML (stored runs of some experiments, and a load); `cargo xtask browser` sets all of them.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import path from "node:path";
import { after, before } from "node:test";
import { pathToFileURL } from "node:url";

import { chromium } from "playwright-core";

const named = (list) => (list ?? "").split(path.delimiter).filter((file) => file !== "");

export const PAGE = path.resolve(process.env.REPORT_HTML ?? "report.html");
/** The report of a quick run without arguments. */
export const QUICK = path.resolve(process.env.QUICK_HTML ?? PAGE);
/** Reports of stored runs whose experiments the others leave out. */
export const MORE = named(process.env.MORE_HTML);
/** Reports of other kinds: what experiments answer comes first, cases failed, or it is of a load. */
export const KINDS = named(process.env.KINDS_HTML);
export const PHONE = { width: 400, height: 800 };
export const DESK = { width: 1400, height: 900 };
/** How long anything may take, ms: so that what hangs ends, on a slow machine, too. */
export const PATIENCE = 300_000;

/** What a page is called in the name of a test. */
export const nameOf = (file) => path.basename(path.dirname(file));

let browser;

before(async () => {
  assert.ok(existsSync(PAGE), `REPORT_HTML names no file: ${PAGE}`);
  browser = await chromium.launch({
    timeout: PATIENCE,
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
});

after(() => browser?.close());

/** Opens the page, hands it to `look`, and holds it to: no error, no request but its own. */
export async function open({ file = PAGE, query = "", ...options }, look) {
  const context = await browser.newContext({ viewport: DESK, ...options });
  try {
    context.setDefaultTimeout(PATIENCE);
    const page = await context.newPage();
    const faults = [];
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) faults.push(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => faults.push(`script: ${error.message}`));
    const own = pathToFileURL(file).href;
    await context.route("**/*", (route) => {
      const url = route.request().url();
      if (url.split(/[?#]/)[0] === own) return route.continue();
      faults.push(`request: ${url}`);
      return route.abort();
    });
    await page.goto(own + query, { waitUntil: "load" });
    await look(page);
    assert.deepEqual(faults, []);
  } finally {
    await context.close();
  }
}

