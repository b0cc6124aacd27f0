"""The bridge between the laws √ln n and ln n: scores from an identity that is gradually replaced by noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlim.context.arguments import as_tensor, unit_tokens
from attnlim.context.gaps import critical_multiplier
from attnlim.context.row_sample import named_rows
from attnlim.context.samplers import gaussian_tokens
from attnlim.core.checks import InputError, real_number, whole_number
from attnlim.core.intervals import jackknife, jackknife_mean
from attnlim.core.regression import slope
from attnlim.core.seeds import generator

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bridge:
    """The gap count and its power of ln n along the bridge.

    Attributes:
        epsilon: (E,), share of the noise, dimensionless, 0 to 1.
        n_tokens: (N,), keys of a row.
        critical_multiplier: (E, N), b_c, mean over rows and draws, dimensionless.
        critical_multiplier_standard_error: (E, N), over draws; NaN for one draw.
        exponent: (E,), slope of ln b_c on ln ln n, dimensionless.
        exponent_low: (E,), lower bound of its 95 % interval over draws (jackknife); NaN for one draw.
        exponent_high: (E,), the upper bound.
        n_draws: independent draws of tokens and of the noise.
        width: d.
        rho: nominal cosine of the tokens.
        seed: of the draws.
    """

    epsilon: Floats
    n_tokens: NDArray[np.int64]
    critical_multiplier: Floats
    critical_multiplier_standard_error: Floats
    exponent: Floats
    exponent_low: Floats
    exponent_high: Floats
    n_draws: int
    width: int
    rho: float
    seed: int


def mixed_scores(
    x: Tensor | np.ndarray,
    rows: Sequence[int] | Tensor | np.ndarray,
    noise: Tensor | np.ndarray,
    epsilon: Sequence[float],
) -> Tensor:
    r"""Scores of some rows against all tokens, along the bridge.

    .. math:: z_{ij} = \langle y_j, K^T Q\, y_i \rangle, \qquad K^T Q = (1-\varepsilon) I + \varepsilon G

    Source: *ours*.

    Args:
        x: (n, d), tokens, any unit, float32 or float64; n ≥ 2, d ≥ 1, finite, no zero norm.
        rows: (n_rows,), at least one index of a row, counted from 0, each once.
        noise: (d, d), G, tensor or array, dimensionless, finite.
        epsilon: (E,), shares of the noise, dimensionless, at least one, each in [0, 1].

    Returns:
        (E, n_rows, n), dimensionless, in the dtype and on the device of ``x``; rows in the order of ``rows``.

    Raises:
        InputError: bad tokens, an index that is not there or twice, noise of another shape or not finite, or shares
            outside their range.

    Cost: two products n_rows·n·d, then n_rows·n for each ε. Twin: the double loop in the tests.

    >>> x, noise = torch.eye(2), torch.tensor([[0.0, 3.0], [5.0, 0.0]])
    >>> mixed_scores(x, torch.tensor([0]), noise, [0.0, 1.0]).tolist()    # row 0 meets G's first column
    [[[1.0, 0.0]], [[0.0, 5.0]]]
    """
    y, shares = unit_tokens(x), _shares(epsilon)
    chosen = y[torch.tensor(named_rows(rows, len(y), least=1), device=y.device)]
    noise = _noise(noise, y)
    cosines = chosen @ y.T
    noisy = chosen @ noise.T @ y.T
    return torch.stack([(1 - share) * cosines + share * noisy for share in shares])


def _shares(epsilon: Sequence[float]) -> list[float]:
    given: Any = epsilon.tolist() if hasattr(epsilon, "tolist") else epsilon
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise InputError(f"epsilon must hold at least one number, got {given!r}; give some, such as [0, 0.5, 1]")
    return [real_number("epsilon", value, above=0.0, below=1.0, closed=True) for value in given]


def _noise(noise: Tensor | np.ndarray, y: Tensor) -> Tensor:
    noise, wanted = as_tensor(noise), (y.shape[1], y.shape[1])
    if not isinstance(noise, Tensor) or noise.is_complex() or tuple(noise.shape) != wanted:
        came = tuple(noise.shape) if isinstance(noise, Tensor) else type(noise).__name__
        raise InputError(f"noise must be a real tensor of shape {wanted} for tokens of width {y.shape[1]}, got {came}")
    noise = noise.to(y)
    if not bool(torch.isfinite(noise).all()):
        raise InputError(f"noise must be finite in {y.dtype}, got NaN or inf; look for an overflow where it was made")
    return noise


def bridge_exponents(
    epsilon: Sequence[float],
    n_tokens: Sequence[int],
    width: int = 128,
    rho: float = 0.5,
    n_draws: int = 8,
    n_rows: int = 64,
    seed: int = 0,
) -> Bridge:
    r"""The power of ln n that the gap count follows, from scores of the paper's kind to random ones.

    .. math:: K^T Q = (1-\varepsilon) I + \varepsilon G, \qquad G_{ab} \sim N(0, 1/d)

    on the paper's tokens x_i = √ρ z_0 + √(1-ρ) z_i. At ε = 0 a row has the score 1 once and scores around ρ̂
    otherwise: β_c grows as ln n/(1-ρ), power 1. At ε = 1 a row holds, given G y_i, independent and nearly normal
    scores of variance (1-ρ)/d: β_c grows as √(2d ln n/(1-ρ)), power 1/2. In between a token's own score leads by
    about (1-ε)(1-ρ) over scores of variance v = ε²(1-ρ)/d, and

    .. math:: (1-\varepsilon)(1-\rho)\, \beta_c = \ln n + \beta_c^2 v/2

    until the largest of the others catches up with it, where this has no solution any more:

    .. math:: \frac{\varepsilon}{1-\varepsilon} = \sqrt{\frac{(1-\rho)\, d}{2 \ln n}}

    So the power is not monotone: it rises above 1 towards that crossing, then falls to 1/2. The crossing moves
    towards ε = 1 as d grows: the scale of G, not a property of attention, places it.

    As an estimator of the power the gap count is biased at finite n, by more than the interval says. Its mean lies
    below β_c, and less so at larger n: at ε = 1 that adds about what it adds for independent normal scores, for
    which the documentation's table has 0.72 in place of 1/2 over 512 to 8192 keys. At ε = 0 the spread of the
    cosines among themselves acts as v does, and adds the more the smaller d. Compare one ε with another.

    Source: *ours*; the gap count after arXiv 2605.12697, the two ends [*derived*](../derivations.md#bridge).

    Args:
        epsilon: shares of the noise, dimensionless, each in [0, 1].
        n_tokens: keys of a row, at least two different numbers, each at least 16.
        width: d, at least 1.
        rho: nominal cosine of the tokens, dimensionless, in [0, 1).
        n_draws: independent draws of tokens, noise and rows, at least 1. In a draw all ε see the same ones, and a
            smaller n the first of the tokens, so that what is common to all n leaves the power alone.
        n_rows: rows of a draw, sampled without replacement from those of the smallest n; at least 1.
        seed: at least 0.

    Returns:
        A :class:`Bridge`.

    Raises:
        InputError: an argument outside its range.

    Cost: for each n and draw n_rows·n·(4d and a sort for each ε); memory n_rows·n·(E + 2) in float64.

    >>> result = bridge_exponents([0.0, 1.0], [128, 2048], n_draws=8, n_rows=32)
    >>> bool(result.exponent[0] > result.exponent[1] + 0.1)    # the identity's power is the larger one
    True
    """
    shares = _shares(epsilon)
    sizes = [whole_number("n_tokens", n, 16) for n in n_tokens]
    if len(set(sizes)) < 2:
        raise InputError(f"n_tokens must hold at least two different sizes to fit a power, got {sizes}")
    n_draws, n_rows = whole_number("n_draws", n_draws, 1), whole_number("n_rows", n_rows, 1)
    if n_rows > min(sizes):
        raise InputError(f"n_rows must be at most the smallest n, {min(sizes)}, got {n_rows}; take fewer rows")
    means = np.empty((n_draws, len(shares), len(sizes)))
    for draw in range(n_draws):
        stream = generator(seed, "bridge", draw)
        x = gaussian_tokens(max(sizes), width, rho, seed=int(stream.integers(2**62)))
        noise = torch.from_numpy(stream.standard_normal((width, width)) / math.sqrt(width))
        rows = torch.from_numpy(stream.choice(min(sizes), n_rows, replace=False))
        for column, n in enumerate(sizes):
            means[draw, :, column] = critical_multiplier(mixed_scores(x[:n], rows, noise, shares)).mean(dim=1)

    abscissa = np.log(np.log(sizes))

    def exponent(draws: Floats) -> float:
        return float(slope(abscissa, np.log(draws.mean(axis=0))))

    fits = [jackknife(exponent, means[:, place]) for place in range(len(shares))]
    average = jackknife_mean(means)
    return Bridge(
        epsilon=np.array(shares),
        n_tokens=np.array(sizes),
        critical_multiplier=average.estimate,
        critical_multiplier_standard_error=average.standard_error,
        exponent=np.array([fit.estimate for fit in fits]),
        exponent_low=np.array([fit.low for fit in fits]),
        exponent_high=np.array([fit.high for fit in fits]),
        n_draws=n_draws,
        width=width,
        rho=rho,
        seed=seed,
    )
