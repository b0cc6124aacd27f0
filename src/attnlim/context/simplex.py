"""One attention layer on a simplex of tokens, exact at every n: full and causal attention."""

from __future__ import annotations

import math
from dataclasses import dataclass

from attnlim.context.simplex_arguments import (
    cosine_and_rest,
    in_float_range,
    inverse_temperature,
    residual_factor,
    squared_norm,
)
from attnlim.core.checks import InputError, cosine, whole_number
from attnlim.core.numerics import logistic


@dataclass(frozen=True)
class SimplexStep:
    """The simplex after a layer: cosine, one minus it, squared norm; and the self weight inside the layer."""

    rho: float
    one_minus_rho: float
    q: float
    self_weight: float


@dataclass(frozen=True)
class CausalPair:
    """Two rows after a causal layer: their cosine, one minus it, squared norms and self weights."""

    rho: float
    one_minus_rho: float
    q_i: float
    q_j: float
    self_weight_i: float
    self_weight_j: float


def simplex_step(
    n_tokens: int,
    rho: float | None = None,
    gamma: float | None = None,
    beta: float | None = None,
    q: float = 1.0,
    alpha: float = 0.0,
    one_minus_rho: float | None = None,
) -> SimplexStep:
    r"""The simplex that a layer makes of a simplex, at any number of tokens.

    .. math::
        p = \frac{1}{1 + (n-1) e^{-(1-\rho)\beta}},\quad b = \frac{1-p}{n-1},\quad
        c = p - b + \alpha\sqrt q,\quad S = 1 + (n-1)\rho

        q' = c^2 + 2cbS + b^2 n S, \qquad 1 - \rho' = c^2 (1-\rho)/q'

    Iterating (ρ, q) → (ρ', q') is the exact law of many layers; :func:`attnlim.context.simplex_cascade` does it.

    Source: [*derived*](../derivations.md#one-layer-on-a-simplex) for the layer x' = Σ_j A_ij y_j + α x of "Critical
    attention scaling", Assumption 1.

    Assumes: |x_i|² = q, ⟨y_i, y_j⟩ = ρ for all i ≠ j, K = Q = V = I.

    Args:
        n_tokens: tokens, at least 2; a Python int may exceed the float range.
        rho: common cosine, dimensionless, in (-1/(n-1), 1); give exactly one of ``rho`` and ``one_minus_rho``.
        gamma: β/ln n, dimensionless, at least 0; give exactly one of ``gamma`` and ``beta``.
        beta: inverse temperature, dimensionless, at least 0.
        q: squared norm, dimensionless, above 0.
        alpha: residual factor, dimensionless, at least 0.
        one_minus_rho: 1-ρ, dimensionless, in [0, n/(n-1)), for cosines that a float rounds to 1.

    Returns:
        A :class:`SimplexStep`; its ``one_minus_rho`` keeps the digits that ``1 - rho`` has lost.

    Raises:
        InputError: an argument outside its range, not exactly one of a pair, or an output whose norm leaves the float
            range (ρ ≤ 0 with n beyond 10^300, or α²q beyond 10^308).

    Precision: p, q' and 1-ρ' have a relative error of about (β + ln n) eps, the rounding of the exponent in p, down to
    ρ = -1/(n-1), as 1 + (n-1)ρ is rounded once. ρ' has it too for ρ ≥ 0; for ρ < 0, where ρ' may be 0, that
    error is absolute.

    >>> step = simplex_step(20, 0.3, gamma=1.0)
    >>> round(step.rho, 12), round(step.q, 12)
    (0.872806934023, 0.381042688418)
    >>> simplex_step(10**300, 0.5, gamma=2.0).self_weight    # at the critical γ
    0.5
    """
    n_tokens = whole_number("n_tokens", n_tokens, 2)
    rho, apart = cosine_and_rest(n_tokens, rho, one_minus_rho)
    beta = inverse_temperature(n_tokens, gamma, beta)
    residual = residual_factor(alpha) * math.sqrt(squared_norm(q))
    return next_simplex(n_tokens, rho, apart, beta, residual)


def next_simplex(n_tokens: int, rho: float, one_minus_rho: float, beta: float, residual: float) -> SimplexStep:
    """:func:`simplex_step` for arguments that are already checked; the residual is α√q.

    >>> next_simplex(4, 1.0, 0.0, 3.0, 0.5).q    # four equal tokens
    2.25
    """
    odds = log_odds(n_tokens, one_minus_rho, beta)
    p, others = logistic(odds), logistic(-odds)
    c = excess_weight(p, one_minus_rho, beta) + residual
    # bS and nb are formed as ratios, since b² underflows from n = 1e160
    b_s = others * above_least(n_tokens, rho)
    n_b = others * (n_tokens / (n_tokens - 1))
    shared = b_s * (2 * c + n_b)
    q_next = in_float_range("the squared norm after the layer", c * c + shared)
    if q_next == 0:
        raise InputError(
            "the layer's output must have a norm in the float range, got 0; take fewer tokens or rho above 0"
        )
    return SimplexStep((c * c * rho + shared) / q_next, c * c * one_minus_rho / q_next, q_next, p)


