"""Assumption 2 put to the test: whether a sampler's tokens meet it, and how its bounds move with n."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from attnlim.context.samplers import draw
from attnlim.context.token_geometry import TokenGeometry, geometry
from attnlim.core.checks import InputError
from attnlim.core.intervals import jackknife_mean
from attnlim.core.regression import slope

_BOUNDS = ("one_minus_rho_2", "one_plus_rho_1", "q_1", "q_2")
# 1 + ρ_1 comes from a cosine: below this it is right to less than three digits, and left out
_LOST = 1e-13


def assumption_two(
    kind: str,
    sizes: Sequence[int],
    widths: Sequence[int],
    rho: float | None = None,
    seeds: Sequence[int] = (0, 1, 2, 3),
) -> pd.DataFrame:
    r"""The bounds of Assumption 2 as draws of a sampler realise them, with a verdict on each draw.

    .. math:: 0 < \rho_1 \le \rho_2 < 1, \qquad 0 < q_1 \le q_2 < \infty

    A finite set without duplicates meets all of it but ρ_1 > 0, so only that is at stake in a draw. Whether one
    set of bounds serves every n is the question of :func:`bound_trends`.

    Source: "Critical attention scaling", Assumption 2; ρ_1 > 0 as in Assumption 1.

    Args:
        kind: a sampler's name, see :func:`attnlim.context.samplers.draw`.
        sizes: numbers of tokens, each at least 2.
        widths: dimensions, each at least 1, for "simplex" at least the largest size.
        rho: cosine, dimensionless, for the kinds that take one.
        seeds: one draw a seed; under one seed the tokens at a smaller n are the first of those at a larger.

    Returns:
        A row for each width, size and seed: tokens, width, n_tokens, rho (NaN for a kind without), seed, rho_hat,
        rho_1, rho_2, one_minus_rho_2, q_1, q_2, duplicates, gamma_low = 1/(1-ρ_1), gamma_high = 1/(1-ρ_2), holds,
        and reason, empty where it holds.

    Raises:
        InputError: no size, width or seed, or one that :func:`attnlim.context.samplers.draw` refuses.

    Cost: n²d/2 for each row.

    >>> table = assumption_two("simplex", [8], [8], rho=0.5, seeds=[0])
    >>> table[["gamma_low", "gamma_high", "holds"]].round(9).values.tolist()
    [[2.0, 2.0, True]]
    """
    for name, values in (("sizes", sizes), ("widths", widths), ("seeds", seeds)):
        if not len(values):
            raise InputError(f"{name} must hold at least one number, got none; give one")
    rows = []
    for width in widths:
        for n_tokens in sizes:
            for seed in seeds:
                found = geometry(draw(kind, n_tokens, width, rho, seed))
                reason = _broken(found)
                rows.append(
                    {
                        "tokens": kind,
                        "width": found.width,
                        "n_tokens": found.n_tokens,
                        "rho": math.nan if rho is None else float(rho),
                        "seed": seed,
                        "rho_hat": found.rho_hat,
                        "rho_1": found.rho_1,
                        "rho_2": found.rho_2,
                        "one_minus_rho_2": found.one_minus_rho_2,
                        "q_1": found.q_1,
                        "q_2": found.q_2,
                        "duplicates": found.duplicates,
                        "gamma_low": _inverse(1 - found.rho_1),
                        "gamma_high": _inverse(found.one_minus_rho_2),
                        "holds": not reason,
                        "reason": reason,
                    }
                )
    return pd.DataFrame(rows)


def bound_trends(table: pd.DataFrame, level: float = 0.95) -> pd.DataFrame:
    r"""How the bounds of :func:`assumption_two` move with n at a fixed width: the power of n that each follows.

    The exponent is the slope of the logarithm on ln n, one for each seed, with the interval of their mean. As
    n → ∞ at fixed d extreme-value theory gives, for directions of positive density,

    .. math::
        1-\rho_2 \sim n^{-4/(d-1)}, \qquad
        1+\rho_1 \sim n^{-4/(d-1)} \text{ (half-sphere: } n^{-4/d}\text{)}, \qquad
        q_1 \sim n^{-2/d} \text{ (Gaussian)}

    so no constants ρ_2 < 1 and ρ_1 > -1, and for Gaussian tokens no q_1 > 0, serve every n. At large d these powers
    set in only at an n out of reach, and the fitted ones are local.

    Source: [*derived*](../derivations.md#extreme-values); the powers are those of the distance of n random points to
    one another, to their antipodes and to the origin.

    Args:
        table: from :func:`assumption_two`, with at least two sizes.
        level: of the interval, in (0, 1).

    Returns:
        A row for each width and bound: tokens, width, rho, bound, exponent, standard_error, low, high, limit (the
        exponent as n → ∞, NaN at d = 1), share_holding at the largest n. A single seed gives no interval: NaN.

    Raises:
        InputError: a single size.

    >>> trends = bound_trends(assumption_two("sphere", [32, 128], [2]))
    >>> trends.bound.tolist(), trends.limit.tolist()
    (['one_minus_rho_2', 'one_plus_rho_1', 'q_1', 'q_2'], [-4.0, -4.0, 0.0, 0.0])
    """
    if table.n_tokens.nunique() < 2:
        raise InputError("a trend needs a table of at least two sizes, got one; give assumption_two more sizes")
    wide = table.assign(one_plus_rho_1=(1 + table.rho_1).where(1 + table.rho_1 > _LOST))
    rows = []
    for _, part in wide.groupby(["tokens", "width", "rho"], dropna=False, sort=False):
        kind, width, rho = str(part.tokens.iloc[0]), int(part.width.iloc[0]), float(part.rho.iloc[0])
        last = part[part.n_tokens == part.n_tokens.max()]
        for bound in _BOUNDS:
            values = part.pivot(index="seed", columns="n_tokens", values=bound)
            with np.errstate(divide="ignore"):  # a bound that is reached exactly has no logarithm and is left out
                logs = np.log(values.to_numpy()).round(12)  # unit norms are 1 up to rounding
            exponent = jackknife_mean(slope(np.log(values.columns.to_numpy()), logs), level=level)
            rows.append(
                {
                    "tokens": kind,
                    "width": width,
                    "rho": rho,
                    "bound": bound,
                    "exponent": float(exponent.estimate),
                    "standard_error": float(exponent.standard_error),
                    "low": float(exponent.low),
                    "high": float(exponent.high),
                    "limit": _limit(kind, width, bound),
                    "share_holding": float(last.holds.mean()),
                }
            )
    return pd.DataFrame(rows)


def _broken(found: TokenGeometry) -> str:
    """Which inequality of Assumption 2 a token set breaks; empty if none."""
    if not found.rho_1 > 0:
        return f"smallest cosine {found.rho_1:.3g} is not above 0"
    if not found.one_minus_rho_2 > 0:
        return f"{found.duplicates} pairs of tokens have one direction"
    if not 0 < found.q_1 <= found.q_2 < math.inf:
        return f"squared norms from {found.q_1:.3g} to {found.q_2:.3g} have no positive finite bounds"
    return ""


def _inverse(one_minus_rho: float) -> float:
    return 1 / one_minus_rho if one_minus_rho > 0 else math.inf


def _limit(kind: str, width: int, bound: str) -> float:
    """The power of n that a bound follows as n → ∞ at a fixed width."""
    if kind == "simplex":
        return 0.0
    if width == 1:
        return math.nan
    if bound == "one_minus_rho_2":
        return -4 / (width - 1)
    if bound == "one_plus_rho_1":
        return -4 / width if kind == "half-sphere" else -4 / (width - 1)
    return -2 / width if kind == "gaussian" and bound == "q_1" else 0.0
