"""The ratio of angles after and before a layer, streamed over the pairs of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from attnlim.context.attending import attend, row_blocks
from attnlim.context.centred import SAME_DIRECTION, CentredTokens, complete, half_distances, opposite
from attnlim.context.identity_layer import mapped
from attnlim.core.checks import InputError

# pairs closer than this part of a token's own half square are computed from differences: above it the matrix
# product's rounding is at most a thousand eps of their distance
CLOSE = 1e-3
# of float32 tokens, pairs closer than this part are computed from outputs in float64: float32 outputs differ by a
# few eps of noise, which here is up to 1/300 of their distance
CLOSEST = (1000 * torch.finfo(torch.float32).eps) ** 2
# coordinates of close pairs held at a time
_PAIR_ENTRIES = 2**20


@dataclass(frozen=True)
class Directions:
    """The chosen tokens' directions before and after the layer, each time as offsets from their mean.

    Attributes:
        unit: (n_rows, d), before, float64.
        before, after: (n_rows, d+2) and (n_betas, n_rows, d+2), as points of :mod:`attnlim.context.centred`.
        closest: (n_rows,), half squared distance from which a pair is left to more precise outputs.
        inverse_square: one number a β, the mean of 1/|x_i'|², by which a direction multiplies the noise of an output.
        spread_after: one number a β, the mean squared distance from the mean direction after the layer.
        resolution: one number a β, how near to 1 a ratio cannot be told from it.
        undefined: the k at which a token is mapped to 0, which has no direction.
        ordered: whether a row meets the later rows alone, or every other row.
    """

    unit: Tensor
    before: Tensor
    after: Tensor
    closest: Tensor
    inverse_square: list[float]
    spread_after: list[float]
    resolution: list[float]
    undefined: frozenset[int]
    ordered: bool

    @classmethod
    def of(
        cls,
        tokens: CentredTokens,
        betas: Sequence[float],
        alpha: float,
        causal: bool,
        rows: Tensor | None,
        tile: tuple[int, int],
    ) -> Directions:
        """Apply the layer at every β; ``rows`` are ascending indices, None for all tokens."""
        attended = attend(tokens, betas, causal, rows, tile)
        after = attended.points  # written over: at 10^5 tokens the means of a grid take hundreds of megabytes
        undefined = set()
        inverse_square: list[float] = []
        for k in range(len(betas)):
            moved = mapped(tokens, attended, k, alpha, rows)
            largest = moved.abs().amax(dim=1, keepdim=True)
            if not bool(torch.isfinite(largest).all()):
                raise InputError(
                    "alpha times the tokens must be finite in float64, got an overflow; scale the tokens down"
                )
            if bool((largest == 0).any()):
                undefined.add(k)
            moved /= largest  # first, so that no square overflows
            length = torch.linalg.vector_norm(moved, dim=1, keepdim=True)
            inverse_square.append(float((length * largest).pow(-2).mean()))
            moved /= length
            moved -= moved.mean(dim=0)
            after[k, :, :-2] = moved
            complete(after[k])
        chosen = slice(None) if rows is None else rows
        before = tokens.points[chosen]
        closest = before[:, -1].to(tokens.norm) * (CLOSEST if before.dtype == torch.float32 else 0.0)
        spread_after = (2 * after[..., -1].mean(dim=1, dtype=tokens.norm.dtype)).tolist()
        eps = torch.finfo(before.dtype).eps
        resolution = [min(8 * eps * (4 + beta * tokens.spread), 0.5) for beta in betas]
        return cls(
            tokens.unit(chosen),
            before,
            after,
            closest,
            inverse_square,
            spread_after,
            resolution,
            frozenset(undefined),
            rows is None,
        )


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
    duplicates: int = 0
    closest: list[Tensor] = field(default_factory=list)


def pair_ratios(directions: Directions, tile: tuple[int, int], closest_alone: bool = False) -> PairRatios:
    r"""Go through all pairs of the chosen tokens, tile by tile.

    .. math:: \frac{|y_i' - y_j'|^2}{|y_i - y_j|^2}

    Args:
        directions: before and after.
        tile: rows and keys at a time.
        closest_alone: whether to take the closest pairs and no others, or all others.
    """
    every = torch.arange(len(directions.unit), device=directions.after.device)
    parts = [_of_block(directions, *block, tile[1], closest_alone) for block in row_blocks(every, tile[0])]
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


def _of_block(directions: Directions, part: slice, index: Tensor, n_keys: int, closest_alone: bool) -> PairRatios:
    n_betas, n_rows, n_columns = directions.after.shape
    points, after, height = directions.before, directions.after, part.stop - part.start
    left, left_after = opposite(points[index]), opposite(after[:, index])
    row_sums = directions.unit.new_zeros(n_betas, height)
    nothing, pairs = [0.0] * n_betas, [(-1, -1)] * n_betas
    found = PairRatios(row_sums, nothing, nothing.copy(), [-1.0] * n_betas, pairs, [False] * n_betas)
    room = left.new_empty(2, index.numel() * min(n_keys, n_rows))
    # views are made before the loops: their cost would be a third of the time
    lefts, summed = left_after.unbind(), left.new_empty(2, n_betas, *index.shape)
    (sums, expanded), extremes = (half.unbind() for half in summed), left.new_empty(2, n_betas)
    farthest, largest = (half.unbind() for half in extremes)
    for start in range(part.start if directions.ordered else 0, n_rows, n_keys):
        keys = slice(start, min(start + n_keys, n_rows))
        before, ratio = room[:, : index.numel() * (keys.stop - start)].view(2, *index.shape, -1)
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
        if closest_alone:
            continue
        inverse = before.reciprocal_()
        found.inverse_half += float(inverse.sum(dim=2).sum(dtype=row_sums.dtype))
        for k, right in enumerate(after[:, keys].unbind()):
            half_distances(lefts[k], right, ratio)
            torch.amax(ratio, dim=(0, 1, 2), out=farthest[k])
            ratio *= inverse
            torch.sum(ratio, dim=2, out=sums[k])
            torch.amax(ratio, dim=(0, 1, 2), out=largest[k])
            torch.sum(ratio.ge_(1 - directions.resolution[k]), dim=2, out=expanded[k])
        row_sums += summed[0].flatten(1)[:, :height]
        counts = summed[1].flatten(1).sum(dim=1, dtype=row_sums.dtype).tolist()
        for k, (half, worst) in enumerate(zip(*extremes.tolist(), strict=True)):
            found.largest_half[k] = max(found.largest_half[k], half)
            found.expanded[k] += counts[k]
            if worst > found.worst_ratio[k]:
                found.worst_ratio[k], found.worst_pair[k], found.in_tile[k] = worst, (part.start, start), True
    return found


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
        sum(part.duplicates for part in parts),
        [torch.unique(torch.cat(closest))] if closest else [],
    )
