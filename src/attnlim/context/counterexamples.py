r"""Two near-simplices on which one attention layer does what Theorem 2.3, read for every pair, rules out.

What does hold at every n, β and α ≥ 0, causal or not, is this (*derived*):

    **If ρ_1 ≥ 0, the smallest cosine rises.** x_i' is a sum Σ_k a_k y_k with a_k ≥ 0, so |x_i'| ≤ Σ_k a_k. With
    x_j' = Σ_l b_l y_l, every ⟨y_k, y_l⟩ is at least ρ_1, and 1 where k = l; hence
    ⟨x_i', x_j'⟩ ≥ ρ_1 Σ_k a_k Σ_l b_l + (1-ρ_1) Σ_k a_k b_k > ρ_1 |x_i'| |x_j'|.

The last step needs ρ_1 ≥ 0. Nothing of the kind holds for a pair that is not the smallest
(:func:`counterexample_pair`), nor for the smallest below zero (:func:`counterexample_smallest`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlim.context.simplex_arguments import inverse_temperature
from attnlim.core.checks import InputError, real_number, whole_number


@dataclass(frozen=True)
class Counterexample:
    """A near-simplex of two clusters, with the pair of tokens to watch, and what one layer makes of that pair.

    Attributes:
        n_tokens: tokens.
        gamma: β/ln n at which to watch, below the threshold ``gamma_low``.
        pair: the two tokens.
        before: their cosine.
        after: their cosine after a layer with α = 0, in closed form.
        rho_1: smallest cosine of the set.
        rho_2: largest.
        cosines: (4, 4), of token and token, token and cluster, within and between clusters.
    """

    n_tokens: int
    gamma: float
    pair: tuple[int, int]
    before: float
    after: float
    rho_1: float
    rho_2: float
    cosines: NDArray[np.float64]

    @property
    def gamma_low(self) -> float:
        """1/(1-ρ_1), below which attention is said to contract."""
        return 1 / (1 - self.rho_1)

    def tokens(self) -> Tensor:
        """(n_tokens, n_tokens + 2) float64, of norm 1; the pair comes first, then one cluster, then the other.

        Each cluster has its direction, and each token an axis of its own beside it.
        """
        values, vectors = np.linalg.eigh(self.cosines)
        kinds = torch.from_numpy(vectors * np.sqrt(values.clip(min=0.0)))
        half = self.n_tokens // 2 - 1
        kind = torch.tensor([0, 1] + half * [2] + half * [3])
        own = torch.from_numpy(1 - np.diag(self.cosines)).clamp_(min=0.0).sqrt_()[kind[2:]]
        tokens = torch.zeros(self.n_tokens, self.n_tokens + 2, dtype=torch.float64)
        tokens[:, :4] = kinds[kind]
        tokens[2:, 4:] = torch.diag(own)
        return tokens


def counterexample_pair(
    n_tokens: int = 2000, gamma: float = 0.67, rho_1: float = 0.1, rho_2: float = 0.95
) -> Counterexample:
    r"""A pair that comes apart below 1/(1-ρ_1): "the angle strictly shrinks" does not hold pair by pair.

    Two clusters, of cosine ρ_2 within and ρ_1 between; two tokens of cosine ρ_2 halfway between them, one a little to
    each side. Each attends more to the cluster on its side, at a ratio that grows like a power of n: the pair ends
    near the directions of the clusters, of cosine ρ_1/ρ_2, at every γ > 0 as n → ∞.

    Source: [*derived*](../derivations.md#smallest-cosine), against Theorem 2.3 of "Critical attention scaling" read for
    every pair.

    Args:
        n_tokens: tokens, even, at least 6; may exceed any memory and the float range as long as the tokens are not
            asked for.
        gamma: β/ln n, dimensionless, at least 0.
        rho_1: smallest cosine, in (0, 1).
        rho_2: largest cosine, in (ρ_1, 1), at least √ρ_1 for the two tokens to fit between.

    Returns:
        A :class:`Counterexample`.

    Raises:
        InputError: an argument outside its range, or cosines for which the four directions do not fit.

    >>> example = counterexample_pair()
    >>> example.before, round(example.after, 2), example.gamma < example.gamma_low
    (0.95, 0.69, True)
    >>> round(counterexample_pair(10**300).after, 2)
    0.11
    """
    rho_1 = real_number("rho_1", rho_1, above=0.0, below=1.0)
    rho_2 = real_number("rho_2", rho_2, above=rho_1, below=1.0)
    half_angle = math.acos(rho_1 / rho_2) / 2
    aside = math.acos(rho_2) / 2
    to_own, to_other = (math.sqrt(rho_2) * math.cos(half_angle + side * aside) for side in (-1, 1))
    if aside > half_angle or not (rho_1 <= to_other and to_own <= rho_2):
        raise InputError(
            f"a pair of cosine rho_2 = {rho_2} does not fit between clusters of cosine rho_1 = {rho_1}; raise rho_2"
        )
    return _counterexample(
        n_tokens,
        gamma,
        rho_1,
        rho_2,
        [
            [1.0, rho_2, to_own, to_other],
            [rho_2, 1.0, to_other, to_own],
            [to_own, to_other, rho_2, rho_1],
            [to_other, to_own, rho_1, rho_2],
        ],
    )


def counterexample_smallest(
    n_tokens: int = 2000, gamma: float = 0.67, rho_1: float = -0.2, rho_2: float = 0.54
) -> Counterexample:
    r"""The smallest cosine itself falls below 1/(1-ρ_1), where it is negative.

    Two clusters, of cosine ρ_2 within and ρ_1 < 0 between. Averaging over a cluster leaves its direction and drops
    what its tokens have of their own, so the cosine between the clusters goes towards ρ_1/ρ_2, which is below ρ_1
    for ρ_1 < 0 and above it for ρ_1 > 0.

    Source: [*derived*](../derivations.md#smallest-cosine), against Theorem 2.3 of "Critical attention scaling" where
    ρ_1 > 0 is not asked for.

    Args:
        n_tokens: tokens, even, at least 6; may exceed any memory and the float range as long as the tokens are not
            asked for.
        gamma: β/ln n, dimensionless, at least 0.
        rho_1: cosine between the clusters, in (-1, 0).
        rho_2: cosine within, in (-ρ_1, 1).

    Returns:
        A :class:`Counterexample`; the pair is a token of each cluster, and every such pair does the same.

    Raises:
        InputError: an argument outside its range.

    >>> example = counterexample_smallest()
    >>> example.before, round(example.after, 2), example.gamma < example.gamma_low
    (-0.2, -0.33, True)
    """
    rho_1 = real_number("rho_1", rho_1, above=-1.0, below=0.0)
    rho_2 = real_number("rho_2", rho_2, above=-rho_1, below=1.0, advice="rho_1/rho_2 has to be a cosine")
    return _counterexample(
        n_tokens,
        gamma,
        rho_1,
        rho_2,
        [
            [1.0, rho_1, rho_2, rho_1],
            [rho_1, 1.0, rho_1, rho_2],
            [rho_2, rho_1, rho_2, rho_1],
            [rho_1, rho_2, rho_1, rho_2],
        ],
    )


def _counterexample(
    n_tokens: int, gamma: float, rho_1: float, rho_2: float, cosines: list[list[float]]
) -> Counterexample:
    n_tokens = whole_number("n_tokens", n_tokens, 6)
    if n_tokens % 2:
        raise InputError(f"n_tokens must be even for two clusters of one size, got {n_tokens}; take {n_tokens + 1}")
    beta = inverse_temperature(n_tokens, gamma, None)
    between, others = np.array(cosines), n_tokens // 2 - 1
    # attention of the two tokens on the four groups, whose sizes may exceed the float range
    logits = beta * (between[:2] - 1) + np.array([0.0, 0.0, math.log(others), math.log(others)])
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    # the products of the groups' means
    means = between.copy()
    np.fill_diagonal(
        means, between.diagonal() + (1 - between.diagonal()) * np.array([1.0, 1.0, 1 / others, 1 / others])
    )
    gram = weights @ means @ weights.T
    after = float(gram[0, 1] / math.sqrt(gram[0, 0] * gram[1, 1]))
    return Counterexample(n_tokens, gamma, (0, 1), float(between[0, 1]), after, rho_1, rho_2, between)
