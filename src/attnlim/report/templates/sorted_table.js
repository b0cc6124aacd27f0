// A table whose headings sort it: numbers by size, and what was not measured last in either direction.

// rows beyond this are drawn on request: a browser lays out ten thousand rows slowly
const FIRST_ROWS = 600;

function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  return sign * (a - b);
}

// A column has a name (and sub, a subscript), about (its meaning), key(row) which is a number or null, and either
// show(key) with an optional range(row), both texts, or mark(key), the nodes of a cell of words.
class SortedTable {
  // `units` are what its rows are, one and many
  constructor(id, columns, units) {
    Object.assign(this, { id, columns, units, sort: { column: 0, sign: 1 }, all: false });
  }

  // `rows` of `total` are left by the page's own filters
  draw(rows, total) {
    this.rows = rows;
    const { key } = this.columns[this.sort.column];
    const sorted = [...rows].sort((a, b) => compare(key(a), key(b), this.sort.sign));
    const shown = this.all ? sorted : sorted.slice(0, FIRST_ROWS);
    document.querySelector(`#${this.id} thead`).replaceChildren(this.heading(rows, total));
    document.querySelector(`#${this.id} tbody`).replaceChildren(...shown.map((at) => this.row(at)));
    const count = document.getElementById(`${this.id}-count`);
    count.textContent = `${rows.length === total ? total : `${rows.length} of ${total}`} ${this.units[total === 1 ? 0 : 1]}`;
    if (shown.length < rows.length) {
      const more = element("button", "quiet", `first ${shown.length} shown; show all`);
      more.type = "button";
      more.addEventListener("click", () => { this.all = true; this.draw(rows, total); });
      count.append(" ", more);
    }
  }

  heading(rows, total) {
    const row = element("tr");
    this.columns.forEach((column, index) => {
      const cell = element("th", column.mark ? "words" : "");
      cell.scope = "col";
      if (this.sort.column === index) cell.setAttribute("aria-sort", this.sort.sign > 0 ? "ascending" : "descending");
      const button = element("button", "", column.name);
      if (column.sub) button.append(element("sub", "", column.sub));
      button.type = "button";
      button.title = column.about;
      button.addEventListener("click", () => {
        this.sort = { column: index, sign: this.sort.column === index ? -this.sort.sign : 1 };
        this.draw(rows, total);
        document.querySelectorAll(`#${this.id} th button`)[index].focus();
      });
      cell.append(button);
      row.append(cell);
    });
    return row;
  }

  row(at) {
    const row = element("tr");
    for (const column of this.columns) {
      const value = column.key(at);
      const cell = element("td", column.mark ? "words" : "");
      if (value === null) {
        cell.append(element("span", "na", NOTHING));
      } else if (column.mark) {
        cell.append(...column.mark(value));
      } else {
        cell.append(column.show(value));
        if (column.range) cell.append(element("span", "interval", ` ${column.range(at)}`));
      }
      row.append(cell);
    }
    return row;
  }
}
