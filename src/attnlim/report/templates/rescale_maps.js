// The layer × head maps, their scales, and what the card says of one head.

const MAP_MARGIN = { l: 38, r: 4, t: 4, b: 36 };
const ROW = Math.max(9, Math.min(26, Math.round(450 / data.layers.length)));

// A scale that is as wide on both sides of its middle, without what lies far out
function aroundMiddle(values, centre) {
  const known = values.map((value) => Math.abs(value - centre));
  const half = Math.min(Math.max(0, ...extremes(known).slice(1).filter(Number.isFinite)), 1.25 * (quantile(known.filter((value) => value > 0), 0.98) ?? 0)) || 1e-3;
  return [centre - half, centre + half];
}

function tickNumber(value) {
  if (value === 0) return "0";
  return Math.abs(value) < 0.0005 ? value.toExponential(0).replaceAll("-", "−") : real(value, Math.abs(value) < 0.01 ? 4 : Math.abs(value) < 0.1 ? 3 : 2);
}

function aroundTicks([low, high], values) {
  const [least, most] = extremes(values);
  return [[low, (least < low ? "≤ " : "") + tickNumber(low)], [(low + high) / 2, tickNumber((low + high) / 2)], [high, (most > high ? "≥ " : "") + tickNumber(high)]];
}

function divergingMap(name, all, centre, sharperIsLow = false) {
  const values = finite(all);
  const ends = aroundMiddle(values, centre);
  // blue is sharper: what is negative of a derivative, what is positive of a slope
  return { values: () => headNumbers(name), ends, stops: () => evenStops(colours(sharperIsLow ? "diverging" : "softening")), ticks: () => aroundTicks(ends, values) };
}

const massTop = Math.max(1e-3, ...extremes(finite(data.mass.all)).slice(1).filter(Number.isFinite));

const MAPS = {
  multiplier: divergingMap("multiplier", data.multiplier, 1),
  ...(data.slope ? { slope: divergingMap("slope", data.slope, 0), direction: divergingMap("direction", data.rounds.map(({ direction }) => direction), 0, true) } : {}),
  mass: {
    values: () => headNumbers("mass"), ends: [0, massTop], stops: () => evenStops(colours("sequential")),
    ticks: () => [[0, "0 %"], [massTop / 2, percent(massTop / 2, 0)], [massTop, percent(massTop, 0)]],
  },
  ...(PHASE ? {
    phase: { values: () => PHASE.map((row) => row.map((code) => (code < 0 ? null : code))), ends: [-0.5, 3.5], stops: () => data.phases.flatMap((name, index) => [[index / 4, colour(name)], [(index + 1) / 4, colour(name)]]) },
  } : {}),
};

function phaseKeys() {
  return data.phases.map((name) => {
    const entry = element("span");
    entry.append(element("span", `chip ${name}`, name[0].toUpperCase()), ` ${name}`);
    return entry;
  });
}

function multiplierWords() {
  const [low, high] = extremes(finite(headNumbers("multiplier")));
  const name = nameOf(state.variant);
  if (!Number.isFinite(low)) return `${name}: not measured.`;
  return high - low < 1e-6 ? `${name}: ${real(low, 3)} in every head.` : `${name}: from ${real(low, 3)} to ${real(high, 3)}.`;
}

// those that change with the chosen rule
const OF_RULE = ["multiplier", "mass"];

function drawMaps(keys) {
  const wanted = MAP_MARGIN.l + MAP_MARGIN.r + 11 * data.heads_axis.length;
  document.getElementById("maps").style.setProperty("--map-width", `${Math.max(206, wanted)}px`);
  document.getElementById("multiplier-words").textContent = multiplierWords();
  keys.forEach(drawMap);
}

