"use strict";

// The data that the file carries, and what is chosen on the page. Positions, not names: layer 0 is the first in data.layers.

const data = JSON.parse(document.getElementById("data").textContent);

const state = {
  context: data.contexts.length - 1,
  variant: "with",
  colour: "phase",
  curveLayer: null,
  tableLayer: null,
  tablePhase: null,
  allRows: false,
  sort: { column: 0, sign: 1 },
};
