"""The slow twins: the same quantities in loops that follow the formulas, for reading and for tests."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def attention_row(y: Floats, row: int, beta: float, causal: bool = False) -> Floats:
    r"""One row of attention weights of unit tokens.

    .. math:: A_{ij} = e^{\beta\langle y_i, y_j\rangle}/\sum_k e^{\beta\langle y_i, y_k\rangle}

    Source: "Critical attention scaling", section 2.

    Args:
        y: (n, d), unit tokens.
        row: i, counted from 0.
        beta: inverse temperature, dimensionless, at least 0.
        causal: whether the sums run over k ≤ i alone.

    Returns:
        (n,) or, if causal, (i+1,), dimensionless, with sum 1.

    >>> attention_row(np.eye(2), 0, beta=math.log(3)).round(6).tolist()
    [0.75, 0.25]
    """
    visible = row + 1 if causal else len(y)
    scores = np.array([beta * float(y[row] @ y[j]) for j in range(visible)])
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())


def focus(x: Floats, beta: float, causal: bool = False) -> tuple[Floats, Floats, Floats]:
    r"""Entropy, perplexity and participation of each row: the twin of :func:`attnlim.context.focus`.

    .. math:: H_i = -\sum_j A_{ij} \ln A_{ij}, \qquad e^{H_i}, \qquad 1/\sum_j A_{ij}^2

    Source: as the twin.

    Args:
        x: (n, d), tokens, any unit, without zero norm.
        beta: inverse temperature, dimensionless, at least 0.
        causal: whether row i sees tokens 1..i alone.

    Returns:
        Three arrays (n,): nats, tokens, tokens.

    >>> entropy, perplexity, participation = focus(np.eye(3), beta=0.0)
    >>> perplexity.round(9).tolist(), participation.round(9).tolist()
    ([3.0, 3.0, 3.0], [3.0, 3.0, 3.0])
    """
    y = x / np.linalg.norm(x, axis=1, keepdims=True)
    entropy, participation = [], []
    for row in range(len(y)):
        weights = attention_row(y, row, beta, causal)
        entropy.append(-sum(float(a) * math.log(a) for a in weights if a > 0))
        participation.append(1 / sum(float(a) ** 2 for a in weights))
    return np.array(entropy), np.exp(entropy), np.array(participation)


def critical_multiplier(scores: Floats, k_min: int = 10) -> float:
    r"""The gap count of one row: the twin of :func:`attnlim.context.critical_multiplier`.

    .. math:: b_c = \max_{k \ge k_{\min}} \ln(k)/(z_{(1)} - z_{(k)})

    Source: as the twin.

    Args:
        scores: (n_keys,), dimensionless; ``-inf`` marks a hidden key.
        k_min: the smallest rank that counts, at least 2.

    Returns:
        Dimensionless; ``inf`` where the ``k_min`` largest are equal, NaN with fewer visible keys than that.

    >>> round(critical_multiplier(np.array([1.0] + 99 * [0.5])), 6)
    9.21034
    """
    ordered = sorted((float(z) for z in scores if z > -math.inf), reverse=True)
    if len(ordered) < k_min:
        return math.nan
    best = 0.0
    for k in range(k_min, len(ordered) + 1):
        gap = ordered[0] - ordered[k - 1]
        best = max(best, math.log(k) / gap if gap > 0 else math.inf)
    return best