function drawMap(key) {
  const map = MAPS[key];
  const div = document.getElementById(`map-${key}`);
  const width = div.clientWidth;
  const columnWidth = (width - MAP_MARGIN.l - MAP_MARGIN.r) / data.heads_axis.length;
  const values = map.values();
  const trace = {
    type: "heatmap", z: values, zmin: map.ends[0], zmax: map.ends[1], zauto: false, colorscale: map.stops(), showscale: false, hoverinfo: "none", hoverongaps: true,
    xgap: columnWidth > 8 ? 1 : 0, ygap: ROW > 8 ? 1 : 0,
  };
  if (key === "phase" && ROW >= 11 && columnWidth >= 10) {
    Object.assign(trace, { text: values.map((row) => row.map((code) => (code === null ? "" : data.phases[code][0].toUpperCase()))), texttemplate: "%{text}", textfont: { color: colour("on-phase"), size: Math.min(12, ROW - 3, columnWidth) } });
  }
  const blank = everyHead().filter(({ layer, head }) => values[layer][head] === null);
  const crosses = {
    type: "scatter", mode: "markers", x: blank.map(({ head }) => head), y: blank.map(({ layer }) => layer), hoverinfo: "skip",
    marker: { symbol: "x-thin", size: Math.max(4, Math.min(9, ROW - 4, columnWidth - 4)), line: { width: 1, color: colour("faint") } },
  };
  const quiet = { fixedrange: true, showgrid: false, zeroline: false, ticks: "outside", ticklen: 3, tickcolor: "rgba(0,0,0,0)", tickfont: { size: 11 } };
  Plotly.react(div, [trace, crosses], {
    ...frame(), width, height: data.layers.length * ROW + MAP_MARGIN.t + MAP_MARGIN.b, margin: MAP_MARGIN,
    xaxis: { ...quiet, range: [-0.5, data.heads_axis.length - 0.5], ...thinned(data.heads_axis, columnWidth, 7 * String(data.heads_axis.at(-1)).length + 5), title: { text: "head", standoff: 4, font: { size: 12 } } },
    yaxis: { ...quiet, range: [data.layers.length - 0.5, -0.5], ...thinned(data.layers, ROW, 14), title: { text: "layer", standoff: 2, font: { size: 12 } } },
  }, { displayModeBar: false });
  drawScale(key);
  wireOnce(div, (event) => {
    const [layer, head] = event.points[0].pointIndex;
    showHead({ layer, head }, key, event.event);
    ringHeads(layer, head);
  });
}

function drawScale(key) {
  const box = document.getElementById(`scale-${key}`);
  const map = MAPS[key];
  if (map.ticks) {
    scaleBar(box, map.stops(), map.ends, map.ticks());
    return;
  }
  const keys = element("div", "keys");
  keys.append(...phaseKeys());
  box.replaceChildren(keys);
}

function exponential(value) {
  if (value === null || value === undefined) return NOTHING;
  return value !== 0 && Math.abs(value) < 0.001 ? value.toExponential(1).replaceAll("-", "−") : real(value, 4);
}

// Everything about one head under the chosen rule; `asked` is what was pointed at
function showHead(at, asked, mouse) {
  const read = (name) => headNumbers(name)?.[at.layer][at.head] ?? null;
  const rows = [
    ["multiplier", `factor, ${nameOf(state.variant)}`, real(read("multiplier"), 3)],
    ["mass", "attention on needles", percent(read("mass"))],
    ...COMPANIES.map((company) => ["", company, percent(read(`mass ${company}`))]),
  ];
  if (data.slope) {
    rows.push(["slope", "slope, per nat", real(read("slope"), 3)]);
    rows.push(["direction", `derivative, round ${state.round + 1}`, exponential(read("direction"))], ["", "as measured", exponential(read("measured"))]);
  }
  if (PHASE) rows.push(["kappa", "κ", real(read("kappa"), 2)], ["critical_multiplier", "b_c", real(read("critical_multiplier"), 2)]);
  const unread = read("mass") === null;
  showCard(`layer ${data.layers[at.layer]} · head ${data.heads_axis[at.head]}`, PHASE ? phaseOf(at.layer, at.head) : undefined, rows, asked, mouse, unread ? "no softmax attention, or not measured" : null);
}

// The same head in all maps
function ringHeads(layer, head) {
  for (const ring of document.querySelectorAll(".ring")) ring.remove();
  for (const key of Object.keys(MAPS)) {
    const div = document.getElementById(`map-${key}`);
    const columnWidth = (div.clientWidth - MAP_MARGIN.l - MAP_MARGIN.r) / data.heads_axis.length;
    const ring = element("div", "ring");
    Object.assign(ring.style, { left: `${MAP_MARGIN.l + head * columnWidth - 1}px`, top: `${MAP_MARGIN.t + layer * ROW - 1}px`, width: `${columnWidth + 2}px`, height: `${ROW + 2}px` });
    div.append(ring);
  }
}
