// What was tried to choose the constant and the slopes, in order.

const PART_WORDS = { constant: "chosen", start: "began here", step: "taken" };

function drawCourse() {
  const div = document.getElementById("course");
  if (!div) return;
  const width = div.clientWidth;
  const tried = data.tried.filter(({ loss }) => loss !== null);
  const shades = { constant: colour("worse"), start: colour("muted"), step: colour("better") };
  const longest = Math.max(...data.tried.map(({ name }) => Math.min(30, name.length)));
  const numbers = width >= 520;
  const [low, high] = extremes(tried.map(({ loss }) => loss));
  const pad = 0.06 * (high - low) || 0.01;
  const row = (one) => data.tried.indexOf(one);
  const short = (name) => plain(name.length > 30 ? `${name.slice(0, 29)}…` : name);
  Plotly.react(div, Object.keys(PART_WORDS).map((part) => {
    const mine = tried.filter((one) => one.part === part);
    return {
      type: "scatter", mode: "markers", x: mine.map(({ loss }) => loss), y: mine.map(row), customdata: mine.map(row), hoverinfo: "none",
      marker: { color: shades[part], size: 10, symbol: mine.map(({ taken }) => (taken ? "circle" : "circle-open")), line: { width: 1.5, color: shades[part] } },
    };
  }), {
    ...frame(), width, height: data.tried.length * 24 + 58, margin: { l: Math.min(0.45 * width, 20 + 7 * longest), r: numbers ? 150 : 14, t: 6, b: 50 },
    xaxis: axis("nats a token", { range: [low - pad, high + pad] }),
    yaxis: axis("", { range: [data.tried.length - 0.5, -0.5], tickvals: data.tried.map((_, i) => i), ticktext: data.tried.map(({ name, taken }) => (taken ? `<b>${short(name)}</b>` : short(name))), fixedrange: true, automargin: false, tickfont: { size: 12.5, color: colour("ink") } }),
    annotations: numbers ? data.tried.map((one, y) => ({ xref: "paper", x: 1, xanchor: "left", xshift: 10, y, showarrow: false, font: { size: 12, color: colour(one.taken ? "ink" : "muted") }, text: `${real(one.loss, 4)}${one.taken ? ` ${PART_WORDS[one.part]}` : ""}` })) : [],
  }, { displayModeBar: false });
  div.setAttribute("aria-label", `Mean loss of what was tried: ${data.tried.map(({ name, loss, taken, part }) => `${name} ${real(loss, 4)}${taken ? ` (${PART_WORDS[part]})` : ""}`).join(", ")}`);
  wireOnce(div, (event) => {
    const one = data.tried[event.points[0].customdata];
    showCard(one.name, undefined, [["", "mean loss", real(one.loss, 4)], ["", "taken", one.taken ? PART_WORDS[one.part] : "no"]], "", event.event);
  });
  drawRounds();
}

// What each round's derivative was worth
function drawRounds() {
  document.getElementById("rounds").replaceChildren(...data.rounds.map((round, index) => {
    const signs = finite(round.direction);
    const [sharper, softer] = [signs.filter((value) => value < 0).length, signs.filter((value) => value > 0).length];
    return element("li", "", `Round ${index + 1}: ${sharper} heads wanted to be sharper, ${softer} softer. Of what a head differs from its layer ${percent(round.towards_layer, 0)} was kept, of what a layer differs from the model ${percent(round.towards_model, 0)}; the noise of one head’s derivative over ${round.windows} windows was ${exponential(round.noise)} nats per unit of slope.`);
  }));
}
