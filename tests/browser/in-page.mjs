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

/** Opens every fold but those of raw samples, of which one is opened, and the first case in it. */
export function unfoldEachKind() {
  const raw = document.querySelector(".raw");
  const opened = (fold) => !fold.closest(".raw") || fold === raw || fold === raw.querySelector("details");
  for (const fold of document.querySelectorAll("details")) fold.open = opened(fold);
}

/**
 * Takes out what is alike: of marks in a chart and rows of a table, each with all that is in it, three stay of those that
 * differ in text and place alone. What others refer to stays, too. Gives how many went.
 */
export function keepEachKind() {
  const APART = new Set(["class", "style", "fill", "stroke", "role", "tabindex", "scope", "open", "type"]);
  let gone = 0;
  const shape = (element) => {
    const seen = new Map();
    const isWhole = element.localName === "tr" || element.localName === "thead";
    for (const child of [...element.children]) {
      const kind = shape(child);
      const count = (seen.get(kind) ?? 0) + 1;
      seen.set(kind, count);
      if (count <= 3 || isWhole || child.matches("[id]") || child.querySelector("[id]")) continue;
      child.remove();
      gone += 1;
    }
    const attributes = element.getAttributeNames().map((name) => name + (APART.has(name) ? element.getAttribute(name) : ""));
    return `${element.localName} ${attributes} (${[...seen.keys()]})`;
  };
  for (const part of document.querySelectorAll("svg, tbody")) shape(part);
  return gone;
}

/** Numbers all that a keyboard must reach, in the order of the page; gives their count. */
export function numberTabStops() {
  const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
  const stops = all.filter((e) => e.checkVisibility());
  stops.forEach((e, i) => (e.dataset.stop = i));
  return stops.length;
}

/** What is wrong with where the focus is, if it should be at the stop `i`: another place, nothing to see of it. */
export function focusFault(i) {
  const element = document.activeElement;
  const name = `"${(element.getAttribute("aria-label") ?? element.textContent).trim().slice(0, 60)}"`;
  if (element.dataset.stop !== String(i)) {
    const wanted = document.querySelector(`[data-stop="${i}"]`);
    return `the focus is on ${name}, not on "${wanted.textContent.trim().slice(0, 60)}"`;
  }
  const style = getComputedStyle(element);
  if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) return `${name} has no outline`;
  const luminance = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [light, dark] = [style.outlineColor, getComputedStyle(document.body).backgroundColor].map(luminance).sort((a, b) => b - a);
  if ((light + 0.05) / (dark + 0.05) < 3) return `the outline of ${name} is faint`;
  const box = element.getClientRects()[0];
  const within = (at, end) => Math.min(Math.max(at, 0), end - 1);
  const [x, y] = [within(box.x + Math.min(box.width, 12) / 2, innerWidth), within(box.y + box.height / 2, innerHeight)];
  if (box.right <= 0 || box.bottom <= 0 || box.left >= innerWidth || box.top >= innerHeight) return `${name} is beyond the window`;
  const seen = document.elementFromPoint(x, y);
  return element.contains(seen) || seen?.contains(element) ? "" : `${name} is behind ${seen?.outerHTML.slice(0, 80)}`;
}

