"""The ratio of angles after and before a layer, streamed over the pairs of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from attnlim.context.attending import row_blocks
from attnlim.context.centred import SAME_DIRECTION, half_distances, opposite
from attnlim.context.layer_directions import Directions

# pairs closer than this part of a token's own half square are computed from differences: above it the matrix
# product's rounding is at most a thousand eps of their distance
CLOSE = 1e-3
# coordinates of close pairs held at a time
_PAIR_ENTRIES = 2**20


@dataclass
class PairRatios:
    """What was found among pairs of chosen tokens; lists have one entry a β, pairs are places among the chosen.

    Attributes:
        row_sums: (n_betas, n_rows), float64, sums of ratios over the pairs of a row.
        expanded: pairs whose ratio is not below 1 by more than it can be told.
        largest_half: largest half squared distance after the layer.
        worst_ratio, worst_pair: the largest ratio, and where; inside a tile first as that tile's first row and key,
            to be looked up once it is known to be the worst of all.
        largest_half_before: largest half squared distance before.
        inverse_half: sum of 1/h over the pairs, by which a ratio multiplies the noise of directions.
        inverse_half_close: the part of it from close pairs, whose h has no noise.
        inverse_fourth: sum of (s/h)^4 over the other pairs, s being the spread before.
        duplicates: pairs of one direction.
        closest: places of the tokens whose pairs were left to more precise outputs; no tensor if there are none.
    """

    row_sums: Tensor
    expanded: list[float]
    largest_half: list[float]
    worst_ratio: list[float]
    worst_pair: list[tuple[int, int]]
    in_tile: list[bool]
    largest_half_before: float = 0.0
    inverse_half: float = 0.0
    inverse_half_close: float = 0.0
    inverse_fourth: float = 0.0
    duplicates: int = 0
    closest: list[Tensor] = field(default_factory=list)


def pair_ratios(
    directions: Directions, tile: tuple[int, int], each_pair: bool = True, closest_alone: bool = False
) -> PairRatios:
    r"""Go through all pairs of the chosen tokens, tile by tile.

    .. math:: \frac{|y_i' - y_j'|^2}{|y_i - y_j|^2}

    Args:
        directions: before and after.
        tile: rows and keys at a time.
        each_pair: whether to look at each ratio; else only their sums are right.
        closest_alone: whether to take the closest pairs and no others, or all others.
    """
    every = torch.arange(len(directions.unit), device=directions.after.device)
    parts = [_of_block(directions, *block, tile[1], each_pair, closest_alone) for block in row_blocks(every, tile[0])]
    found = _joined(parts)
    for k in range(len(found.worst_pair)):
        if found.in_tile[k]:
            found.worst_pair[k] = _worst_of_tile(directions, *found.worst_pair[k], k, tile)
    return found


def with_closest(found: PairRatios, precise: PairRatios, places: Tensor) -> PairRatios:
    """Add what more precise outputs say of the closest pairs; ``places`` are their tokens' among all chosen ones."""
    row_sums = found.row_sums.index_add(1, places, precise.row_sums)
    worst_ratio, worst_pair = list(found.worst_ratio), list(found.worst_pair)
    for k, ratio in enumerate(precise.worst_ratio):
        if ratio > worst_ratio[k]:
            i, j = precise.worst_pair[k]
            worst_ratio[k], worst_pair[k] = ratio, (int(places[i]), int(places[j]))
    expanded = [one + other for one, other in zip(found.expanded, precise.expanded, strict=True)]
    return replace(found, row_sums=row_sums, expanded=expanded, worst_ratio=worst_ratio, worst_pair=worst_pair)


