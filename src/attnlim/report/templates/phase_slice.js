// The chosen quantity over γ at the chosen ρ, with its standard error, the closed form, the threshold and its window.

const PARTS = ["eta_attention", "eta_covariance", "eta_residual"];
const PART_DASHES = ["dashdot", "dot", "dash"];

function vertical(gamma, dash) {
  return { type: "line", x0: gamma, x1: gamma, y0: 0, y1: 1, yref: "paper", line: { color: colour("ink"), width: 1.5, dash } };
}

function sliceTraces() {
  const shade = colour("accent");
  const quantity = QUANTITY[state.quantity];
  const values = chosen(data.values[state.quantity])[state.rho];
  const errors = chosen(data.errors[state.quantity])?.[state.rho];
  const simplex = chosen(data.simplex[state.quantity])?.[state.rho];
  const traces = [];
  if (errors) traces.push(band(GAMMAS, values, errors, shade, "measured"));
  traces.push({
    type: "scatter", mode: "lines+markers", x: GAMMAS, y: values, name: `${symbolHtml(quantity.symbol)}, measured`, line: { color: shade, width: 2 }, marker: { size: 5, color: shade }, hoverinfo: "none",
  });
  if (state.quantity === "eta") {
    PARTS.filter((name) => QUANTITY[name] && finite(chosen(data.values[name])[state.rho]).some((value) => value !== 0)).forEach((name, index) => traces.push({
      type: "scatter", mode: "lines", x: GAMMAS, y: chosen(data.values[name])[state.rho], name: `${QUANTITY[name].words} ${symbolHtml(QUANTITY[name].symbol)}`, line: { color: shade, width: 1.5, dash: PART_DASHES[index] }, opacity: 0.75, hoverinfo: "skip",
    }));
  }
  if (simplex && finite(simplex).length) traces.push({ type: "scatter", mode: "lines", x: GAMMAS, y: simplex, name: "simplex at ρ̂, closed form", line: { color: colour("ink"), width: 1.5, dash: "4px,3px" }, hoverinfo: "skip" });
  if (quantity.crossing) {
    const [gamma, level] = [ofSet("gamma_c")[state.rho], chosen(data.levels[quantity.crossing])[state.rho]];
    traces.push({ type: "scatter", mode: "markers", x: [gamma], y: [level], name: "limit at the threshold, n → ∞", marker: { symbol: "diamond-open", size: 10, color: colour("ink"), line: { width: 2 } }, hoverinfo: "skip" });
  }
  return traces;
}

function drawSlice() {
  const div = document.getElementById("slice");
  const quantity = QUANTITY[state.quantity];
  const read = (name) => ofSet(name)?.[state.rho] ?? null;
  const shapes = [];
  if (read("window_low") !== null) shapes.push({ type: "rect", x0: read("window_low"), x1: read("window_high"), y0: 0, y1: 1, yref: "paper", fillcolor: withAlpha(colour("accent"), 0.09), line: { width: 0 }, layer: "below" });
  if (read("gamma_c") !== null) shapes.push(vertical(read("gamma_c"), "6px,4px"));
  if (read("gamma_half") !== null) shapes.push(vertical(read("gamma_half"), "2px,3px"));
  const reach = GAMMAS.length > 1 ? GAMMAS.at(-1) - GAMMAS[0] : 1;
  const positive = finite(chosen(data.values[state.quantity])[state.rho]).every((value) => value > 0);
  const room = 0.02 * reach;
  const named = read("gamma_c") !== null && read("gamma_c") <= GAMMAS.at(-1) + room
    ? [{ x: read("gamma_c"), y: 1, yref: "paper", yanchor: "bottom", showarrow: false, text: `1/(1 − ρ̂) = ${real(read("gamma_c"), 2)}`, font: { size: 12, color: colour("ink") } }] : [];
  Plotly.react(div, sliceTraces(), {
    ...frame(), width: div.clientWidth, height: 440, margin: { l: 58, r: 10, t: 26, b: 46 }, shapes, annotations: named, showlegend: true,
    legend: { orientation: "h", x: 0, y: -0.15, yanchor: "top", font: { size: 12 } },
    xaxis: axis("γ = β/ln n", { range: [GAMMAS[0] - room, GAMMAS.at(-1) + room] }),
    yaxis: axis(`${quantity.words} ${symbolHtml(quantity.symbol)}`, quantity.logarithmic && positive ? { type: "log", dtick: 1 } : { rangemode: quantity.top !== null ? "tozero" : "normal" }),
  }, LINE_CONFIG);
  div.setAttribute("aria-label", `${quantity.words} over γ at ${rhoWords(state.rho)}, ${setWords()}; the table below holds its numbers`);
  wireOnce(div, (event) => {
    const point = event.points.find((one) => one.data.hoverinfo === "none");
    if (point) showPoint(state.rho, point.pointNumber, event.event);
  });
}