/** Names that two places to go to, two buttons or two links with words of their own have in common. */
export function sharedNames() {
  const named = [...document.querySelectorAll("section, nav, [role=group], [role=region], a[aria-label], button")];
  const name = (e) => {
    const by = e.getAttribute("aria-labelledby");
    return (e.getAttribute("aria-label") ?? (by ? document.getElementById(by).textContent : e.textContent)).trim();
  };
  const names = named.filter((e) => e.checkVisibility()).map(name);
  return names.filter((n, i) => names.indexOf(n) !== i);
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

/** Whether the machine and the answer to whether the run can be trusted stand side by side, each in one line. */
export function machineAndTrust() {
  const paragraphs = [...document.querySelectorAll(".run > p")];
  const boxes = paragraphs.map((e) => e.getBoundingClientRect());
  const isOneLine = (e, i) => Math.round(boxes[i].height / parseFloat(getComputedStyle(e).lineHeight)) === 1;
  return paragraphs.length === 2 && paragraphs.every(isOneLine) && boxes[0].top === boxes[1].top;
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

/** How far, in pixels, the marks of a scale lie beside its line at most. */
export function besideTheirLine() {
  const marks = [...document.querySelectorAll(".lane > .mark, .lane > .ring, .lane > .range")];
  const seen = marks.filter((e) => e.checkVisibility());
  const middle = ({ top, bottom }) => (top + bottom) / 2;
  const line = (lane) => lane.getBoundingClientRect().top + parseFloat(getComputedStyle(lane, "::before").top) + 0.5;
  return { marks: seen.length, most: Math.max(...seen.map((e) => Math.abs(middle(e.getBoundingClientRect()) - line(e.parentElement)))) };
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

/** Follows the address of everything that has one and may be folded away, each with all closed before. */
export async function followed() {
  const targets = [...document.querySelectorAll("figure[id], .held > li[id], .words > div[id], .part h4[id]")];
  const faults = [];
  let deepest = 0;
  for (const target of targets) {
    for (const fold of document.querySelectorAll("details[open]")) fold.open = false;
    let depth = 0;
    for (let at = target.parentElement; at; at = at.parentElement) depth += at.tagName === "DETAILS" ? 1 : 0;
    deepest = Math.max(deepest, depth);
    const arrived = new Promise((resolve) => addEventListener("hashchange", resolve, { once: true }));
    location.hash = target.id;
    await arrived;
    const top = target.getBoundingClientRect().top;
    if (!target.checkVisibility()) faults.push(`${target.id} is still folded away`);
    else if (top < -2 || top > window.innerHeight) faults.push(`${target.id} is not scrolled to: ${Math.round(top)} px`);
  }
  return { followed: targets.length, deepest, faults };
}

/** The chart that lies in the most folds. */
export function deepestChart() {
  const depth = (e) => (e ? depth(e.parentElement) + (e.tagName === "DETAILS" ? 1 : 0) : 0);
  return [...document.querySelectorAll("section.experiment figure[id]")].sort((a, b) => depth(b) - depth(a))[0].id;
}

/** Names beside a chart that do not say all of what they name. */
export function cutNames() {
  const labels = [...document.querySelectorAll("svg.chart text")].filter((text) => text.checkVisibility());
  return labels.map((text) => text.textContent).filter((text) => text.endsWith("…"));
}

/** Marks of a chart that lie on one another or have the colour of the page, so that fewer can be counted than there are. */
export function coveredMarks() {
  const faults = [];
  const unseen = ["none", getComputedStyle(document.body).backgroundColor];
  for (const svg of [...document.querySelectorAll("svg.chart")].filter((svg) => svg.checkVisibility())) {
    const drawn = [...svg.querySelectorAll("path.m")];
    const isSeen = ({ fill, stroke }) => !unseen.includes(fill) || !unseen.includes(stroke);
    const faint = drawn.filter((mark) => !isSeen(getComputedStyle(mark)));
    if (faint.length > 0) faults.push(`${svg.querySelector("title").textContent}: ${faint.length} marks are not seen`);
    const marks = drawn.map((mark) => mark.getBoundingClientRect());
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

/** Every chart: what a picture of it must say, and how many marks it has. */
export function chartsToSave() {
  const words = (text) => text.split(/\s+/).filter((word) => /^[\w-]+$/.test(word));
  return [...document.querySelectorAll("figure:has(svg.chart)")].map((figure) => ({
    id: figure.id,
    title: figure.querySelector("figcaption b").textContent.trim().replace(/\.$/, ""),
    words: words(`${figure.querySelector("figcaption").textContent} ${figure.querySelector(".wide .legend")?.textContent ?? ""}`),
    marks: figure.querySelectorAll(".wide svg path").length,
  }));
}

/** What a saved picture is, by itself: its size, title and number of marks, and what it lacks. */
export function savedPicture(source) {
  const root = new DOMParser().parseFromString(source, "image/svg+xml").documentElement;
  const faults = [];
  if (root.localName !== "svg") faults.push(root.textContent.slice(0, 100));
  if (/var\(|class=|url\(|href/.test(source)) faults.push("it needs something beside it");
  // Away from the page's styles, as a file is.
  const frame = document.createElement("iframe");
  document.body.append(frame);
  frame.contentDocument.body.append(frame.contentDocument.adoptNode(root));
  const rgb = (colour) => (colour.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number);
  const light = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
  const style = (e) => frame.contentWindow.getComputedStyle(e);
  if (light(rgb(style(root.querySelector("rect")).fill)) < 240) faults.push("its ground is not light");
  for (const text of root.querySelectorAll("text")) {
    const { fill, fontFamily, fontSize } = style(text);
    const says = text.textContent.slice(0, 40);
    if (light(rgb(fill)) > 120) faults.push(`faint: ${says}`);
    if (!/sans-serif|serif/.test(fontFamily) || !(parseFloat(fontSize) > 9)) faults.push(`no font: ${says}`);
    const [box, all] = [text.getBoundingClientRect(), root.getBoundingClientRect()];
    if (box.right > all.right || box.left < all.left || box.bottom > all.bottom) faults.push(`outside: ${says}`);
  }
  const seen = {
    size: ["width", "height"].map((name) => Number(root.getAttribute(name))),
    title: root.querySelector("title").textContent,
    marks: root.querySelectorAll("path").length,
  };
  frame.remove();
  return { faults, ...seen };
}

/** How much of a picture is ground, and how many hues it has beside grey. */
export async function coloursOf(base64) {
  const image = new Image();
  image.src = `data:image/png;base64,${base64}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  const pen = canvas.getContext("2d");
  pen.drawImage(image, 0, 0);
  const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
  const hues = new Set();
  let ground = 0;
  for (let i = 0; i < data.length; i += 4) {
    const [r, g, b] = data.subarray(i, i + 3);
    if (r === data[0] && g === data[1] && b === data[2]) ground++;
    else if (Math.max(r, g, b) - Math.min(r, g, b) > 90) hues.add([r, g, b].map((c) => c >> 5).join());
  }
  return { ground: ground / (data.length / 4), hues: hues.size };
}
