// The layer × head maps, their scales, and what the card says of one head.

const MAP_MARGIN = { l: 38, r: 4, t: 4, b: 36 };

function headValues(name) {
  return data.heads[state.variant][name][state.context];
}

function sinkValues(name) {
  return data.sink[name][state.context];
}

const kappaEnds = [data.margins.frozen - 0.4, data.margins.diluted + 0.4];

// One scale for all contexts, with and without the first token, so that colours can be compared
const bothVariants = (name) => finite([data.heads.with[name], data.heads.without[name]]);
const entropyTop = Math.max(0.1, ...bothVariants("entropy"));
const logitEnds = robustEnds(bothVariants("largest_logit"));

function kappaStops() {
  const [deepF, midF, paleF, middle, paleD, midD, deepD] = colours("diverging");
  const at = (value) => (value - kappaEnds[0]) / (kappaEnds[1] - kappaEnds[0]);
  const [frozen, diluted] = [at(data.margins.frozen), at(data.margins.diluted)];
  // two colours at one place: the visible step at a margin
  return [[0, deepF], [frozen, midF], [frozen, paleF], [(frozen + diluted) / 2, middle], [diluted, paleD], [diluted, midD], [1, deepD]];
}

function phaseStops() {
  return data.phases.flatMap((name, index) => [[index / 4, colour(name)], [(index + 1) / 4, colour(name)]]);
}

const MAPS = {
  phase: {
    values: () => headValues("phase").map((row) => row.map((code) => (code < 0 ? null : code))),
    ends: [-0.5, 3.5],
    stops: phaseStops,
    letter: (code) => data.phases[code][0].toUpperCase(),
    letterColour: "on-phase",
  },
  kappa: {
    values: () => headValues("kappa"),
    ends: kappaEnds,
    stops: kappaStops,
    ticks: () => [kappaEnds[0], data.margins.frozen, data.margins.diluted, kappaEnds[1]].map((value) => [value, real(value, 1)]),
  },
  entropy: {
    values: () => headValues("entropy"),
    ends: [0, entropyTop],
    stops: () => evenStops(colours("sequential")),
    ticks: () => [[0, "0"], [entropyTop / 2, real(entropyTop / 2, 1)], [entropyTop, `${real(entropyTop, 1)}`]],
  },
  sink: {
    values: () => sinkValues("sink_mass"),
    ends: [0, 1],
    stops: () => evenStops(colours("sequential")),
    ticks: () => [[0, "0 %"], [0.5, "50 %"], [1, "100 %"]],
  },
  logit: {
    values: () => headValues("largest_logit"),
    ends: [logitEnds.low, logitEnds.high],
    stops: () => evenStops(colours("sequential")),
    ticks: () => [
      [logitEnds.low, (logitEnds.clippedLow ? "≤ " : "") + three(logitEnds.low)],
      [(logitEnds.low + logitEnds.high) / 2, three((logitEnds.low + logitEnds.high) / 2)],
      [logitEnds.high, (logitEnds.clippedHigh ? "≥ " : "") + three(logitEnds.high)],
    ],
  },
};

const rowHeight = Math.max(9, Math.min(26, Math.round(450 / data.layers.length)));

function drawMaps() {
  // below 10 px a head is hard to hit; above five maps in a row nothing is gained
  const wanted = MAP_MARGIN.l + MAP_MARGIN.r + 11 * data.heads_axis.length;
  document.getElementById("maps").style.setProperty("--map-width", `${Math.max(206, wanted)}px`);
  for (const key of Object.keys(MAPS)) drawMap(key);
}

