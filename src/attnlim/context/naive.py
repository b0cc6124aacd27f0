"""The slow twins: the same quantities in loops that follow the formulas, for reading and for tests."""

from __future__ import annotations

import math
from typing import Any

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


def layer(x: Floats, beta: float, alpha: float = 0.0, causal: bool = False) -> Floats:
    r"""The attention layer with K = Q = V = I: the twin of :func:`attnlim.context.layer`.

    .. math:: x_i' = \sum_j A_{ij}\, y_j + \alpha x_i, \qquad y_i = x_i/|x_i|

    Source: "Critical attention scaling", section 2.

    Args:
        x: (n, d), tokens, any unit, without zero norm.
        beta: inverse temperature, dimensionless, at least 0.
        alpha: residual factor, dimensionless, at least 0.
        causal: whether row i sees tokens 1..i alone.

    Returns:
        (n, d).

    >>> layer(np.eye(2), beta=math.log(3)).round(6).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    y = x / np.linalg.norm(x, axis=1, keepdims=True)
    rows = []
    for i in range(len(y)):
        weights = attention_row(y, i, beta, causal)
        rows.append(weights @ y[: len(weights)] + alpha * x[i])
    return np.array(rows)


def contraction(x: Floats, beta: float, alpha: float = 0.0, causal: bool = False) -> dict[str, Any]:
    r"""What a layer does to the angles between tokens: the twin of :func:`attnlim.context.contraction`.

    .. math::
        \lambda = \frac{2}{n(n-1)} \sum_{i<j} \frac{1 - \langle y_i', y_j'\rangle}{1 - \langle y_i, y_j\rangle},
        \qquad 1 - \langle y_i, y_j\rangle = |y_i - y_j|^2/2

    Source: "Critical attention scaling", Figure 1; the differences keep the digits of close pairs.

    Args:
        x: (n, d), tokens, any unit, without zero norm.
        beta: inverse temperature, dimensionless, at least 0.
        alpha: residual factor, dimensionless, at least 0.
        causal: whether row i sees tokens 1..i alone.

    Returns:
        A dict with the names of the twin's fields.

    >>> round(contraction(np.eye(3), beta=0.0)["value"], 9)    # three equal rows: full contraction
    0.0
    """
    y = x / np.linalg.norm(x, axis=1, keepdims=True)
    after = layer(x, beta, alpha, causal)
    after /= np.linalg.norm(after, axis=1, keepdims=True)
    ratios, pairs, before, behind, duplicates = [], [], [], [], 0
    for i in range(len(y)):
        for j in range(i + 1, len(y)):
            difference = float(((y[i] - y[j]) ** 2).sum()) / 2
            difference_after = float(((after[i] - after[j]) ** 2).sum()) / 2
            before.append(1 - difference)
            behind.append(1 - difference_after)
            if math.sqrt(2 * difference) <= 8 * np.finfo(np.float64).eps:
                duplicates += 1
                continue
            ratios.append(difference_after / difference)
            pairs.append((i, j))
    worst = int(np.argmax(ratios))
    return {
        "value": float(np.mean(ratios)),
        "fraction_contracted": float(np.mean(np.array(ratios) < 1)),
        "min_cosine_before": min(before),
        "min_cosine": min(behind),
        "worst_ratio": ratios[worst],
        "worst_pair": pairs[worst],
        "duplicates": duplicates,
    }


def jacobian(x: Floats, beta: float, alpha: float = 0.0, causal: bool = False) -> NDArray[np.float64]:
    r"""Every block of the layer's Jacobian, by the formula.

    .. math::
        J_{ij} = [A_{ij} I + \beta A_{ij} (y_j - m_i) y_i^\top + \delta_{ij} \beta C_i]\,
                 \frac{I - y_j y_j^\top}{|x_j|} + \delta_{ij}\, \alpha I, \qquad
        C_i = \sum_k A_{ik} (y_k - m_i)(y_k - m_i)^\top

    Source: [*derived*](../derivations.md#jacobian-blocks) by differentiating the layer; equal to automatic
    differentiation in the tests.

    Args:
        x: (n, d), tokens, any unit, without zero norm.
        beta: inverse temperature, dimensionless, at least 0.
        alpha: residual factor, dimensionless, at least 0.
        causal: whether row i sees tokens 1..i alone.

    Returns:
        (n, n, d, d), block [i, j] is ∂x_i'/∂x_j.

    >>> jacobian(np.array([[2.0], [3.0]]), beta=1.0, alpha=0.5)[:, :, 0, 0].tolist()    # on a line only α is left
    [[0.5, 0.0], [0.0, 0.5]]
    """
    n_tokens, width = x.shape
    norms = np.linalg.norm(x, axis=1)
    y = x / norms[:, None]
    blocks = np.zeros((n_tokens, n_tokens, width, width))
    for i in range(n_tokens):
        weights = attention_row(y, i, beta, causal)
        mean = weights @ y[: len(weights)]
        for j in range(len(weights)):
            inner = weights[j] * np.eye(width) + beta * weights[j] * np.outer(y[j] - mean, y[i])
            if i == j:
                centred = y[: len(weights)] - mean
                inner += beta * (centred.T * weights) @ centred
            blocks[i, j] = inner @ (np.eye(width) - np.outer(y[j], y[j])) / norms[j]
        blocks[i, i] += alpha * np.eye(width)
    return blocks


def jacobian_energy(x: Floats, beta: float, alpha: float = 0.0, causal: bool = False) -> dict[str, float]:
    r"""The mean squared singular value of the Jacobian: the twin of :func:`attnlim.context.jacobian_energy`.

    .. math:: \eta = |\nabla_X X'|_F^2/(nd)

    The attention part is what is left at β = α = 0 with the weights held; the residual part is what α adds to
    that, the covariance part the rest. The distance is to the Jacobian of the normalisation, of Theorem 2.5.

    Source: "Critical attention scaling", Theorems 2.4 and 2.5; the split is
    [*derived*](../derivations.md#jacobian-blocks).

    Args:
        x: (n, d), tokens, any unit, without zero norm.
        beta: inverse temperature, dimensionless, at least 0.
        alpha: residual factor, dimensionless, at least 0.
        causal: whether row i sees tokens 1..i alone.

    Returns:
        A dict with the names of the twin's fields.

    >>> round(jacobian_energy(np.eye(2), beta=0.0)["total"], 9)    # (1/2)² times rank d - 1, over nd = 4, four blocks
    0.25
    """
    n_tokens, width = x.shape
    norms = np.linalg.norm(x, axis=1)
    y = x / norms[:, None]
    blocks = jacobian(x, beta, alpha, causal)
    total = float((blocks**2).sum()) / (n_tokens * width)
    attention, residual, distance = 0.0, 0.0, 0.0
    for i in range(n_tokens):
        weights = attention_row(y, i, beta, causal)
        attention += sum(float(weights[j] / norms[j]) ** 2 * (width - 1) for j in range(len(weights)))
        residual += 2 * alpha * float(weights[i]) * (width - 1) / norms[i] + alpha**2 * width
        blocks[i, i] -= (np.eye(width) - np.outer(y[i], y[i])) / norms[i] + alpha * np.eye(width)
        distance += float((blocks[i] ** 2).sum())
    attention, residual, distance = (part / (n_tokens * width) for part in (attention, residual, distance))
    return {
        "total": total,
        "attention": attention,
        "covariance": total - attention - residual,
        "residual": residual,
        "distance": distance,
    }
