// Attention on the needles against what the audit or the calibration say of a head, and the heads with the most of it.

const AGAINST = {
  kappa: { words: "κ", title: "focus exponent κ" },
  critical_multiplier: { words: "b_c", title: "b<sub>c</sub>, the factor at which the head would be critical", log: true },
  slope: { words: "slope", title: "calibrated slope, per nat of ln n" },
};

const TICKS = [-2, -1, 0, 1, 2].flatMap((power) => [1, 2, 5].map((first) => Number(`${first}e${power}`)));

function drawRetrieval() {
  const div = document.getElementById("retrieval");
  const missing = document.getElementById("retrieval-missing");
  const name = state.against;
  missing.hidden = name !== null;
  div.hidden = name === null;
  document.getElementById("retrieval-choices").hidden = name === null;
  if (name === null) {
    missing.textContent = "There is nothing to draw a head’s attention on the needles against: neither an audit nor a calibration was made. The table below holds it.";
    return;
  }
  const { title, log } = AGAINST[name];
  const [x, y] = [headNumbers(name), headNumbers("mass")];
  const heads = everyHead().filter(({ layer, head }) => y[layer][head] !== null && x[layer][head] !== null && (!log || x[layer][head] > 0));
  const left = everyHead().length - heads.length;
  const top = Math.max(1e-3, ...heads.map(({ layer, head }) => y[layer][head]));
  const phases = PHASE ? [...data.phases, null].reverse() : [null];
  Plotly.react(div, phases.map((phase) => {
    const mine = heads.filter(({ layer, head }) => phaseOf(layer, head) === phase);
    return {
      type: "scatter", mode: "markers", x: mine.map(({ layer, head }) => x[layer][head]), y: mine.map(({ layer, head }) => y[layer][head]), customdata: mine, hoverinfo: "none",
      marker: { color: colour(phase ?? (PHASE ? "faint" : "accent")), size: 9, opacity: 0.85, line: { width: 0.7, color: colour("panel") } },
    };
  }), {
    ...frame(), width: div.clientWidth, height: 400, margin: { l: 62, r: 14, t: 12, b: 50 },
    annotations: left ? [{ xref: "paper", yref: "paper", x: 1, y: 1, xanchor: "right", yanchor: "top", showarrow: false, text: `${left} head${left > 1 ? "s" : ""} without one of the two left out`, font: { size: 12, color: colour("muted") } }] : [],
    xaxis: axis(title, log ? { type: "log", tickvals: TICKS, ticktext: TICKS.map(String) } : {}), yaxis: axis("attention on the needles", { tickformat: ".0%", range: [-0.03 * top, 1.06 * top] }),
  }, LINE_CONFIG);
  div.setAttribute("aria-label", `Attention on the needles against ${AGAINST[name].words}, one mark a head; the table below holds the numbers`);
  document.getElementById("retrieval-key").replaceChildren(...(PHASE ? phaseKeys() : []));
  wireOnce(div, (event) => {
    const { layer, head } = event.points[0].customdata;
    showHead(layer, head, state.against, event.event);
  });
}

function phaseMark(code) {
  const name = data.phases[code];
  return [element("span", `chip ${name}`, name[0].toUpperCase()), ` ${name}`];
}

function headColumns() {
  const reader = (name) => ({ layer, head }) => headNumbers(name)?.[layer][head] ?? null;
  const column = (name, key, show, about, more = {}) => ({ name, key, show, about, ...more });
  const exact = (at) => reader("phase")(at);
  return [
    { name: "layer.head", mark: (index) => [headName(everyHead()[index])], key: ({ layer, head }) => layer * data.heads_axis.length + head, about: "numbers of layer and head in the model" },
    column("on needles", reader("mass"), percent, "share of the head’s attention on the needle that is asked for, mean over all needles"),
    ...(COMPANIES.length > 1 ? COMPANIES.map((company) => column(company, reader(`mass ${company}`), percent, `the same, mean over the needles ${company}`)) : []),
    ...(PHASE ? [
      { name: "phase", mark: phaseMark, key: (at) => (exact(at) === null || exact(at) < 0 ? null : exact(at)), about: "of the audit" },
      column("κ", reader("kappa"), (value) => real(value, 2), "focus exponent, of the audit"),
      column("b", reader("critical_multiplier"), (value) => real(value, 2), "factor on the logits at which the head would be critical, of the audit", { sub: "c" }),
    ] : []),
    ...(data.slope ? [
      column("slope", reader("slope"), (value) => real(value, 3), "calibrated, per nat of ln n"),
      column("derivative", reader("direction"), exponential, "of the loss by the slope, shrunk, in the chosen round: negative wants to be sharper"),
    ] : []),
    column("factor", reader("multiplier"), (value) => real(value, 3), "on the logits of the last position, under the chosen rule"),
  ];
}

const headTable = new SortedTable("heads", headColumns(), ["head", "heads"]);
headTable.sort = { column: 1, sign: -1 };

function drawHeads() {
  const all = everyHead();
  const mass = headNumbers("mass");
  const order = [...all].sort((a, b) => compare(mass[a.layer][a.head], mass[b.layer][b.head], -1));
  headTable.draw(state.headsShown === null ? all : order.slice(0, state.headsShown), all.length);
}

function saveHeads() {
  const names = ["multiplier", "mass", ...COMPANIES.map((company) => `mass ${company}`), ...(data.slope ? ["slope", "direction"] : []), ...(PHASE ? ["kappa", "critical_multiplier"] : [])];
  const rows = everyHead().map((at) => [
    nameOf(state.variant), data.layers[at.layer], data.heads_axis[at.head], ...names.map((name) => headNumbers(name)[at.layer][at.head]), ...(PHASE ? [phaseOf(at.layer, at.head)] : []),
  ]);
  saveCsv("heads.csv", ["variant", "layer", "head", ...names.map((name) => name.replace(" ", "_")), ...(PHASE ? ["phase"] : [])], rows);
}
