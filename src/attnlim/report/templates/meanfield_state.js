// What is chosen on the page, and how its numbers are reached. Positions, not names.

const LAYERS = data.axes.n_layers;
const HEADS = data.axes.n_heads;
const DISTANCE = Object.fromEntries(data.distances.map((distance) => [distance.name, distance]));
// the distance that the fits are of
const FITTED = "sup_tokens";

const state = { distance: data.distances[0].name, step: data.axes.step.length - 1, inputs: Math.max(0, data.inputs.indexOf("fresh")), n: 0, d: 0, seed: 0, onlyChosen: true };

// What belongs to one limit, step and inputs
function read(nested, at = state) {
  return nested[at.seed][at.n][at.d][at.step][at.inputs];
}

function error(distance, end, at) {
  return read(data.errors[distance][end], at)[at.l][at.h];
}

function fitted(name, end = "estimate") {
  return read(data.fits[name][end]);
}

// Networks that were trained, as places in all lists
function networks(at = state) {
  return LAYERS.flatMap((_, l) => HEADS.map((_, h) => ({ ...at, l, h }))).filter((one) => data.distances.some(({ name }) => error(name, "estimate", one) !== null));
}

function product(at) {
  return LAYERS[at.l] * HEADS[at.h];
}

// Three significant digits; what is small by its power of ten
function short(value) {
  if (value === null || value === undefined) return NOTHING;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e6) return value.toExponential(1).replaceAll("-", "−");
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  return value.toPrecision(3).replace("-", "−");
}

function withError(value, spread) {
  if (value === null || !spread) return short(value);
  return `${short(value)} ± ${Number(spread.toPrecision(1)).toLocaleString("en-US", { maximumSignificantDigits: 1 })}`;
}

function stepWords(index) {
  const step = data.axes.step[index];
  return `${step} step${step === 1 ? "" : "s"}`;
}

function chosenWords() {
  const { seed, n_tokens, width } = data.axes;
  const parts = [`after ${stepWords(state.step)}`, `${data.inputs[state.inputs]} inputs`];
  if (n_tokens.length > 1) parts.push(`N = ${n_tokens[state.n]}`);
  if (width.length > 1) parts.push(`d = ${width[state.d]}`);
  if (seed.length > 1) parts.push(`seed ${seed[state.seed]}`);
  return parts.join(", ");
}
