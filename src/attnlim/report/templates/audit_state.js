// What is chosen on the page. Positions, not names: layer 0 is the first in data.layers.

const state = {
  context: data.contexts.length - 1,
  variant: "with",
  colour: "phase",
  curveLayer: null,
  tableLayer: null,
  tablePhase: null,
};
