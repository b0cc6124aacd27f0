"""Rows of independent scores as n → ∞: the random energy model and its freezing at β_c."""

from __future__ import annotations

import math

from scipy.special import digamma

from attnlim.context.criticality import beta_c_sphere
from attnlim.core.checks import real_number, whole_number


def concentration_limit(beta_ratio: float) -> float:
    r"""The limit of the mean of Σ_j A_ij² for independent normal scores.

    .. math:: E \sum_j A_{ij}^2 \to \max(0,\ 1 - \beta_c/\beta)

    The **half-participation point**, where it is 1/2, is at β = 2β_c. Finite n lies above the limit by about
    (β_c/β) ln(4π ln n)/(4 ln n); :func:`attnlim.context.independent_row` is exact there.

    Source: after arXiv 2605.12697; the random energy model (Derrida 1981), above β_c of Poisson-Dirichlet weights.

    Assumes: n scores from N(0, σ²), β_c = √(2 ln n)/σ; or any law whose tail is exponential about its n-th part.

    Args:
        beta_ratio: β/β_c, dimensionless, at least 0.

    Returns:
        Dimensionless, in [0, 1).

    Raises:
        InputError: ``beta_ratio`` negative or NaN.

    >>> concentration_limit(0.9), concentration_limit(2.0)
    (0.0, 0.5)
    """
    ratio = _ratio(beta_ratio)
    return 1 - 1 / ratio if ratio > 1 else 0.0


def participation_exponent(beta_ratio: float) -> float:
    r"""The power of n that the participation 1/Σ A² of a typical row of independent normal scores follows.

    .. math:: 1/\sum_j A_{ij}^2 \sim n^\phi, \qquad \phi = 1 - 2b^2,\ 2(1-b)^2,\ 0 \text{ for } b = \beta/\beta_c
        \le \tfrac12,\ \le 1,\ \ge 1

    It differs from the power of e^H, which is 1-b²: the two counts disagree as they do on a simplex.

    Source: [*derived*](../derivations.md#random-rows) from Σ A² = Z(2β)/Z(β)² and the free energy of
    :func:`log_partition_exponent`.

    Assumes: independent normal scores.

    Args:
        beta_ratio: β/β_c, dimensionless, at least 0.

    Returns:
        Dimensionless, in [0, 1].

    Raises:
        InputError: ``beta_ratio`` negative or NaN.

    >>> participation_exponent(0.5), participation_exponent(1.5)
    (0.5, 0.0)
    """
    ratio = _ratio(beta_ratio)
    return 2 * log_partition_exponent(ratio) - log_partition_exponent(2 * ratio)


def entropy_exponent(beta_ratio: float) -> float:
    r"""The limit of H/ln n for independent normal scores: the power of n that e^H follows, the κ of this law.

    .. math:: H/\ln n \to \max(0,\ 1 - b^2), \qquad b = \beta/\beta_c

    Source: the random energy model (Derrida 1981).

    Assumes: independent normal scores.

    Args:
        beta_ratio: β/β_c, dimensionless, at least 0.

    Returns:
        Dimensionless, in [0, 1].

    Raises:
        InputError: ``beta_ratio`` negative or NaN.

    >>> entropy_exponent(0.5), entropy_exponent(2.0)
    (0.75, 0.0)
    """
    return max(0.0, 1 - min(_ratio(beta_ratio), 1.0) ** 2)


def frozen_entropy(beta_ratio: float) -> float:
    r"""The limit of the mean entropy of independent normal scores above β_c: frozen rows attend to a few tokens still.

    .. math:: E H \to \psi(1) - \psi(1 - \beta_c/\beta)

    with ψ the digamma function. It diverges at β_c, below which H grows as ln n: see :func:`entropy_exponent`.

    Source: [*derived*](../derivations.md#random-rows) from the size-biased pick of Poisson-Dirichlet weights, which is
    Beta(1-m, m), m = β_c/β.

    Assumes: as :func:`concentration_limit`.

    Args:
        beta_ratio: β/β_c, dimensionless, at least 0.

    Returns:
        Nats; ``inf`` at and below β_c.

    Raises:
        InputError: ``beta_ratio`` negative or NaN.

    >>> round(frozen_entropy(2.0), 4)    # 2 ln 2: four tokens
    1.3863
    """
    ratio = _ratio(beta_ratio)
    return float(digamma(1.0) - digamma(1 - 1 / ratio)) if ratio > 1 else math.inf


def log_partition_exponent(beta_ratio: float) -> float:
    r"""The limit of ln Z/ln n for independent normal scores.

    .. math:: \ln Z/\ln n \to 1 + b^2 \text{ for } b = \beta/\beta_c \le 1, \qquad 2b \text{ above}

    Source: the random energy model (Derrida 1981).

    Assumes: independent normal scores of mean 0.

    Args:
        beta_ratio: β/β_c, dimensionless, at least 0.

    Returns:
        Dimensionless, at least 1.

    Raises:
        InputError: ``beta_ratio`` negative or NaN.

    >>> log_partition_exponent(0.5), log_partition_exponent(3.0)
    (1.25, 6.0)
    """
    ratio = _ratio(beta_ratio)
    return 1 + ratio * ratio if ratio <= 1 else 2 * ratio


def log_partition_sphere(n_tokens: int, width: int, beta: float) -> float:
    r"""ln Z of the cosines between a fixed query and uniform keys, to leading order.

    .. math::
        \ln Z = \max_{0 \le s \le s^*} \big[\ln n + \tfrac{d-1}2 \ln(1-s^2) + \beta s\big], \qquad
        s = \frac{2\beta}{d-1+\sqrt{(d-1)^2 + 4\beta^2}}

    with s* = √(1 - n^{-2/(d-1)}), where the scores end, in place of s above β_c.

    Source: [*derived*](../derivations.md#random-rows): the Legendre transform of the rate I(s) = -(d-1)/2 ln(1-s²) of
    :func:`attnlim.context.beta_c_sphere`.

    Assumes: ln n large at a fixed ln n/d; what is left out is of order ln(ln n).
    :func:`attnlim.context.independent_row` is exact at finite n.

    Args:
        n_tokens: keys, at least 2.
        width: dimension d, at least 2.
        beta: inverse temperature, dimensionless, at least 0.

    Returns:
        Nats.

    Raises:
        InputError: an argument outside its range.

    >>> round(log_partition_sphere(8192, 64, 20.0), 2)
    12.04
    """
    n_tokens, width = whole_number("n_tokens", n_tokens, 2), whole_number("width", width, 2)
    beta = real_number("beta", beta, above=0.0, closed=True)
    log_n, rate = math.log(n_tokens), width - 1
    if beta >= beta_c_sphere(n_tokens, width):
        return beta * math.sqrt(-math.expm1(-2 * log_n / rate))
    s = 2 * beta / (rate + math.hypot(rate, 2 * beta))
    # 1 - s² = (d-1) s/β at the saddle, without the cancellation near s = 1
    log_rest = math.log(rate * s / beta) if beta > rate else math.log1p(-s * s)
    return log_n + rate / 2 * log_rest + beta * s


def _ratio(beta_ratio: float) -> float:
    return real_number("beta_ratio", beta_ratio, above=0.0, closed=True, advice="it is beta over beta_c")
