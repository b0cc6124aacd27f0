"""The table of docs/transition.md on sampled rows: how often λ of all pairs lies within 1.96 standard errors.

Run ``python examples/sampled_rows.py`` to print it: about a second. The pairs' ratios are formed once, and each sample reads
its own; that λ and its standard error are then those of ``contraction(x, beta, rows=..., seed=...)`` is a test.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from attnlim.context import critical_gamma, gaussian_tokens, geometry, half_sphere_tokens, layer
from attnlim.context.row_sample import sampled_rows

N_TOKENS, ROWS, SEEDS = 1024, (8, 32, 128, 512), 1000
TOKENS = {
    "gaussian, d = 32, ρ = 0.5": gaussian_tokens(N_TOKENS, 32, 0.5, seed=0),
    "half-sphere, d = 2": half_sphere_tokens(N_TOKENS, 2, seed=0),
}
PLACES = {"at it": 1.0, "twice it": 2.0}


def ratios(x: Tensor, beta: float) -> np.ndarray:
    """(n, n), (1 - cosine after)/(1 - cosine before) of every pair; 0 on the diagonal. The tokens have no duplicates."""
    distances = []
    for points in (x, layer(x, beta)):
        unit = points / points.norm(dim=1, keepdim=True)
        distances.append(torch.cdist(unit, unit, compute_mode="donot_use_mm_for_euclid_dist").square())
    before, after = distances
    return np.asarray(after / before.fill_diagonal_(1.0))


def samples(pairs: np.ndarray, rows: int, seeds: range) -> tuple[np.ndarray, np.ndarray]:
    """(n_seeds,), λ over the pairs among the rows that a seed draws, and its standard error: the jackknife over rows."""
    n_tokens = len(pairs)
    drawn = np.zeros((len(seeds), n_tokens), dtype=bool)
    for place, seed in enumerate(seeds):
        drawn[place, sampled_rows(rows, n_tokens, seed, least=3)] = True
    of_rows = (drawn.astype(np.float64) @ pairs)[drawn].reshape(len(seeds), rows)
    total = of_rows.sum(axis=1, keepdims=True) / 2
    without = (total - of_rows) / ((rows - 1) * (rows - 2) / 2)
    variance = (1 - rows / n_tokens) * (rows - 1) * without.var(axis=1)
    return total[:, 0] / (rows * (rows - 1) / 2), np.sqrt(variance)


def coverage(pairs: np.ndarray, rows: int) -> float:
    """The share of samples whose interval holds λ of all pairs."""
    exact = pairs.sum() / (len(pairs) * (len(pairs) - 1))
    value, error = samples(pairs, rows, range(SEEDS))
    return float(np.mean(np.abs(value - exact) <= 1.96 * error))


def table() -> str:
    """A line for each token set and β, a column for each number of rows."""
    lines = [
        "| tokens | γ, to 1/(1−ρ̂) | " + " | ".join(f"{r} rows" for r in ROWS) + " |",
        "|---|---|" + "---:|" * len(ROWS),
    ]
    for name, x in TOKENS.items():
        threshold = critical_gamma(geometry(x).rho_hat) * math.log(N_TOKENS)
        for place, factor in PLACES.items():
            pairs = ratios(x, factor * threshold)
            shares = " | ".join(f"{100 * coverage(pairs, r):.0f} %" for r in ROWS)
            lines.append(f"| {name} | {place} | {shares} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
