// Charts saved from the page: what lands on the disk is a picture by itself.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";

import * as inPage from "./in-page.mjs";
import { KINDS, PHONE, QUICK, open } from "./open.mjs";

const PAGE = KINDS[0] ?? QUICK;

/** The bytes and the name of what `act` saves. */
async function saved(page, act) {
  const [download] = await Promise.all([page.waitForEvent("download"), act()]);
  const bytes = readFileSync(await download.path());
  if (process.env.SCREENSHOTS) await download.saveAs(path.join(process.env.SCREENSHOTS, download.suggestedFilename()));
  return { name: download.suggestedFilename(), bytes };
}

const button = (page, id, kind) => page.locator(`figure[id="${id}"] .files button`, { hasText: kind });

/** The width and height that a PNG says of itself. */
function sizeOf(png) {
  assert.equal(png.subarray(1, 4).toString(), "PNG");
  return [png.readUInt32BE(16), png.readUInt32BE(20)];
}

describe("a chart is saved", () => {
  for (const [where, options] of Object.entries({
    "at a desk": {},
    "on a phone in the dark": { viewport: PHONE, colorScheme: "dark" },
  })) {
    test(`as SVG that needs nothing beside it, and as PNG of twice its size, ${where}`, async () => {
      await open({ file: PAGE, ...options }, async (page) => {
        await page.evaluate(inPage.unfoldEachKind);
        const charts = await page.evaluate(inPage.chartsToSave);
        assert.ok(charts.length > 0, "the page has a chart");
        for (const { id, title, words, marks } of charts) {
          const svg = await saved(page, () => button(page, id, "SVG").click());
          assert.equal(svg.name, `${id}.svg`);
          const source = svg.bytes.toString();
          const { size, ...seen } = await page.evaluate(inPage.savedPicture, source);
          assert.deepEqual(seen, { faults: [], title, marks }, id);
          for (const word of words) assert.ok(seen.faults.length === 0 && source.includes(word), `${id} lacks "${word}"`);
          const png = await saved(page, () => button(page, id, "PNG").click());
          assert.equal(png.name, `${id}.png`);
          assert.deepEqual(sizeOf(png.bytes), size.map((length) => 2 * length));
          const colours = await page.evaluate(inPage.coloursOf, png.bytes.toString("base64"));
          assert.ok(colours.ground > 0.7 && colours.ground < 0.999, `${id}: ${colours.ground} of the picture is ground`);
          assert.ok(colours.hues > 0, `${id} has no colour`);
        }
        assert.deepEqual(await page.evaluate(inPage.overflow), [], "nothing is left in the page");
      });
    });
  }

  test("by keyboard", async () => {
    await open({ file: PAGE }, async (page) => {
      await page.evaluate(inPage.unfoldEachKind);
      const [{ id }] = await page.evaluate(inPage.chartsToSave);
      for (const [key, kind] of [["Enter", "SVG"], ["Space", "PNG"]]) {
        const { name } = await saved(page, async () => {
          await button(page, id, kind).focus();
          await page.keyboard.press(key);
        });
        assert.equal(name, `${id}.${kind.toLowerCase()}`);
      }
    });
  });
});