def above_least(n_tokens: int, rho: float) -> float:
    r"""ρ + 1/(n-1) = S/(n-1), by how much ρ exceeds the least cosine that n tokens can share; rounded once.

    >>> above_least(2**52 + 1, -(2.0**-52) + 2.0**-104) == 2.0**-104
    True
    """
    others = n_tokens - 1
    if rho >= 0:
        return 1 / others + rho
    # in whole numbers, as 1/(n-1) has to be rounded and may then cancel
    numerator, denominator = rho.as_integer_ratio()
    # a cosine that many layers have rounded may lie below the least
    return max(0, denominator + others * numerator) / (others * denominator)


def causal_simplex_pair(
    row_i: int,
    row_j: int,
    rho: float,
    beta: float,
    q: float = 1.0,
    alpha: float = 0.0,
) -> CausalPair:
    r"""Rows i < j of a causal layer on a simplex, exactly.

    With a = α√q, p_i the self weight among i tokens and b_i = (1-p_i)/(i-1):

    .. math::
        |x_i'|^2 = \rho(1+a)^2 + (1-\rho)\,[(p_i+a)^2 + (1-p_i)\, b_i], \qquad
        \langle x_i', x_j' \rangle = \rho(1+a)^2 + (1-\rho)\, b_j (1+a)

    A row alone has the law of :func:`simplex_step` with n → i; the rows together are a simplex no more.

    Source: [*derived*](../derivations.md#causal-pair), writing y_k = √ρ e_0 + √(1-ρ) e_k with orthonormal e; checked
    against brute force.

    Assumes: a simplex of at least j tokens, as in :func:`simplex_step`; row i sees tokens 1..i.

    Args:
        row_i: the earlier row, counted from 1.
        row_j: the later row, above ``row_i``.
        rho: common cosine, dimensionless, in (-1/(j-1), 1).
        beta: inverse temperature, dimensionless, at least 0; the row's own γ is β/ln i.
        q: squared norm, dimensionless, above 0.
        alpha: residual factor, dimensionless, at least 0.

    Returns:
        A :class:`CausalPair`.

    Raises:
        InputError: an argument outside its range, or a squared norm that leaves the float range.

    >>> pair = causal_simplex_pair(1, 2, rho=0.5, beta=0.0)    # y_1 and the mean of y_1 and y_2
    >>> pair.q_i, pair.q_j, round(pair.rho, 12) == round(0.75 / math.sqrt(0.75), 12)
    (1.0, 0.75, True)
    """
    row_i = whole_number("row_i", row_i, 1)
    row_j = whole_number("row_j", row_j, row_i + 1, advice="row_j must come after row_i")
    rho = cosine(rho, row_j)
    beta = inverse_temperature(row_j, None, beta)
    a = residual_factor(alpha) * math.sqrt(squared_norm(q))
    # no norm exceeds 1 + a: in units of it nothing leaves the float range
    unit, apart = 1 + a, 1 - rho
    odds_j = log_odds(row_j, apart, beta)
    p_j, others_j = logistic(odds_j), logistic(-odds_j) / unit
    own_j, b_j = (p_j + a) / unit, others_j * (1 / (row_j - 1))
    if row_i == 1:
        p_i, others_i, b_i, excess_i = 1.0, 0.0, 0.0, 1.0
    else:
        odds_i = log_odds(row_i, apart, beta)
        p_i, others_i = logistic(odds_i), logistic(-odds_i) / unit
        b_i = others_i * (1 / (row_i - 1))
        excess_i = excess_weight(p_i, apart, beta)
    own_i, excess_i = (p_i + a) / unit, (excess_i + a) / unit

    # u, b_j: squared norms and product of the parts along e_1..e_j; before: b_j times the number of tokens up to
    # i, between: b_j² times the number of tokens strictly between i and j
    u_i, u_j = own_i**2 + others_i * b_i, own_j**2 + others_j * b_j
    q_i, q_j = rho + apart * u_i, rho + apart * u_j
    before = others_j * ((row_i - 1) / (row_j - 1))
    between = others_j * b_j * ((row_j - 1 - row_i) / (row_j - 1))
    rho_next = (rho + apart * b_j) / math.sqrt(q_i * q_j)

    # 1-ρ' from the Gram determinant, a sum of positive terms for ρ ≥ 0, where ρ' rounds to 1
    beyond = between + own_j**2
    difference = (others_i - before) * (b_i - b_j) + (own_i - b_j) ** 2 + beyond
    determinant = u_i * beyond + before * b_j * excess_i**2
    sine_squared = apart * (rho * difference + apart * determinant) / (q_i * q_j)
    one_minus = sine_squared / (1 + rho_next) if rho_next > 0 else 1 - rho_next
    q_i, q_j = (in_float_range("the squared norm after the layer", value * unit * unit) for value in (q_i, q_j))
    return CausalPair(rho_next, one_minus, q_i, q_j, p_i, p_j)


def log_odds(n_tokens: int, one_minus_rho: float, beta: float) -> float:
    r"""ln(p/(1-p)) = (1-ρ)β - ln(n-1) of the self weight p, from arguments that are already checked.

    >>> log_odds(2, 0.5, 3.0)
    1.5
    """
    return one_minus_rho * beta - math.log(n_tokens - 1)


def excess_weight(self_weight: float, one_minus_rho: float, beta: float) -> float:
    """p - b, which is p (1 - e^{-(1-ρ)β}): without the cancellation at small β.

    >>> excess_weight(0.25, 0.5, 0.0)
    0.0
    """
    return -self_weight * math.expm1(-one_minus_rho * beta)
