// The HTML report in a real browser: what a reader needs of it, whatever it says.
//
// `open.mjs` says which pages. The charts are held to the results.json beside the page. SCREENSHOTS names a folder for
// pictures.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";

import * as inPage from "./in-page.mjs";
import { DESK, MORE, PAGE, PHONE, QUICK, nameOf, open } from "./open.mjs";

const RESULTS = path.join(path.dirname(PAGE), "results.json");

/** What depends on colours, in one and the other: of an open page nothing else changes. */
async function inBoth(page, look) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await look(colorScheme);
  }
}

/** A picture of a page or a part of it, if pictures are wanted. */
async function picture(of, name, options = {}) {
  if (process.env.SCREENSHOTS) await of.screenshot({ path: path.join(process.env.SCREENSHOTS, `${name}.png`), ...options });
}

describe("at every width and in both colour schemes", () => {
  for (const [name, viewport] of Object.entries({ phone: PHONE, desk: DESK })) {
    test(name, async () => {
      await open({ viewport }, async (page) => {
        assert.deepEqual(await page.evaluate(inPage.overflow), [], "nothing is wider than the window");
        assert.deepEqual(await page.evaluate(inPage.cutText), [], "no text is cut off or leaves its chart");
        await inBoth(page, async (colorScheme) => {
          await picture(page, `report-${name}-${colorScheme}`, { fullPage: true });
          assert.deepEqual(await page.evaluate(inPage.faintText), [], `all text stands out from its ground, ${colorScheme}`);
        });
      });
    });
  }

  test("with everything unfolded", async () => {
    await open({ viewport: PHONE }, async (page) => {
      await page.evaluate(inPage.unfold);
      assert.deepEqual(await page.evaluate(inPage.overflow), []);
    });
  });

  test("enlarged to twice the size", async () => {
    await open({ viewport: { width: DESK.width / 2, height: DESK.height / 2 }, deviceScaleFactor: 2 }, async (page) => {
      assert.deepEqual(await page.evaluate(inPage.overflow), []);
      assert.deepEqual(await page.evaluate(inPage.cutText), []);
    });
  });
});

