// What is chosen on the page, and how its numbers are reached. Positions, not names.

const VARIANTS = data.variants;
const { raw: RAW, none: NONE, within: WITHIN, beyond: BEYOND } = data;
const COMPANIES = data.needles.companies;
const DEPTHS = data.needles.depth;
// what the maps and the card read of the audit; null where there was none
const PHASE = data.audit.phase;

const state = {
  variant: data.recommended, bands: "chosen", positions: "linear", round: 0,
  against: ["kappa", "critical_multiplier", "slope"].find((name) => headNumbers(name) !== null) ?? null,
  headsShown: 20, bucket: BEYOND,
};

// Names come from outside, and Plotly reads tags in its texts
function plain(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

function nameOf(variant) {
  return VARIANTS[variant].name;
}

function shadeOf(variant) {
  const list = colours("series");
  return list[variant % list.length];
}

// A difference as it reads everywhere: three decimals, four where it is small
function signed(value) {
  if (value === null || value === undefined) return NOTHING;
  if (value === 0) return "0";
  return (value > 0 ? "+" : "") + real(value, Math.abs(value) < 0.01 ? 4 : 3);
}

function signedInterval(low, high) {
  return low === null || high === null || (low === 0 && high === 0) ? "" : `[${signed(low)}, ${signed(high)}]`;
}

// The estimate and the ends of one rule's loss in a bucket
function lossOf(kind, variant, bucket) {
  const of = data.losses[kind];
  return { estimate: of.estimate[variant][bucket], low: of.low[variant][bucket], high: of.high[variant][bucket] };
}

function needleDifference(variant) {
  const of = data.needles.difference;
  return { estimate: of.estimate[variant], low: of.low[variant], high: of.high[variant] };
}

function bounded({ estimate, low, high }) {
  return `${signed(estimate)} ${signedInterval(low, high)}`.trim();
}

// Needles of a company, or of all
function needlesOf(company = null) {
  return data.needles.company.map((_, needle) => needle).filter((needle) => company === null || data.needles.company[needle] === company);
}

function foundBy(variant, company = null) {
  return needlesOf(company).filter((needle) => data.needles.found[variant][needle]).length;
}

// (layer, head) numbers by name; those of the chosen rule where they depend on it
function headNumbers(name) {
  if (name === "multiplier") return data.multiplier[state.variant];
  if (name === "slope") return data.slope;
  if (name === "direction") return data.rounds[state.round]?.direction ?? null;
  if (name === "measured") return data.rounds[state.round]?.measured ?? null;
  if (name.startsWith("mass")) return data.mass[name.slice(5) || "all"][state.variant];
  return data.audit[name];
}

function phaseOf(layer, head) {
  const code = PHASE?.[layer][head] ?? -1;
  return code >= 0 ? data.phases[code] : null;
}

function everyHead() {
  return data.layers.flatMap((_, layer) => data.heads_axis.map((_, head) => ({ layer, head })));
}

function headName({ layer, head }) {
  return `${data.layers[layer]}.${data.heads_axis[head]}`;
}

function choose(variant) {
  state.variant = variant;
  drawChosen();
}
