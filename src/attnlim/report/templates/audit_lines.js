// Entropy against ln n, and ρ̂ over depth.

// One trace for many heads (null breaks the line): a thousand heads stay quick
function headLines(heads, shade, opacity, hover = true) {
  const curve = data.curves[state.variant];
  const [x, y, customdata] = [[], [], []];
  for (const [layer, head] of heads) {
    curve.log_visible.forEach((point, index) => {
      x.push(point[layer]);
      y.push(curve.entropy[index][layer][head]);
      customdata.push([layer, head, index]);
    });
    x.push(null); y.push(null); customdata.push(null);
  }
  return {
    type: "scatter", mode: "lines+markers", x, y, customdata, connectgaps: false, opacity,
    line: { color: shade, width: 1.5 }, marker: { color: shade, size: 4 }, hoverinfo: hover ? "none" : "skip",
  };
}

function allHeads() {
  return data.layers.flatMap((_, layer) => data.heads_axis.map((_, head) => [layer, head]));
}

// A head's phase at the longest context, which is where the curves come from
function longestPhase(layer, head) {
  return phaseName(data.heads[state.variant].phase[data.contexts.length - 1][layer][head]);
}

function curveTraces() {
  const chosen = state.curveLayer === null ? allHeads() : allHeads().filter(([layer]) => layer === state.curveLayer);
  const opacity = state.curveLayer === null ? 0.7 : 1;
  const traces = state.curveLayer === null ? [] : [headLines(allHeads(), colour("line"), 0.8, false)];
  if (state.colour === "phase") {
    for (const name of [...data.phases, null].reverse()) {
      traces.push(headLines(chosen.filter(([layer, head]) => longestPhase(layer, head) === name), colour(name ?? "faint"), opacity));
    }
  } else {
    data.layers.forEach((_, layer) => {
      const share = data.layers.length > 1 ? layer / (data.layers.length - 1) : 1;
      traces.push(headLines(chosen.filter(([of]) => of === layer), along(share), opacity));
    });
  }
  return traces;
}

// Powers of two along a scale of ln n; where fewer than two fall inside, the numbers of tokens themselves
function tickTokens(xs, range) {
  const powers = Array.from({ length: 40 }, (_, k) => 2 ** k).filter((n) => Math.log(n) >= range[0] && Math.log(n) <= range[1]);
  return powers.length > 1 ? powers : [...new Set(xs.map((x) => Math.round(Math.exp(x))))].slice(0, 3);
}

function drawCurves() {
  const div = document.getElementById("curves");
  const curve = data.curves[state.variant];
  const xs = finite(curve.log_visible);
  const [low, high] = xs.length ? [Math.min(...xs), Math.max(...xs)] : [0, 1];
  const pad = Math.max(0.05 * (high - low), 0.08);
  const range = [low - pad, high + pad];
  const top = range[1] * 1.07;
  const yRange = [-0.09 * top, top];
  const guide = { type: "scatter", mode: "lines", hoverinfo: "skip", line: { color: colour("ink"), width: 1.5, dash: "dash" } };
  const xTicks = tickTokens(xs, range);
  const yTicks = [1, 3, 10, 30, 100, 300, 1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6].filter((n) => Math.log(n) <= yRange[1]);
  const label = { showarrow: false, font: { size: 13, color: colour("ink") } };
  const place = range[0] + 0.5 * (range[1] - range[0]);
  Plotly.react(div, [
    ...curveTraces(),
    // H is never negative, so the guide begins where ln n does
    { ...guide, x: [Math.max(range[0], 0), range[1]], y: [Math.max(range[0], 0), range[1]] },
    { ...guide, x: range, y: [0, 0], yaxis: "y2" },
  ], {
    ...frame(), width: div.clientWidth, height: 480, margin: { l: 58, r: 68, t: 30, b: 52 },
    xaxis: axis("visible tokens n, on a scale of ln n", { range, tickvals: xTicks.map(Math.log), ticktext: xTicks.map((n) => n.toLocaleString("en-US")) }),
    yaxis: axis("entropy H, nats", { range: yRange }),
    yaxis2: axis("tokens, e<sup>H</sup>", { range: yRange, matches: "y", overlaying: "y", side: "right", showgrid: false, tickvals: yTicks.map(Math.log), ticktext: yTicks.map((n) => n.toLocaleString("en-US")) }),
    annotations: [
      { ...label, x: place, y: place, text: "diluted: evenly over all, H = ln n (slope 1)", xanchor: "right", yanchor: "bottom", xshift: -8, yshift: 2 },
      { ...label, x: range[1], y: 0, text: "frozen: one token, H = 0 (slope 0)", xanchor: "right", yanchor: "top", xshift: -6, yshift: -2 },
    ],
  }, LINE_CONFIG);
  drawCurveKey();
  wireOnce(div, (event) => {
    const point = event.points[0];
    const [layer, head, index] = point.customdata;
    const last = data.contexts.length - 1;
    const read = (name) => data.heads[state.variant][name][last][layer][head];
    showCard(`layer ${data.layers[layer]} · head ${data.heads_axis[head]}`, longestPhase(layer, head), [
      ["", "visible tokens", tokens(Math.exp(point.x))],
      ["entropy", "entropy, nats", real(point.y, 2)],
      ["", "e^H, tokens", tokens(Math.exp(point.y))],
      ["", `κ at ${data.contexts[last]}`, `${real(read("kappa"), 2)} ${interval(read("kappa_low"), read("kappa_high"))}`.trim()],
      ["", "rows sampled", tokens(data.curves[state.variant].rows[index][layer]).replace(/\.0+$/, "")],
    ], "entropy", event.event, null);
  });
}

