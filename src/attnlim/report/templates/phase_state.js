// What is chosen on the page, and how its numbers are reached. Positions, not names.

const QUANTITY = Object.fromEntries(data.quantities.map((quantity) => [quantity.name, quantity]));
const RHOS = data.axes.rho;
const GAMMAS = data.axes.gamma;

const state = {
  quantity: data.quantities[0].name,
  n: data.axes.n_tokens.length - 1,
  d: data.axes.width.length - 1,
  alpha: 0,
  mask: 0,
  rho: RHOS.indexOf(RHOS.reduce((best, rho) => (Math.abs(rho - 0.5) < Math.abs(best - 0.5) ? rho : best), RHOS[0])),
  hidden: new Set(),
};

// The (rho, gamma) numbers, or the (rho) ones, of what is chosen
function chosen(nested) {
  return nested?.[state.n][state.d][state.alpha][state.mask] ?? null;
}

function ofSet(name) {
  return data.sets[name]?.[state.n][state.d] ?? null;
}

function setError(name) {
  return data.set_errors[name]?.[state.n][state.d] ?? null;
}

// A value as it reads in the table and on the card
function shown(quantity, value) {
  if (value === null || value === undefined) return NOTHING;
  return QUANTITY[quantity].logarithmic ? tokens(value) : fine(value);
}

// Three decimals, and what they would round to 0 by its power of ten
function fine(value) {
  if (value === null || value === undefined) return NOTHING;
  if (value !== 0 && Math.abs(value) < 0.0005) return value.toExponential(1).replaceAll("-", "−");
  return Math.abs(value) < 100 ? real(value, 3) : three(value);
}

// A standard error has one digit to say; 0 is that of a number without one
function errorText(error) {
  if (!error) return "";
  if (error < 0.0005) return `± ${error.toExponential(0).replaceAll("-", "−")}`;
  return `± ${Number(error.toPrecision(1)).toLocaleString("en-US", { maximumFractionDigits: 4 })}`;
}

function withError(quantity, value, error) {
  return `${shown(quantity, value)} ${value === null ? "" : errorText(error)}`.trim();
}

// A symbol of the table of notation in two parts: what stands on the line, and what below it
function symbolParts(symbol) {
  const [name, sub] = symbol.split("_");
  return { name, sub: sub ?? "" };
}

function symbolHtml(symbol) {
  const { name, sub } = symbolParts(symbol.replaceAll("<", "&lt;"));
  return (sub ? `${name}<sub>${sub}</sub>` : name).replace(/\^(\w)/, "<sup>$1</sup>");
}

function setWords() {
  const alpha = data.axes.alpha.length > 1 ? `, α = ${data.axes.alpha[state.alpha]}` : "";
  const mask = data.masks.length > 1 ? `, ${data.masks[state.mask] ? "causal" : "full attention"}` : "";
  return `n = ${data.axes.n_tokens[state.n].toLocaleString("en-US")}, d = ${data.axes.width[state.d]}${alpha}${mask}`;
}

function rhoWords(index) {
  return RHOS[index] === null ? `ρ̂ = ${fine(ofSet("rho_hat")[index])}` : `ρ = ${RHOS[index]}`;
}
