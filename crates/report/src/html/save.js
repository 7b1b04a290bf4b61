// Saves a chart, with its title and legend and what it was measured on, as a picture that stands alone: laid out as the
// page does, in light colours, with each style and each length of a text written out.
(() => {
  const NS = document.querySelector('svg.chart')?.namespaceURI;
  const [WIDE, EDGE, SHARP] = [760, 24, 2];
  const SHAPE = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linejoin', 'opacity'];
  const LETTERS = ['font-family', 'font-size', 'font-weight', 'font-style', 'font-variant-numeric'];
  const element = (tag, attributes, ...children) => {
    const e = document.createElementNS(NS, tag);
    for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
    e.append(...children);
    return e;
  };
  const titleOf = (figure) => figure.querySelector('figcaption b').textContent.trim().replace(/\.$/, '');
  // What is drawn, in a box that is laid out and never seen. The first rule of the page has the light colours.
  const lay = (figure) => {
    const box = document.createElement('div');
    const light = [...document.styleSheets[0].cssRules].find((rule) => rule.selectorText === ':root').style.cssText;
    box.style.cssText = `${light};position:absolute;top:0;left:0;width:${WIDE}px;visibility:hidden;color:var(--ink)`;
    const whole = figure.cloneNode(true);
    whole.style.margin = 0;
    for (const e of whole.querySelectorAll('.narrow, .screen-only, details')) e.remove();
    for (const e of whole.querySelectorAll('.plot')) e.style.display = 'block';
    const run = document.createElement('p');
    run.className = 'small';
    run.textContent = `threadgauge: ${document.querySelector('.lede').textContent}`;
    box.append(whole, run);
    document.body.append(box);
    return box;
  };
  const styles = (style, names) => names.map((name) => `${name}:${style.getPropertyValue(name)}`).join(';');
  const inline = (from, to) => {
    const isText = from.tagName === 'text';
    for (const name of ['class', 'id', 'role', 'aria-labelledby', 'aria-hidden']) to.removeAttribute(name);
    to.setAttribute('style', styles(getComputedStyle(from), isText ? [...SHAPE, ...LETTERS] : SHAPE));
    if (isText) to.setAttribute('textLength', from.getComputedTextLength().toFixed(1));
    for (const [i, child] of [...from.children].entries()) inline(child, to.children[i]);
  };
  const picture = (svg, left, top) => {
    const at = svg.getBoundingClientRect();
    const copy = svg.cloneNode(true);
    inline(svg, copy);
    for (const e of copy.querySelectorAll('title, desc')) e.remove();
    const place = { x: at.left - left, y: at.top - top, width: at.width, height: at.height };
    for (const [name, value] of Object.entries(place)) copy.setAttribute(name, value.toFixed(1));
    return copy;
  };
  const pen = document.createElement('canvas').getContext('2d');
  // A run of text becomes a `text` for each line that it has.
  const lines = (node, left, top) => {
    const style = getComputedStyle(node.parentElement);
    pen.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    const ascent = pen.measureText('x').fontBoundingBoxAscent;
    const range = document.createRange();
    const found = [];
    for (let i = 0; i < node.data.length; i++) {
      range.setStart(node, i);
      range.setEnd(node, i + 1);
      const at = range.getBoundingClientRect();
      if (at.width === 0) continue;
      const last = found.at(-1);
      const isSpace = /\s/.test(node.data[i]);
      if (last && Math.abs(last.top - at.top) < 2) {
        last.text += isSpace ? ' ' : node.data[i];
        if (!isSpace) last.right = at.right;
      } else if (!isSpace) {
        found.push({ text: node.data[i], top: at.top, left: at.left, right: at.right });
      }
    }
    return found.map((line) =>
      element(
        'text',
        {
          x: (line.left - left).toFixed(1),
          y: (line.top - top + ascent).toFixed(1),
          textLength: (line.right - line.left).toFixed(1),
          style: `fill:${style.color};${styles(style, LETTERS)}`,
        },
        line.text.trimEnd(),
      ),
    );
  };
  const draw = (figure) => {
    const box = lay(figure);
    try {
      const { left, top, height } = box.getBoundingClientRect();
      const [w, h] = [WIDE + 2 * EDGE, Math.ceil(height) + 2 * EDGE];
      const root = element('svg', { width: w, height: h, viewBox: `0 0 ${w} ${h}`, role: 'img' });
      const title = element('title', {}, titleOf(figure));
      const says = [...figure.querySelectorAll('.wide desc')].map((e) => e.textContent).join(' ');
      const ground = element('rect', { width: w, height: h, fill: getComputedStyle(box).getPropertyValue('--paper') });
      root.append(title, element('desc', {}, says), ground);
      const text = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
      while (text.nextNode()) if (!text.currentNode.parentElement.closest('svg')) root.append(...lines(text.currentNode, left - EDGE, top - EDGE));
      for (const svg of box.querySelectorAll('svg')) root.append(picture(svg, left - EDGE, top - EDGE));
      return { w, h, source: new XMLSerializer().serializeToString(root) };
    } finally {
      box.remove();
    }
  };
  const KINDS = {
    SVG: async ({ source }) => new Blob([source], { type: 'image/svg+xml' }),
    PNG: async ({ w, h, source }) => {
      const image = new Image();
      image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(source)}`;
      await image.decode();
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [w * SHARP, h * SHARP];
      canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
      return new Promise((done) => canvas.toBlob(done, 'image/png'));
    },
  };
  const save = async (figure, kind) => {
    const link = document.createElement('a');
    link.download = `${figure.id}.${kind.toLowerCase()}`;
    link.href = URL.createObjectURL(await KINDS[kind](draw(figure)));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  };
  for (const figure of document.querySelectorAll('figure:has(svg.chart)')) {
    const files = figure.querySelector('.files');
    const all = document.createElement('span');
    all.className = 'by-script';
    for (const kind of Object.keys(KINDS)) {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = `Save as ${kind}`;
      button.setAttribute('aria-label', `Save as ${kind}: ${files.dataset.name}`);
      button.addEventListener('click', () => save(figure, kind));
      all.append(' · ', button);
    }
    files.append(all);
  }
})();
