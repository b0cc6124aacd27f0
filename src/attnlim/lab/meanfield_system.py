"""What is trained in a mean-field experiment: the inputs, the loss, the law of the parameters and the optimiser."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnlim.core.seeds import generator
from attnlim.depth import SGD, AdamW, BlockwiseAdamW, MomentLoss
from attnlim.depth.gradient_descent import MakeOptimiser

INPUTS = ("gaussian", "sphere", "clustered")
# the root mean square norm of a Gaussian token at d = 4
SPHERE_RADIUS = 2.0
OPTIMISERS = ("adamw", "blockwise", "sgd")


@dataclass(frozen=True)
class System:
    """Everything but L, H and the initialisations; networks of one system share a limit.

    Attributes:
        n_tokens: N.
        width: d.
        head_dim: k.
        beta: inverse temperature.
        inputs: law of a token: "gaussian" N(0, I), "sphere" of radius 2 whatever d, "clustered" around four centres.
        law: of the parameters, "xavier" or "uniform".
        optimiser: "adamw", "blockwise" (sum of squares) or "sgd".
        lr: learning rate.
        weight_decay: of the optimiser.
        betas: of Adam.
        eps: of Adam, in mean-field units.
        target: norm of the loss's target in units of √d.
        n_sequences: sequences that are trained on.
        n_fresh: sequences that are only looked at.
        steps: τ at which the distance is measured, ascending.
        n_particles: of the limit, at every node.
        n_nodes: of the limit, over t.
        seed: of inputs, parameters and particles.
    """

    n_tokens: int = 8
    width: int = 4
    head_dim: int = 4
    beta: float = 1.0
    inputs: str = "gaussian"
    law: str = "xavier"
    optimiser: str = "adamw"
    lr: float = 0.1
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-3
    target: float = 0.0
    n_sequences: int = 4
    n_fresh: int = 16
    steps: tuple[int, ...] = (0, 1, 4)
    n_particles: int = 2048
    n_nodes: int = 4
    seed: int = 0

    @property
    def n_steps(self) -> int:
        """τ of the last state."""
        return max(self.steps)

    def training_inputs(self) -> Tensor:
        """(n_sequences, n_tokens, width), float64."""
        return self._drawn("training", self.n_sequences)

    def fresh_inputs(self) -> Tensor:
        """(n_fresh, n_tokens, width), float64, of the same law."""
        return self._drawn("fresh", self.n_fresh)

    def loss(self) -> MomentLoss:
        """½ |mean token - target|², with a target of a random direction."""
        direction = generator(self.seed, "meanfield", "target", self.width).normal(size=self.width)
        factor = self.target * math.sqrt(self.width) / np.linalg.norm(direction)
        return MomentLoss(torch.from_numpy(factor * direction))

    def make_optimiser(self) -> MakeOptimiser:
        """Makes the optimiser for a network, or for the limit's particles."""
        if self.optimiser == "sgd":
            return lambda params, n_layers, n_heads: SGD(params, n_layers, n_heads, self.lr, self.weight_decay)
        if self.optimiser == "blockwise":
            return lambda params, n_layers, n_heads: BlockwiseAdamW(
                params, n_layers, n_heads, "sum", self.lr, self.betas, self.eps, self.weight_decay
            )
        return lambda params, n_layers, n_heads: AdamW(
            params, n_layers, n_heads, self.lr, self.betas, self.eps, self.weight_decay
        )

    def _drawn(self, what: str, n_sequences: int) -> Tensor:
        """Sequences one by one, so that more of them hold the same first ones."""
        found = []
        for sequence in range(n_sequences):
            rng = generator(self.seed, "meanfield", what, self.inputs, self.n_tokens, self.width, sequence)
            x = rng.normal(size=(self.n_tokens, self.width))
            if self.inputs == "sphere":
                x *= SPHERE_RADIUS / np.linalg.norm(x, axis=1, keepdims=True)
            if self.inputs == "clustered":
                centres = rng.normal(size=(4, self.width))
                x = centres[rng.integers(4, size=self.n_tokens)] + 0.3 * x
            found.append(x)
        return torch.from_numpy(np.stack(found))