function drawMap(key) {
  const map = MAPS[key];
  const div = document.getElementById(`map-${key}`);
  const width = div.clientWidth;
  const columnWidth = (width - MAP_MARGIN.l - MAP_MARGIN.r) / data.heads_axis.length;
  const values = map.values();
  const pale = map.pale?.();
  const trace = {
    type: "heatmap", z: values, zmin: map.ends[0], zmax: map.ends[1], zauto: false,
    colorscale: map.stops(), showscale: false, hoverinfo: "none", hoverongaps: true,
    xgap: columnWidth > 8 ? 1 : 0, ygap: rowHeight > 8 ? 1 : 0,
  };
  if (map.letter && rowHeight >= 11 && columnWidth >= 10) {
    trace.text = values.map((row) => row.map((value) => (value === null ? "" : map.letter(value))));
    trace.texttemplate = "%{text}";
    trace.textfont = { color: colour(map.letterColour), size: Math.min(12, rowHeight - 3, columnWidth) };
  }
  const blank = { x: [], y: [] };
  values.forEach((row, layer) => row.forEach((value, head) => {
    if (value === null && !pale?.[layer][head]) { blank.x.push(head); blank.y.push(layer); }
  }));
  const crosses = {
    type: "scatter", mode: "markers", ...blank, hoverinfo: "skip",
    marker: { symbol: "x-thin", size: Math.max(4, Math.min(9, rowHeight - 4, columnWidth - 4)), line: { width: 1, color: colour("faint") } },
  };
  const flat = pale ? [{
    type: "heatmap", z: pale, showscale: false, hoverinfo: "skip", xgap: trace.xgap, ygap: trace.ygap,
    zauto: false, zmin: 0, zmax: 1, colorscale: [[0, colour("soft")], [1, colour("soft")]],
  }] : [];
  const axis = { fixedrange: true, showgrid: false, zeroline: false, ticks: "outside", ticklen: 3, tickcolor: "rgba(0,0,0,0)", tickfont: { size: 11 } };
  Plotly.react(div, [trace, ...flat, crosses], {
    ...frame(), width, height: data.layers.length * rowHeight + MAP_MARGIN.t + MAP_MARGIN.b, margin: MAP_MARGIN,
    plot_bgcolor: colour("panel"),
    xaxis: { ...axis, range: [-0.5, data.heads_axis.length - 0.5], ...thinned(data.heads_axis, columnWidth, 7 * String(data.heads_axis.at(-1)).length + 5), title: { text: "head", standoff: 4, font: { size: 12 } } },
    yaxis: { ...axis, range: [data.layers.length - 0.5, -0.5], ...thinned(data.layers, rowHeight, 14), title: { text: "layer", standoff: 2, font: { size: 12 } } },
  }, { displayModeBar: false });
  drawScale(key);
  if (!div.dataset.wired) {
    div.dataset.wired = "yes";
    div.on("plotly_hover", (event) => {
      const [layer, head] = event.points[0].pointIndex;
      showHead(layer, head, key, event.event);
    });
    div.on("plotly_unhover", hideCard);
  }
}

function phaseKeys() {
  return data.phases.map((name) => {
    const entry = element("span");
    entry.append(element("span", `chip ${name}`, name[0].toUpperCase()), ` ${name}`);
    return entry;
  });
}

function drawScale(key) {
  const box = document.getElementById(`scale-${key}`);
  if (key === "phase") {
    const keys = element("div", "keys");
    keys.append(...phaseKeys());
    box.replaceChildren(keys);
    return;
  }
  const map = MAPS[key];
  scaleBar(box, map.stops(), map.ends, map.ticks());
}

function phaseName(code) {
  return code >= 0 ? data.phases[code] : null;
}

// Everything about one head at the chosen context; `asked` is the map that was pointed at
function showHead(layer, head, asked, mouse) {
  const read = (name) => headValues(name)[layer][head];
  const sink = (name) => sinkValues(name)[layer][head];
  const over = (part) => data.kappa_contexts[part]?.[layer][head] ?? null;
  const rows = [
    ["kappa", "κ", `${real(read("kappa"), 2)} ${interval(read("kappa_low"), read("kappa_high"))}`.trim()],
    ["entropy", "entropy, nats", plusMinus(real(read("entropy"), 2), read("entropy_se"), (se) => real(se, 2))],
    ["", "tokens attended", plusMinus(tokens(read("perplexity")), read("perplexity_se"), (se) => real(se, read("perplexity") < 10 ? 2 : read("perplexity") < 100 ? 1 : 0))],
    ["sink", "first token’s share", plusMinus(percent(sink("sink_mass")), sink("sink_mass_se"), percent)],
    ["logit", "largest logit", three(read("largest_logit"))],
  ];
  if (data.wishes) rows.push(["wish", "sensitivity", wishText(layer, head)]);
  if (state.variant === "with" && over("value") !== null) {
    rows.splice(1, 0, ["", "κ over contexts", `${real(over("value"), 2)} ${interval(over("low"), over("high"))}`.trim()]);
  }
  const name = phaseName(read("phase"));
  const absent = read("entropy") === null;
  showCard(`layer ${data.layers[layer]} · head ${data.heads_axis[head]}`, name, rows, asked, mouse, absent ? "no such head, or not measured" : null);
  ringHeads(layer, head);
}

// The same head in all maps
function ringHeads(layer, head) {
  for (const ring of document.querySelectorAll(".ring")) ring.remove();
  for (const key of Object.keys(MAPS)) {
    const div = document.getElementById(`map-${key}`);
    const columnWidth = (div.clientWidth - MAP_MARGIN.l - MAP_MARGIN.r) / data.heads_axis.length;
    const ring = element("div", "ring");
    Object.assign(ring.style, {
      left: `${MAP_MARGIN.l + head * columnWidth - 1}px`, top: `${MAP_MARGIN.t + layer * rowHeight - 1}px`,
      width: `${columnWidth + 2}px`, height: `${rowHeight + 2}px`,
    });
    div.append(ring);
  }
}