describe("the first screen of a quick run", () => {
  const SCREENS = {
    desk: { viewport: { width: 1400, height: 1000 }, costs: 10, claims: 5, asked: 4 },
    phone: { viewport: { width: 390, height: 844 }, costs: 0, claims: 3, asked: 4 },
  };
  for (const [name, { viewport, costs, claims, asked }] of Object.entries(SCREENS)) {
    test(`${name}: what things cost, decided claims, and whether to believe it`, async () => {
      await open({ file: QUICK, viewport }, async (page) => {
        const seen = await page.evaluate(inPage.firstScreen);
        assert.ok(seen.costs.length >= costs, `${seen.costs.length} costs: ${seen.costs.join("; ")}`);
        assert.ok(seen.costs.every((cost) => /\d/.test(cost)), "each cost has its figure");
        assert.ok(seen.claims.length >= claims, `${seen.claims.length} sayings: ${seen.claims.join("; ")}`);
        assert.ok(seen.claims.every((claim) => /hold.*\d.*needs .*\d/.test(claim)), "each has its verdict, our figure and the rule");
        assert.ok(seen.asked.length >= asked, `${seen.asked.length} questions are answered: ${seen.asked.join("; ")}`);
        assert.match(seen.text, /Can this run be trusted\? (Yes|In part|No)/);
        const oneLine = await page.evaluate(inPage.machineAndTrust);
        if (name === "desk") assert.ok(oneLine, "the machine and whether the run can be trusted are one line");
        assert.deepEqual(await page.evaluate(inPage.overflow), []);
        assert.deepEqual(await page.evaluate(inPage.cutText), []);
        assert.deepEqual(await page.evaluate(inPage.overlaps), [], "no two words of a scale lie on each other");
        const { marks, most } = await page.evaluate(inPage.besideTheirLine);
        assert.ok(marks > 0 && most <= 1, `${marks} marks lie on their lines: ${most} pixels`);
        await inBoth(page, async (colorScheme) => {
          await picture(page, `first-${name}-${colorScheme}`);
          await picture(page, `quick-${name}-${colorScheme}`, { fullPage: true });
          assert.deepEqual(await page.evaluate(inPage.faintText), [], colorScheme);
        });
      });
    });
  }

  test("the page as it opens is short, each section at most three screens", async () => {
    await open({ file: QUICK, viewport: SCREENS.desk.viewport }, async (page) => {
      const { page: whole, sections } = await page.evaluate(inPage.heights);
      assert.ok(whole <= 12_000, `the page is ${whole} px tall`);
      assert.ok(sections.length >= 8, "every experiment has its section");
      for (const { id, height } of sections) assert.ok(height <= 3_000, `${id} is ${height} px tall`);
    });
  });

  const A4 = { format: "A4" };
  const pages = (pdf) => pdf.toString("latin1").match(/\/Type\s*\/Page\b(?!s)/g)?.length ?? 0;

  for (const [name, file] of Object.entries({ "a quick run": QUICK, "the newest standard run": PAGE })) {
    test(`two pages are printed of ${name}: the first screen, and one table of answers`, async () => {
      await open({ file, viewport: { width: 718, height: 1000 } }, async (page) => {
        // As from the browser's menu: with the margins that the page asks for.
        for (const format of ["A4", "Letter"]) {
          assert.equal(pages(await page.pdf({ format, preferCSSPageSize: true })), 2, format);
        }
        await page.emulateMedia({ media: "print" });
        for (const part of [".cards", "#costs", "#short", "#answers"]) assert.ok(await page.locator(part).isVisible(), part);
        assert.ok(!(await page.locator("#findings").isVisible()), "nothing else");
      });
    });
  }

  test("with ?print=all what is folded is printed, too", async () => {
    await open({ file: QUICK, query: "?print=all", viewport: { width: 718, height: 1000 } }, async (page) => {
      assert.notDeepEqual(await page.evaluate(inPage.foldedText), [], "the page folds something away");
      await page.emulateMedia({ media: "print" });
      assert.deepEqual(await page.evaluate(inPage.foldedText), []);
      assert.ok(pages(await page.pdf(A4)) > 5);
    });
  });

  test("a count opens the list that it counts, and a saying its line", async () => {
    await open({ file: QUICK }, async (page) => {
      for (const links of [".counts a", ".card .saying a"]) {
        const hrefs = await page.locator(links).evaluateAll((all) => all.map((link) => link.getAttribute("href")));
        assert.ok(hrefs.length > 3, `${links}: ${hrefs.join(" ")}`);
        for (const href of hrefs) {
          await page.locator(`${links}[href="${href}"]`).click();
          await page.waitForFunction((id) => document.getElementById(id)?.closest("details")?.open, href.slice(1));
        }
      }
    });
  });

  test("a screen reader reaches what is folded: every fold is a summary with a name, in the order of the tabs", async () => {
    await open({ file: QUICK }, async (page) => {
      assert.deepEqual(await page.evaluate(inPage.unreachableFolds), []);
    });
  });
});

describe("threads and processes on this machine", () => {
  for (const [name, viewport] of Object.entries({ phone: PHONE, desk: DESK })) {
    test(`${name}: a table, a chart, six aspects, and what was not measured`, async () => {
      await open({ file: QUICK, viewport }, async (page) => {
        await inBoth(page, (colorScheme) => picture(page.locator("#units"), `units-${name}-${colorScheme}`));
        const { rows, charts, aspects } = await page.evaluate(inPage.units);
        for (const act of ["make", "switch", "wake", "hand over", "keep", "lose"]) {
          const of = rows.filter((row) => row.what.startsWith(act));
          assert.ok(of.length > 0, `nothing is said of ${act}`);
          for (const { what, cells } of of) {
            assert.ok(cells.some((cell) => /\d|threadgauge run|no experiment|no figure/.test(cell)), `${what}: ${cells.join("; ")}`);
          }
        }
        assert.equal(charts, 1);
        assert.equal(aspects.length, 6);
        for (const { name, answers, text } of aspects) {
          assert.ok(answers.length > 0 || /no run on/.test(text), `${name} is answered`);
          for (const answer of answers) {
            assert.match(answer, /here .*\d.*the rule: |not measured|not testable|inconclusive/, `${name}: ${answer}`);
          }
        }
      });
    });
  }

  test("each link of it leads to something that can be seen, folded or not", async () => {
    await open({ file: QUICK }, async (page) => {
      const links = page.locator("#units a[href^='#']");
      const count = await links.count();
      assert.ok(count > 6, `${count} links`);
      for (let i = 0; i < count; i++) {
        const link = links.nth(i);
        const href = await link.getAttribute("href");
        const opened = link.locator("xpath=ancestor::details");
        if ((await opened.count()) > 0) await opened.first().evaluate((fold) => (fold.open = true));
        await link.click();
        const seen = await page.evaluate((id) => document.getElementById(id)?.checkVisibility() ?? false, href.slice(1));
        assert.ok(seen, `${href} leads to what cannot be seen`);
      }
    });
  });
});

