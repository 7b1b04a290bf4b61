// Three conveniences; the page is whole without them. Raw samples become a table when their case is opened; what a link
// leads to is opened with all that it is folded into; and with `?print=all` behind the address everything is printed,
// raw samples excepted.
(() => {
  const cell = (row, tag, text, scope) => {
    const c = document.createElement(tag);
    c.textContent = text ?? '–';
    if (scope) c.scope = scope;
    if (typeof text === 'number') c.className = 'n';
    row.append(c);
  };
  const fill = (details) => {
    const data = JSON.parse(document.getElementById(details.parentElement.dataset.raw).textContent);
    const samples = data.cases[details.dataset.case];
    const used = data.metrics.map((m, i) => i).filter((i) => samples.some((s) => s[6 + i] != null));
    const box = document.createElement('div');
    box.className = 'scroll';
    box.tabIndex = 0;
    box.setAttribute('role', 'group');
    box.setAttribute('aria-label', 'Samples of ' + details.querySelector('summary').textContent);
    const table = document.createElement('table');
    const head = table.createTHead().insertRow();
    for (const name of ['round', 'copy', 'try', 'attempt', 'status', ...used.map((i) => data.metrics[i]), 'remark'])
      cell(head, 'th', name, 'col');
    const body = table.createTBody();
    for (const s of samples) {
      const row = body.insertRow();
      for (const value of [...s.slice(0, 5), ...used.map((i) => s[6 + i]), s[5]]) cell(row, 'td', value);
    }
    box.append(table);
    details.append(box);
  };
  document.addEventListener('toggle', (event) => {
    const d = event.target;
    if (d.open && d.dataset.case !== undefined && !d.querySelector('table')) fill(d);
  }, true);
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.tagName === 'DETAILS') at.open = true;
    for (const child of target.children) if (child.matches('details:not(.everything)')) child.open = true;
    target.scrollIntoView();
  };
  addEventListener('hashchange', reveal);
  document.addEventListener('click', (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    if (link && link.getAttribute('href') === location.hash) reveal();
  });
  if (location.hash) reveal();
  if (new URLSearchParams(location.search).get('print') === 'all') {
    document.documentElement.classList.add('print-all');
    let opened = [];
    addEventListener('beforeprint', () => {
      opened = [...document.querySelectorAll('details:not([open]):not(.raw):not(.raw *)')];
      for (const d of opened) d.open = true;
    });
    addEventListener('afterprint', () => { for (const d of opened) d.open = false; });
  }
})();
