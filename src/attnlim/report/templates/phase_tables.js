// Every number: the points of the chosen grid, and the sets of tokens.

function pointColumns() {
  const measured = data.quantities.map(({ name, symbol, words, about }) => ({
    ...symbolParts(symbol), about: `${words}: ${about}`, key: (at) => chosen(data.values[name])[at.r][at.g], show: (value) => shown(name, value),
    range: (at) => errorText(chosen(data.errors[name])?.[at.r][at.g]),
  }));
  const rho = { name: "ρ", key: (at) => RHOS[at.r] ?? ofSet("rho_hat")[at.r], show: (value) => real(value, 3).replace(/0+$/, ""), about: "cosine asked of the sampler, or the realised one where none was asked" };
  const gamma = { name: "γ", key: (at) => GAMMAS[at.g], show: (value) => real(value, 3).replace(/\.?0+$/, ""), about: "β/ln n" };
  return [rho, gamma, ...measured];
}

const pointTable = new SortedTable("points", pointColumns(), ["point", "points"]);

function points() {
  return RHOS.flatMap((_, r) => GAMMAS.map((_, g) => ({ r, g })));
}

function drawPoints() {
  const all = points();
  pointTable.draw(state.onlyRho ? all.filter((at) => at.r === state.rho) : all, all.length);
}

// Everything in the file, not just what is chosen
function savePoints() {
  const names = data.quantities.map(({ name }) => name);
  const rows = [];
  data.axes.n_tokens.forEach((n, i) => data.axes.width.forEach((d, j) => data.axes.alpha.forEach((alpha, a) => data.masks.forEach((causal, c) => points().forEach(({ r, g }) => {
    const read = (nested) => nested?.[i][j][a][c][r][g] ?? null;
    rows.push([n, d, alpha, causal, RHOS[r], data.sets.rho_hat[i][j][r], GAMMAS[g], ...names.flatMap((name) => [read(data.values[name]), read(data.errors[name])])]);
  })))));
  saveCsv("phase.csv", ["n_tokens", "width", "alpha", "causal", "rho", "rho_hat", "gamma", ...names.flatMap((name) => [name, `${name}_se`])], rows);
}

const SET_ABOUT = {
  rho_hat: "mean cosine of two tokens", rho_1: "smallest cosine of two tokens", rho_2: "largest cosine of two tokens", q_1: "smallest squared norm", q_2: "largest squared norm",
  score_variance: "variance of a row’s cosines", gamma_c: "threshold, 1/(1 − ρ̂)", gamma_half: "half-weight point; n/a where there is none",
};

function setColumns() {
  const reader = (nested) => (at) => nested?.[at.n][at.d][at.r] ?? null;
  const crossing = (name, words) => ({ name: words, key: (at) => data.crossings[name][at.n][at.d][state.alpha][state.mask][at.r], show: fine, about: LINES[name].about, range: (at) => errorText(data.crossing_errors[name][at.n][at.d][state.alpha][state.mask][at.r]) });
  return [
    { name: "n", key: (at) => data.axes.n_tokens[at.n], show: (value) => value.toLocaleString("en-US"), about: "tokens" },
    { name: "d", key: (at) => data.axes.width[at.d], show: String, about: "width of a token" },
    { name: "ρ", key: (at) => RHOS[at.r], show: String, about: "cosine asked of the sampler" },
    ...Object.keys(data.symbols).map((name) => ({
      ...symbolParts(data.symbols[name]), key: reader(data.sets[name]), show: fine, about: SET_ABOUT[name],
      range: (at) => errorText(reader(data.set_errors[name])(at)),
    })),
    ...(data.duplicates ? [{ name: "duplicate pairs", key: reader(data.duplicates), show: (value) => value.toLocaleString("en-US"), about: "pairs of coinciding tokens, which have no ratio and are left out of λ; the most of any draw" }] : []),
    crossing("forward", "λ crosses at γ"),
    crossing("backward", "η crosses at γ"),
  ];
}

const setTable = new SortedTable("sets", setColumns(), ["set of tokens", "sets of tokens"]);

function drawSets() {
  const rows = data.axes.n_tokens.flatMap((_, n) => data.axes.width.flatMap((_, d) => RHOS.map((_, r) => ({ n, d, r }))));
  setTable.draw(rows, rows.length);
}

function saveSets() {
  const names = ["n_tokens", "width", "rho", ...Object.keys(data.symbols), ...(data.duplicates ? ["duplicates"] : []), "gamma_forward", "gamma_backward"];
  saveCsv("tokens.csv", names, setTable.rows.map((at) => setTable.columns.map(({ key }) => key(at))));
}
