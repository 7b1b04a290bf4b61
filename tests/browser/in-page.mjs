// What is asked of the page from inside it. Each function is sent to the browser alone, so it uses
// nothing from outside itself; each gives back faults in words, or facts.

/** Elements that make the page wider than the window. */
export function overflow() {
  const width = window.innerWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const wide = [...document.body.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > width + 1);
  return [
    `the page is ${document.documentElement.scrollWidth} px wide in a window of ${width}`,
    ...wide.slice(0, 5).map((e) => `${e.tagName.toLowerCase()} ${e.id} ends at ${e.getBoundingClientRect().right} px`),
  ];
}

/** Text that its element cuts off, and text of a chart that lies outside of it. */
export function cutText() {
  const faults = [];
  for (const element of document.body.querySelectorAll("*:not(svg *)")) {
    const style = getComputedStyle(element);
    const hasText = [...element.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim());
    const hides = ["hidden", "clip"].includes(style.overflowX) && element.clientWidth > 1;
    if (hasText && hides && element.scrollWidth > element.clientWidth + 1) {
      faults.push(`cut off: ${element.textContent.trim().slice(0, 60)}`);
    }
  }
  for (const svg of document.querySelectorAll("svg")) {
    const frame = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll("text")) {
      const box = text.getBoundingClientRect();
      if (box.width === 0) continue;
      const out = box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
      if (out) faults.push(`outside its chart: ${text.textContent.trim().slice(0, 60)}`);
    }
  }
  return faults;
}

/** Text whose contrast to its ground is under 4.5 : 1 (large text: 3 : 1), as WCAG AA counts it. */
export function faintText() {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r, g, b].map((c, i) => (c * a + [R, G, B][i] * (255 - a)) / 255);
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
    const dark = matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;
    const canvasColour = dark && /dark/.test(getComputedStyle(document.documentElement).colorScheme) ? [18, 18, 18] : [255, 255, 255];
    return layers.reverse().reduce((under, layer) => over(layer, under), canvasColour);
  };
  const faults = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility() || element.closest("script,style,title,desc,defs")) continue;
    const style = getComputedStyle(element);
    const under = ground(element);
    const ink = rgba(element.closest("svg") ? style.fill : style.color);
    const [light, dark] = [luminance(over(ink, under)), luminance(under)].sort((a, b) => b - a);
    const contrast = (light + 0.05) / (dark + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (contrast < (large ? 3 : 4.5)) {
      faults.add(`${contrast.toFixed(1)} : 1 for "${node.data.trim().slice(0, 40)}" (${element.tagName} ${element.className?.baseVal ?? element.className})`);
    }
  }
  return [...faults].slice(0, 10);
}

/** Every figure's charts: how large the smallest, how many marks they have drawn, and the words in and around them. */
export function charts() {
  // Axes and grids are lines; a mark is what only data can put there.
  const drawnMarks = (svg) =>
    [...svg.querySelectorAll("path,circle,polyline,polygon,ellipse,rect")].filter((mark) => {
      if (mark.closest("defs,clipPath,marker,symbol")) return false;
      const { width, height } = mark.getBoundingClientRect();
      const style = getComputedStyle(mark);
      const drawn = style.visibility === "visible" && (style.stroke !== "none" || style.fill !== "none");
      return drawn && width + height > 0;
    }).length;
  return [...document.querySelectorAll("figure")]
    .filter((figure) => figure.querySelector("svg"))
    .map((figure) => {
      // A chart may have a wide and a narrow form, of which one is shown; swatches of a legend are hidden from readers.
      const panels = [...figure.querySelectorAll("svg:not([aria-hidden='true'])")].filter((svg) => svg.checkVisibility());
      const text = figure.textContent.replace(/\s+/g, " ");
      const boxes = panels.map((svg) => svg.getBoundingClientRect());
      return {
        name: figure.id || text.slice(0, 60),
        text,
        width: Math.min(...boxes.map((box) => box.width)),
        height: Math.min(...boxes.map((box) => box.height)),
        panels: panels.length,
        emptyPanels: panels.filter((svg) => drawnMarks(svg) === 0).length,
        marks: panels.reduce((sum, svg) => sum + drawnMarks(svg), 0),
      };
    });
}

