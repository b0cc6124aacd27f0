// The table of heads.

function phaseMark(code) {
  const name = data.phases[code];
  return [element("span", `chip ${name}`, name[0].toUpperCase()), ` ${name}`];
}

const headTable = new SortedTable("table", [
  { name: "layer", key: (at) => data.layers[at.layer], show: String, about: "the layer’s number in the model" },
  { name: "head", key: (at) => data.heads_axis[at.head], show: String, about: "the head’s number in its layer" },
  { name: "phase", mark: phaseMark, key: (at) => (at.read("phase") < 0 ? null : at.read("phase")), about: "from the interval of κ" },
  { name: "κ", key: (at) => at.read("kappa"), show: (v) => real(v, 2), range: (at) => interval(at.read("kappa_low"), at.read("kappa_high")), about: "focus exponent and its 95 % interval" },
  { name: "tokens attended", key: (at) => at.read("perplexity"), show: tokens, about: "perplexity of attention, mean of e^H" },
  { name: "entropy, nats", key: (at) => at.read("entropy"), show: (v) => real(v, 2), about: "mean entropy of attention" },
  { name: "partici\u00adpation", key: (at) => at.read("participation"), show: tokens, about: "1/ΣA², in tokens: dominated by the largest weights" },
  { name: "largest weight", key: (at) => at.read("largest_weight"), show: (v) => percent(v), about: "the largest attention weight of a row, mean" },
  { name: "first token", key: (at) => at.sink(), show: (v) => percent(v), about: "share of attention on the first token" },
  { name: "distance, tokens", key: (at) => at.read("distance"), show: tokens, about: "mean distance to the attended tokens" },
  { name: "largest logit", key: (at) => at.read("largest_logit"), show: three, about: "largest scaled score in any sampled row" },
  { name: "b", sub: "c", key: (at) => at.read("critical_multiplier"), show: (v) => real(v, 2), about: "factor on the logits at which a row would be critical; biased low" },
  { name: "power of ln\u00a0n", key: (at) => at.exponent("value"), show: (v) => real(v, 2), range: (at) => interval(at.exponent("low"), at.exponent("high")), about: "the power of ln n that b_c follows, with its 95 % interval; always with the first token" },
  ...(data.wishes ? [{ name: "sensitivity", key: (at) => at.wish("value"), show: (v) => real(v, 4), range: (at) => interval(at.wish("low"), at.wish("high"), 4), about: "d nll/d ln of the head’s logit multiplier, nats, with its 95 % interval; negative: would rather be sharper" }] : []),
], ["head", "heads"]);

function tableRows() {
  return allHeads().map(([layer, head]) => ({
    layer, head,
    read: (name) => headValues(name)[layer][head],
    exponent: (part) => data.exponent[part]?.[state.context][layer][head] ?? null,
    sink: () => sinkValues("sink_mass")[layer][head],
    wish: (part) => wishValues(part)[layer][head],
  })).filter((at) => (state.tableLayer === null || at.layer === state.tableLayer)
    && (state.tablePhase === null || at.read("phase") === state.tablePhase));
}

function drawTable() {
  headTable.draw(tableRows(), data.layers.length * data.heads_axis.length);
}
