// Losses along the context: differences from none of all rules, and the loss itself of three.

const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star", "hexagon", "pentagon", "hourglass", "bowtie"];
const STRETCHES = data.stretches;

// Where a stretch's mark stands: its middle, on either axis
function middle(bucket) {
  const [low, high] = [data.begins[bucket], data.ends[bucket]];
  return state.positions === "log" ? Math.sqrt(Math.max(low, high / 4) * high) : (low + high) / 2;
}

function positionAxis(width) {
  const edges = [...new Set(STRETCHES.flatMap((bucket) => [data.begins[bucket], data.ends[bucket]]))].sort((a, b) => a - b);
  const log = state.positions === "log";
  const shown = edges.filter((edge) => !log || edge > 0);
  const room = Math.max(2, Math.floor(width / 62));
  const kept = shown.filter((edge, i) => edge === data.trained || i === shown.length - 1 || i % Math.ceil(shown.length / room) === 0);
  const ticks = { tickvals: kept, ticktext: kept.map((edge) => edge.toLocaleString("en-US")) };
  // the first stretch begins at 0, which has no place on a log axis
  const range = log ? [Math.log10(data.ends[STRETCHES[0]] / 4), Math.log10(1.01 * data.target)] : [0, 1.005 * data.target];
  return axis("position", { type: state.positions, range, ...ticks });
}

function trainedMark() {
  return {
    shapes: [{ type: "line", x0: data.trained, x1: data.trained, yref: "paper", y0: 0, y1: 1, line: { color: colour("muted"), width: 1.2, dash: "dash" } }],
    annotations: [{ x: state.positions === "log" ? Math.log10(data.trained) : data.trained, yref: "paper", y: 1, yanchor: "bottom", text: "trained length", showarrow: false, font: { size: 11.5, color: colour("muted") } }],
  };
}

function lineOf(kind, variant, strong, banded) {
  const points = STRETCHES.map((bucket) => ({ ...lossOf(kind, variant, bucket), bucket, x: middle(bucket) })).filter(({ estimate }) => estimate !== null);
  const shade = shadeOf(variant);
  const line = {
    type: "scatter", mode: "lines+markers", name: plain(nameOf(variant)), legendgroup: String(variant), x: points.map(({ x }) => x), y: points.map(({ estimate }) => estimate),
    customdata: points.map(({ bucket }) => [variant, bucket]), line: { color: shade, width: strong ? 3 : 1.5, dash: variant === NONE ? "dash" : "solid" },
    marker: { color: shade, size: strong ? 10 : 7, symbol: SYMBOLS[variant % SYMBOLS.length] }, opacity: strong ? 1 : 0.85, hoverinfo: "none",
  };
  const known = points.filter(({ low, high }) => low !== null && high !== null && high > low);
  if (!banded || !known.length) return [line];
  const area = {
    type: "scatter", mode: "lines", fill: "toself", hoverinfo: "skip", showlegend: false, legendgroup: String(variant), line: { width: 0 }, fillcolor: withAlpha(shade, strong ? 0.18 : 0.08),
    x: [...known.map(({ x }) => x), ...known.map(({ x }) => x).reverse()], y: [...known.map(({ high }) => high), ...known.map(({ low }) => low).reverse()],
  };
  return known.length > 1 ? [area, line] : [line];
}

// Room below a chart for the names of its lines
function legendRoom(width, variants) {
  const entries = variants.map((variant) => 52 + 6.6 * Math.min(nameOf(variant).length, 40));
  return 58 + 21 * Math.ceil(entries.reduce((sum, one) => sum + one, 0) / Math.max(150, 0.9 * (width - 90)));
}

function drawLines(id, kind, variants, yAxis, about) {
  const div = document.getElementById(id);
  const width = div.clientWidth;
  const strong = (variant) => variant === state.variant;
  // the chosen one lies over the others
  const order = [...variants.filter((variant) => !strong(variant)), ...variants.filter(strong)];
  const traces = order.flatMap((variant) => lineOf(kind, variant, strong(variant), strong(variant) || state.bands === "all" || id === "absolute"));
  traces.forEach((trace) => { trace.legendrank = 1000 + Number(trace.legendgroup); });
  const { shapes, annotations } = trainedMark();
  // side by side the axes stand level: both leave the room that the first needs
  const first = document.getElementById("along");
  const below = first.offsetTop === div.offsetTop ? legendRoom(first.clientWidth, VARIANTS.map((_, one) => one)) : legendRoom(width, variants);
  Plotly.react(div, traces, {
    ...frame(), width, height: 330 + below, margin: { l: 62, r: 26, t: 24, b: below }, showlegend: true, shapes, annotations,
    legend: { orientation: "h", x: 0, y: -0.15, yanchor: "top", font: { size: 12 } }, xaxis: positionAxis(width - 80), yaxis: yAxis,
  }, LINE_CONFIG);
  div.setAttribute("aria-label", `${about} over ${STRETCHES.length} stretches of positions; the table below holds the numbers`);
  wireOnce(div, (event) => {
    const point = event.points.find(({ customdata }) => customdata);
    if (!point) return;
    const [variant, bucket] = point.customdata;
    const [difference, loss] = [lossOf("difference", variant, bucket), lossOf("bucket_nll", variant, bucket)];
    showCard(nameOf(variant), undefined, [
      ["", "tokens", data.buckets[bucket]],
      ["difference", "against none", bounded(difference)],
      ["bucket_nll", "mean loss", `${real(loss.estimate, 3)} ${interval(loss.low, loss.high, 3)}`.trim()],
    ], kind, event.event, VARIANTS[variant].words);
  });
}

// What lies beyond the scale of the differences, in words
function offScale([low, high]) {
  const off = VARIANTS.flatMap((_, variant) => {
    const outside = STRETCHES.map((bucket) => ({ bucket, value: lossOf("difference", variant, bucket).estimate })).filter(({ value }) => value !== null && (value < low || value > high));
    if (!outside.length) return [];
    const most = signed(extremes(outside.map(({ value }) => value))[1]);
    return [`${nameOf(variant)} at ${outside.map(({ bucket }) => data.buckets[bucket]).join(", ")} (${outside.length > 1 ? "up to " : ""}${most})`];
  });
  return off.length ? `Off the scale: ${off.join("; ")}. ` : "";
}

function drawAlong() {
  const scale = data.scales.along;
  const pad = 0.06 * (scale[1] - scale[0]);
  const range = [scale[0] - pad, scale[1] + pad];
  drawLines("along", "difference", VARIANTS.map((_, variant) => variant), axis("nats a token, less that of none", { range, zeroline: true, zerolinecolor: colour("ink"), zerolinewidth: 1.5 }), "Difference from none");
  document.getElementById("along-off").textContent = offScale(range);
  drawLines("absolute", "bucket_nll", [...new Set([RAW, NONE, state.variant])].sort((a, b) => a - b), axis("nats a token"), "Mean loss");
}
