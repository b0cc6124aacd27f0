// Every rule in the chosen tokens, and a file with all of them.

function variantMark(variant) {
  const parts = [nameOf(variant)];
  if (variant === data.recommended) parts.push(" ", element("span", "star", "★"));
  parts.push(element("div", "what", VARIANTS[variant].words));
  return parts;
}

function ruleColumns() {
  const of = (kind, part) => (variant) => lossOf(kind, variant, state.bucket)[part];
  const range = (kind) => (variant) => signedInterval(of(kind, "low")(variant), of(kind, "high")(variant));
  const needle = (part) => (variant) => needleDifference(variant)[part];
  return [
    { name: "rule", mark: variantMark, key: (variant) => variant, about: "in the order of their simplicity" },
    { name: "mean loss", key: of("bucket_nll", "estimate"), show: (value) => real(value, 4), about: "nats a token" },
    { name: "against none", key: of("difference", "estimate"), show: signed, range: range("difference"), about: "paired difference, nats a token" },
    { name: "against raw", key: of("difference_raw", "estimate"), show: signed, range: range("difference_raw"), about: "paired difference, nats a token" },
    { name: "needles", key: (variant) => foundBy(variant), show: (value) => `${value} of ${needlesOf().length}`, about: "found exactly" },
    { name: "nats a number", key: (variant) => mean(finite(data.needles.nll[variant])), show: (value) => real(value, 2), about: "mean loss of a needle’s number" },
    { name: "against none", key: needle("estimate"), show: signed, range: (variant) => signedInterval(needle("low")(variant), needle("high")(variant)), about: "difference of a needle’s number, nats" },
    { name: "median factor", key: (variant) => quantile(finite(data.multiplier[variant]), 0.5), show: (value) => real(value, 3), about: "on the logits of the last position, over heads" },
  ];
}

const ruleTable = new SortedTable("table", ruleColumns(), ["rule", "rules"]);

function drawTable() {
  ruleTable.draw(VARIANTS.map((_, variant) => variant), VARIANTS.length);
}

function saveTable() {
  const kinds = Object.keys(data.losses);
  const parts = [["estimate", ""], ["low", "_low"], ["high", "_high"], ["error", "_se"]];
  const columns = kinds.flatMap((kind) => parts.map(([part, end]) => [`${kind}${end}`, data.losses[kind][part]]));
  const rows = VARIANTS.flatMap(({ name, words }, variant) => data.buckets.map((bucket, at) => [
    name, words, bucket, data.begins[at], data.ends[at], ...columns.map(([, values]) => values[variant][at]),
  ]));
  saveCsv("variants.csv", ["variant", "words", "bucket", "bucket_begins", "bucket_ends", ...columns.map(([name]) => name)], rows);
}
