// Sorting and filtering of any table[data-table]; what the reader chose is put back after a swap.
const chosen = new Map(); // table id -> {column, down}
const cell = (row, column) => row.cells[column]?.dataset.value ?? row.cells[column]?.textContent.trim() ?? "";
const number = (text) => (text === "" ? NaN : Number(text.replaceAll(",", "")));

function sort(table) {
  const { column, down } = chosen.get(table.id) ?? {};
  if (column === undefined) return;
  const rows = [...table.tBodies[0].rows], keys = new Map(rows.map((row) => [row, cell(row, column)]));
  const numeric = rows.some((row) => !Number.isNaN(number(keys.get(row))));
  rows.sort((a, b) => {
    const [x, y] = [keys.get(a), keys.get(b)];
    if (!numeric) return (down ? -1 : 1) * x.localeCompare(y);
    const [p, q] = [number(x), number(y)];
    return Number.isNaN(p) - Number.isNaN(q) || (down ? q - p : p - q) || 0; // what has no number stands last, either way
  });
  if (rows.some((row, place) => row !== table.tBodies[0].rows[place])) table.tBodies[0].append(...rows);
  [...table.tHead.rows].at(-1).querySelectorAll("th").forEach((head) => head.removeAttribute("aria-sort"));
  table.querySelectorAll("th button[data-sort]").forEach((button) => {
    const head = button.closest("th");
    if (head.cellIndex === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
  });
}

function filter(table) {
  const controls = [...document.querySelectorAll(`[data-filter="#${CSS.escape(table.id)}"]`)];
  for (const row of table.tBodies[0].rows) {
    row.hidden = !controls.every(({ value, dataset }) => {
      const text = dataset.column === undefined ? row.textContent : cell(row, Number(dataset.column)) || "";
      return text.toLowerCase().includes(value.trim().toLowerCase());
    });
  }
}

export function refresh() {
  for (const table of document.querySelectorAll("table[data-table]")) { sort(table); filter(table); }
}

export function tables() {
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button[data-sort]");
    if (!button) return;
    const table = button.closest("table"), column = button.closest("th").cellIndex, before = chosen.get(table.id);
    chosen.set(table.id, { column, down: before?.column === column ? !before.down : button.dataset.sort === "down" });
    sort(table);
  });
  for (const kind of ["input", "change"]) document.addEventListener(kind, ({ target }) => {
    const table = target.dataset?.filter && document.querySelector(target.dataset.filter);
    if (table) filter(table);
  });
}
