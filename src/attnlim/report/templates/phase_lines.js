// The lines over the plane, each of which can be switched off: theory in white, measured crossings in colour.

const LINES = {
  gamma_c: { words: "1/(1 − ρ̂)", about: "the threshold of equidistant tokens, at the realised mean cosine", shade: "#ffffff", dash: "6px,4px", width: 2, gamma: () => ofSet("gamma_c") },
  gamma_half: { words: "half weight", about: "where a row puts half its weight on itself, at finite width", shade: "#ffffff", dash: "2px,3px", width: 2, gamma: () => ofSet("gamma_half") },
  forward: { words: "λ at its critical value", about: "where the measured λ rises through its critical value, 1/(1 + 3ρ̂) without a residual branch", shade: "#ff7f0e", dash: "solid", width: 3.5, gamma: () => chosen(data.crossings.forward) },
  backward: { words: "attention part at a quarter", about: "where the measured attention part of η rises through a quarter of its limit", shade: "#6fd0ff", dash: "solid", width: 3.5, gamma: () => chosen(data.crossings.backward) },
};

function drawnLines() {
  return Object.entries(LINES).filter(([key, line]) => !state.hidden.has(key) && finite([line.gamma() ?? []]).length);
}

// The crossings lie below the theory, so that a line that agrees shows both
function lineTraces() {
  const order = ["forward", "backward", "gamma_c", "gamma_half"];
  return drawnLines().sort(([a], [b]) => order.indexOf(a) - order.indexOf(b)).flatMap(([, line]) => {
    const trace = { type: "scatter", mode: "lines", x: RHOS, y: line.gamma(), connectgaps: false, hoverinfo: "skip" };
    return [
      { ...trace, line: { color: "#101418", width: line.width + 2, dash: line.dash } },
      { ...trace, line: { color: line.shade, width: line.width, dash: line.dash } },
    ];
  });
}

function drawLineButtons() {
  const box = document.getElementById("lines");
  box.replaceChildren(...Object.entries(LINES).map(([key, line]) => {
    const button = element("button", `line ${key}`);
    button.type = "button";
    button.title = line.about;
    const there = finite([line.gamma() ?? []]).length > 0;
    button.disabled = !there;
    button.setAttribute("aria-pressed", String(there && !state.hidden.has(key)));
    button.append(element("span", "swatch"), there ? line.words : `${line.words}: none here`);
    button.addEventListener("click", () => {
      if (!state.hidden.delete(key)) state.hidden.add(key);
      drawAll();
      document.querySelector(`#lines .${key}`).focus();
    });
    return button;
  }));
}
