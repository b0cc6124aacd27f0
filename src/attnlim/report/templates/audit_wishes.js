// Which way heads would rather go, where the audit measured it: a map of its own, and the sensitivity against the phase.

function wishValues(part) {
  return data.wishes[part][state.context];
}

function wishText(layer, head) {
  const read = (part) => wishValues(part)[layer][head];
  return `${real(read("value"), 4)} ${interval(read("low"), read("high"), 4)}`.trim();
}

if (data.wishes) {
  // one scale for all contexts, of the values that are shown
  const shown = data.wishes.decided.flat(2);
  const sizes = data.wishes.value.flat(2).filter((_, index) => shown[index]).map(Math.abs);
  const top = quantile(sizes, 0.98) || 1;
  const beyond = sizes.some((size) => size > top);
  MAPS.wish = {
    values: () => wishValues("value").map((row, layer) => row.map((value, head) => (wishValues("decided")[layer][head] ? value : null))),
    // undecided heads, and only those that exist
    pale: () => wishValues("value").map((row, layer) => row.map((value, head) => (value === null || wishValues("decided")[layer][head] ? null : 1))),
    ends: [-top, top],
    stops: () => evenStops(colours("diverging").slice(1, -1)), // without the ends, on which no sign could be read
    ticks: () => [[-top, `${beyond ? "≤ " : ""}${three(-top)}`], [0, "0"], [top, `${beyond ? "≥ " : ""}${three(top)}`]],
    letter: (value) => (value < 0 ? "−" : "+"),
    letterColour: "ink",
  };
}

function drawWishes() {
  if (!data.wishes) return;
  sayWishes();
  drawWish("wish-kappa", "kappa", "focus exponent κ", {});
  const ticks = [0.1, 0.2, 0.3, 0.5, 1, 2, 3, 5, 10];
  drawWish("wish-multiplier", "critical_multiplier", "gap count b<sub>c</sub>", { type: "log", tickvals: ticks, ticktext: ticks.map(String) });
}

function sayWishes() {
  const of = (sign) => finite(MAPS.wish.values()).filter((value) => Math.sign(value) === sign).length;
  const every = finite(wishValues("value")).length;
  const rank = (name) => real(data.wishes.ranks[name][state.context], 2);
  const total = (part) => data.wishes.total[part][state.context];
  document.getElementById("wishes-said").textContent = `At ${data.contexts[state.context]} tokens ${of(-1)} of ${every} heads would rather be sharper and ${of(1)} softer; `
    + `one factor for all has the sensitivity ${real(total("value"), 3)} ${interval(total("low"), total("high"), 3)}. `
    + `Rank correlation over heads with κ: ${rank("kappa")}, with b_c: ${rank("critical_multiplier")}.`;
}

function drawWish(id, name, title, more) {
  const div = document.getElementById(id);
  const read = (part, [layer, head]) => wishValues(part)[layer][head];
  const heads = allHeads().filter(([layer, head]) => headValues(name)[layer][head] !== null && read("value", [layer, head]) !== null);
  const traces = [0, 1].flatMap((decided) => [...data.phases, null].map((phase) => {
    const chosen = heads.filter((at) => read("decided", at) === decided && phaseName(headValues("phase")[at[0]][at[1]]) === phase);
    const shade = colour(phase ?? "faint");
    return {
      type: "scatter", mode: "markers", hoverinfo: "none", customdata: chosen, opacity: decided ? 1 : 0.35,
      x: chosen.map(([layer, head]) => headValues(name)[layer][head]), y: chosen.map((at) => read("value", at)),
      marker: { color: shade, size: decided ? 7 : 5 },
      error_y: decided ? {
        type: "data", symmetric: false, color: shade, thickness: 1, width: 0,
        array: chosen.map((at) => read("high", at) - read("value", at)), arrayminus: chosen.map((at) => read("value", at) - read("low", at)),
      } : undefined,
    };
  }));
  Plotly.react(div, traces, {
    ...frame(), width: div.clientWidth, height: Math.max(340, data.layers.length * rowHeight + MAP_MARGIN.t + MAP_MARGIN.b), margin: { l: 64, r: 12, t: 12, b: 48 },
    xaxis: axis(title, more), yaxis: axis("sensitivity, nats", { zeroline: true, zerolinecolor: colour("ink"), zerolinewidth: 1 }),
  }, LINE_CONFIG);
  wireOnce(div, (event) => {
    const [layer, head] = event.points[0].customdata;
    showHead(layer, head, "wish", event.event);
  });
}
