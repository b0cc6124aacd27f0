// The maps of an audit, and what the card says of one head.

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

const MAPS = {
  phase: phaseMap(() => headValues("phase")),
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

function drawMaps() {
  sizeMaps();
  for (const key of Object.keys(MAPS)) drawMap(key);
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
