// Layer × head maps: the page says in MAPS what they show, and in showHead what the card reads of one head.
//
// A map has values() by layer and head, with null where there is none; the ends of its scale and stops() of colour along it;
// ticks() below the scale, which the phases do without; and where wanted the letter() of a value, and pale() places
// that have a value but no colour.

const MAP_MARGIN = { l: 38, r: 4, t: 4, b: 36 };
const rowHeight = Math.max(9, Math.min(26, Math.round(450 / data.layers.length)));

function phaseMap(codes) {
  return {
    values: () => codes().map((row) => row.map((code) => (code < 0 ? null : code))),
    ends: [-0.5, 3.5],
    stops: () => data.phases.flatMap((name, index) => [[index / 4, colour(name)], [(index + 1) / 4, colour(name)]]),
    letter: (code) => data.phases[code][0].toUpperCase(),
    letterColour: "on-phase",
  };
}

function sizeMaps() {
  // below 10 px a head is hard to hit; above five maps in a row nothing is gained
  const wanted = MAP_MARGIN.l + MAP_MARGIN.r + 11 * data.heads_axis.length;
  document.getElementById("maps").style.setProperty("--map-width", `${Math.max(206, wanted)}px`);
}

function drawMap(key) {
  const map = MAPS[key];
  const div = document.getElementById(`map-${key}`);
  const width = div.clientWidth;
  const columnWidth = (width - MAP_MARGIN.l - MAP_MARGIN.r) / data.heads_axis.length;
  const values = map.values();
  const pale = map.pale?.();
  const trace = {
    type: "heatmap", z: values, zmin: map.ends[0], zmax: map.ends[1], zauto: false,
    colorscale: map.stops(), showscale: false, hoverinfo: "none", hoverongaps: true,
    xgap: columnWidth > 8 ? 1 : 0, ygap: rowHeight > 8 ? 1 : 0,
  };
  if (map.letter && rowHeight >= 11 && columnWidth >= 10) {
    trace.text = values.map((row) => row.map((value) => (value === null ? "" : map.letter(value))));
    trace.texttemplate = "%{text}";
    trace.textfont = { color: colour(map.letterColour), size: Math.min(12, rowHeight - 3, columnWidth) };
  }
  const blank = { x: [], y: [] };
  values.forEach((row, layer) => row.forEach((value, head) => {
    if (value === null && !pale?.[layer][head]) { blank.x.push(head); blank.y.push(layer); }
  }));
  const crosses = {
    type: "scatter", mode: "markers", ...blank, hoverinfo: "skip",
    marker: { symbol: "x-thin", size: Math.max(4, Math.min(9, rowHeight - 4, columnWidth - 4)), line: { width: 1, color: colour("faint") } },
  };
  const flat = pale ? [{
    type: "heatmap", z: pale, showscale: false, hoverinfo: "skip", xgap: trace.xgap, ygap: trace.ygap,
    zauto: false, zmin: 0, zmax: 1, colorscale: [[0, colour("soft")], [1, colour("soft")]],
  }] : [];
  const axis = { fixedrange: true, showgrid: false, zeroline: false, ticks: "outside", ticklen: 3, tickcolor: "rgba(0,0,0,0)", tickfont: { size: 11 } };
  Plotly.react(div, [trace, ...flat, crosses], {
    ...frame(), width, height: data.layers.length * rowHeight + MAP_MARGIN.t + MAP_MARGIN.b, margin: MAP_MARGIN,
    plot_bgcolor: colour("panel"),
    xaxis: { ...axis, range: [-0.5, data.heads_axis.length - 0.5], ...thinned(data.heads_axis, columnWidth, 7 * String(data.heads_axis.at(-1)).length + 5), title: { text: "head", standoff: 4, font: { size: 12 } } },
    yaxis: { ...axis, range: [data.layers.length - 0.5, -0.5], ...thinned(data.layers, rowHeight, 14), title: { text: "layer", standoff: 2, font: { size: 12 } } },
  }, { displayModeBar: false });
  drawScale(key);
  wireOnce(div, (event) => {
    const [layer, head] = event.points[0].pointIndex;
    showHead(layer, head, key, event.event);
  });
}

function drawScale(key) {
  const box = document.getElementById(`scale-${key}`);
  const map = MAPS[key];
  if (map.ticks) {
    scaleBar(box, map.stops(), map.ends, map.ticks());
    return;
  }
  const keys = element("div", "keys");
  keys.append(...phaseKeys());
  box.replaceChildren(keys);
}

function phaseKeys() {
  return data.phases.map((name) => {
    const entry = element("span");
    entry.append(element("span", `chip ${name}`, name[0].toUpperCase()), ` ${name}`);
    return entry;
  });
}

// The same head in all maps
function ringHeads(layer, head) {
  for (const ring of document.querySelectorAll(".ring")) ring.remove();
  for (const key of Object.keys(MAPS)) {
    const div = document.getElementById(`map-${key}`);
    const columnWidth = (div.clientWidth - MAP_MARGIN.l - MAP_MARGIN.r) / data.heads_axis.length;
    const ring = element("div", "ring");
    Object.assign(ring.style, {
      left: `${MAP_MARGIN.l + head * columnWidth - 1}px`, top: `${MAP_MARGIN.t + layer * rowHeight - 1}px`,
      width: `${columnWidth + 2}px`, height: `${rowHeight + 2}px`,
    });
    div.append(ring);
  }
}
