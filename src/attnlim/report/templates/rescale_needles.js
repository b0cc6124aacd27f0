// The grid of rules and needles: the loss of each number as colour, and where it is found exactly.

const NEEDLE_ROW = 27;
// a column this wide has room for its loss
const LOSS_FROM = 40;

function depthText(depth) {
  return `${real(100 * depth, 2).replace(/\.?0+$/, "")} %`;
}

// Below a grid whose columns are too narrow for that
function depthShort(depth) {
  return real(100 * depth, 0);
}

function needleText(variant, needle, room) {
  const mark = data.needles.found[variant][needle] ? "●" : "";
  const value = data.needles.nll[variant][needle];
  if (value === null || room < LOSS_FROM) return mark;
  return `${mark} ${three(value)}`.trim();
}

function drawNeedles() {
  const div = document.getElementById("needles");
  const width = div.clientWidth;
  const numbers = width >= 560;
  const margin = { l: nameRoom(width), r: numbers ? 150 : 46, t: 30, b: 52 };
  const total = needlesOf().length;
  const gap = COMPANIES.length > 1 ? 0.03 : 0;
  const column = ((width - margin.l - margin.r) * (1 - gap * (COMPANIES.length - 1))) / total;
  const values = finite(data.needles.nll);
  const ends = robustEnds(values);
  const stops = evenStops(colours("sequential"));
  const layout = { ...frame(), width, height: VARIANTS.length * NEEDLE_ROW + margin.t + margin.b, margin, yaxis: { ...rowAxis(), domain: [0, 1] }, annotations: [], shapes: [] };
  let left = 0;
  const traces = COMPANIES.map((company, index) => {
    const mine = needlesOf(company);
    const share = (mine.length / total) * (1 - gap * (COMPANIES.length - 1));
    const key = index ? `xaxis${index + 1}` : "xaxis";
    const wide = column >= 46;
    layout[key] = axis(wide ? "depth in the context" : "depth, %", {
      domain: [left, left + share], tickvals: mine.map((_, i) => i), showgrid: false, fixedrange: true, tickangle: 0, anchor: "y",
      ticktext: mine.map((needle, i) => (wide ? depthText(DEPTHS[needle]) : i % Math.ceil(20 / column) === 0 ? depthShort(DEPTHS[needle]) : "")), range: [-0.5, mine.length - 0.5], ticks: "", tickfont: { size: wide ? 11.5 : 10.5 },
    });
    layout.annotations.push({ xref: "paper", x: left, xanchor: "left", yref: "paper", y: 1, yanchor: "bottom", text: `<b>${plain(company)}</b>`, showarrow: false, font: { size: 12.5, color: colour("ink") } });
    left += share + gap;
    return {
      type: "heatmap", z: VARIANTS.map((_, variant) => mine.map((needle) => data.needles.nll[variant][needle])), zmin: ends.low, zmax: ends.high, zauto: false, colorscale: stops, showscale: false,
      text: VARIANTS.map((_, variant) => mine.map((needle) => needleText(variant, needle, column))), texttemplate: "%{text}", textfont: { size: column >= LOSS_FROM ? 12 : 11 },
      customdata: VARIANTS.map((_, variant) => mine.map((needle) => [variant, needle])), xaxis: index ? `x${index + 1}` : "x", hoverinfo: "none", hoverongaps: true, xgap: 1, ygap: 1,
    };
  });
  const beside = (y, text, more) => ({ xref: "paper", x: 1, xanchor: "left", xshift: 8, y, text, showarrow: false, font: { size: 12, color: colour("muted") }, ...more });
  layout.annotations.push(beside(1, "found", { yref: "paper", yanchor: "bottom" }));
  VARIANTS.forEach((_, variant) => {
    const parts = numbers && COMPANIES.length > 1 ? ` (${COMPANIES.map((company) => `${foundBy(variant, company)}/${needlesOf(company).length}`).join(" + ")})` : "";
    layout.annotations.push(beside(variant, `${foundBy(variant)}/${total}${parts}`, { font: { size: 12, color: variant === state.variant ? colour("ink") : colour("muted") } }));
  });
  Plotly.react(div, traces, layout, { displayModeBar: false });
  scaleBar(document.getElementById("scale-needles"), stops, [ends.low, ends.high], [
    [ends.low, `${ends.clippedLow ? "≤ " : ""}${three(ends.low)}`], [(ends.low + ends.high) / 2, `${three((ends.low + ends.high) / 2)} nats a number`], [ends.high, `${ends.clippedHigh ? "≥ " : ""}${three(ends.high)}`],
  ]);
  div.setAttribute("aria-label", `Needles found of ${total}: ${VARIANTS.map((_, variant) => `${nameOf(variant)} ${foundBy(variant)}`).join(", ")}`);
  if (div.dataset.wired) return;
  wireOnce(div, (event) => {
    const [variant, needle] = event.points[0].customdata;
    const value = data.needles.nll[variant][needle];
    const none = data.needles.nll[NONE][needle];
    showCard(nameOf(variant), undefined, [
      ["", "needle", `${data.needles.company[needle]}, at ${depthText(DEPTHS[needle])}`],
      ["", "loss of its number", value === null ? NOTHING : `${real(value, 2)} nats`],
      ["", "against none", value === null || none === null ? NOTHING : signed(value - none)],
      ["", "found exactly", data.needles.found[variant][needle] ? "yes" : "no"],
    ], "", event.event);
  });
  div.on("plotly_click", (event) => choose(event.points[0].customdata[0]));
}
