// Tiles, and what happens when something is chosen.

function tile(name, value, detail, className = "") {
  const box = element("div", "tile");
  box.dataset.tile = name;
  const shown = element("div", `value ${className}`.trim());
  shown.append(...[value].flat());
  const told = element("div", "detail");
  told.append(...[detail].flat());
  box.append(element("div", "name", name), shown, told);
  return box;
}

// What follows ^ as a power: "L^-1 + H^-1/2"
function raised(text) {
  return text.split(/(\^-?[\d/]+)/).map((part) => (part.startsWith("^") ? element("sup", "", part.slice(1).replace("-", "−")) : part));
}

// Whether an interval holds each of the values of theory
function holds(name, values) {
  const [low, high] = [fitted(name, "low"), fitted(name, "high")];
  if (low === null) return "no interval";
  const told = values.map(([value, words]) => `${words} ${low <= value && value <= high ? "inside" : "outside"}`);
  return `${interval(low, high)}: ${told.join(", ")}`;
}

function powerTile(name, words, values) {
  const power = fitted(name);
  return tile(words, power === null ? NOTHING : real(power, 2), power === null ? "too few networks for a fit" : holds(name, values));
}

function ownTile() {
  const found = networks().filter((at) => error(state.distance, "estimate", at) > 0);
  const own = read(data.reference[state.distance]);
  if (own === null || !found.length) return tile("limit’s own error", NOTHING, "not measured in this distance");
  const least = found.reduce((best, at) => (error(state.distance, "estimate", at) < error(state.distance, "estimate", best) ? at : best));
  const value = error(state.distance, "estimate", least);
  return tile("limit’s own error", percent(own / value, 0), `of the smallest E, ${short(value)} at L = ${LAYERS[least.l]}, H = ${HEADS[least.h]}`);
}

function rateTile() {
  const residuals = read(data.rates.residual);
  const known = residuals.map((_, i) => i).filter((i) => residuals[i] !== null);
  if (!known.length) return tile("closest published rate", NOTHING, "too few networks to tell");
  const first = known.reduce((best, i) => (residuals[i] < residuals[best] ? i : best));
  const surely = read(data.rates.excess_high)[first] < 0;
  return tile("closest published rate", raised(data.rates.names[first]), `${percent(Math.expm1(residuals[first]), 0)} off; its lead is ${surely ? "beyond" : "within"} chance`, "words");
}

function drawTiles() {
  const bound = data.bound[state.seed][state.n][state.d];
  document.getElementById("tiles").replaceChildren(
    powerTile("p", "p, power of 1/L", [[1 / 2, "1/2"], [1 / 3, "the proven 1/3"]]),
    powerTile("q", "q, power of 1/H", [[1 / 2, "the proven 1/2"]]),
    ownTile(),
    rateTile(),
    tile("Adam’s bound", bound === null ? NOTHING : real(bound, 3), bound === null ? "none holds for this optimiser" : "largest step over the bound on any step"),
  );
}

function drawAll() {
  hideCard();
  for (const name of ["step", "inputs", "n", "d", "seed"]) markPressed(name, state[name]);
  document.getElementById("distance").value = state.distance;
  const { words, about } = DISTANCE[state.distance];
  document.getElementById("chart-title").textContent = `Distance from the limit ${chosenWords()}`;
  document.getElementById("about").textContent = `E is the ${about}.`;
  document.getElementById("chosen-distance").textContent = words;
  drawTiles();
  drawChart();
  drawCells();
}

function wire() {
  for (const name of ["step", "inputs", "n", "d", "seed"]) onPress(`[data-${name}]`, (set) => { state[name] = Number(set[name]); drawAll(); });
  fillSelect("distance", data.distances.map(({ name, words }) => [name, words]), (value) => { state.distance = value; drawAll(); });
  fillSelect("cells-shown", [["one", "what is chosen above"], ["", "all"]], (value) => { state.onlyChosen = value === "one"; drawCells(); });
  onPress("#save-cells", saveCells);
}

wire();
start(drawAll);
