"""How many tokens each row of an attention layer attends to, without ever holding the n × n weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnlim.context.arguments import Beta, inverse_temperatures, tile_shape
from attnlim.context.attending import TILE, boltzmann, key_tiles, row_blocks
from attnlim.context.centred import CentredTokens
from attnlim.context.row_sample import Rows, sampled_rows


@dataclass(frozen=True)
class Focus:
    """Per row: entropy in nats, its exponential and 1/ΣA² in tokens; (n_rows,), or (n_betas, n_rows) for a sequence.

    ``rows`` are the rows' indices, counted from 0. Drawn ones are a simple random sample without replacement: a mean over
    them has the standard error √((1 - n_rows/n)·variance/n_rows). Rows that are named are a choice and no sample: a
    mean over them has none.
    """

    entropy: Tensor
    perplexity: Tensor
    participation: Tensor
    rows: Tensor


def focus(
    x: Tensor | np.ndarray,
    beta: Beta,
    causal: bool = False,
    rows: Rows = None,
    *,
    seed: int = 0,
    tile: tuple[int, int] = TILE,
) -> Focus:
    r"""How many tokens each row attends to.

    .. math::
        A_{ij} = \operatorname{softmax}_j(\beta \langle y_i, y_j \rangle),\qquad
        H_i = -\sum_j A_{ij} \ln A_{ij}, \qquad e^{H_i}, \qquad 1/\sum_j A_{ij}^2

    Source: the layer of "Critical attention scaling", section 2; the counts are this library's choice.

    Assumes: K = Q = V = I; y = x/|x| is formed here.

    Args:
        x: (n, d), tokens, tensor or array, any unit, float32 or float64; n ≥ 2, d ≥ 1, finite, no zero norm.
        beta: inverse temperature or a sequence of them, dimensionless, at least 0.
        causal: whether row i sees tokens 1..i alone.
        rows: None for all rows; a number of rows to draw, at least 2; or the indices of at least 2, counted from 0.
        seed: of the sample.
        tile: rows and keys at a time. It does not change the result beyond rounding.

    Returns:
        A :class:`Focus` in the dtype and on the device of ``x``, without a gradient.

    Raises:
        InputError: bad tokens, a negative, NaN or infinite ``beta``, bad ``rows``, a ``tile`` below 1.

    Cost: n_rows·n (d + about 6 a β) operations, half of it if causal; memory a few tiles, never n².
    Precision: a few eps β(1-ρ̂) absolute in H. Twin: :func:`attnlim.context.naive.focus`.

    >>> result = focus(torch.eye(4, dtype=torch.float64), beta=0.0)
    >>> result.perplexity.round(decimals=9).tolist(), result.participation.tolist()
    ([4.0, 4.0, 4.0, 4.0], [4.0, 4.0, 4.0, 4.0])
    """
    tokens, tile = CentredTokens.of(x), tile_shape(tile)
    betas, single = inverse_temperatures(beta, tokens.x.dtype)
    chosen = sampled_rows(rows, tokens.n_tokens, seed, least=2)
    chosen = (torch.arange(tokens.n_tokens) if chosen is None else chosen).to(tokens.x.device)
    entropy, participation = tokens.points.new_empty(2, len(betas), len(chosen))
    for part, index in row_blocks(chosen, tile[0]):
        # of the weights: their sum, their sum times h, the sum of their squares
        sums = tokens.points.new_zeros(3, len(betas), *index.shape)
        for _, hidden, distance, scratch in key_tiles(tokens, index, causal, tile[1]):
            room = torch.empty_like(distance)
            for k, weights in enumerate(boltzmann(distance, betas, scratch, hidden)):
                sums[0, k] += weights.sum(dim=-1)
                sums[1, k] += torch.mul(weights, distance, out=room).sum(dim=-1)
                sums[2, k] += torch.mul(weights, weights, out=room).sum(dim=-1)
        total, mean, square = sums.flatten(2)[..., : part.stop - part.start]
        heat = tokens.points.new_tensor(betas)[:, None]
        entropy[:, part] = (total.log() + heat * mean / total).clamp_(min=0.0)  # rounding may leave -eps
        participation[:, part] = total / square * total
    if single:
        entropy, participation = entropy[0], participation[0]
    return Focus(entropy, entropy.exp(), participation, chosen)
