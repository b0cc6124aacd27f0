"""What a layer does to the angles between tokens: the contraction λ, over all pairs or over sampled rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlim.context.arguments import Beta, inverse_temperatures, tile_shape
from attnlim.context.attending import TILE
from attnlim.context.centred import CentredTokens
from attnlim.context.layer_directions import Directions
from attnlim.context.pair_ratios import PairRatios, pair_ratios, with_closest
from attnlim.context.row_sample import Rows, sampled_rows, unseen_share
from attnlim.context.simplex_arguments import residual_factor
from attnlim.core.checks import InputError


@dataclass(frozen=True)
class Contraction:
    """The result of :func:`contraction`: numbers for one β, arrays (n_betas,) for a sequence.

    Attributes:
        value: λ, the mean over pairs of (1 - cosine after)/(1 - cosine before), dimensionless. NaN, as every field
            about the tokens after, where the layer maps a token to 0, which has no direction.
        standard_error: of ``value``, by the jackknife over drawn rows; exactly 0 when all pairs are in, NaN for rows that
            are named, which are a choice and no sample.
        error: estimate of the rounding error of ``value``, see :func:`rounding_error`.
        fraction_contracted: pairs whose ratio is below 1 by more than it can be told, of all pairs that have one. In
            float32 a ratio is right to about 8 eps (4 + β(1-ρ̂)): frozen pairs that contract by less do not count.
        min_cosine_before: the smallest cosine between two tokens.
        min_cosine: the smallest cosine after the layer.
        worst_ratio: the largest ratio of a pair.
        worst_pair: the indices of that pair, counted from 0, ascending; (2,) or (n_betas, 2), -1 where ``value`` is NaN.
        duplicates: pairs of one direction, which have no ratio and are left out.
        n_pairs: pairs that have a ratio.

    ``each_pair=False`` leaves single pairs unknown: NaN and -1. Of sampled rows the extremes are those of the pairs
    among them: bounds from inside on those of all pairs.
    """

    value: Any
    standard_error: Any
    error: Any
    fraction_contracted: Any
    min_cosine_before: Any
    min_cosine: Any
    worst_ratio: Any
    worst_pair: Any
    duplicates: Any
    n_pairs: Any

    def at(self, k: int) -> Contraction:
        """The result at the k-th β alone."""
        return Contraction(**{name: plain(values[k]) for name, values in vars(self).items()})

    def __float__(self) -> float:
        if not isinstance(self.value, float):
            raise TypeError(f"this contraction has {len(self.value)} values, one a beta; take .value")
        return self.value


def plain(value: Any) -> Any:
    """A numpy number as Python's own, a row of two as a tuple.

    >>> plain(np.float64(0.5)), plain(np.array([1, 2]))
    (0.5, (1, 2))
    """
    return tuple(value.tolist()) if value.ndim else value.item()


def contraction(
    x: Tensor | np.ndarray,
    beta: Beta,
    alpha: float = 0.0,
    causal: bool = False,
    rows: Rows = None,
    *,
    each_pair: bool = True,
    seed: int = 0,
    tile: tuple[int, int] = TILE,
) -> Contraction:
    r"""How much a layer shrinks the angles between tokens.

    .. math::
        \lambda = \frac{2}{n(n-1)} \sum_{i<j} \frac{1 - \langle y_i', y_j'\rangle}{1 - \langle y_i, y_j\rangle},
        \qquad y_i' = x_i'/|x_i'|

    On a simplex (1-ρ')/(1-ρ); at the threshold 1/(1+3ρ) as n → ∞.

    Source: "Critical attention scaling", Figure 1. The fields beside λ are *ours*: Theorem 2.3 read for every
    pair fails at finite n.

    Assumes: K = Q = V = I, as in :func:`attnlim.context.layer`.

    Args:
        x: (n, d), tokens, tensor or array, any unit, float32 or float64; n ≥ 2, d ≥ 1, finite, no zero norm.
        beta: inverse temperature or a sequence of them, dimensionless, at least 0.
        alpha: residual factor, dimensionless, at least 0.
        causal: whether row i sees tokens 1..i alone.
        rows: None for all pairs; a number of rows to draw, at least 3; or the indices of at least 3, counted from 0. The
            pairs among these rows are then taken, each row attending to all n tokens. Few rows and heavy tails make
            ±1.96 standard errors too narrow: they held λ in 77 to 86 % of samples of 8 rows, 91 to 94 % of 32, 93 to
            94 % of 128 (docs, "sampled rows").
        each_pair: whether each ratio is looked at. If not, ``fraction_contracted``, ``min_cosine`` and ``worst_ratio``
            are NaN and ``worst_pair`` is -1; λ alone takes 75 to 95 % of the time.
        seed: of the sample.
        tile: rows and keys at a time. It does not change the result beyond rounding.

    Returns:
        A :class:`Contraction`.

    Raises:
        InputError: bad tokens, ``beta``, ``alpha`` or ``rows``, or no pair of different directions.

    Cost: about 3 n²d operations a β (2d for the layer, d for the pairs) and 10 n²; memory 2 n·d a β and a few tiles.
    With r rows r·n·2d and r²d. Pairs closer than about a thirtieth of the typical distance cost some twenty times more.
    Precision: cosines enter as half squared distances in centred coordinates, and from differences where they are
    small, so that nothing cancels; ``error`` is a first-order estimate, see :func:`rounding_error`.
    Twin: :func:`attnlim.context.naive.contraction`.

    >>> result = contraction(torch.eye(3, dtype=torch.float64), beta=0.0)    # three equal rows
    >>> result.value, result.fraction_contracted, result.n_pairs
    (0.0, 1.0, 3)
    """
    tokens = CentredTokens.of(x)
    betas, single = inverse_temperatures(beta, tokens.x.dtype)
    alpha, tile = residual_factor(alpha), tile_shape(tile)
    drawn = sampled_rows(rows, tokens.n_tokens, seed, least=3)
    unseen = unseen_share(rows, tokens.n_tokens)
    rows = None if drawn is None else drawn.to(tokens.x.device)
    directions = Directions.of(tokens, betas, alpha, causal, rows, tile)
    found = pair_ratios(directions, tile, each_pair)
    for closest in found.closest:
        wide = CentredTokens.of(tokens.x.to(directions.unit))
        chosen = closest if rows is None else rows[closest]
        precise = Directions.of(wide, betas, alpha, causal, chosen, tile)
        precise = replace(precise, closest=directions.closest[closest], ordered=directions.ordered)
        found = with_closest(found, pair_ratios(precise, tile, closest_alone=True), closest)
    result = _result(found, tokens, betas, rows, unseen, directions, each_pair)
    return result.at(0) if single else result


def rounding_error(
    value: float,
    relative: float,
    n_tokens: int,
    spread: float,
    inverse_square: float,
    inverse_half: tuple[float, float],
    rounded: float,
    few: float,
) -> float:
    r"""First-order estimate of the rounding error of λ.

    .. math::
        |\Delta\lambda| \lesssim \delta\lambda\,(1 + s\,\langle 1/h\rangle_0) + \frac{4}{\sqrt n}\sqrt{\lambda\,\nu}
        + \nu + 4 \epsilon s \mu, \qquad \nu = (\delta^2 s\, \langle 1/|x'|^2\rangle + \epsilon^2 s') \langle 1/h\rangle,
        \quad \delta = \epsilon\,(4 + \beta s)

    s' is s after the layer. An exponent βh is off by a few eps βs, so an attended mean by that times √s and a
    direction by that over |x'|, and by its own rounding. A ratio r of a pair at half distance h then changes by 2√r
    times the direction's error over √h, and by its square over h. Errors of different tokens are independent, so
    the first averages out as 1/√n, the second does not. The first summand is the rounding of h itself, where no few
    pairs make up λ; μ is there for those that do, the root mean square of r/h over √n_pairs, r being at most the
    largest h' over h.

    Source: [*derived*](../derivations.md#contraction); held by tests against float64.

    Args:
        value: λ.
        relative: δ.
        n_tokens: tokens that the pairs are made of.
        spread: s, mean squared distance from the mean direction.
        inverse_square: ⟨1/|x'|²⟩ over the tokens after the layer.
        inverse_half: ⟨1/h⟩ over the pairs that were not computed in a higher precision, and ⟨1/h⟩_0 over those of
            them whose h was not.
        rounded: ε²s', what the rounding of the directions themselves adds.
        few: 4εsμ.
    """
    every, without_close = inverse_half
    noise: float = (relative * relative * spread * inverse_square + rounded) * every
    return relative * value * (1 + spread * without_close) + 4 * math.sqrt(value * noise / n_tokens) + noise + few


def _result(
    found: PairRatios,
    tokens: CentredTokens,
    betas: Sequence[float],
    rows: Tensor | None,
    unseen: float,
    directions: Directions,
    each_pair: bool,
) -> Contraction:
    n_rows = found.row_sums.shape[1]
    met = 1 if rows is None else 2  # a sample meets each pair from both sides
    duplicates = found.duplicates // met
    n_pairs = n_rows * (n_rows - 1) // 2 - duplicates
    if n_pairs == 0:
        raise InputError("tokens must have two different directions, got one alone; give other tokens or rows")
    # rows that the layer makes equal differ by rounding, which may have either sign
    value = (found.row_sums.sum(dim=1).clamp_(min=0.0) / (met * n_pairs)).tolist()
    standard_error = [0.0] * len(betas)
    if rows is not None:
        # without row i: its pairs go, and with them the same share of the number of pairs
        total = found.row_sums.sum(dim=1, keepdim=True) / 2
        without = (total - found.row_sums) / (n_pairs * (1 - 2 / n_rows))
        standard_error = (unseen * (n_rows - 1) * without.var(dim=1, correction=0)).sqrt().tolist()
    far = found.inverse_half - found.inverse_half_close
    inverse_half = (found.inverse_half / (met * n_pairs), far / (met * n_pairs))
    of_few = math.sqrt(found.inverse_fourth / met) / (max(tokens.spread, math.ulp(0.0)) * n_pairs)
    spread, eps = tokens.spread, torch.finfo(tokens.x.dtype).eps
    error = [
        rounding_error(
            value[k],
            eps * (4 + beta * spread),
            n_rows,
            spread,
            directions.inverse_square[k],
            inverse_half,
            eps * eps * directions.spread_after[k],
            4 * eps * directions.largest_half_after[k] * of_few,
        )
        for k, beta in enumerate(betas)
    ]
    worst_pair = [_named(pair if rows is None else rows[list(pair)].tolist()) for pair in found.worst_pair]
    of_tokens = np.array(
        [
            value,
            standard_error,
            error,
            [1 - expanded / (met * n_pairs) for expanded in found.expanded],
            [max(1 - half, -1.0) for half in found.largest_half],
            found.worst_ratio,
        ]
    )
    pairs = np.array(worst_pair)
    if not each_pair:
        of_tokens[3:], pairs[:] = math.nan, -1
    for k in directions.undefined:
        of_tokens[:, k], pairs[k] = math.nan, -1
    value, standard_error, error, fraction, lowest, worst_ratio = of_tokens
    every = np.ones(len(betas), dtype=np.int64)
    before = every * max(1 - found.largest_half_before, -1.0)
    return Contraction(
        value,
        standard_error,
        error,
        fraction,
        before,
        lowest,
        worst_ratio,
        pairs,
        every * duplicates,
        every * n_pairs,
    )


def _named(pair: Sequence[int]) -> tuple[int, int]:
    return min(pair), max(pair)
