"""The Jacobian of a whole stack of layers on a simplex, exact at every n by symmetry."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlim.context.simplex import above_least, excess_weight, log_odds
from attnlim.context.simplex_arguments import residual_factor
from attnlim.context.simplex_layers import Schedule, SimplexCascade, simplex_cascade
from attnlim.core.checks import InputError, whole_number
from attnlim.core.numerics import exp_or_inf, logistic

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SimplexStack:
    """After 0, 1, ..., n_layers layers: ln η, η, the largest singular value; and the simplex on the way."""

    log_eta: Floats
    eta: Floats
    largest: Floats
    cascade: SimplexCascade


def simplex_stack(
    n_tokens: int,
    n_layers: int,
    width: int,
    rho: float | None = None,
    gamma: Schedule | None = None,
    beta: Schedule | None = None,
    q: float = 1.0,
    alpha: float = 0.0,
    one_minus_rho: float | None = None,
) -> SimplexStack:
    r"""The Jacobian energy of a stack of layers on a simplex, η_l = |∂X_l/∂X_0|²/(nd), exactly.

    A layer commutes with permutations and rotations, so its Jacobian at a simplex commutes with the permutations of
    tokens and axes together. The space of small changes splits into sectors which no layer mixes:

    .. math::
        \mathbb R^n \otimes \mathbb R^d = 2\,[n] \oplus 3\,[n-1,1] \oplus [n-2,2] \oplus [n-2,1,1]
            \oplus \mathbb R^{d-n} \otimes ([n] \oplus [n-1,1])

    In each, a layer is J = LΠ/√q + α with δ = 1-ρ, k = βδ, o = 1-p, w = o/(n-1), x = p-w, h² = ρ + δ/n:

    .. math::
        [n]:\ & L = \operatorname{diag}(1,\ x + 2kpo\tfrac{n}{n-1}),\quad
            \Pi = 1 - \nu\nu^T,\ \nu = (h, \sqrt{\delta(1-1/n)}) \\
        [n-1,1]:\ & L = \begin{pmatrix} x & & \\ & 1 & -k (ow + o^2) \tfrac{\sqrt{n-2}}{n-1} \\
            & & x + k(2w + (n-2)wx) \end{pmatrix},\quad
            \nu = (h, \sqrt{\delta/n}, \sqrt{\delta(1-2/n)}) \\
        [n-2,2]:\ & L = x + 2kw, \qquad [n-2,1,1]:\ L = x, \qquad \text{beside the tokens}:\ L = 1,\ x

    Their copies number 1, n-1, n(n-3)/2, (n-1)(n-2)/2, d-n and (d-n)(n-1), so the product of nd × nd matrices is
    one of a few small ones. As n → ∞ with d ≥ n the large sectors remain, and η_L → Π_l (p_l/√q_l + α)².

    Source: [*derived*](../derivations.md#stack); equal to automatic differentiation through the stack.

    Assumes: a simplex, as in :func:`attnlim.context.simplex_step`, in d ≥ n dimensions.

    Args:
        n_tokens: tokens, at least 2; a Python int may exceed the float range.
        n_layers: layers, at least 0.
        width: dimension d of a token, at least n.
        rho: cosine at the start, dimensionless, in (-1/(n-1), 1); give exactly one of ``rho`` and ``one_minus_rho``.
        gamma: β/ln n, dimensionless, at least 0, for all layers or one a layer; give exactly one of ``gamma`` and
            ``beta``.
        beta: inverse temperature, dimensionless, at least 0, for all layers or one a layer.
        q: squared norm at the start, dimensionless, above 0.
        alpha: residual factor, dimensionless, at least 0.
        one_minus_rho: 1-ρ at the start, dimensionless, in [0, n/(n-1)).

    Returns:
        A :class:`SimplexStack`, each array (n_layers+1,); ``log_eta`` is in nats and right where ``eta`` leaves
        the float range.

    Raises:
        InputError: an argument outside its range, not exactly one of a pair, or a schedule of another length.

    Cost: O(n_layers).

    Precision: as :func:`attnlim.context.simplex_cascade` for the weights of each layer.

    >>> stack = simplex_stack(10**6, 30, 10**6, 0.5, gamma=3.0)
    >>> stack.eta[[0, 1, 30]].round(3).tolist()    # supercritical: the gradient stays
    [1.0, 0.998, 0.952]
    """
    n_tokens = whole_number("n_tokens", n_tokens, 2)
    width = whole_number("width", width, 1)
    if width < n_tokens:
        raise InputError(f"width must be at least n_tokens for a simplex, got {width} for {n_tokens} tokens")
    alpha = residual_factor(alpha)
    cascade = simplex_cascade(n_tokens, n_layers, rho, gamma, beta, q, alpha, one_minus_rho=one_minus_rho)
    sectors = _Sectors(n_tokens, width)
    log_eta, largest = [0.0], [1.0]
    for layer, layer_beta in enumerate(cascade.beta):
        sectors.pass_through(
            _layer_blocks(
                n_tokens,
                float(cascade.rho[layer]),
                float(cascade.one_minus_rho[layer]),
                float(layer_beta),
                math.sqrt(cascade.q[layer]),
                alpha,
            )
        )
        log_eta.append(sectors.log_energy())
        largest.append(sectors.largest())
    eta = [exp_or_inf(value) for value in log_eta]
    return SimplexStack(np.array(log_eta), np.array(eta), np.array(largest), cascade)


class _Sectors:
    """The product of the layers so far in each sector, as a matrix of norm 1 and the logarithm of its factor."""

    def __init__(self, n_tokens: int, width: int) -> None:
        n, d = n_tokens, width
        copies = [1, n - 1, n * (n - 3) // 2, (n - 1) * (n - 2) // 2, d - n, (d - n) * (n - 1)]
        if n == 2:
            # the third axis of [n-1,1] and the sector [n-2,2] need three tokens
            copies[2] = 0
        self.log_share = [_log_ratio(count, n * d) for count in copies]
        self.products = [np.eye(size) for size in (2, 2 if n == 2 else 3, 1, 1, 1, 1)]
        self.log_scale = [0.0] * len(copies)

    def pass_through(self, blocks: list[Floats]) -> None:
        for i, block in enumerate(blocks):
            product = block @ self.products[i]
            largest = float(np.abs(product).max())
            # of short tokens the squares leave the float range
            norm = largest * float(np.linalg.norm(product / largest)) if largest > 0 else 0.0
            self.log_scale[i] += math.log(norm) if norm > 0 else -math.inf
            self.products[i] = product / norm if norm > 0 else product

    def log_energy(self) -> float:
        norms = [float(np.linalg.norm(product)) for product in self.products]
        return float(
            np.logaddexp.reduce(
                [
                    share + 2 * (scale + math.log(norm))
                    for share, scale, norm in zip(self.log_share, self.log_scale, norms, strict=True)
                    if norm > 0
                ]
            )
        )

    def largest(self) -> float:
        norms = [float(np.linalg.norm(product, 2)) for product in self.products]
        return max(
            exp_or_inf(scale + math.log(norm))
            for share, scale, norm in zip(self.log_share, self.log_scale, norms, strict=True)
            if share > -math.inf and norm > 0
        )


def _log_ratio(count: int, whole: int) -> float:
    """ln(count/whole), where the ratio may be too small for a float."""
    if count == 0:
        return -math.inf
    return math.log(count / whole) if count / whole > 1e-300 else math.log(count) - math.log(whole)


def _layer_blocks(n: int, rho: float, apart: float, beta: float, radius: float, alpha: float) -> list[Floats]:
    """The Jacobian of one layer in each sector, in orthonormal bases which are the same for every layer.

    With y_j = √δ e_j + τu, orthonormal e and u = Σ e/√n: [n] has u ⊗ u and the rest of Σ e_j ⊗ e_j; [n-1,1] has
    f ⊗ u, u ⊗ f and the rest of Σ f_j e_j ⊗ e_j for Σ f = 0; ν is the change of length, which the norm removes.
    """
    odds = log_odds(n, apart, beta)
    p, o = logistic(odds), logistic(-odds)
    x, k = excess_weight(p, apart, beta), min(beta * apart, 1e300)
    others, all_others = 1 / (n - 1), n / (n - 1)
    w, inner = o * others, o * (1 - others)  # w, (n-2) w
    h = math.sqrt(above_least(n, rho) * ((n - 1) / n))

    side = math.sqrt(apart * ((n - 1) / n))
    tangent = np.array([side, -h])
    alike = np.outer([side, -h * (x + 2 * k * p * o * all_others)], tangent)

    normal = np.array([h, math.sqrt(apart * (1 / n)), math.sqrt(apart * ((n - 2) / n))])
    projection = np.eye(3) - np.outer(normal, normal)
    projection[0, 0] = apart * ((n - 1) / n)
    bend = math.sqrt(others) * math.sqrt(1 - others)  # √(n-2)/(n-1)
    weights = np.diag([x, 1.0, x + k * (2 * w + inner * x)])
    weights[1, 2] = -k * o * o * all_others * bend
    unlike = weights @ projection
    if n == 2:
        unlike = unlike[:2, :2]

    blocks = [alike, unlike, *(np.array([[value]]) for value in (x + 2 * k * w, x, 1.0, x))]
    return [block / radius + alpha * np.eye(len(block)) for block in blocks]