/** Opens every fold. */
export function unfold() {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
}

/** Every kind of fold: of those that lie side by side the first and the last. */
export function foldsToTry() {
  const isFold = (e) => e?.tagName === "DETAILS";
  return [...document.querySelectorAll("details")].filter(
    (fold) => !isFold(fold.previousElementSibling) || !isFold(fold.nextElementSibling),
  );
}

/** Puts the focus on a fold, after opening those around it. */
export function focusFold(folds, i) {
  const fold = folds[i];
  for (let outer = fold.parentElement.closest("details"); outer; outer = outer.parentElement.closest("details")) outer.open = true;
  const summary = fold.querySelector(":scope > summary");
  summary.focus();
  return { was: fold.open, name: summary.textContent, hasFocus: document.activeElement === summary };
}

/** Whether what has the focus is marked by an outline or a shadow. */
export function focusIsVisible() {
  const element = document.activeElement;
  if (!element || element === document.body) return false;
  const style = getComputedStyle(element);
  return (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
}

/** Whether the page's ground would not waste ink. */
export function groundIsLight() {
  const colour = [document.body, document.documentElement]
    .map((e) => getComputedStyle(e).backgroundColor)
    .find((c) => c !== "rgba(0, 0, 0, 0)");
  const [r, g, b] = (colour ?? "rgb(255, 255, 255)").match(/[\d.]+/g).map(Number);
  return r + g + b > 3 * 200;
}

/** Ids that occur more than once. */
export function repeatedIds() {
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  return [...new Set(ids.filter((id, i) => ids.indexOf(id) !== i))];
}

/** Links and references to an id that is not there. */
export function deadLinks() {
  const wanted = [...document.querySelectorAll("a[href^='#']")].map((a) => decodeURIComponent(a.getAttribute("href").slice(1)));
  for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
    for (const e of document.querySelectorAll(`[${attribute}]`)) wanted.push(...e.getAttribute(attribute).split(/\s+/));
  }
  return wanted.filter((id) => id !== "" && !document.getElementById(id));
}

/** Pictures that say nothing to who cannot see them. */
export function namelessPictures() {
  return [...document.querySelectorAll("img, svg")]
    .filter((e) => !e.closest("[aria-hidden='true']"))
    .filter((e) => {
      const by = e.getAttribute("aria-labelledby")?.split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
      const name = by ?? e.getAttribute("aria-label") ?? e.getAttribute("alt") ?? e.querySelector(":scope > title")?.textContent;
      const role = e.tagName === "IMG" || e.getAttribute("role") === "img";
      return !role || !name?.trim();
    })
    .map((e) => e.outerHTML.slice(0, 100));
}

/** Tables without column heads. */
export function headlessTables() {
  return [...document.querySelectorAll("table")].filter((t) => !t.querySelector("th")).map((t) => t.outerHTML.slice(0, 100));
}

/** What of both lists lies wholly within the window, and all text that does. */
export function firstScreen() {
  const within = (e) => {
    const box = e.getBoundingClientRect();
    return box.height > 0 && box.top >= 0 && box.bottom <= window.innerHeight && box.right <= window.innerWidth;
  };
  const words = (e) => e.textContent.replace(/\s+/g, " ").trim();
  const seen = (selector) => [...document.querySelectorAll(selector)].filter(within).map(words);
  return {
    costs: seen("#costs tbody tr:not([aria-hidden])"),
    claims: seen(".cards > .card"),
    asked: seen(".short dt"),
    text: seen("p").join(" "),
  };
}

