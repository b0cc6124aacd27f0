// The sortable table of heads.

const COLUMNS = [
  { name: "layer", key: (at) => data.layers[at.layer], show: String, about: "the layer’s number in the model" },
  { name: "head", key: (at) => data.heads_axis[at.head], show: String, about: "the head’s number in its layer" },
  { name: "phase", words: true, key: (at) => (at.read("phase") < 0 ? null : at.read("phase")), about: "from the interval of κ" },
  { name: "κ", key: (at) => at.read("kappa"), show: (v) => real(v, 2), range: (at) => interval(at.read("kappa_low"), at.read("kappa_high")), about: "focus exponent and its 95 % interval" },
  { name: "tokens attended", key: (at) => at.read("perplexity"), show: tokens, about: "perplexity of attention, mean of e^H" },
  { name: "entropy, nats", key: (at) => at.read("entropy"), show: (v) => real(v, 2), about: "mean entropy of attention" },
  { name: "partici\u00adpation", key: (at) => at.read("participation"), show: tokens, about: "1/ΣA², in tokens: dominated by the largest weights" },
  { name: "largest weight", key: (at) => at.read("largest_weight"), show: (v) => percent(v), about: "the largest attention weight of a row, mean" },
  { name: "first token", key: (at) => at.sink(), show: (v) => percent(v), about: "share of attention on the first token" },
  { name: "distance, tokens", key: (at) => at.read("distance"), show: tokens, about: "mean distance to the attended tokens" },
  { name: "largest logit", key: (at) => at.read("largest_logit"), show: three, about: "largest scaled score in any sampled row" },
  { name: "b", sub: "c", key: (at) => at.read("critical_multiplier"), show: (v) => real(v, 2), about: "factor on the logits at which a row would be critical; biased low" },
  { name: "power of ln\u00a0n", key: (at) => at.exponent("value"), show: (v) => real(v, 2), range: (at) => interval(at.exponent("low"), at.exponent("high")), about: "the power of ln n that b_c follows, with its 95 % interval; always with the first token" },
];
// rows beyond this are drawn on request: a browser lays out ten thousand rows slowly
const FIRST_ROWS = 600;

function tableRows() {
  return allHeads().map(([layer, head]) => ({
    layer, head,
    read: (name) => headValues(name)[layer][head],
    exponent: (part) => data.exponent[part]?.[state.context][layer][head] ?? null,
    sink: () => sinkValues("sink_mass")[layer][head],
  })).filter((at) => (state.tableLayer === null || at.layer === state.tableLayer)
    && (state.tablePhase === null || at.read("phase") === state.tablePhase));
}

// Numbers by size, and what was not measured last in either direction
function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  return sign * (a - b);
}

function drawTable() {
  const [headRow, body] = [document.querySelector("#table thead"), document.querySelector("#table tbody")];
  const row = element("tr");
  COLUMNS.forEach((column, index) => {
    const cell = element("th", column.words ? "words" : "");
    cell.scope = "col";
    if (state.sort.column === index) cell.setAttribute("aria-sort", state.sort.sign > 0 ? "ascending" : "descending");
    const button = element("button", "", column.name);
    if (column.sub) button.append(element("sub", "", column.sub));
    button.type = "button";
    button.title = column.about;
    button.addEventListener("click", () => {
      state.sort = { column: index, sign: state.sort.column === index ? -state.sort.sign : 1 };
      drawTable();
      document.querySelectorAll("#table th button")[index].focus();
    });
    cell.append(button);
    row.append(cell);
  });
  headRow.replaceChildren(row);

  const { key } = COLUMNS[state.sort.column];
  const rows = tableRows().sort((a, b) => compare(key(a), key(b), state.sort.sign));
  const shown = state.allRows ? rows : rows.slice(0, FIRST_ROWS);
  body.replaceChildren(...shown.map(tableRow));
  const count = document.getElementById("table-count");
  const total = data.layers.length * data.heads_axis.length;
  count.textContent = rows.length === total ? `${total} heads` : `${rows.length} of ${total} heads`;
  if (shown.length < rows.length) {
    const more = element("button", "quiet", `first ${shown.length} shown; show all`);
    more.type = "button";
    more.addEventListener("click", () => { state.allRows = true; drawTable(); });
    count.append(" ", more);
  }
}

function tableRow(at) {
  const row = element("tr");
  for (const column of COLUMNS) {
    const value = column.key(at);
    const cell = element("td", column.words ? "words" : "");
    if (value === null) {
      cell.append(element("span", "na", NOTHING));
    } else if (column.words) {
      const name = data.phases[value];
      cell.append(element("span", `chip ${name}`, name[0].toUpperCase()), ` ${name}`);
    } else {
      cell.append(column.show(value));
      if (column.range) cell.append(element("span", "interval", ` ${column.range(at)}`));
    }
    row.append(cell);
  }
  return row;
}
