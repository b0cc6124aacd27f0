// Tiles, strips and notices, and what happens when something is chosen.

function phaseCounts(context) {
  const codes = data.heads[state.variant].phase[context].flat();
  return { of: data.phases.map((_, code) => codes.filter((c) => c === code).length), none: codes.filter((c) => c < 0).length, all: codes.length };
}

function tile(name, value, detail, key = "") {
  const box = element("div", "tile");
  box.dataset.tile = name;
  if (key) box.style.setProperty("--tile", `var(--${key})`);
  const label = element("div", "name");
  if (key) label.append(element("span", `chip ${key}`, key[0].toUpperCase()), " ");
  label.append(name);
  box.append(label, element("div", "value", value), element("div", "detail", detail));
  return box;
}

function drawTiles() {
  const counts = phaseCounts(state.context);
  const measured = counts.all - counts.none;
  const tiles = data.phases.map((name, code) => tile(
    name, measured ? String(counts.of[code]) : NOTHING,
    measured ? `of ${measured} heads${counts.none ? ` (${counts.none} n/a)` : ""}` : "no interval of κ here", name,
  ));
  const attended = finite(headValues("perplexity"));
  const sink = finite(sinkValues("sink_mass"));
  tiles.push(
    tile("tokens attended", tokens(quantile(attended, 0.5)), attended.length ? `median head; half lie between ${tokens(quantile(attended, 0.25))} and ${tokens(quantile(attended, 0.75))}` : "not measured"),
    tile("first token’s share", percent(mean(sink)), sink.length ? `of all attention; median head ${percent(quantile(sink, 0.5))}` : "not measured"),
  );
  document.getElementById("tiles").replaceChildren(...tiles);
}

// The phases at every context, one strip each
function drawStrips() {
  const strips = data.contexts.length < 2 ? [] : data.contexts.flatMap((n, context) => {
    const counts = phaseCounts(context);
    const strip = element("div", "strip");
    data.phases.forEach((name, code) => {
      if (!counts.of[code]) return;
      // a part too narrow for its number keeps it in its title
      const narrow = counts.of[code] < 0.05 * (counts.all - counts.none);
      const part = element("span", name, narrow ? "" : `${name[0].toUpperCase()} ${counts.of[code]}`);
      part.style.flex = `${counts.of[code]} 1 0`;
      part.title = `${counts.of[code]} ${name} at ${n} tokens`;
      strip.append(part);
    });
    if (!strip.children.length) strip.append(element("span", "", "no interval of κ here"));
    return [element("div", context === state.context ? "row-name chosen" : "row-name", `${n} tokens`), strip];
  });
  document.getElementById("strips").replaceChildren(...strips);
}

// Why phases are absent, where heads have entropy but no phase
function drawMissing() {
  const box = document.getElementById("missing");
  const entropy = headValues("entropy").flat();
  const measured = entropy.filter((value) => value !== null).length;
  const phased = headValues("phase").flat().filter((code, index) => entropy[index] !== null && code >= 0).length;
  box.hidden = phased === measured;
  const whose = phased ? `only ${phased} of ${measured} heads have a phase` : "no head has a phase";
  const reason = data.missing[state.variant] || "no reason is recorded";
  box.textContent = `At ${data.contexts[state.context]} tokens ${whose}, which needs κ and its interval. From the audit: ${reason}.`;
}

function drawAll() {
  hideCard();
  for (const name of ["context", "variant", "colour"]) markPressed(name, state[name]);
  drawTiles();
  drawStrips();
  drawMissing();
  drawMaps();
  drawWishes();
  drawCurves();
  drawRho();
  drawTable();
}

function wire() {
  onPress("[data-context]", (set) => { state.context = Number(set.context); drawAll(); });
  onPress("[data-variant]", (set) => { state.variant = set.variant; drawAll(); });
  onPress("[data-colour]", (set) => { state.colour = set.colour; drawAll(); });
  const all = [["", "all"]];
  const position = (value) => (value === "" ? null : Number(value));
  const layers = [...all, ...data.layers.map((layer, index) => [index, String(layer)])];
  const phases = [...all, ...data.phases.map((name, code) => [code, name]), [-1, NOTHING]];
  fillSelect("curve-layer", layers, (value) => { state.curveLayer = position(value); drawCurves(); });
  fillSelect("table-layer", layers, (value) => { state.tableLayer = position(value); drawTable(); });
  fillSelect("table-phase", phases, (value) => { state.tablePhase = position(value); drawTable(); });
}

wire();
start(drawAll);
