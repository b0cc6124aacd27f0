// The chosen distance over L·H: a colour and a mark for each H, the fit, the limit's own error, and two slopes.

const MARKS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross"];
const SLOPES = [[1 / 2, "solid"], [1 / 3, "dash"]];

function fitAt(layers, heads) {
  const [c1, c2, p, q] = ["c1", "c2", "p", "q"].map((name) => fitted(name) ?? 0);
  return Math.hypot(c1 / layers, c2 * layers ** -p * heads ** -q);
}

function headTraces(h, found) {
  // away from the end that is near the page's own colour
  const shade = along(HEADS.length > 1 ? 0.3 + (0.7 * h) / (HEADS.length - 1) : 1);
  const mine = found.filter((at) => at.h === h);
  if (!mine.length) return [];
  const values = mine.map((at) => error(state.distance, "estimate", at));
  const ends = (end) => mine.map((at, i) => Math.abs((error(state.distance, end, at) ?? values[i]) - values[i]));
  const traces = [{
    type: "scatter", mode: "markers", x: mine.map(product), y: values, name: `H = ${HEADS[h]}`, marker: { symbol: MARKS[h % MARKS.length], size: 9, color: shade }, hoverinfo: "none", customdata: mine,
    error_y: { type: "data", symmetric: false, array: ends("high"), arrayminus: ends("low"), color: shade, thickness: 1.5, width: 3 },
  }];
  if (state.distance === FITTED && fitted("c2") !== null && mine.length > 1) {
    const [low, high] = extremes(mine.map((at) => LAYERS[at.l]));
    const layers = Array.from({ length: 33 }, (_, i) => low * (high / low) ** (i / 32));
    traces.push({ type: "scatter", mode: "lines", x: layers.map((l) => l * HEADS[h]), y: layers.map((l) => fitAt(l, HEADS[h])), name: `fit, H = ${HEADS[h]}`, showlegend: false, line: { color: shade, width: 2 }, hoverinfo: "skip" });
  }
  return traces;
}

function slopeTraces(found, highest) {
  const [left, right] = extremes(found.map(product));
  if (!(right > left)) return [];
  return SLOPES.map(([power, dash]) => ({
    type: "scatter", mode: "lines", x: [left, right], y: [1.5 * highest, 1.5 * highest * (right / left) ** -power], name: `slope 1/${Math.round(1 / power)}`, line: { color: colour("faint"), width: 1, dash }, hoverinfo: "skip",
  }));
}

// 1, 2 and 5 of every decade, or the decades alone where there are many
function decadeTicks([low, high]) {
  const within = high - low < 3.5 ? [1, 2, 5] : [1];
  const decades = Array.from({ length: Math.ceil(high) - Math.floor(low) + 1 }, (_, i) => Math.floor(low) + i);
  const values = decades.flatMap((power) => within.map((first) => Number(`${first}e${power}`))).filter((value) => Math.log10(value) >= low && Math.log10(value) <= high);
  return { tickvals: values, ticktext: values.map((value) => (value < 1e-3 || value >= 1e5 ? value.toExponential(0).replace("-", "−").replace("+", "") : String(value))) };
}

function drawChart() {
  const div = document.getElementById("chart");
  // a distance of 0 has no place on a log axis
  const found = networks().filter((at) => error(state.distance, "estimate", at) > 0);
  const all = found.flatMap((at) => ["estimate", "low", "high"].map((end) => error(state.distance, end, at))).filter((value) => value > 0);
  const [lowest, highest] = all.length ? extremes(all) : [0.1, 1];
  const own = read(data.reference[state.distance]);
  // further below it would only squeeze the marks
  const drawn = own !== null && own > 0.03 * lowest;
  const range = [Math.log10(drawn ? Math.min(0.75 * lowest, 0.6 * own) : 0.75 * lowest), Math.log10(2 * highest)];
  const [left, right] = extremes(networks().map(product));
  const note = (text, more) => ({ showarrow: false, text, font: { size: 12, color: colour("muted") }, ...more });
  const annotations = [];
  if (!all.length) annotations.push(note("not measured on these inputs", { x: 0.5, y: 0.5, xref: "paper", yref: "paper" }));
  if (drawn && all.length) annotations.push(note(`the limit’s own error, ${short(own)}`, { x: 0.01, xref: "paper", xanchor: "left", y: Math.log10(own), yanchor: "top" }));
  const ticks = [...new Set(networks().map(product))].sort((a, b) => a - b);
  const shown = ticks.filter((_, i) => i % Math.ceil(ticks.length / Math.max(4, div.clientWidth / 90)) === 0);
  Plotly.react(div, [...HEADS.flatMap((_, h) => headTraces(h, found)), ...(all.length ? slopeTraces(found, highest) : [])], {
    ...frame(), width: div.clientWidth, height: 460, margin: { l: 62, r: 16, t: 12, b: 46 }, showlegend: true, annotations,
    legend: { orientation: "h", x: 0, y: -0.16, yanchor: "top", font: { size: 12 } },
    shapes: drawn && all.length ? [{ type: "rect", xref: "paper", x0: 0, x1: 1, y0: 10 ** (range[0] - 1), y1: own, fillcolor: withAlpha(colour("faint"), 0.22), line: { width: 0 }, layer: "below" }] : [],
    xaxis: axis("L·H", { type: "log", range: [Math.log10(left / 1.3), Math.log10(right * 1.3)], tickvals: shown, ticktext: shown.map((value) => value.toLocaleString("en-US")) }),
    yaxis: axis("E", { type: "log", range, ...decadeTicks(range) }),
  }, LINE_CONFIG);
  div.setAttribute("aria-label", `${DISTANCE[state.distance].words} over L·H, ${chosenWords()}; the table below holds its numbers`);
  wireOnce(div, (event) => {
    const point = event.points.find((one) => one.data.hoverinfo === "none");
    if (point) showNetwork(point.customdata, event.event);
  });
}

function showNetwork(at, mouse) {
  const value = error(state.distance, "estimate", at);
  const [low, high] = ["low", "high"].map((end) => error(state.distance, end, at));
  const rows = [
    ["", "E", withError(value, error(state.distance, "standard_error", at))],
    ["", "95 % interval", low === null ? NOTHING : `[${short(low)}, ${short(high)}]`],
    ["", "E √(LH)", short(value * Math.sqrt(product(at)))],
  ];
  if (state.distance === FITTED && fitted("c2") !== null) rows.push(["", "fit", short(fitAt(LAYERS[at.l], HEADS[at.h]))]);
  rows.push(["", "limit’s own error", short(read(data.reference[state.distance], at))]);
  showCard(`L = ${LAYERS[at.l]} · H = ${HEADS[at.h]}`, undefined, rows, "", mouse);
}
