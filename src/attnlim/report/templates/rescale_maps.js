// The maps of a comparison of rules, and what the card says of one head.

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
  ...(PHASE ? { phase: phaseMap(() => PHASE) } : {}),
};

function multiplierWords() {
  const [low, high] = extremes(finite(headNumbers("multiplier")));
  const name = nameOf(state.variant);
  if (!Number.isFinite(low)) return `${name}: not measured.`;
  return high - low < 1e-6 ? `${name}: ${real(low, 3)} in every head.` : `${name}: from ${real(low, 3)} to ${real(high, 3)}.`;
}

// those that change with the chosen rule
const OF_RULE = ["multiplier", "mass"];

function drawMaps(keys) {
  sizeMaps();
  document.getElementById("multiplier-words").textContent = multiplierWords();
  keys.forEach(drawMap);
}

function exponential(value) {
  if (value === null || value === undefined) return NOTHING;
  return value !== 0 && Math.abs(value) < 0.001 ? value.toExponential(1).replaceAll("-", "−") : real(value, 4);
}

// Everything about one head under the chosen rule; `asked` is what was pointed at
function showHead(layer, head, asked, mouse) {
  const read = (name) => headNumbers(name)?.[layer][head] ?? null;
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
  showCard(`layer ${data.layers[layer]} · head ${data.heads_axis[head]}`, PHASE ? phaseOf(layer, head) : undefined, rows, asked, mouse, unread ? "no softmax attention, or not measured" : null);
  ringHeads(layer, head);
}