// What the colours of the lines mean
function drawCurveKey() {
  const key = document.getElementById("curve-key");
  if (state.colour === "phase") {
    key.replaceChildren(...phaseKeys());
    if (allHeads().some(([layer, head]) => longestPhase(layer, head) === null)) key.append("grey: n/a");
    return;
  }
  const ramp = element("span", "ramp");
  ramp.style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(along).join(", ")})`;
  key.replaceChildren(`layer ${data.layers[0]}`, ramp, String(data.layers.at(-1)));
}

// Half the 95 % interval over text windows; none for one window
function halfWidth(error) {
  return error === null || data.interval_factor === null ? null : data.interval_factor * error;
}

function drawRho() {
  const div = document.getElementById("rho");
  const rho = data.rho;
  const known = finite([rho.rho_residual, rho.rho_input]);
  const missing = document.getElementById("rho-missing");
  missing.hidden = known.length > 0;
  missing.textContent = `ρ̂ was not measured: ${data.missing.rho || "no reason is recorded"}.`;
  div.hidden = known.length === 0;
  if (!known.length) return;
  const traces = [];
  const kinds = [
    { name: "residual stream", y: rho.rho_residual, se: rho.rho_residual_se, x: data.depths, dash: "solid", symbol: "circle" },
    { name: "attention’s input", y: rho.rho_input, se: rho.rho_input_se, x: data.layers, dash: "dot", symbol: "diamond-open" },
  ];
  data.contexts.forEach((n, context) => {
    const shade = along(data.contexts.length > 1 ? 0.25 + (0.75 * context) / (data.contexts.length - 1) : 1);
    const width = context === state.context ? 3 : 1.5;
    kinds.forEach((kind, index) => {
      traces.push(band(kind.x, kind.y[context], kind.se?.[context].map(halfWidth), shade, n));
      traces.push({
        type: "scatter", mode: "lines+markers", x: kind.x, y: kind.y[context], name: `${n} tokens`, legendgroup: n, showlegend: index === 0,
        line: { color: shade, width, dash: kind.dash }, marker: { color: shade, size: 6, symbol: kind.symbol }, hoverinfo: "none",
        customdata: kind.x.map((_, i) => [kind.name, context, i, index]),
      });
    });
  });
  for (const kind of kinds) {
    traces.push({ type: "scatter", mode: "lines+markers", x: [null], y: [null], name: kind.name, line: { color: colour("muted"), dash: kind.dash }, marker: { symbol: kind.symbol, size: 6 }, hoverinfo: "skip" });
  }
  const reached = finite(traces.map((trace) => trace.y));
  const range = [Math.max(-1, Math.min(0, ...reached)) - 0.03, Math.min(1, Math.max(...reached)) + 0.03];
  const ticks = [1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 20, 50].filter((gamma) => 1 - 1 / gamma <= range[1]);
  // an axis without a trace is not drawn
  traces.push({ type: "scatter", x: [data.depths[0]], y: [range[0] - 1], yaxis: "y2", showlegend: false, hoverinfo: "skip" });
  const reach = data.depths.at(-1) - data.depths[0];
  Plotly.react(div, traces, {
    ...frame(), width: div.clientWidth, height: 400, margin: { l: 58, r: 68, t: 40, b: 52 }, showlegend: true,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 } },
    xaxis: axis("layer (the residual stream is read before it; the last point is the output)", { range: [data.depths[0] - 0.02 * reach, data.depths.at(-1) + 0.02 * reach], tickformat: "d", rangemode: "tozero", dtick: reach <= 12 ? 1 : undefined, showgrid: false }),
    yaxis: axis("ρ̂, mean cosine", { range }),
    yaxis2: axis("γ<sub>c</sub> = 1/(1 − ρ̂)", { range, matches: "y", overlaying: "y", side: "right", showgrid: false, tickvals: ticks.map((gamma) => 1 - 1 / gamma), ticktext: ticks.map(String) }),
  }, LINE_CONFIG);
  wireOnce(div, (event) => {
    if (!event.points[0].customdata) return;
    const [name, context, index, kind] = event.points[0].customdata;
    const [y, se] = kind === 0 ? [rho.rho_residual, rho.rho_residual_se] : [rho.rho_input, rho.rho_input_se];
    const value = y[context][index];
    const gamma = kind === 0 ? [value === null ? null : 1 / (1 - value), null] : [rho.gamma_c?.[context][index] ?? null, rho.gamma_c_se?.[context][index] ?? null];
    const where = kind === 1 ? `layer ${data.layers[index]}` : index === data.depths.length - 1 ? "after the last layer" : `before layer ${data.depths[index]}`;
    showCard(`${name}, ${where}`, undefined, [
      ["", "context", `${data.contexts[context]} tokens`],
      ["rho", "ρ̂", plusMinus(real(value, 3), se?.[context][index], (error) => real(error, 3))],
      ["", "γ_c", plusMinus(three(gamma[0]), gamma[1], three)],
    ], "rho", event.event, null);
  });
}
