/* What the pages do in a browser: diagrams are drawn, in the colours of the moment, and large tables
   get a filter. Without it all of the text is there all the same. */
'use strict';

const here = document.currentScript.src.replace(/site\.js.*$/, '');

function isDark() {
    const theme = document.body.dataset.theme;
    return theme === 'dark' ||
        (theme !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
}

async function draw(diagrams) {
    mermaid.initialize({ startOnLoad: false, theme: isDark() ? 'dark' : 'default' });
    for (const diagram of diagrams) {
        diagram.dataset.text ??= diagram.textContent;
        diagram.textContent = diagram.dataset.text;
        delete diagram.dataset.processed;
    }
    await mermaid.run({ nodes: diagrams });
}

function drawDiagrams() {
    const diagrams = [...document.querySelectorAll('pre.mermaid')];
    if (!diagrams.length)
        return;
    const script = document.createElement('script');
    script.src = here + 'mermaid.min.js';
    script.onload = () => {
        draw(diagrams);
        new MutationObserver(() => draw(diagrams))
            .observe(document.body, { attributeFilter: ['data-theme'] });
        matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => draw(diagrams));
    };
    document.head.append(script);
}

/* A column of the conformance tables is a backend, a kind, a layout and a binding, one a line. */
const PARTS = ['backend', 'kind', 'layout', 'binding'];

function partsOf(cell) {
    const parts = cell.innerHTML.split(/<br\s*\/?>/).map(text => text.replace(/<[^>]*>/g, '').trim());
    return parts.length === PARTS.length ? parts : null;
}

function select(name, values, changed) {
    const box = document.createElement('select');
    box.ariaLabel = name;
    box.append(new Option('every ' + name, ''));
    for (const value of values)
        box.append(new Option(value, value));
    box.addEventListener('change', changed);
    return box;
}

function filterTables() {
    const tables = [...document.querySelectorAll('article table')];
    if (!tables.some(table => table.rows.length > 20))
        return;
    const heads = tables.map(table => [...table.rows[0].cells].map(partsOf));
    const bar = document.createElement('div');
    bar.className = 'filters';
    const words = document.createElement('input');
    words.type = 'search';
    words.placeholder = words.ariaLabel = 'rows with …';
    const changed = () => apply(tables, heads, words.value.toLowerCase(),
        boxes.map(box => box.value));
    words.addEventListener('input', changed);
    const boxes = PARTS.map((name, i) => select(name,
        [...new Set(heads.flat().filter(Boolean).map(parts => parts[i]))], changed));
    bar.append(words);
    if (heads.flat().some(Boolean))
        bar.append(...boxes);
    document.querySelector('article h1').after(bar);
}

function apply(tables, heads, words, wanted) {
    tables.forEach((table, number) => {
        const shown = heads[number].map(parts => !parts ||
            wanted.every((want, i) => !want || parts[i] === want));
        [...table.rows].forEach((row, r) => {
            [...row.cells].forEach((cell, c) =>
                cell.classList.toggle('filtered-out', !shown[c]));
            row.classList.toggle('filtered-out',
                r > 0 && !row.textContent.toLowerCase().includes(words));
        });
    });
}

document.addEventListener('DOMContentLoaded', () => {
    drawDiagrams();
    filterTables();
});
