// Tiles, and what happens when something is chosen.

function tile(name, value, detail, className = "") {
  const box = element("div", "tile");
  box.dataset.tile = name;
  box.append(element("div", "name", name), element("div", `value ${className}`.trim(), value), element("div", "detail", detail));
  return box;
}

// In words what an interval of a difference says
function told({ estimate, low, high }, base) {
  if (estimate === null) return "not measured";
  if (estimate === 0 && low === 0 && high === 0) return `the same as ${base}`;
  if (low === null || high === null) return "no interval";
  const ruling = high < 0 ? `better than ${base}` : low > 0 ? `worse than ${base}` : `not told apart from ${base}`;
  return `${signedInterval(low, high)} ${ruling}`;
}

function ruling({ low, high }) {
  if (low === null || high === null) return "";
  return high < 0 ? "better" : low > 0 ? "worse" : "";
}

function drawTiles() {
  const { variant } = state;
  const [beyond, within, needles] = [lossOf("difference", variant, BEYOND), lossOf("difference_raw", variant, WITHIN), needleDifference(variant)];
  const [none, raw] = [nameOf(NONE), nameOf(RAW)];
  document.getElementById("tiles").replaceChildren(
    tile("loss beyond", real(lossOf("bucket_nll", variant, BEYOND).estimate, 3), `nats a token, ${data.trained} to ${data.target}`),
    tile(`beyond, against ${none}`, variant === NONE ? "·" : signed(beyond.estimate), variant === NONE ? "it is what others are compared with" : told(beyond, none), ruling(beyond)),
    tile(`within, against ${raw}`, variant === RAW ? "·" : signed(within.estimate), variant === RAW ? "it is what others are compared with" : told(within, raw), ruling(within)),
    tile("needles found", `${foundBy(variant)} of ${needlesOf().length}`, COMPANIES.map((company) => `${foundBy(variant, company)} of ${needlesOf(company).length} ${company}`).join(", ")),
    tile(`a number, against ${none}`, variant === NONE ? "·" : signed(needles.estimate), variant === NONE ? "it is what others are compared with" : told(needles, none), ruling(needles)),
  );
}

// What follows the chosen rule
function drawChosen() {
  hideCard();
  document.getElementById("variant").value = state.variant;
  document.getElementById("variant-words").textContent = `${VARIANTS[state.variant].words}${state.variant === data.recommended ? " · ★ recommended" : ""}`;
  drawTiles();
  drawForests();
  drawAlong();
  drawNeedles();
  drawMaps(OF_RULE);
  drawRetrieval();
  drawHeads();
}

function drawAll() {
  for (const name of ["bands", "positions", "round", "against"]) markPressed(name, state[name]);
  drawChosen();
  drawMaps(Object.keys(MAPS).filter((key) => !OF_RULE.includes(key)));
  drawCourse();
  drawTable();
}

function wire() {
  fillSelect("variant", VARIANTS.map(({ name }, index) => [index, index === data.recommended ? `${name} ★` : name]), (value) => choose(Number(value)));
  for (const name of ["bands", "positions"]) onPress(`[data-${name}]`, (set) => { state[name] = set[name]; drawAlong(); markPressed(name, state[name]); });
  onPress("[data-round]", (set) => { state.round = Number(set.round); drawMaps(["direction"]); drawHeads(); markPressed("round", state.round); });
  const against = document.getElementById("against");
  for (const name of Object.keys(AGAINST).filter((one) => headNumbers(one) !== null)) {
    const button = element("button", "", AGAINST[name].words);
    button.type = "button";
    button.dataset.against = name;
    against.append(button);
  }
  onPress("[data-against]", (set) => { state.against = set.against; drawRetrieval(); markPressed("against", state.against); });
  const few = Math.min(state.headsShown, everyHead().length);
  fillSelect("heads-shown", [[few, `the ${few} with the most`], ["", "all heads"]], (value) => { state.headsShown = value === "" ? null : Number(value); drawHeads(); });
  const buckets = [BEYOND, WITHIN, ...data.stretches];
  fillSelect("table-bucket", buckets.map((bucket) => [bucket, bucket === BEYOND || bucket === WITHIN ? `${data.buckets[bucket]} the trained length` : data.buckets[bucket]]), (value) => { state.bucket = Number(value); drawTable(); });
  onPress("#save-heads", saveHeads);
  onPress("#save-table", saveTable);
}

wire();
start(drawAll);