/** Words of one scale that lie on each other, or beyond the window. */
export function overlaps() {
  const faults = [];
  for (const scale of document.querySelectorAll(".ticks .lane")) {
    const labels = [...scale.querySelectorAll("span")].filter((e) => e.checkVisibility());
    const boxes = labels.map((e) => e.getBoundingClientRect());
    boxes.forEach((box, i) => {
      if (box.left < 0 || box.right > window.innerWidth) faults.push(`beyond the window: ${labels[i].textContent}`);
      if (i > 0 && box.left < boxes[i - 1].right) faults.push(`${labels[i - 1].textContent} on ${labels[i].textContent}`);
    });
  }
  return faults;
}

/** The section of threads and processes: its rows, its chart, and the aspects with what answers them. */
export function units() {
  const words = (e) => e.textContent.replace(/\s+/g, " ").trim();
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  return {
    rows: all("#units-table tbody tr").map((row) => ({ what: words(row.querySelector("th")), cells: all("td", row).map(words) })),
    charts: all("#units-f svg.chart").filter((svg) => svg.checkVisibility()).length,
    aspects: all(".aspects > li").map((aspect) => ({
      name: words(aspect.querySelector("h4")),
      answers: all(".answers > li", aspect).map(words),
      text: words(aspect),
    })),
  };
}

/** Names beside a chart that do not say all of what they name. */
export function cutNames() {
  const labels = [...document.querySelectorAll("svg.chart text")].filter((text) => text.checkVisibility());
  return labels.map((text) => text.textContent).filter((text) => text.endsWith("…"));
}

/** Marks of a chart that lie on one another, so that fewer can be counted than there are. */
export function coveredMarks() {
  const faults = [];
  for (const svg of [...document.querySelectorAll("svg.chart")].filter((svg) => svg.checkVisibility())) {
    const marks = [...svg.querySelectorAll("path.m")].map((mark) => mark.getBoundingClientRect());
    marks.forEach((a, i) => {
      const on = marks.slice(0, i).some((b) => Math.abs(a.x - b.x) < 2 && Math.abs(a.y - b.y) < 2 && Math.abs(a.width - b.width) < 2);
      if (on) faults.push(`${svg.querySelector("title").textContent}: two marks at ${Math.round(a.x)}, ${Math.round(a.y)}`);
    });
  }
  return faults;
}

/** How tall the page is, and each experiment's section. */
export function heights() {
  const sections = [...document.querySelectorAll("section.experiment")];
  return {
    page: document.documentElement.scrollHeight,
    sections: sections.map((e) => ({ id: e.id, height: Math.round(e.getBoundingClientRect().height) })),
  };
}

/** Text in folds that cannot be seen; raw samples, which no paper holds, excepted. */
export function foldedText() {
  const folds = [...document.querySelectorAll("details:not([open])")].filter((fold) => !fold.closest(".raw"));
  const hidden = folds.flatMap((fold) => [...fold.children].filter((e) => e.tagName !== "SUMMARY" && !e.checkVisibility()));
  const meant = (e) => !e.closest(".raw, noscript, script, .screen-only, .plot.narrow");
  return hidden.filter(meant).map((e) => e.textContent.trim().slice(0, 40)).filter((text) => text !== "");
}

/** Folds that a keyboard or a screen reader would not find. */
export function unreachableFolds() {
  return [...document.querySelectorAll("details")].flatMap((fold) => {
    const summary = fold.firstElementChild;
    if (summary?.tagName !== "SUMMARY") return [`no summary first: ${fold.outerHTML.slice(0, 60)}`];
    if (!summary.textContent.trim()) return [`no name: ${fold.outerHTML.slice(0, 60)}`];
    const hidden = summary.closest("[aria-hidden='true'],[inert]") || summary.tabIndex < 0;
    return hidden ? [`not reachable: ${summary.textContent.trim().slice(0, 40)}`] : [];
  });
}
