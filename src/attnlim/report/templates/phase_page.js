// Tiles, and what happens when something is chosen.

function tile(name, value, detail) {
  const box = element("div", "tile");
  box.dataset.tile = name;
  box.append(element("div", "name", name), element("div", "value", value), element("div", "detail", detail));
  return box;
}

function crossingTile(name, key, level) {
  const [gamma, threshold] = [chosen(data.crossings[key])[state.rho], ofSet("gamma_c")[state.rho]];
  const excess = gamma === null || threshold === null ? null : (100 * (gamma - threshold)) / threshold;
  const from = excess === null ? "it does not within these γ" : `${excess < 0 ? "−" : "+"}${Math.abs(excess).toFixed(1)} % from the threshold`;
  return tile(name, gamma === null ? NOTHING : real(gamma, 2), level === null ? "its critical value is not known" : `${errorText(chosen(data.crossing_errors[key])[state.rho])} measured, at ${fine(level)}: ${from}`.trim());
}

function drawTiles() {
  const read = (name) => ofSet(name)?.[state.rho] ?? null;
  const [low, high] = [read("window_low"), read("window_high")];
  document.getElementById("tiles").replaceChildren(
    tile("mean cosine ρ̂", real(read("rho_hat"), 3), `${errorText(setError("rho_hat")?.[state.rho])} realised; ${RHOS[state.rho] === null ? "none was asked" : `${RHOS[state.rho]} was asked`}`.trim()),
    tile("threshold γ", read("gamma_c") === null ? NOTHING : real(read("gamma_c"), 2), "1/(1 − ρ̂), of equidistant tokens as n → ∞"),
    tile("window", low === null ? NOTHING : real(high - low, 2), low === null ? "" : `wide: the self weight of a simplex goes from .1 to .9 between γ = ${real(low, 2)} and ${real(high, 2)}`),
    tile("half weight", read("gamma_half") === null ? NOTHING : real(read("gamma_half"), 2), read("gamma_half") === null ? "no real solution at this width" : "γ at which a row rests half on itself, theory"),
    crossingTile("λ crosses", "forward", chosen(data.levels.forward)[state.rho]),
    crossingTile("η crosses", "backward", chosen(data.levels.backward)[state.rho]),
  );
}

function drawAll() {
  hideCard();
  for (const name of ["n", "d", "alpha", "mask"]) markPressed(name, state[name]);
  document.getElementById("quantity").value = state.quantity;
  document.getElementById("rho").value = String(state.rho);
  const { words, symbol } = QUANTITY[state.quantity];
  document.getElementById("figure-title").textContent = `${words[0].toUpperCase()}${words.slice(1)} ${symbol} at ${setWords()}`;
  for (const place of document.querySelectorAll(".chosen-set")) place.textContent = setWords();
  drawTiles();
  if (document.getElementById("lines")) drawLineButtons();
  drawMap();
  drawSlice();
  drawPoints();
  drawSets();
}

function wire() {
  for (const name of ["n", "d", "alpha", "mask"]) onPress(`[data-${name}]`, (set) => { state[name] = Number(set[name]); drawAll(); });
  fillSelect("quantity", data.quantities.map(({ name, words, symbol }) => [name, `${words} ${symbol}`]), (value) => { state.quantity = value; drawAll(); });
  fillSelect("rho", RHOS.map((_, index) => [index, rhoWords(index)]), (value) => { state.rho = Number(value); drawAll(); });
  fillSelect("points-rho", [["", "all ρ"], ["one", "the chosen ρ"]], (value) => { state.onlyRho = value === "one"; drawPoints(); });
  onPress("#save-points", savePoints);
  onPress("#save-sets", saveSets);
}

wire();
start(drawAll);
