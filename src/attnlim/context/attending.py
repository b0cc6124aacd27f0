"""What every row attends to, streamed over tiles: one pass over the pairs serves a whole grid of temperatures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from attnlim.context.centred import CentredTokens, half_distances, opposite

# rows and keys of a tile: three float32 tiles of this size fit into the caches of two cores
TILE = (512, 512)
# a tile's rows in lanes: a batch of products that cores take one each, faster than one product split among them
LANES = 8
# from this width on the weights of many β make one product with the keys; below it a tile is better used while in cache
WIDE, STACKED = 256, 16
# below this a weight would become a denormal number, a hundred times slower; that many of them still vanish
FLOOR = {torch.float32: 1e-30, torch.float64: 1e-280}
# products after which a weight is computed afresh, so that their rounding does not grow with the grid
AFRESH = 16
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
    chosen = torch.arange(tokens.n_tokens, device=tokens.x.device) if rows is None else rows
    attended = Attended(
        tokens.points.new_empty(len(chosen), len(betas), tokens.width + 2).transpose(0, 1),
        tokens.points.new_empty(len(betas), len(chosen)),
    )
    stacked = min(len(betas), STACKED) if tokens.width >= WIDE else 1
    for part, index in row_blocks(chosen, tile[0]):
        n_rows = part.stop - part.start
        # views are made before the loops: their cost would be a third of the time
        mean = tokens.points.new_zeros(len(betas), *index.shape, tokens.width)
        alone, together = mean.unbind(), [some.view(-1, tokens.width) for some in torch.split(mean, stacked)]
        partition = tokens.points.new_zeros(len(betas), *index.shape)
        tile_sums = torch.empty_like(partition)
        sums = tile_sums.unbind()
        for keys, hidden, distance, scratch in key_tiles(tokens, index, causal, tile[1], stacked):
            offset = tokens.offset[keys]
            of_lanes = offset.expand(len(index), -1, -1)
            for k, weights in enumerate(boltzmann(distance, betas, scratch, hidden)):
                torch.sum(weights, dim=2, out=sums[k])
                if stacked == 1:
                    alone[k].baddbmm_(weights, of_lanes)
                elif (k + 1) % stacked == 0 or k + 1 == len(betas):
                    n_filled = k % stacked + 1
                    together[k // stacked].addmm_(scratch[:n_filled].view(-1, len(offset)), offset)
            partition += tile_sums
        attended.partition[:, part] = partition.flatten(1)[:, :n_rows]
        for k in range(len(betas)):
            total = attended.partition[k, part, None]
            torch.div(mean[k].flatten(0, 1)[:n_rows], total, out=attended.mean[k, part])
    return attended


def row_blocks(rows: Tensor, size: int) -> Iterator[tuple[slice, Tensor]]:
    """The rows in blocks: the place of a block among them, and its indices in lanes (n_lanes, height).

    The last row is repeated where the lanes do not come out even.

    >>> [(part, index.tolist()) for part, index in row_blocks(torch.arange(11), 9)]
    [(slice(0, 9, None), [[0, 1], [2, 3], [4, 5], [6, 7], [8, 8]]), (slice(9, 11, None), [[9], [10]])]
    """
    for start in range(0, len(rows), size):
        part = slice(start, min(start + size, len(rows)))
        height = -(-(part.stop - start) // LANES)
        n_lanes = -(-(part.stop - start) // height)
        place = torch.arange(start, start + n_lanes * height, device=rows.device)
        yield part, rows[place.clamp_(max=part.stop - 1)].view(n_lanes, height)


def key_tiles(
    tokens: CentredTokens, index: Tensor, causal: bool, size: int, stacked: int = 1
) -> Iterator[tuple[slice, Tensor | None, Tensor, Tensor]]:
    """Tiles for a block of rows: the keys, which entries are hidden (None: none), h_ij, and room for 1 + stacked more.

    A tile is (n_lanes, height, n_keys). Memory is taken once a block: it holds its values until the next is asked for.
    """
    left = opposite(tokens.points[index])
    last = int(index[-1, -1]) + 1 if causal else tokens.n_tokens
    first = int(index[0, 0]) if causal else last
    n_entries = (2 + stacked) * index.numel()  # for each key
    room = left.new_empty(n_entries * min(size, last))
    for start in range(0, last, size):
        keys = slice(start, min(start + size, last))
        # a narrower last tile is contiguous too: stacked weights are multiplied as one matrix
        tiles = room[: n_entries * (keys.stop - start)].view(2 + stacked, *index.shape, -1)
        half_distances(left, tokens.points[keys], tiles[0]).clamp_(min=0.0)
        # a token's distance to itself is no rounding error, however large β
        place = index.flatten() - start
        inside = (place >= 0) & (place < keys.stop - start)
        tiles[0].view(len(place), -1)[inside, place[inside]] = 0.0
        hidden = None
        if keys.stop > first + 1:
            hidden = torch.arange(start, keys.stop, device=index.device) > index[..., None]
        yield keys, hidden, tiles[0], tiles[1:]


def boltzmann(
    distance: Tensor, betas: Sequence[float], scratch: Tensor, hidden: Tensor | None = None
) -> Iterator[Tensor]:
    r"""The weights e^{-βh} of a tile for one β after another.

    On a uniform grid each follows from the one before by a product, e^{-(β+δ)h} = e^{-βh} e^{-δh}.

    Args:
        distance: (..., q), h_ij.
        betas: inverse temperatures, dimensionless, at least 0.
        scratch: (1 + stacked, ..., q), overwritten; the weights come in its tiles by turns, the last one left out.
        hidden: (..., q), entries of weight 0.

    >>> tile = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    >>> scratch = torch.empty(2, 1, 2, dtype=torch.float64)
    >>> [weights.round(decimals=6).tolist() for weights in boltzmann(tile, [0.0, 1.0, 2.0], scratch)]
    [[[1.0, 1.0]], [[1.0, 0.367879]], [[1.0, 0.135335]]]
    """
    *places, factor = scratch
    floor = FLOOR[distance.dtype]
    # beyond this β some weight is below the floor
    deepest = -math.log(floor) / max(float(distance.amax()), 1e-9)
    uniform = _rises_evenly(betas)
    if uniform:
        torch.mul(distance, betas[0] - betas[1], out=factor).exp_()
        if betas[1] - betas[0] > deepest:
            factor.clamp_(min=floor)
    for k, beta in enumerate(betas):
        weights = places[k % len(places)]
        if uniform and k % AFRESH:
            torch.mul(places[(k - 1) % len(places)], factor, out=weights)
        else:
            torch.mul(distance, -beta, out=weights).exp_()
        if beta > deepest:
            weights.clamp_(min=floor)
        if hidden is not None:
            weights.masked_fill_(hidden, 0.0)
        yield weights


def _rises_evenly(betas: Sequence[float]) -> bool:
    steps = [after - before for before, after in pairwise(betas)]
    return len(steps) > 1 and min(steps) > 0 and max(steps) - min(steps) <= SAME_STEP * betas[-1]
