"""Slow twins: the equations as they are printed, in loops over float64 arrays, for tests and for reading."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def attend(query: Array, key: Array, x: Array, beta: float, weights: Array, causal: bool) -> tuple[Array, Array, Array]:
    """A, z and g of one head."""
    n = len(x)
    attention, z, g = np.zeros((n, n)), np.zeros_like(x), np.zeros_like(x)
    for i in range(n):
        z[i] = beta * key.T @ query @ x[i]
        seen = range(i + 1) if causal else range(n)
        largest = max(z[i] @ x[j] for j in seen)
        for j in seen:
            attention[i, j] = weights[j] * np.exp(z[i] @ x[j] - largest)
        attention[i] /= attention[i].sum()
        g[i] = sum(attention[i, j] * x[j] for j in seen)
    return attention, z, g


def forward(
    theta: Array,
    x: Array,
    beta: float,
    weights: Array | None = None,
    residual: float | None = None,
    causal: bool = False,
    post_norm: bool = False,
) -> Array:
    """Twin of :func:`attnlim.depth.forward` for one replica and one sequence: (L, H, 4, k, d) and (N, d)."""
    n_layers, n_heads = theta.shape[:2]
    weights = np.full(len(x), 1 / len(x)) if weights is None else weights / weights.sum()
    factor = 1 / (n_layers * n_heads) if residual is None else residual
    states = [np.array(x, dtype=float)]
    for r in range(n_layers):
        now = states[-1].copy()
        for query, key, value, output in theta[r]:
            _, _, g = attend(query, key, states[-1], beta, weights, causal)
            for i in range(len(x)):
                now[i] += factor * output.T @ value @ g[i]
        if post_norm:
            now *= np.sqrt(now.shape[1]) / np.linalg.norm(now, axis=1, keepdims=True)
        states.append(now)
    return np.array(states)


def adjoint(
    theta: Array, tokens: Array, terminal: Array, beta: float, weights: Array | None = None, causal: bool = False
) -> tuple[Array, Array]:
    """Twin of :func:`attnlim.depth.adjoint` for one replica and one sequence, with the residual 1/(LH)."""
    n_layers, n_heads = theta.shape[:2]
    n = tokens.shape[1]
    weights = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    costates, gradient = [np.array(terminal, dtype=float)], np.zeros_like(theta)
    for r in reversed(range(n_layers)):
        x, a = tokens[r], costates[0]
        before = a.copy()
        for h in range(n_heads):
            query, key, value, output = theta[r, h]
            attention, z, g = attend(query, key, x, beta, weights, causal)
            u = [value.T @ output @ a[i] for i in range(n)]
            w = np.array([[attention[i, j] * (x[j] - g[i]) @ u[i] for j in range(n)] for i in range(n)])
            c = [sum(w[i, j] * x[j] for j in range(n)) for i in range(n)]
            for i in range(n):
                inside = beta * query.T @ key @ c[i]
                for j in range(n):
                    inside += weights[j] / weights[i] * (attention[j, i] * u[j] + w[j, i] * z[j])
                before[i] += inside / (n_layers * n_heads)
                gradient[r, h, 0] += weights[i] * beta * key @ np.outer(c[i], x[i])
                gradient[r, h, 1] += weights[i] * beta * query @ np.outer(x[i], c[i])
                gradient[r, h, 2] += weights[i] * np.outer(output @ a[i], g[i])
                gradient[r, h, 3] += weights[i] * np.outer(value @ g[i], a[i])
        costates.insert(0, before)
    return np.array(costates), gradient