describe("what a link leads to can be seen, however deep it is folded", () => {
  test("of every chart, saying, word and list of cases, by its address", async () => {
    await open({ file: QUICK }, async (page) => {
      const { followed, deepest, faults } = await page.evaluate(inPage.followed);
      assert.ok(followed > 60 && deepest >= 2, `${followed} links, into at most ${deepest} folds`);
      assert.deepEqual(faults, []);
    });
  });

  test("as the page opens, and once more after it was closed", async () => {
    let deep;
    await open({ file: QUICK }, async (page) => (deep = await page.evaluate(inPage.deepestChart)));
    await open({ file: QUICK, query: `#${deep}` }, async (page) => {
      const figure = page.locator(`#${deep}`);
      await figure.waitFor({ state: "visible" });
      const link = figure.locator(`a[href="#${deep}"]`);
      assert.ok(await figure.evaluate((e) => Math.abs(e.getBoundingClientRect().top) < window.innerHeight / 2), "it is scrolled to");
      await page.evaluate(() => document.querySelectorAll("details").forEach((fold) => (fold.open = false)));
      await figure.waitFor({ state: "hidden" });
      // By keyboard, from a link that is not folded away.
      await page.evaluate((id) => {
        const link = document.createElement("a");
        link.href = `#${id}`;
        link.id = "again";
        link.textContent = "again";
        document.querySelector("main").prepend(link);
        link.focus();
      }, deep);
      await page.keyboard.press("Enter");
      await figure.waitFor({ state: "visible" });
      assert.equal(await link.count(), 1, "it has its own link");
    });
  });

  test("of an experiment opens nothing that is folded in it", async () => {
    await open({ file: QUICK, query: "#e-create" }, async (page) => {
      assert.equal(await page.locator("#e-create > details[open]").count(), 0);
      assert.ok(await page.locator("#e-create .number").isVisible());
    });
  });
});

describe("charts", () => {
  test("are there, and each has drawn something", async () => {
    for (const viewport of [PHONE, DESK]) {
      await open({ viewport }, async (page) => {
        await page.evaluate(inPage.unfoldEachKind);
        const charts = await page.evaluate(inPage.charts);
        assert.ok(charts.length > 0, "the page has a chart");
        for (const chart of charts) {
          assert.ok(chart.panels > 0, `${chart.name} shows a panel at ${viewport.width} px`);
          assert.ok(chart.width > 100 && chart.height > 50, `${chart.name} is ${chart.width} × ${chart.height}`);
          assert.equal(chart.emptyPanels, 0, `every panel of ${chart.name} has drawn a mark`);
        }
      });
    }
  });

  test("show every figure of the results, with every series", async () => {
    const figures = JSON.parse(readFileSync(RESULTS, "utf8")).experiments.flatMap((e) =>
      e.figures.filter((f) => f.series.some((s) => s.points.length > 0)),
    );
    assert.ok(figures.length > 0, "the run has a figure (if not: were all samples disturbed?)");
    await open({}, async (page) => {
      await page.evaluate(inPage.unfoldEachKind);
      const charts = await page.evaluate(inPage.charts);
      const alike = await page.locator("figure", { hasText: "No chart: " }).allTextContents();
      for (const figure of figures) {
        // Figures that are all alike are a sentence and a table.
        if (alike.some((text) => text.includes(figure.title))) continue;
        const chart = charts.find((c) => c.text.includes(figure.title));
        assert.ok(chart, `no chart is titled "${figure.title}"`);
        const series = figure.series.filter((s) => s.points.length > 0);
        assert.ok(chart.marks >= series.length, `${figure.title}: ${series.length} series, ${chart.marks} marks`);
        for (const { name } of series) {
          // Sources are called by their names.
          const said = name.replace(/^source( \d+)?[,:] /, "");
          assert.ok(chart.text.includes(said), `${figure.title}: nothing names "${name}"`);
        }
      }
    });
  });
});

