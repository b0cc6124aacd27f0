// Every network, step and inputs, in the chosen distance.

function cellColumns() {
  const size = (name, key, about) => ({ name, key, show: (value) => value.toLocaleString("en-US"), about });
  const varied = [
    ["seed", "seed", (at) => data.axes.seed[at.seed], "of inputs, parameters and particles"],
    ["n_tokens", "N", (at) => data.axes.n_tokens[at.n], "tokens"],
    ["width", "d", (at) => data.axes.width[at.d], "width of a token"],
  ].filter(([axis]) => data.axes[axis].length > 1).map(([, name, key, about]) => size(name, key, about));
  const value = (at) => error(state.distance, "estimate", at);
  const own = (at) => read(data.reference[state.distance], at);
  return [
    size("steps", (at) => data.axes.step[at.step], "optimiser steps before the distance was taken"),
    { name: "inputs", key: (at) => at.inputs, mark: (index) => [data.inputs[index]], about: "fresh ones were not trained on" },
    ...varied,
    size("L", (at) => LAYERS[at.l], "layers"),
    size("H", (at) => HEADS[at.h], "heads a layer"),
    size("L·H", product, "heads in all"),
    { name: "E", key: value, show: short, range: (at) => spreadText(error(state.distance, "standard_error", at)), about: "distance from the limit, root mean square over initialisations" },
    { name: "E √(LH)", key: (at) => (value(at) === null ? null : value(at) * Math.sqrt(product(at))), show: short, about: "constant where E falls as the root of L·H" },
    { name: "limit’s own error", key: own, show: short, about: "from solving the limit again; n/a where this distance has none" },
    { name: "share", key: (at) => (own(at) === null || !value(at) ? null : own(at) / value(at)), show: (share) => percent(share), about: "the limit’s own error over E" },
  ];
}

function spreadText(spread) {
  return spread ? `± ${withError(1, spread).split(" ± ")[1]}` : "";
}

const cellTable = new SortedTable("cells", cellColumns(), ["row", "rows"]);

function rowsOf(outer) {
  return outer.flatMap((at) => data.axes.step.flatMap((_, step) => data.inputs.flatMap((_, inputs) => networks({ ...at, step, inputs }))));
}

const EVERY = rowsOf(data.axes.seed.flatMap((_, seed) => data.axes.n_tokens.flatMap((_, n) => data.axes.width.map((_, d) => ({ seed, n, d })))));

function drawCells() {
  const same = (at) => ["seed", "n", "d", "step", "inputs"].every((name) => at[name] === state[name]);
  cellTable.draw(state.onlyChosen ? EVERY.filter(same) : EVERY, EVERY.length);
}

// Everything in the file, in every distance
function saveCells() {
  const columns = data.distances.flatMap(({ name }) => [name, `${name}_se`, `${name}_reference_error`]);
  const rows = EVERY.map((at) => [
    ...["seed", "n_tokens", "width"].map((name, i) => data.axes[name][[at.seed, at.n, at.d][i]]), data.axes.step[at.step], data.inputs[at.inputs], LAYERS[at.l], HEADS[at.h],
    ...data.distances.flatMap(({ name }) => [error(name, "estimate", at), error(name, "standard_error", at), read(data.reference[name], at)]),
  ]);
  saveCsv("networks.csv", ["seed", "n_tokens", "width", "step", "inputs", "n_layers", "n_heads", ...columns], rows);
}
