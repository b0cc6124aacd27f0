// The chosen quantity over the plane of ρ and γ.

const MAP_SHADES = data.palette;

// One scale for everything that can be chosen but the quantity, so that colours may be compared
const scales = {};
function scaleOf(name) {
  if (scales[name]) return scales[name];
  const quantity = QUANTITY[name];
  const values = finite(data.values[name]).filter((value) => !quantity.logarithmic || value > 0).map((value) => (quantity.logarithmic ? Math.log10(value) : value));
  let ends = robustEnds(values);
  const [low, high] = extremes(values);
  if (quantity.top !== null) {
    ends = { low: 0, high: quantity.top, clippedLow: low < 0, clippedHigh: high > data.over.factor * quantity.top };
  } else if (quantity.logarithmic) {
    ends = { low: 0, high: Math.max(high, 0.1), clippedLow: false, clippedHigh: false };
  }
  // noise around the end is not beyond it; what is has a colour of its own
  const reach = quantity.top !== null ? data.over.factor * ends.high : ends.high;
  const stops = evenStops(MAP_SHADES).map(([place, shade]) => [place * 0.9999, shade]);
  const last = ends.clippedHigh ? data.over.colour : MAP_SHADES.at(-1);
  scales[name] = { ...ends, reach, stops: [...stops, [1, last]] };
  return scales[name];
}

function tickText(quantity, value) {
  return quantity.logarithmic ? tokens(10 ** value).replace(/\.0+$/, "") : three(value).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}

function drawMap() {
  const div = document.getElementById("plane");
  if (!div) return;
  const quantity = QUANTITY[state.quantity];
  const scale = scaleOf(state.quantity);
  const values = chosen(data.values[state.quantity]);
  const z = GAMMAS.map((_, g) => RHOS.map((_, r) => (values[r][g] === null || !quantity.logarithmic ? values[r][g] : Math.log10(values[r][g]))));
  const half = (a, b) => (b === undefined ? 0.5 : (b - a) / 2);
  const ends = (grid) => [grid[0] - half(grid[0], grid[1]), grid.at(-1) + half(grid.at(-2), grid.length > 1 ? grid.at(-1) : undefined)];
  const marker = { type: "line", x0: RHOS[state.rho], x1: RHOS[state.rho], y0: 0, y1: 1, yref: "paper", layer: "above", line: { color: data.over.colour, width: 1.5, dash: "dot" } };
  Plotly.react(div, [
    { type: "heatmap", x: RHOS, y: GAMMAS, z, zmin: scale.low, zmax: scale.reach, zauto: false, colorscale: scale.stops, showscale: false, hoverinfo: "none", hoverongaps: true },
    ...lineTraces(),
  ], {
    ...frame(), width: div.clientWidth, height: 440, margin: { l: 50, r: 8, t: 26, b: 46 }, shapes: [marker],
    xaxis: axis("ρ, cosine asked of the sampler", { range: ends(RHOS), showgrid: false }),
    yaxis: axis("γ = β/ln n", { range: ends(GAMMAS), showgrid: false }),
  }, LINE_CONFIG);
  div.setAttribute("aria-label", `${quantity.words} over ρ and γ at ${setWords()}; the table below holds its numbers`);
  drawScale(quantity, scale);
  if (div.dataset.wired) return;
  wireOnce(div, (event) => {
    const [g, r] = event.points[0].pointIndex;
    showPoint(r, g, event.event);
  });
  div.on("plotly_click", (event) => {
    if (!Array.isArray(event.points[0].pointIndex)) return;
    state.rho = event.points[0].pointIndex[1];
    drawAll();
  });
}

function drawScale(quantity, scale) {
  const middle = (scale.low + scale.high) / 2;
  scaleBar(document.getElementById("plane-scale"), scale.stops, [scale.low, scale.reach], [
    [scale.low, (scale.clippedLow ? "≤ " : "") + tickText(quantity, scale.low)],
    [middle, tickText(quantity, middle)],
    [scale.high, (scale.clippedHigh && quantity.top === null ? "≥ " : "") + tickText(quantity, scale.high)],
  ]);
  const over = scale.clippedHigh ? ` Pink is above ${tickText(quantity, scale.reach)}.` : "";
  const blank = finite(chosen(data.values[state.quantity])).length < RHOS.length * GAMMAS.length ? " Cells without colour have no number." : "";
  document.getElementById("plane-reading").textContent = `${quantity.about}${over}${blank} Point at a cell to read all its numbers, select it for the curve at its ρ.`;
}

// All quantities at one point of the grid
function showPoint(r, g, mouse) {
  const rows = data.quantities.map((quantity) => [
    quantity.name, `${quantity.words} ${quantity.symbol}`,
    withError(quantity.name, chosen(data.values[quantity.name])[r][g], chosen(data.errors[quantity.name])?.[r][g]),
  ]);
  const simplex = chosen(data.simplex[state.quantity])?.[r][g];
  if (simplex !== undefined && simplex !== null) rows.unshift(["", `${QUANTITY[state.quantity].symbol} of the simplex`, shown(state.quantity, simplex)]);
  showCard(`${rhoWords(r)} · γ = ${GAMMAS[g]}`, undefined, rows, state.quantity, mouse, null);
}
