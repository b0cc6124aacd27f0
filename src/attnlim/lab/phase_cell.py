"""One cell of a phase diagram: one token set under one residual factor and mask, at every γ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlim.core.cells import Arrays
from attnlim.core.seeds import generator

CONTRACTION = {
    "contraction": "value",
    "contraction_standard_error": "standard_error",
    "contraction_error": "error",
    "fraction_contracted": "fraction_contracted",
    "min_cosine": "min_cosine",
    "worst_ratio": "worst_ratio",
}
ETA = {
    "eta": "total",
    "eta_attention": "attention",
    "eta_covariance": "covariance",
    "eta_residual": "residual",
    "eta_standard_error": "standard_error",
    "distance": "distance",
}
_COUNTS = ("entropy", "perplexity", "participation")
FOCUS = tuple(f"{name}{suffix}" for name in _COUNTS for suffix in ("", "_standard_error"))
GEOMETRY = ("rho_hat", "rho_1", "rho_2", "q_1", "q_2", "score_variance", "duplicates")


def measure_cell(
    tokens: str,
    n_tokens: int,
    width: int,
    rho: float,
    draw: int,
    gamma: Sequence[float],
    alpha: float,
    causal: bool,
    seed: int,
    measure: Sequence[str],
    dtype: str,
    rows: int,
    probes: int,
    device: str,
    given: np.ndarray | None = None,
) -> Arrays:
    """What one layer does to one token set, at every γ; a pure function of its arguments.

    Args:
        tokens: the name of a sampler, where the tokens are not ``given``.
        n_tokens: tokens, at least 2.
        width: their dimension.
        rho: nominal cosine; NaN for tokens that have none.
        draw: which token set of this kind, from 0.
        gamma: (m,), β/ln n, at least 0.
        alpha: residual factor, at least 0.
        causal: whether row i sees tokens 1..i alone.
        seed: of the sweep; the streams of this cell follow from it and from the token set.
        measure: of "contraction", "eta" and "focus".
        dtype: of the layer, "float32" or "float64".
        rows: sampled rows, the same for everything measured, where there are more tokens; 0 for all.
        probes: for the costly part of η; 0 takes it exactly.
        device: where the layer runs.
        given: (n_tokens, width), tokens that are not drawn.

    Returns:
        float64, (m,) for what depends on γ, () for the token set.
    """
    from attnlim.context.token_geometry import geometry

    x = _tokens(tokens, n_tokens, width, rho, draw, seed, given).to(device, getattr(torch, dtype))
    betas = [value * math.log(n_tokens) for value in gamma]
    some_rows = rows if 0 < rows < n_tokens else None
    stream = cell_seed(seed, "rows", tokens, n_tokens, width, rho, draw)
    shape = geometry(x, some_rows, seed=stream)
    squares = x.double().square().sum(dim=1).cpu().numpy()
    found: dict[str, Any] = {name: getattr(shape, name) for name in GEOMETRY}
    found["q_mean"], found["inverse_q_mean"] = squares.mean(), (1 / squares).mean()
    if "contraction" in measure:
        from attnlim.context.contracting import contraction

        pairs = contraction(x, betas, alpha, causal, some_rows, seed=stream)
        found |= {name: _numbers(getattr(pairs, field), len(betas)) for name, field in CONTRACTION.items()}
        found["min_cosine_before"] = pairs.min_cosine_before[0]
        found["duplicates"] = pairs.duplicates[0]
    if "eta" in measure:
        from attnlim.context.jacobian import jacobian_energy

        energy = jacobian_energy(x, betas, alpha, causal, some_rows, probes=probes or None, seed=stream)
        found |= {name: _numbers(getattr(energy, field), len(betas)) for name, field in ETA.items()}
    if "focus" in measure:
        from attnlim.context.row_focus import focus
        from attnlim.context.row_sample import unseen_share

        attended, unseen = focus(x, betas, causal, some_rows, seed=stream), unseen_share(some_rows, n_tokens)
        for name in _COUNTS:
            found[name], found[f"{name}_standard_error"] = _over_rows(getattr(attended, name), unseen)
    return {name: np.asarray(values, dtype=np.float64) for name, values in found.items()}


def cell_seed(seed: int, what: str, tokens: str, n_tokens: int, width: int, rho: float, draw: int) -> int:
    """A seed for one token set that no other cell of any grid shares.

    It follows from values and not from places in the grid, so that a larger grid holds the same cells.

    >>> cell_seed(0, "tokens", "sphere", 8, 2, math.nan, 0) == cell_seed(0, "tokens", "sphere", 8, 2, math.nan, 1)
    False
    """
    return int(generator(seed, "phase", what, tokens, n_tokens, width, repr(float(rho)), draw).integers(2**63))


def _tokens(
    tokens: str, n_tokens: int, width: int, rho: float, draw: int, seed: int, given: np.ndarray | None
) -> Tensor:
    if given is not None:
        return torch.from_numpy(given)
    from attnlim.context import samplers

    stream = cell_seed(seed, "tokens", tokens, n_tokens, width, rho, draw)
    return samplers.draw(tokens, n_tokens, width, None if math.isnan(rho) else rho, stream)


def _over_rows(values: Tensor, unseen: float) -> tuple[Tensor, Tensor]:
    """The mean over rows and its standard error, exactly 0 when all are in."""
    each = values.cpu().double()
    return each.mean(dim=1), (unseen * each.var(dim=1) / each.shape[1]).sqrt()


def _numbers(values: object, count: int) -> np.ndarray:
    """(count,) float64, of a tensor, an array or one number for all."""
    plain = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
    return np.broadcast_to(np.asarray(plain, dtype=np.float64), (count,))
