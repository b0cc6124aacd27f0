// Differences of all rules as marks with intervals, one row a rule in the order of the tables.

// Beyond these widths the names, and the numbers beside the marks, have room
const NUMBERS_FROM = 620;
const FOREST_ROW = 27;

// What an interval says: better or worse beyond doubt, or not told apart
function verdictShade({ low, high }) {
  if (low === null || high === null) return colour("muted");
  if (high < 0) return colour("better");
  if (low > 0) return colour("worse");
  return colour("faint");
}

// The longest name decides the room at the left
function nameRoom(width) {
  const longest = Math.max(...VARIANTS.map(({ name }) => Math.min(name.length, 24)));
  return Math.min(0.4 * width, 34 + 7.4 * longest);
}

function rowNames() {
  const short = (name) => plain(name.length > 24 ? `${name.slice(0, 23)}…` : name);
  return VARIANTS.map(({ name }, index) => `${index === data.recommended ? "★ " : ""}${index === state.variant ? `<b>${short(name)}</b>` : short(name)}`);
}

// Bands behind the rows of what is recommended and of what is chosen
function rowShapes() {
  const row = (index, shade) => ({ type: "rect", xref: "paper", x0: 0, x1: 1, y0: index - 0.5, y1: index + 0.5, fillcolor: shade, line: { width: 0 }, layer: "below" });
  return [row(state.variant, colour("soft")), row(data.recommended, withAlpha(colour("accent"), 0.1))];
}

function rowAxis() {
  return axis("", { range: [VARIANTS.length - 0.5, -0.5], tickvals: VARIANTS.map((_, i) => i), ticktext: rowNames(), showgrid: false, fixedrange: true, automargin: false, ticks: "", tickfont: { size: 13, color: colour("ink") } });
}

// `of` gives a rule's estimate and ends; `base` is the rule that all are compared with
function drawForest(id, of, scale, base, title, about) {
  const div = document.getElementById(id);
  const width = div.clientWidth;
  const pad = 0.06 * (scale[1] - scale[0]);
  const range = [scale[0] - pad, scale[1] + pad];
  const rows = VARIANTS.map((_, index) => ({ index, ...of(index) })).filter(({ estimate }) => estimate !== null);
  const inside = rows.filter(({ estimate }) => estimate >= range[0] && estimate <= range[1]);
  const outside = rows.filter((row) => !inside.includes(row));
  // an interval that a bootstrap puts beside its estimate reaches from it one way alone
  const reach = (end, sign) => inside.map((row) => (row[end] === null ? 0 : Math.max(0, sign * (row[end] - row.estimate))));
  const shades = (list) => list.map((row) => (row.index === base ? colour("ink") : verdictShade(row)));
  const marks = (list, x, symbol, size) => ({ type: "scatter", mode: "markers", cliponaxis: false, x, y: list.map(({ index }) => index), customdata: list.map(({ index }) => index), marker: { symbol, size, color: shades(list) }, hoverinfo: "none" });
  // one trace a bar: Plotly has one colour for all bars of a trace
  const bars = inside.map((row, i) => ({
    type: "scatter", mode: "markers", x: [row.estimate], y: [row.index], hoverinfo: "skip", marker: { size: 0.1, color: shades([row])[0] },
    error_x: { type: "data", symmetric: false, array: [reach("high", 1)[i]], arrayminus: [reach("low", -1)[i]], color: shades([row])[0], thickness: 2, width: 4 },
  }));
  const numbers = width >= NUMBERS_FROM;
  const note = (index, text, shade) => ({ xref: "paper", x: 1, xanchor: "left", xshift: 10, y: index, text, showarrow: false, font: { size: 12, color: shade } });
  const missing = VARIANTS.map((_, index) => index).filter((index) => of(index).estimate === null);
  Plotly.react(div, [
    ...bars,
    marks(inside, inside.map(({ estimate }) => estimate), inside.map(({ low, index }) => (low === null && index !== base ? "circle-open" : "circle")), 9),
    marks(outside, outside.map(({ estimate }) => (estimate < 0 ? range[0] : range[1])), outside.map(({ estimate }) => (estimate < 0 ? "triangle-left-open" : "triangle-right-open")), 12),
  ], {
    ...frame(), width, height: VARIANTS.length * FOREST_ROW + 58, margin: { l: nameRoom(width), r: numbers ? 196 : 14, t: 6, b: 52 },
    xaxis: axis(title, { range, fixedrange: true, zeroline: true, zerolinecolor: colour("ink"), zerolinewidth: 1.5 }), yaxis: rowAxis(), shapes: rowShapes(),
    annotations: [
      ...(numbers ? rows.map((row) => note(row.index, row.index === base ? "·" : bounded(row), row.index === state.variant ? colour("ink") : colour("muted"))) : []),
      ...missing.map((index) => ({ ...note(index, NOTHING, colour("faint")), x: 0, xshift: 6 })),
    ],
  }, { displayModeBar: false });
  div.setAttribute("aria-label", `${about}: ${rows.map((row) => `${nameOf(row.index)} ${bounded(row)}`).join(", ")}`);
  if (div.dataset.wired) return;
  wireOnce(div, (event) => {
    const index = event.points[0].customdata;
    const row = of(index);
    showCard(nameOf(index), undefined, [
      ["", about, signed(row.estimate)],
      ["", "95 % interval", row.low === null ? NOTHING : signedInterval(row.low, row.high) || "exactly the same"],
    ], "", event.event, VARIANTS[index].words);
  });
  div.on("plotly_click", (event) => choose(event.points[0].customdata));
}

function drawForests() {
  const beyond = nameOf(NONE);
  drawForest("beyond", (variant) => lossOf("difference", variant, BEYOND), data.scales.beyond, NONE, "nats a token, less that of none", `beyond, against ${beyond}`);
  drawForest("within", (variant) => lossOf("difference_raw", variant, WITHIN), data.scales.within, RAW, "nats a token, less that of raw", `within, against ${nameOf(RAW)}`);
  drawForest("needle-differences", needleDifference, data.scales.needles, NONE, "nats a number, less that of none", `a number, against ${beyond}`);
}
