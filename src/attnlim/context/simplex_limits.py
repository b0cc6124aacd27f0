"""What the simplex does as n → ∞: the three phases, the threshold, the window in which it is blurred."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from attnlim.context.simplex_arguments import in_float_range, inverse_temperature, residual_factor, squared_norm
from attnlim.core.checks import InputError, cosine, one_of, real_number, whole_number
from attnlim.core.numerics import log_add_exp

SELF_WEIGHTS = {"subcritical": 0.0, "critical": 0.5, "supercritical": 1.0}


@dataclass(frozen=True)
class SimplexLimit:
    """The simplex after a layer as n → ∞, and the phase that it is in."""

    phase: str
    rho: float
    one_minus_rho: float
    q: float
    self_weight: float


def simplex_limit(
    rho: float,
    gamma: float | None = None,
    phase: str | None = None,
    q: float = 1.0,
    alpha: float = 0.0,
) -> SimplexLimit:
    r"""The limit of a simplex after one layer at β = γ ln n.

    .. math::
        p_\infty = 0, \tfrac12, 1 \text{ for } \gamma <, =, > \gamma_c, \qquad
        \rho'_\infty = \frac{\rho(1+a)^2}{\rho(1+a)^2 + (1-\rho)(p_\infty+a)^2}, \quad a = \alpha\sqrt q

    At α = 0 these are 1, 4ρ/(1+3ρ) and ρ.

    Source: "Critical attention scaling", Theorem 2.1 (α = 0); the form with α > 0 is
    [*derived*](../derivations.md#limits).

    Assumes: a simplex with 0 < ρ < 1. At ρ = 0 the cosine has another threshold, at γ = 1/2.

    Args:
        rho: common cosine, dimensionless, in (0, 1).
        gamma: β/ln n, dimensionless, at least 0; critical means |γ(1-ρ) - 1| ≤ 4 eps.
        phase: "subcritical", "critical" or "supercritical", instead of ``gamma``.
        q: squared norm, dimensionless, above 0.
        alpha: residual factor, dimensionless, at least 0.

    Returns:
        A :class:`SimplexLimit`.

    Raises:
        InputError: an argument outside its range, not exactly one of ``gamma`` and ``phase``, or a squared norm after
            the layer that leaves the float range.

    >>> [round(simplex_limit(0.3, phase=name, q=2.0, alpha=0.7).rho, 6) for name in SELF_WEIGHTS]
    [0.633932, 0.43326, 0.3]
    """
    rho = _positive_cosine(rho, "at rho <= 0 there is another threshold, at gamma = 1/2")
    if (gamma is None) == (phase is None):
        raise InputError(f"give exactly one of gamma and phase, got gamma={gamma!r} and phase={phase!r}")
    if gamma is not None:
        phase = _phase(rho, real_number("gamma", gamma, above=0.0, closed=True))
    phase = one_of("phase", phase, SELF_WEIGHTS)
    residual = residual_factor(alpha) * math.sqrt(squared_norm(q))
    self_weight = SELF_WEIGHTS[phase]
    # in units of (1 + a)², which may leave the float range where the ratios do not
    own = (1 - rho) * ((self_weight + residual) / (1 + residual)) ** 2
    q_next = in_float_range("the squared norm after the layer", (rho + own) * (1 + residual) * (1 + residual))
    return SimplexLimit(phase, rho / (rho + own), own / (rho + own), q_next, self_weight)


def critical_gamma(rho: float) -> float:
    r"""The threshold in γ.

    .. math:: \gamma_c = 1/(1-\rho)

    Source: "Critical attention scaling", Theorem 2.1.

    Args:
        rho: common cosine, dimensionless, in (-1, 1); a measured mean cosine may be negative.

    Returns:
        Dimensionless, above 1/2.

    Raises:
        InputError: ``rho`` outside (-1, 1).

    >>> critical_gamma(0.5)
    2.0
    """
    return 1 / (1 - real_number("rho", rho, above=-1.0, below=1.0))


def window_coordinate(n_tokens: int, rho: float, gamma: float) -> float:
    r"""The coordinate in which the self weights of all n fall on one curve, p → logistic(t).

    .. math:: t = (\gamma(1-\rho) - 1) \ln n

    Source: [*derived*](../derivations.md#critical-window); p differs from logistic(t) by p(1-p)/n to first order.

    Args:
        n_tokens: tokens, at least 2.
        rho: common cosine, dimensionless, in (-1/(n-1), 1).
        gamma: β/ln n, dimensionless, at least 0.

    Returns:
        Nats; 0 at the threshold.

    Raises:
        InputError: an argument outside its range.

    >>> window_coordinate(10**6, 0.5, gamma=2.0)
    0.0
    """
    n_tokens = whole_number("n_tokens", n_tokens, 2)
    rho = cosine(rho, n_tokens)
    gamma = real_number("gamma", gamma, above=0.0, closed=True)
    return (gamma * (1 - rho) - 1) * math.log(n_tokens)


def window_width(n_tokens: int, rho: float, low: float = 0.1, high: float = 0.9) -> float:
    r"""The width in γ over which the self weight goes from ``low`` to ``high``; exact at every n.

    .. math:: \Delta\gamma = \frac{\operatorname{logit}(high) - \operatorname{logit}(low)}{(1-\rho)\ln n}

    Nothing is sharp at a real context length: the width falls only as 1/ln n.

    Source: [*derived*](../derivations.md#critical-window); the log-odds of p are linear in γ.

    Args:
        n_tokens: tokens, at least 2.
        rho: common cosine, dimensionless, in (-1/(n-1), 1).
        low, high: self weights, dimensionless, 0 < low < high < 1.

    Returns:
        Dimensionless, above 0.

    Raises:
        InputError: an argument outside its range.

    >>> round(window_width(10**6, 0.5), 2)
    0.64
    """
    n_tokens = whole_number("n_tokens", n_tokens, 2)
    rho = cosine(rho, n_tokens)
    low = real_number("low", low, above=0.0, below=1.0)
    high = real_number("high", high, above=low, below=1.0, advice="high is a self weight above low")
    return (math.log(high / (1 - high)) - math.log(low / (1 - low))) / ((1 - rho) * math.log(n_tokens))


def log_partition(n_tokens: int, rho: float, gamma: float | None = None, beta: float | None = None) -> float:
    r"""The logarithm of the softmax denominator of a simplex row.

    .. math:: \ln Z = \ln(e^{\beta} + (n-1) e^{\rho\beta})

    Source: "Critical attention scaling", the denominator before Theorem 2.1.

    Args:
        n_tokens: tokens, at least 2.
        rho: common cosine, dimensionless, in (-1/(n-1), 1).
        gamma: β/ln n, dimensionless, at least 0; give exactly one of ``gamma`` and ``beta``.
        beta: inverse temperature, dimensionless, at least 0.

    Returns:
        Nats.

    Raises:
        InputError: an argument outside its range, or not exactly one of ``gamma`` and ``beta``.

    >>> round(log_partition(100, 0.5, beta=0.0), 6)    # ln 100
    4.60517
    """
    n_tokens = whole_number("n_tokens", n_tokens, 2)
    rho = cosine(rho, n_tokens)
    beta = inverse_temperature(n_tokens, gamma, beta)
    return log_add_exp(beta, math.log(n_tokens - 1) + rho * beta)


def log_partition_limit(rho: float, gamma: float) -> float:
    r"""The limit of ln Z/ln n as n → ∞, whose kink is the transition.

    .. math:: \lim \ln Z/\ln n = \max(\gamma, 1 + \rho\gamma)

    Source: "Critical attention scaling", the denominator before Theorem 2.1.

    Args:
        rho: common cosine, dimensionless, in [0, 1).
        gamma: β/ln n, dimensionless, at least 0.

    Returns:
        Dimensionless.

    Raises:
        InputError: an argument outside its range.

    >>> log_partition_limit(0.5, 1.0), log_partition_limit(0.5, 3.0)
    (1.5, 3.0)
    """
    if rho != 0:
        rho = _positive_cosine(rho, "a negative cosine is impossible as n grows without bound")
    gamma = real_number("gamma", gamma, above=0.0, closed=True)
    return max(gamma, 1 + rho * gamma)


def _positive_cosine(rho: float, reason: str) -> float:
    return real_number("rho", rho, above=0.0, below=1.0, advice=reason)


def _phase(rho: float, gamma: float) -> str:
    excess = gamma * (1 - rho) - 1
    if abs(excess) <= 4 * sys.float_info.epsilon:
        return "critical"
    return "subcritical" if excess < 0 else "supercritical"