describe("charts of every experiment of units", () => {
  for (const file of MORE) {
    for (const [name, viewport] of Object.entries({ phone: PHONE, desk: DESK })) {
      test(`${nameOf(file)}, ${name}`, async () => {
        await open({ file, viewport }, async (page) => {
          await page.evaluate(inPage.unfold);
          const charts = await page.evaluate(inPage.charts);
          assert.ok(charts.length > 0, "the page has a chart");
          for (const chart of charts) assert.equal(chart.emptyPanels, 0, `every panel of ${chart.name} has drawn a mark`);
          assert.deepEqual(await page.evaluate(inPage.cutNames), [], "every name beside a chart is whole");
          assert.deepEqual(await page.evaluate(inPage.cutText), []);
          assert.deepEqual(await page.evaluate(inPage.overflow), []);
          await inBoth(page, async (colorScheme) => {
            assert.deepEqual(await page.evaluate(inPage.coveredMarks), [], `every mark can be seen, ${colorScheme}`);
            assert.deepEqual(await page.evaluate(inPage.faintText), [], colorScheme);
          });
        });
      });
    }
  }
});

describe("raw samples", () => {
  test("are folded away at first and appear on demand", async () => {
    await open({}, async (page) => {
      const fold = page.locator("details.raw").first();
      assert.match(await fold.locator("> summary").textContent(), /samples/i);
      const row = fold.locator("tbody tr").first();
      assert.ok(!(await row.isVisible()), "the samples are folded away");
      await page.locator("details.everything", { has: fold }).first().locator("> summary").click();
      await fold.locator("> summary").click();
      // Where there are many cases, each has a fold of its own.
      const ofCase = fold.locator("details > summary").first();
      if (await ofCase.isVisible()) await ofCase.click();
      await row.waitFor({ state: "visible" });
      assert.match(await row.innerText(), /\d/, "a sample has figures");
    });
  });
});

describe("elsewhere", () => {
  test("without scripts everything is there", async () => {
    const lines = async (page) =>
      (await page.locator("body").innerText()).split("\n").map((line) => line.trim()).filter((line) => line !== "");
    let withScripts;
    await open({}, async (page) => {
      // What only a script can do is added by it.
      await page.evaluate(() => document.querySelectorAll(".by-script").forEach((e) => e.remove()));
      withScripts = await lines(page);
    });
    await open({ javaScriptEnabled: false }, async (page) => {
      const without = new Set(await lines(page));
      assert.deepEqual(withScripts.filter((line) => !without.has(line)), []);
      await page.locator("details:not([open]) > summary").first().click();
      await page.locator("details[open]").first().waitFor();
    });
  });

  // Of the further pages the last are a comparison and a history.
  for (const file of [PAGE, ...MORE.slice(-2)]) {
    test(`on paper it is dark on white and keeps within the sheet: ${nameOf(file)}`, async () => {
      for (const colorScheme of ["light", "dark"]) {
        await open({ file, viewport: { width: 718, height: 1000 }, colorScheme }, async (page) => {
          await page.emulateMedia({ media: "print", colorScheme });
          assert.deepEqual(await page.evaluate(inPage.overflow), []);
          assert.ok(await page.evaluate(inPage.groundIsLight), `printed from ${colorScheme}, the ground is light`);
          assert.deepEqual(await page.evaluate(inPage.faintText), []);
          const sheet = await page.pdf({ format: "A4" });
          assert.equal(sheet.subarray(0, 5).toString(), "%PDF-");
        });
      }
    });
  }
});
