"""Rows with one leading score among random ones: β_c between the laws √ln n and ln n, in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

from attnlim.core.checks import real_number, whole_number


@dataclass(frozen=True)
class PlantedScores:
    """By how much a token's own score leads the others' mean, and the variance of the others; dimensionless."""

    gap: float
    variance: float


def bridge_scores(rho: float, width: int, epsilon: float, cosine_variance: float = 0.0) -> PlantedScores:
    r"""The law of a row of scores ⟨y_j, K^T Q y_i⟩ with K^T Q = (1-ε) I + ε G and G_ab ~ N(0, 1/d).

    On a simplex y_j = √ρ e_0 + √(1-ρ) e_j, so ⟨y_j, G y_i⟩ is a part that all keys of the row share, which softmax
    does not see, and independent normal parts of variance (1-ρ)/d:

    .. math:: gap = (1-\varepsilon)(1-\rho), \qquad v = \varepsilon^2 (1-\rho)/d + (1-\varepsilon)^2 v_{cos}

    The token's own score has the same noise.

    Source: [*derived*](../derivations.md#bridge); exact on a simplex (v_cos = 0). v_cos adds the scatter of the cosines
    of other tokens.

    Args:
        rho: mean cosine of two different tokens, dimensionless, in (-1, 1).
        width: dimension d, at least 1.
        epsilon: share ε of the noise, dimensionless, in [0, 1].
        cosine_variance: variance of the other cosines within a row, dimensionless, at least 0.

    Returns:
        :class:`PlantedScores`.

    Raises:
        InputError: an argument outside its range.

    >>> bridge_scores(0.5, 2, 0.5)
    PlantedScores(gap=0.25, variance=0.0625)
    """
    apart = 1 - real_number("rho", rho, above=-1.0, below=1.0)
    width = whole_number("width", width, 1)
    share = real_number("epsilon", epsilon, above=0.0, below=1.0, closed=True)
    scatter = real_number("cosine_variance", cosine_variance, above=0.0, closed=True)
    return PlantedScores((1 - share) * apart, share * share * apart * (1 / width) + (1 - share) ** 2 * scatter)


def bridge_beta_c(n_tokens: int, rho: float, width: int, epsilon: float, cosine_variance: float = 0.0) -> float:
    r"""β_c of a row on the bridge from ε = 0, where it grows as ln n, to ε = 1, where it grows as √ln n.

    .. math::
        \beta_c = \frac{2\ln n}{gap + \sqrt{gap^2 - 2v\ln n}} \text{ while } 2 v \ln n \le gap^2, \qquad
        \beta_c = \sqrt{2 \ln n/v} \text{ beyond}

    In the first range the leading score takes half of the row there; in the second the largest of the random scores
    passes it, and the row freezes on those as independent scores do. Both are one at the turn.

    Source: [*derived*](../derivations.md#bridge): n e^{β²v/2} of the others against e^{β gap}, as in
    :func:`attnlim.context.half_weight_gamma`; the random energy model beyond.

    Assumes: large n, the law of :func:`bridge_scores`.

    Args:
        n_tokens: tokens, at least 2.
        rho: mean cosine of two different tokens, dimensionless, in (-1, 1).
        width: dimension d, at least 1.
        epsilon: share ε of the noise, dimensionless, in [0, 1].
        cosine_variance: variance of the other cosines within a row, dimensionless, at least 0.

    Returns:
        Dimensionless, above 0.

    Raises:
        InputError: an argument outside its range.

    >>> [round(bridge_beta_c(4096, 0.5, 64, epsilon), 1) for epsilon in (0.0, 0.4, 0.6, 1.0)]    # highest in between
    [16.6, 29.5, 76.9, 46.1]
    """
    scores = bridge_scores(rho, width, epsilon, cosine_variance)
    log_n = math.log(whole_number("n_tokens", n_tokens, 2))
    excess = scores.gap**2 - 2 * scores.variance * log_n
    if excess >= 0:
        return 2 * log_n / (scores.gap + math.sqrt(excess))
    return math.sqrt(2 * log_n / scores.variance)


def bridge_power(n_tokens: int, rho: float, width: int, epsilon: float, cosine_variance: float = 0.0) -> float:
    r"""The power of ln n that β_c follows on the bridge, locally at n.

    .. math::
        \frac{d \ln\beta_c}{d \ln\ln n} = 1 + \frac{x}{2\sqrt{1-x}\,(1+\sqrt{1-x})} \text{ for }
        x = \frac{2v\ln n}{gap^2} < 1, \qquad \tfrac12 \text{ beyond}

    It does not go from 1 to 1/2 by what lies between: it rises above 1 towards the turn, and then falls to 1/2.

    Source: [*derived*](../derivations.md#bridge) from :func:`bridge_beta_c`.

    Args:
        n_tokens: tokens, at least 2.
        rho: mean cosine of two different tokens, dimensionless, in (-1, 1).
        width: dimension d, at least 1.
        epsilon: share ε of the noise, dimensionless, in [0, 1].
        cosine_variance: variance of the other cosines within a row, dimensionless, at least 0.

    Returns:
        Dimensionless.

    Raises:
        InputError: an argument outside its range.

    >>> bridge_power(4096, 0.5, 64, 0.0), bridge_power(4096, 0.5, 64, 1.0)
    (1.0, 0.5)
    """
    scores = bridge_scores(rho, width, epsilon, cosine_variance)
    log_n = math.log(whole_number("n_tokens", n_tokens, 2))
    filled = 2 * scores.variance * log_n
    if filled >= scores.gap**2:
        return 0.5
    x = filled / scores.gap**2
    root = math.sqrt(1 - x)
    return 1 + x / (2 * root * (1 + root))


def bridge_turn(rho: float, width: int, epsilon: float, cosine_variance: float = 0.0) -> float:
    r"""ln n at which β_c turns from the law ln n to the law √ln n.

    .. math:: \ln n = \frac{gap^2}{2v} = \frac{(1-\varepsilon)^2 (1-\rho)\, d}{2 \varepsilon^2} \text{ at } v_{cos} = 0

    At a fixed width any noise wins in the end; at the contexts in use only a large share of it does.

    Source: [*derived*](../derivations.md#bridge) from :func:`bridge_beta_c`.

    Args:
        rho: mean cosine of two different tokens, dimensionless, in (-1, 1).
        width: dimension d, at least 1.
        epsilon: share ε of the noise, dimensionless, in [0, 1].
        cosine_variance: variance of the other cosines within a row, dimensionless, at least 0.

    Returns:
        Nats; ``inf`` without noise.

    Raises:
        InputError: an argument outside its range.

    >>> bridge_turn(0.5, 64, 0.5)    # beyond n = e^16
    16.0
    """
    scores = bridge_scores(rho, width, epsilon, cosine_variance)
    return scores.gap**2 / (2 * scores.variance) if scores.variance > 0 else math.inf
