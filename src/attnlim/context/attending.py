"""What every row attends to, streamed over tiles: one pass over the pairs serves a whole grid of temperatures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlim.context.centred import CentredTokens, half_distances, opposite
from attnlim.context.threads import over_blocks

# rows and keys of a tile: three float32 tiles stay in a core's cache, and its products are near the machine's rate
TILE = (512, 512)
# steps of a grid that are equal but for the rounding of its values
SAME_STEP = 1e-12


@dataclass(frozen=True)
class Attended:
    r"""Row sums of attention at every β.

    Attributes:
        points: (n_betas, n_rows, d+2); the first d columns are Σ_j A_ij c_j, the attended mean in coordinates around
            the centre, the others free for :func:`attnlim.context.centred.complete`.
        partition: (n_betas, n_rows), Σ_j e^{-β h_ij}: the softmax denominator over e^β, at least 1.
    """

    points: Tensor
    partition: Tensor

    @property
    def mean(self) -> Tensor:
        """(n_betas, n_rows, d)."""
        return self.points[..., :-2]


def attend(
    tokens: CentredTokens,
    betas: Sequence[float],
    causal: bool = False,
    rows: Tensor | None = None,
    tile: tuple[int, int] = TILE,
) -> Attended:
    r"""The attended mean and the softmax denominator of every row.

    .. math:: A_{ij} = e^{-\beta h_{ij}}/Z_i, \qquad Z_i = \sum_j e^{-\beta h_{ij}}, \qquad \sum_j A_{ij} c_j

    Args:
        tokens: n tokens in R^d.
        betas: inverse temperatures, dimensionless, at least 0.
        causal: whether row i sees tokens 1..i alone.
        rows: (n_rows,), indices counted from 0, ascending; None for all.
        tile: rows and keys at a time.

    Cost: n_rows·n·(2d + about 3) operations a β; memory n_rows·d·n_betas and a few tiles.
    Precision: an exponent is off by a few eps β(1-ρ̂), a mean by that times √(1-ρ̂).
    Twin: :func:`attnlim.context.naive.layer`.
    """
    n_betas = len(betas)
    chosen = torch.arange(tokens.n_tokens, device=tokens.x.device) if rows is None else rows
    attended = Attended(
        tokens.points.new_zeros(n_betas, len(chosen), tokens.width + 2),
        tokens.points.new_zeros(n_betas, len(chosen)),
    )

    def add_up(block: tuple[slice, Tensor]) -> None:
        part, index = block
        mean, partition = attended.mean[:, part], attended.partition[:, part]
        for keys, hidden, distance, scratch in key_tiles(tokens, index, causal, tile[1]):
            for k, weights in enumerate(boltzmann(distance, betas, scratch, hidden)):
                mean[k].addmm_(weights, tokens.offset[keys])
                partition[k] += weights.sum(dim=1)
        mean /= partition[..., None]

    over_blocks(add_up, list(row_blocks(chosen, tile[0])), tokens.x.device)
    return attended


def row_blocks(rows: Tensor, size: int) -> Iterator[tuple[slice, Tensor]]:
    """The rows in blocks: the place of a block among them, and its indices."""
    for start in range(0, len(rows), size):
        part = slice(start, min(start + size, len(rows)))
        yield part, rows[part]


def key_tiles(
    tokens: CentredTokens, index: Tensor, causal: bool, size: int
) -> Iterator[tuple[slice, Tensor | None, Tensor, Tensor]]:
    """Tiles for a block of rows: the keys, which entries are hidden (None: none), h_ij, and room for two tiles more.

    Memory is taken once a block: the tile holds its values until the next one is asked for.
    """
    left = opposite(tokens.points[index])
    last = int(index[-1]) + 1 if causal else tokens.n_tokens
    first = int(index[0]) if causal else last
    room = left.new_empty(3, len(index) * min(size, last))
    for start in range(0, last, size):
        keys = slice(start, min(start + size, last))
        n_keys = keys.stop - start
        tiles = room[:, : len(index) * n_keys].view(3, len(index), n_keys)
        half_distances(left, tokens.points[keys], tiles[0])
        hidden = None
        if keys.stop > first + 1:
            hidden = torch.arange(start, keys.stop, device=index.device) > index[:, None]
        yield keys, hidden, tiles[0], tiles[1:]


def boltzmann(
    distance: Tensor, betas: Sequence[float], scratch: Tensor, hidden: Tensor | None = None
) -> Iterator[Tensor]:
    r"""The weights e^{-βh} of a tile for one β after another, in one buffer.

    On a uniform grid each follows from the one before by a product, e^{-(β+δ)h} = e^{-βh} e^{-δh}.

    Args:
        distance: (p, q), h_ij.
        betas: inverse temperatures, dimensionless, at least 0.
        scratch: (2, p, q), overwritten; the weights are in its first half.
        hidden: (p, q), entries of weight 0.

    >>> tile = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    >>> [weights.round(decimals=6).tolist() for weights in boltzmann(tile, [0.0, 1.0, 2.0], torch.empty(2, 1, 2, dtype=tile.dtype))]
    [[[1.0, 1.0]], [[1.0, 0.367879]], [[1.0, 0.135335]]]
    """
    weights, factor = scratch
    step: float | None = None
    for k, beta in enumerate(betas):
        change = beta - betas[k - 1] if k else math.nan
        if step is not None and abs(change - step) <= SAME_STEP * beta:
            weights.mul_(factor)
        elif k and k + 1 < len(betas) and abs(betas[k + 1] - beta - change) <= SAME_STEP * beta:
            step = change  # a run of equal steps begins
            torch.mul(distance, -step, out=factor).exp_()
            weights.mul_(factor)
        else:
            step = None
            torch.mul(distance, -beta, out=weights).exp_()
        if hidden is not None:
            weights.masked_fill_(hidden, 0.0)
        yield weights
