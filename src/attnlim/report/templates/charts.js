// What the charts of all pages share: their look, colours between two of a palette, bands and ticks.

const LINE_CONFIG = { displaylogo: false, modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] };

function frame() {
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: colour("panel"), showlegend: false, hovermode: "closest",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("faint"), activecolor: colour("accent") },
    font: { family: getComputedStyle(document.body).fontFamily, color: colour("muted"), size: 13 },
  };
}

function axis(title, more) {
  return { title: { text: title, standoff: 8, font: { size: 13 } }, gridcolor: colour("line"), zeroline: false, linecolor: colour("line"), automargin: true, ...more };
}

// A place on a sequential palette, 0 <= share <= 1, away from its palest end, which would vanish on the page
function along(share) {
  const list = colours("sequential").slice(1);
  const place = share * (list.length - 1);
  const below = Math.min(Math.floor(place), list.length - 2);
  const mix = place - below;
  const channel = (shade, at) => parseInt(shade.slice(at, at + 2), 16);
  const mixed = [1, 3, 5].map((at) => Math.round((1 - mix) * channel(list[below], at) + mix * channel(list[below + 1], at)));
  return `rgb(${mixed.join(",")})`;
}

function withAlpha(shade, alpha) {
  const parts = shade.startsWith("#") ? [1, 3, 5].map((at) => parseInt(shade.slice(at, at + 2), 16)) : shade.match(/\d+/g);
  return `rgba(${parts.slice(0, 3).join(",")},${alpha})`;
}

// The ends of a scale; one outlier must not wash out all others, and the scale's label then says ≥ or ≤
function robustEnds(values) {
  const [low, high] = extremes(values);
  if (!values.length) return { low: 0, high: 1, clippedLow: false, clippedHigh: false };
  const spread = quantile(values, 0.98) - quantile(values, 0.02);
  const top = quantile(values, 0.98) + 0.5 * spread;
  const bottom = quantile(values, 0.02) - 0.5 * spread;
  const ends = { low: Math.max(low, bottom), high: Math.min(high, top), clippedLow: low < bottom, clippedHigh: high > top };
  if (ends.low === ends.high) ends.high = ends.low + 1;
  return ends;
}

function evenStops(list) {
  return list.map((shade, index) => [index / (list.length - 1), shade]);
}

// A bar with the colours of a scale, and ticks of [value, text] below it
function scaleBar(box, stops, ends, tickList) {
  const bar = element("div", "bar");
  bar.style.background = `linear-gradient(to right, ${stops.map(([at, shade]) => `${shade} ${100 * at}%`).join(", ")})`;
  const ticks = element("div", "ticks");
  for (const [value, text] of tickList) {
    const tick = element("span", "", text);
    tick.style.left = `${(100 * (value - ends[0])) / (ends[1] - ends[0])}%`;
    ticks.append(tick);
  }
  box.replaceChildren(bar, ticks);
}

// Every k-th label, so that labels never touch
function thinned(labels, room, needed) {
  const step = [1, 2, 5, 10, 20, 50].find((size) => size * room >= needed) ?? 100;
  const places = labels.map((_, index) => index).filter((index) => index % step === 0);
  return { tickvals: places, ticktext: places.map((index) => String(labels[index])) };
}

function wireOnce(div, onHover) {
  if (div.dataset.wired) return;
  div.dataset.wired = "yes";
  div.on("plotly_hover", onHover);
  div.on("plotly_unhover", hideCard);
}

// The area half a width above and below a line; null leaves a point out
function band(x, y, half, shade, group) {
  const known = x.map((_, i) => i).filter((i) => y[i] !== null && half?.[i] !== null && half?.[i] !== undefined);
  const upper = known.map((i) => y[i] + half[i]);
  const lower = known.map((i) => y[i] - half[i]);
  return {
    type: "scatter", mode: "lines", fill: "toself", hoverinfo: "skip", showlegend: false, legendgroup: group, line: { width: 0 },
    fillcolor: withAlpha(shade, 0.16), x: [...known.map((i) => x[i]), ...known.map((i) => x[i]).reverse()], y: [...upper, ...lower.reverse()],
  };
}