def _of_block(
    directions: Directions, part: slice, index: Tensor, n_keys: int, each_pair: bool, closest_alone: bool
) -> PairRatios:
    n_betas, n_rows, n_columns = directions.after.shape
    points, height = directions.before, part.stop - part.start
    left = opposite(points[index])
    row_sums = directions.unit.new_zeros(n_betas, height)
    nothing, pairs = [0.0] * n_betas, [(-1, -1)] * n_betas
    found = PairRatios(row_sums, nothing, nothing.copy(), [-1.0] * n_betas, pairs, [False] * n_betas)
    room = left.new_empty(2, index.numel() * min(n_keys, n_rows))
    kind = _EachRatio if each_pair else _RatioSums
    take = None if closest_alone else kind(directions, part, index, found)
    for start in range(part.start if directions.ordered else 0, n_rows, n_keys):
        keys = slice(start, min(start + n_keys, n_rows))
        before, spare = room[:, : index.numel() * (keys.stop - start)].view(2, *index.shape, -1)
        half_distances(left, points[keys], before)
        found.largest_half_before = max(found.largest_half_before, float(before.amax()))
        _hide_repeated(before, directions, part, index, keys)
        close_below = CLOSE * points[index, -1]
        if bool((before.amin(dim=2) <= close_below).any()):
            close = before <= close_below[..., None]
            places = close.flatten(0, 1).nonzero() + torch.tensor([part.start, start], device=before.device)
            for some in torch.tensor_split(places, 1 + len(places) * n_columns // _PAIR_ENTRIES):
                _of_close_pairs(directions, some, part.start, closest_alone, found)
            before.masked_fill_(close, torch.inf)
        if take is None:
            continue
        inverse = before.reciprocal_()
        found.inverse_half += float(inverse.sum(dim=2).sum(dtype=row_sums.dtype))
        square = torch.mul(inverse, directions.spread, out=spare).square_().view(-1)
        found.inverse_fourth += float(torch.dot(square, square))
        take.tile(inverse, keys, spare)
    if isinstance(take, _RatioSums):
        take.finish()
    return found


class _EachRatio:
    """Every ratio of a tile, one β after another."""

    def __init__(self, directions: Directions, part: slice, index: Tensor, found: PairRatios) -> None:
        self.directions, self.part, self.found = directions, part, found
        n_betas, like = len(directions.after), directions.after
        # views are made before the loops: their cost would be a third of the time
        self.left = opposite(directions.after[:, index]).unbind()
        self.summed, self.extremes = like.new_empty(2, n_betas, *index.shape), like.new_empty(2, n_betas)
        self.sums, self.expanded = (half.unbind() for half in self.summed)
        self.farthest, self.largest = (half.unbind() for half in self.extremes)

    def tile(self, inverse: Tensor, keys: slice, ratio: Tensor) -> None:
        """Take in a tile of 1/h; ``ratio`` is room for another."""
        part, found = self.part, self.found
        for k, right in enumerate(self.directions.after[:, keys].unbind()):
            half_distances(self.left[k], right, ratio)
            torch.amax(ratio, dim=(0, 1, 2), out=self.farthest[k])
            ratio *= inverse
            torch.sum(ratio, dim=2, out=self.sums[k])
            torch.amax(ratio, dim=(0, 1, 2), out=self.largest[k])
            torch.sum(ratio.ge_(1 - self.directions.resolution[k]), dim=2, out=self.expanded[k])
        sums, expanded = self.summed.flatten(2)[..., : part.stop - part.start].to(found.row_sums)
        found.row_sums += sums
        counts = expanded.sum(dim=1).tolist()
        for k, (half, worst) in enumerate(zip(*self.extremes.tolist(), strict=True)):
            found.largest_half[k] = max(found.largest_half[k], half)
            found.expanded[k] += counts[k]
            if worst > found.worst_ratio[k]:
                found.worst_ratio[k], found.worst_pair[k], found.in_tile[k] = worst, (part.start, keys.start), True


class _RatioSums:
    r"""The sums of the ratios of a row without a look at any, from one product for all β.

    .. math:: \sum_j h'_{ij}/h_{ij} = (-c'_i, h'_i, 1) \cdot \sum_j (c'_j, 1, h'_j)/h_{ij}
    """

    def __init__(self, directions: Directions, part: slice, index: Tensor, found: PairRatios) -> None:
        self.after, self.part, self.found = directions.after, part, found
        n_betas, _, n_columns = self.after.shape
        self.gathered = self.after.new_zeros(index.numel(), n_betas * n_columns)

    def tile(self, inverse: Tensor, keys: slice, spare: Tensor) -> None:
        """Take in a tile of 1/h; no room is needed."""
        right = self.after[:, keys].transpose(0, 1).flatten(1)  # no copy: so the points lie in memory
        self.gathered.addmm_(inverse.flatten(0, 1), right)

    def finish(self) -> None:
        """Put the sums of every row of the block together, once all tiles are in."""
        own = self.after[:, self.part]
        gathered = self.gathered.view(len(self.gathered), *own.shape[::2]).transpose(0, 1)[:, : own.shape[1]]
        across = torch.linalg.vecdot(own[..., :-2], gathered[..., :-2])
        self.found.row_sums += (own[..., -1] * gathered[..., -2] + gathered[..., -1] - across).to(self.found.row_sums)


def _hide_repeated(before: Tensor, directions: Directions, part: slice, index: Tensor, keys: slice) -> None:
    """Put at infinity what is no pair of its own: a token with itself, an earlier one if ordered, a repeated row."""
    if keys.start < part.stop and part.start < keys.stop:
        key = torch.arange(keys.start, keys.stop, device=before.device)
        before.masked_fill_(key <= index[..., None] if directions.ordered else key == index[..., None], torch.inf)
    before.flatten(0, 1)[part.stop - part.start :] = torch.inf


def _worst_of_tile(directions: Directions, first: int, start: int, k: int, tile: tuple[int, int]) -> tuple[int, int]:
    """The pair with the largest ratio of a tile, whose close pairs are known to have smaller ones."""
    n_rows = len(directions.unit)
    row = torch.arange(first, min(first + tile[0], n_rows), device=directions.after.device)
    keys = slice(start, min(start + tile[1], n_rows))
    before, ratio = directions.after.new_empty(2, 1, len(row), keys.stop - start)
    half_distances(opposite(directions.before[row])[None], directions.before[keys], before)
    _hide_repeated(before, directions, slice(first, first + len(row)), row[None], keys)
    before.masked_fill_(before <= CLOSE * directions.before[row, -1:], torch.inf)
    half_distances(opposite(directions.after[k, row])[None], directions.after[k, keys], ratio)
    ratio = torch.where(before < torch.inf, ratio / before, -torch.inf)
    i, j = divmod(int(ratio.argmax()), keys.stop - start)
    return first + i, start + j


def _of_close_pairs(directions: Directions, places: Tensor, first: int, closest_alone: bool, found: PairRatios) -> None:
    """The ratios of some close pairs, from differences."""
    wide = places.to(directions.unit.device)
    i, j = wide.unbind(dim=1)
    before = (directions.unit[i] - directions.unit[j]).square().sum(dim=1)
    apart = before > SAME_DIRECTION**2
    closest = apart & (before / 2 < directions.closest[i])
    if closest_alone:
        taken = closest
    else:
        taken = apart & ~closest
        found.duplicates += int((~apart).sum())
        if bool(closest.any()):
            found.closest.append(torch.unique(wide[closest]))
    before, i, places = before[taken], i[taken], places[taken.to(places.device)]
    if not len(before):
        return
    inverse_half = float((2 / before).sum())
    found.inverse_half += inverse_half
    found.inverse_half_close += inverse_half
    for k in range(len(found.expanded)):
        difference = directions.after[k, places[:, 0], :-2] - directions.after[k, places[:, 1], :-2]
        ratio = difference.to(before).square().sum(dim=1) / before
        found.row_sums[k].index_add_(0, i - first, ratio)
        found.expanded[k] += float((ratio >= 1 - directions.resolution[k]).sum())
        if float(ratio.amax()) > found.worst_ratio[k]:
            at = places[int(ratio.argmax())].tolist()
            found.worst_ratio[k], found.worst_pair[k], found.in_tile[k] = float(ratio.amax()), (at[0], at[1]), False


def _joined(parts: Sequence[PairRatios]) -> PairRatios:
    worst = [max(parts, key=lambda part: part.worst_ratio[k]) for k in range(len(parts[0].expanded))]
    closest = [places for part in parts for places in part.closest]
    return PairRatios(
        torch.cat([part.row_sums for part in parts], dim=1),
        [sum(values) for values in zip(*(part.expanded for part in parts), strict=True)],
        [max(values) for values in zip(*(part.largest_half for part in parts), strict=True)],
        [part.worst_ratio[k] for k, part in enumerate(worst)],
        [part.worst_pair[k] for k, part in enumerate(worst)],
        [part.in_tile[k] for k, part in enumerate(worst)],
        max(part.largest_half_before for part in parts),
        sum(part.inverse_half for part in parts),
        sum(part.inverse_half_close for part in parts),
        sum(part.inverse_fourth for part in parts),
        sum(part.duplicates for part in parts),
        [torch.unique(torch.cat(closest))] if closest else [],
    )
