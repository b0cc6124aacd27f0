"""What is measured of a layer's attention while it runs: tokens attended, gap counts, cosines, weight on the token asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlim.context.cosine import mean_cosine
from attnlim.context.gaps import critical_multiplier

Floats = NDArray[np.float64]


@dataclass
class RowWatch:
    """Told of every layer of a forward pass (:data:`benchmarks.length.decoder.Watch`); keeps what chosen rows show.

    Attributes:
        rows: (n_rows,) indices, counted from 0.
        distance: (n_rows,) tokens back to the token asked for, None where nothing is asked.
        gaps: whether gap counts are wanted.
        cosines: whether ρ̂ is.
    """

    rows: Tensor
    distance: Tensor | None = None
    gaps: bool = False
    cosines: bool = False
    found: dict[str, list[Tensor]] = field(default_factory=dict)

    def __call__(self, layer: int, tokens: Tensor, query: Tensor, key: Tensor) -> None:
        logits = query[:, :, self.rows] @ key.mT
        hidden = torch.arange(key.shape[2]) > self.rows[:, None]
        logits = logits.masked_fill(hidden, -torch.inf).double()
        log_weights = logits.log_softmax(dim=-1)
        weights = log_weights.exp()
        entropy = -(weights * log_weights.masked_fill(hidden, 0.0)).sum(dim=-1)
        self._keep("entropy", entropy)
        if self.distance is not None:
            place = (self.rows - self.distance)[None, None, :, None].expand(*weights.shape[:2], -1, 1)
            self._keep("weight_asked", weights.gather(-1, place)[..., 0])
        if self.gaps:
            self._keep("critical_multiplier", critical_multiplier(logits))
        if self.cosines:
            self._keep("rho", torch.tensor([mean_cosine(sequence) for sequence in tokens]))

    def _keep(self, name: str, value: Tensor) -> None:
        self.found.setdefault(name, []).append(value)

    def layers(self, name: str) -> Floats:
        """(n_layers, B, H, n_rows) of a row's quantity, (n_layers, B) of ρ̂, float64."""
        return torch.stack(self.found[name]).double().numpy()


def octaves(n: int, shortest: int) -> list[NDArray[np.int64]]:
    """Rows, counted from 0, with m/2 < visible keys ≤ m, for m = ``shortest``, twice that, … n.

    >>> [(rows[0] + 1, rows[-1] + 1) for rows in octaves(64, 16)]
    [(9, 16), (17, 32), (33, 64)]
    """
    return [np.arange(m // 2, m) for m in (2**k for k in range(n.bit_length())) if shortest <= m <= n]
