"""The Jacobian energy η of one attention layer on a simplex, exact at every n: full and causal attention."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlim.context.simplex_arguments import (
    cosine_and_rest,
    in_float_range,
    inverse_temperature,
    residual_factor,
    squared_norm,
)
from attnlim.core.checks import InputError, whole_number

MOST_CAUSAL_ROWS = 10**9
ROWS_AT_ONCE = 2**18

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SimplexJacobian:
    """η, its three parts that sum to it, and the distance of Theorem 2.5; all dimensionless."""

    total: float
    attention: float
    covariance: float
    residual: float
    distance: float


def simplex_jacobian(
    n_tokens: int,
    width: int,
    rho: float | None = None,
    gamma: float | None = None,
    beta: float | None = None,
    q: float = 1.0,
    alpha: float = 0.0,
    causal: bool = False,
    one_minus_rho: float | None = None,
) -> SimplexJacobian:
    r"""The mean squared singular value of a layer's Jacobian on a simplex.

    With δ = 1-ρ, p the self weight, o = 1-p, w = o/(n-1), k = δβ and P_i = I - y_i y_i^T:

    .. math::
        \eta = \tfrac{1}{nd} |\nabla_X X'|_F^2 = \tfrac1{qd} \big[(p^2 + ow)(d-1)
            + 2ko\,(p(1-2w) + \rho(p^2 - w + w^2)) + \Phi\big]
            + \tfrac{2\alpha}{d\sqrt q} \big[p(d-1) + ko(1-w+\rho p)\big] + \alpha^2

        \Phi = k^2 \big[\rho p^2 (o^2 + ow) + (2+\rho)\, ow\, (p^2 + (1-w)^2 + (n-2) w^2)\big]

    **attention** collects the terms with neither β nor α, **covariance** those with β (that is, with k),
    **residual** the rest. The distance is |J - blockdiag(P_i/√q) - αI|²/(nd), which vanishes as n → ∞ above γ_c.

    Source: [*derived*](../derivations.md#simplex-energy) from the layer of "Critical attention scaling", with C_i = δ E
    (diag(a) - a a^T) E^T for the row a = (p, w, ..., w) and orthonormal E; the distance is that of its Theorem 2.5.

    Assumes: |x_i|² = q and ⟨y_i, y_j⟩ = ρ for i ≠ j. Such tokens need d ≥ n; d enters only through traces, so at
    a smaller d the value is formal, the line to draw beside measured tokens of that width.

    Args:
        n_tokens: tokens, at least 2; a Python int may exceed the float range.
        width: dimension d of a token, at least 1.
        rho: common cosine, dimensionless, in (-1/(n-1), 1); give exactly one of ``rho`` and ``one_minus_rho``.
        gamma: β/ln n, dimensionless, at least 0; give exactly one of ``gamma`` and ``beta``.
        beta: inverse temperature, dimensionless, at least 0.
        q: squared norm, dimensionless, above 0.
        alpha: residual factor, dimensionless, at least 0.
        causal: whether row i sees tokens 1..i alone; η is then the mean over rows of the formula with n → i.
        one_minus_rho: 1-ρ, dimensionless, in [0, n/(n-1)), for cosines that a float rounds to 1.

    Returns:
        A :class:`SimplexJacobian`; the distance is NaN for d < n, where no tokens have it.

    Raises:
        InputError: an argument outside its range, not exactly one of a pair, more than 10^9 causal rows, or an η that
            leaves the float range.

    Cost: O(1); causal O(n) time, 0.1 μs a row, in blocks of rows.

    Precision: relative error about (β + ln n) eps, the rounding of the exponent in p, for 0 ≤ ρ < 1.

    >>> round(simplex_jacobian(20, 20, 0.3, gamma=1.0).total, 12)
    0.169830333534
    >>> round(simplex_jacobian(10**300, 10**300, 0.5, gamma=2.0, q=2.0).total, 12)    # (1 - 1/d)/(4q)
    0.125
    """
    n_tokens = whole_number("n_tokens", n_tokens, 2)
    if causal and n_tokens > MOST_CAUSAL_ROWS:
        raise InputError(f"a causal layer is summed over its rows, at most {MOST_CAUSAL_ROWS}, got {n_tokens}")
    width = whole_number("width", width, 1)
    rho, apart = cosine_and_rest(n_tokens, rho, one_minus_rho)
    beta = inverse_temperature(n_tokens, gamma, beta)
    q, alpha = squared_norm(q), residual_factor(alpha)
    k = min(apart * beta, 1e300)  # beyond it, all weights of others are 0 anyway
    if not causal:
        return SimplexJacobian(*_parts(_full_row(n_tokens, k), width, rho, apart, q, alpha, width >= n_tokens))
    means = np.zeros(5)
    for first in range(1, n_tokens + 1, ROWS_AT_ONCE):
        last = min(first + ROWS_AT_ONCE - 1, n_tokens)
        parts = _parts(_causal_rows(first, last, k), width, rho, apart, q, alpha, width >= n_tokens)
        means += np.array(parts) * ((last - first + 1) / n_tokens)
    return SimplexJacobian(*(float(part) for part in means))


def _parts(
    rows: _Rows, width: int, rho: float, apart: float, q: float, alpha: float, embedded: bool
) -> tuple[float, float, float, float, float]:
    """The fields of the result, mean over the rows; every term is divided by d, which may exceed the float range."""
    per_width, traceless, radius = 1 / width, (width - 1) / width, math.sqrt(q)
    attention = _mean(rows.p**2 + rows.o * rows.w) * traceless / q
    own_trace = _mean(rows.ko * (rows.rest + rho * rows.p))
    crossed = rows.excess * (1 + rows.excess) + apart * (rows.w * rows.rest - rows.p**2)
    linear = 2 * _mean(rows.ko * crossed)
    quadratic = _mean(_quadratic(rows, rho))
    covariance = (linear + quadratic) * per_width / q + 2 * alpha * own_trace * per_width / radius
    residual = 2 * alpha * _mean(rows.p) * traceless / radius + alpha * alpha
    distance = math.nan
    if embedded:
        missing = _mean(rows.o**2 + rows.o * rows.w) * traceless
        crossed = rows.o * (rows.rest + rho * rows.p) + rows.w * (rows.p + rho * rows.rest)
        distance = (missing + (quadratic - 2 * _mean(rows.ko * crossed)) * per_width) / q
    total = in_float_range("eta", attention + covariance + residual)
    return total, attention, covariance, residual, distance


def _mean(values: Floats) -> float:
    return float(values.mean())


@dataclass(frozen=True)
class _Rows:
    """Rows (p, w, ..., w) of attention: one stands for all of a full layer, a causal layer has n of them."""

    p: Floats
    o: Floats
    w: Floats
    rest: Floats  # 1 - w
    excess: Floats  # p - w
    ko: Floats
    kw: Floats
    inverse: Floats  # 1/(n-1)
    inner: Floats  # (n-2) w


def _full_row(n_tokens: int, k: float) -> _Rows:
    """The one row of full attention, with k = (1-ρ)β; n may exceed the float range."""
    others = n_tokens - 1
    return _rows(np.array([math.log(others)]), np.array([1 / others]), k)


def _causal_rows(first: int, last: int, k: float) -> _Rows:
    """Rows ``first`` to ``last`` of causal attention, counted from 1; the first of all has no others."""
    others = np.arange(first - 1, last, dtype=np.float64)
    alone = others == 0
    log_others = np.log(others, out=np.full_like(others, -np.inf), where=~alone)
    return _rows(log_others, np.divide(1, others, out=np.zeros_like(others), where=~alone), k)


def _rows(log_others: Floats, inverse: Floats, k: float) -> _Rows:
    """Rows that see e^{log_others} others; o and w keep their digits where p rounds to 1."""
    odds = k - log_others
    p, o = np.exp(-np.logaddexp(0, -odds)), np.exp(-np.logaddexp(0, odds))
    w = o * inverse
    rest = np.where(inverse == 1, p, 1 - w)
    excess = np.where(np.isinf(log_others), p, -p * math.expm1(-k))
    return _Rows(p, o, w, rest, excess, k * o, k * w, inverse, o * (1 - inverse))


def _quadratic(rows: _Rows, rho: float) -> Floats:
    """Φ. All terms are positive for ρ ≥ 0, and each is formed from ko and kw, which vanish where k is large."""
    own = rho * (rows.p * rows.ko) ** 2 * (1 + rows.inverse)
    shared = rows.p**2 + rows.rest**2 + rows.w * rows.inner
    return own + rows.ko * rows.kw * shared * (2 + rho)
