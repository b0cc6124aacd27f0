"""How many tokens a row of a simplex attends to, in closed form at every n."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from attnlim.context.simplex import log_odds
from attnlim.context.simplex_arguments import inverse_temperature
from attnlim.core.checks import InputError, cosine, whole_number
from attnlim.core.numerics import exp_or_inf, log_logistic, logistic


@dataclass(frozen=True)
class SimplexFocus:
    """Entropy in nats, its exponential, and 1/ΣA², both in tokens."""

    entropy: float
    perplexity: float
    participation: float


def simplex_focus(n_tokens: int, rho: float, gamma: float | None = None, beta: float | None = None) -> SimplexFocus:
    r"""How many tokens a row of a simplex attends to.

    .. math::
        H = -p \ln p - (1-p) \ln\frac{1-p}{n-1}, \qquad 1/\sum_j A_{ij}^2 = 1/(p^2 + (1-p)^2/(n-1))

    The two counts disagree where a row is split: at p = 1/2 they are 2√(n-1) and almost 4.
    Row i of a causal layer has the same focus with n → i.

    Source: [*derived*](../derivations.md#one-layer-on-a-simplex) from the simplex row (p, b, ..., b).

    Assumes: a simplex, as in :func:`attnlim.context.simplex.simplex_step`.

    Args:
        n_tokens: tokens, at least 2; a Python int may exceed the float range.
        rho: common cosine, dimensionless, in (-1/(n-1), 1).
        gamma: β/ln n, dimensionless, at least 0; give exactly one of ``gamma`` and ``beta``.
        beta: inverse temperature, dimensionless, at least 0.

    Returns:
        A :class:`SimplexFocus`; the counts are ``inf`` beyond the float range, the entropy is finite.

    Raises:
        InputError: an argument outside its range, or not exactly one of ``gamma`` and ``beta``.

    >>> uniform = simplex_focus(100, 0.5, beta=0.0)
    >>> round(uniform.perplexity, 9), round(uniform.participation, 9)
    (100.0, 100.0)
    """
    n_tokens = whole_number("n_tokens", n_tokens, 2)
    rho = cosine(rho, n_tokens)
    odds = log_odds(n_tokens, 1 - rho, inverse_temperature(n_tokens, gamma, beta))
    p, others = logistic(odds), logistic(-odds)
    # all three terms are positive: no digits are lost at p near 0 or 1
    entropy = -p * log_logistic(odds) - others * log_logistic(-odds) + others * math.log(n_tokens - 1)
    concentration = p * p + others * others * (1 / (n_tokens - 1))
    participation = 1 / concentration if concentration > 0 else math.inf
    return SimplexFocus(entropy, exp_or_inf(entropy), participation)


def simplex_kappa(n_tokens: Sequence[int], rho: float, gamma: float) -> float:
    r"""The focus exponent of a simplex over a range of finite n.

    .. math:: \kappa = \frac{d \ln e^H}{d \ln n}, \text{ the least-squares slope of } H \text{ on } \ln n

    At finite n it may leave [0, 1]: the transition passes through the range as n grows at a fixed γ.

    Source: the exponent is this library's own definition; the entropy is that of :func:`simplex_focus`.

    Args:
        n_tokens: at least two different numbers of tokens, each at least 2.
        rho: common cosine, dimensionless, in (-1/(n-1), 1).
        gamma: β/ln n, dimensionless, at least 0.

    Returns:
        Dimensionless.

    Raises:
        InputError: fewer than two different sizes, or an argument outside its range.

    >>> octaves = [512, 1024, 2048, 4096, 8192]
    >>> [round(simplex_kappa(octaves, 0.5, gamma), 2) for gamma in (1.0, 2.0, 2.5)]
    [1.02, 0.5, -0.13]
    """
    sizes = [whole_number("n_tokens", n, 2) for n in n_tokens]
    if len(set(sizes)) < 2:
        raise InputError(f"n_tokens must hold at least two different sizes to fit a slope, got {sizes}")
    log_n = [math.log(n) for n in sizes]
    entropy = [simplex_focus(n, rho, gamma).entropy for n in sizes]
    centre = math.fsum(log_n) / len(sizes)
    spread = math.fsum((x - centre) ** 2 for x in log_n)
    return math.fsum((x - centre) * h for x, h in zip(log_n, entropy, strict=True)) / spread
