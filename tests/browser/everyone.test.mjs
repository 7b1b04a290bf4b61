// The HTML report for everyone: what axe-core says of it, what a screen reader meets, and a keyboard alone.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { describe, test } from "node:test";

import * as inPage from "./in-page.mjs";
import { KINDS, MORE, PAGE, PHONE, QUICK, nameOf, open } from "./open.mjs";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

describe("axe-core has nothing to say", () => {
  const STATES = { closed: () => {}, open: (page) => page.evaluate(inPage.unfoldEachKind) };
  // What axe judges by colours takes it four fifths of its time. It judges so what a reader first sees; `faintText`
  // judges every page, with all that is folded away.
  const COLOURS = ["color-contrast", "link-in-text-block"];
  for (const file of new Set([QUICK, PAGE, ...KINDS, ...MORE])) {
    for (const [state, unfold] of Object.entries(STATES)) {
      // Closed they have nothing that the others have not: what is theirs are charts, or more of the same.
      if (state === "closed" && [PAGE, ...MORE].includes(file) && file !== QUICK) continue;
      test(`${nameOf(file)}, ${state}`, async () => {
        await open({ file }, async (page) => {
          await unfold(page);
          // The time that axe takes grows with the page, and the thousandth row has nothing that the third had not.
          assert.ok((await page.evaluate(inPage.keepEachKind)) > 0, "nothing in it is alike");
          await page.addScriptTag({ path: AXE });
          const shape = { rules: Object.fromEntries(COLOURS.map((rule) => [rule, { enabled: false }])) };
          assert.deepEqual(await complaints(page, shape), []);
          // In the dark nothing but colours differs.
          for (const colorScheme of ["light", "dark"]) {
            await page.emulateMedia({ colorScheme });
            if (state === "closed") assert.deepEqual(await complaints(page, { runOnly: COLOURS }), [], colorScheme);
            assert.deepEqual(await page.evaluate(inPage.faintText), [], colorScheme);
          }
          assert.deepEqual(await page.evaluate(inPage.sharedNames), []);
        });
      });
    }
  }

  /** What axe finds by some of its rules: the first three places of each. */
  async function complaints(page, rules) {
    const options = { resultTypes: ["violations", "incomplete"], ...rules };
    const { violations, incomplete, passes } = await page.evaluate((options) => axe.run(options), options);
    assert.ok(passes.length > 0, "a rule was tried");
    // Before a ground that is not of one colour axe leaves contrast open; `faintText` judges it.
    const open = incomplete.filter((rule) => rule.id !== "color-contrast");
    const says = (rule) => rule.nodes.slice(0, 3).map((node) => `${rule.id}: ${rule.help}: ${node.html.slice(0, 160)}`);
    return [...violations, ...open].flatMap(says);
  }
});

describe("by keyboard", () => {
  test("every fold opens and closes", async () => {
    await open({ file: QUICK }, async (page) => {
      const folds = await page.evaluateHandle(inPage.foldsToTry);
      const count = await folds.evaluate((all) => all.length);
      assert.ok(count > 0, "the page folds nothing away");
      for (let i = 0; i < count; i++) {
        const { was, name, hasFocus } = await folds.evaluate(inPage.focusFold, i);
        assert.ok(hasFocus, `"${name}" takes the focus`);
        const isOpen = () => folds.evaluate((all, i) => all[i].open, i);
        await page.keyboard.press("Enter");
        assert.equal(await isOpen(), !was, `Enter on "${name}"`);
        await page.keyboard.press("Space");
        assert.equal(await isOpen(), was, `Space on "${name}"`);
      }
    });
  });

  const PAGES = [
    ["a quick run", { file: QUICK }],
    ["a quick run on a phone in the dark", { file: QUICK, viewport: PHONE, colorScheme: "dark" }],
    ...KINDS.map((file) => [`${nameOf(file)}, unfolded`, { file, unfolded: true }]),
  ];
  for (const [name, { unfolded, ...options }] of PAGES) {
    test(`Tab goes to everything in the order of the page, and one sees where it is: ${name}`, async () => {
      await open(options, async (page) => {
        if (unfolded) await page.evaluate(inPage.unfoldEachKind);
        const count = await page.evaluate(inPage.numberTabStops);
        assert.ok(count > 20, `${count} things take the focus`);
        for (let i = 0; i < count; i++) {
          await page.keyboard.press("Tab");
          assert.equal(await page.evaluate(inPage.focusFault, i), "");
        }
      });
    });
  }

  test("Enter on the first link skips the contents, on a count opens its list", async () => {
    await open({ file: QUICK }, async (page) => {
      await page.keyboard.press("Tab");
      await page.keyboard.press("Enter");
      assert.equal(await page.evaluate(() => document.activeElement.id), "main");
      const count = page.locator(".counts a").first();
      const id = (await count.getAttribute("href")).slice(1);
      await count.focus();
      await page.keyboard.press("Enter");
      await page.waitForFunction((id) => document.getElementById(id)?.closest("details")?.open, id);
    });
  });
});

describe("for a screen reader", () => {
  test("it has a language, a title and headings in order", async () => {
    await open({}, async (page) => {
      assert.match(await page.evaluate(() => document.documentElement.lang), /^\w/);
      assert.notEqual(await page.title(), "");
      const levels = await page.evaluate(() =>
        [...document.querySelectorAll("h1,h2,h3,h4,h5,h6")].map((h) => Number(h.tagName[1])),
      );
      assert.equal(levels.filter((level) => level === 1).length, 1, "one heading of the first rank");
      levels.reduce((above, level) => {
        assert.ok(level <= above + 1, `a heading of rank ${level} follows one of rank ${above}`);
        return level;
      }, 0);
    });
  });

  test("every id is unique and every link within the page arrives", async () => {
    await open({}, async (page) => {
      assert.deepEqual(await page.evaluate(inPage.repeatedIds), []);
      assert.deepEqual(await page.evaluate(inPage.deadLinks), []);
    });
  });

  test("every picture has a name and every table its heads", async () => {
    await open({}, async (page) => {
      assert.deepEqual(await page.evaluate(inPage.namelessPictures), []);
      assert.deepEqual(await page.evaluate(inPage.headlessTables), []);
    });
  });
});
