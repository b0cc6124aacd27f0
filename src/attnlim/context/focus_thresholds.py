"""Where the focus exponent κ(γ) leaves the diluted range and where it enters the frozen one: our γ_1 and γ_2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from attnlim.context.simplex_limits import critical_gamma, window_width
from attnlim.context.simplex_rows import simplex_kappa
from attnlim.core.checks import InputError, real_number, whole_number

DILUTED, FROZEN = 0.8, 0.2


@dataclass(frozen=True)
class FocusThresholds:
    """γ_1, below which rows are diluted, and γ_2, above which they are frozen; NaN where κ does not cross."""

    gamma_1: float
    gamma_2: float


def crossings(gammas: ArrayLike, kappa: ArrayLike, level: float) -> list[float]:
    """Where a measured curve falls through a level, by linear interpolation between neighbouring points.

    Source: *ours*.

    Args:
        gammas: (m,), strictly increasing, dimensionless.
        kappa: (m,), dimensionless; NaN marks a missing point, across which nothing is interpolated.
        level: dimensionless.

    Returns:
        The γ at which the curve goes from above the level to the level or below, in increasing order; it may be
        empty, or hold several for a noisy curve.

    Raises:
        InputError: arrays of other shapes, or γ that do not increase.

    >>> crossings([1.0, 2.0, 3.0, 4.0], [1.0, 0.5, 0.9, 0.1], 0.7)
    [1.6, 3.25]
    """
    x, y = np.asarray(gammas, dtype=np.float64), np.asarray(kappa, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise InputError(f"gammas and kappa must be of one shape (m,), got {x.shape} and {y.shape}")
    if not bool((np.diff(x) > 0).all() and np.isfinite(x).all()):
        raise InputError("gammas must be finite and strictly increasing; sort the points and drop repeated ones")
    level = real_number("level", level)
    falls = np.flatnonzero((y[:-1] > level) & (y[1:] <= level))
    return [float(x[i] + (x[i + 1] - x[i]) * (y[i] - level) / (y[i] - y[i + 1])) for i in falls]


def gamma_thresholds(
    gammas: ArrayLike, kappa: ArrayLike, diluted: float = DILUTED, frozen: float = FROZEN
) -> FocusThresholds:
    r"""γ_1 and γ_2 of a measured curve: where κ first falls through .8, and through .2.

    .. math:: \gamma_1 = \min\{\gamma : \kappa \downarrow 0.8\}, \qquad \gamma_2 = \min\{\gamma : \kappa \downarrow 0.2\}

    Between them a row attends to a number of tokens that grows as a power of n below 1.

    Source: *ours*. They are not the γ_1 < γ_2 of "Critical attention scaling", Theorem C.2, whose condition on the
    tokens is another one, nor the ends of the gap that its Theorem 2.3 leaves.

    Args:
        gammas: (m,), strictly increasing, dimensionless.
        kappa: (m,), the focus exponent, dimensionless; it need not fall everywhere, nor stay in [0, 1].
        diluted: level of γ_1, dimensionless, above ``frozen``.
        frozen: level of γ_2, dimensionless.

    Returns:
        :class:`FocusThresholds`; NaN where the curve does not fall through the level.

    Raises:
        InputError: as :func:`crossings`, or levels in the wrong order.

    >>> gamma_thresholds([1.0, 2.0, 3.0], [1.0, 0.6, 0.1])
    FocusThresholds(gamma_1=1.5, gamma_2=2.8)
    """
    diluted = _levels(diluted, frozen)
    first, second = (crossings(gammas, kappa, level) for level in (diluted, frozen))
    return FocusThresholds(first[0] if first else math.nan, second[0] if second else math.nan)


def simplex_gamma_thresholds(
    n_tokens: Sequence[int], rho: float, diluted: float = DILUTED, frozen: float = FROZEN
) -> FocusThresholds:
    r"""γ_1 and γ_2 of a simplex over a range of n, from its exact κ.

    Both tend to γ_c = 1/(1-ρ) as n → ∞, since the middle phase of a simplex is its critical window, of width
    about 1/((1-ρ) ln n).

    Source: *ours*, as :func:`gamma_thresholds`, on :func:`attnlim.context.simplex_kappa`.

    Args:
        n_tokens: the range over which κ is fitted, at least two different sizes, each at least 2.
        rho: common cosine, dimensionless, in (-1/(n-1), 1).
        diluted: level of γ_1, dimensionless, above ``frozen``.
        frozen: level of γ_2, dimensionless.

    Returns:
        :class:`FocusThresholds`; NaN where κ does not fall through the level.

    Raises:
        InputError: an argument outside its range, or levels in the wrong order.

    Cost: some hundred evaluations of κ.

    Precision: 1e-12 relative.

    >>> found = simplex_gamma_thresholds([512, 1024, 2048, 4096, 8192], 0.5)
    >>> round(found.gamma_1, 3), round(found.gamma_2, 3)
    (1.824, 2.162)
    """
    diluted = _levels(diluted, frozen)
    sizes = [whole_number("n_tokens", n, 2) for n in n_tokens]
    centre = critical_gamma(rho)

    def excess(gamma: float, level: float) -> float:
        return simplex_kappa(sizes, rho, gamma) - level

    # the transition is some window widths around γ_c of the smallest n; 1/8 of a width resolves its bends
    step = window_width(max(sizes), rho) / 8
    reach = centre + 3 * window_width(min(sizes), rho)
    grid = np.linspace(0.0, reach, max(2, math.ceil(reach / step)) + 1)
    curve = np.array([simplex_kappa(sizes, rho, float(gamma)) for gamma in grid])
    found = []
    for level in (diluted, frozen):
        falls = np.flatnonzero((curve[:-1] > level) & (curve[1:] <= level))
        ends = (float(grid[falls[0]]), float(grid[falls[0] + 1])) if falls.size else None
        found.append(float(brentq(excess, *ends, args=(level,), xtol=1e-13 * centre)) if ends else math.nan)
    return FocusThresholds(*found)


def _levels(diluted: float, frozen: float) -> float:
    frozen = real_number("frozen", frozen)
    return real_number("diluted", diluted, above=frozen, advice="the diluted level must be above the frozen one")
