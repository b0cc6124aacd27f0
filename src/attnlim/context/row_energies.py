"""The squared Jacobian blocks of each row, in closed form and streamed over tiles: no automatic differentiation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlim.context.attending import attend, boltzmann, key_tiles, row_blocks
from attnlim.context.centred import CentredTokens, complete, half_distances, opposite
from attnlim.context.second_moments import EveryEntry, Probes, gram_squares

# entries of attended second moments that a block of rows holds, over all β
_MOMENTS = 2**22


@dataclass(frozen=True)
class RowEnergies:
    r"""Σ_j |J_ij|² of each row, in parts; (n_betas, n_rows), float64.

    Attributes:
        attention, covariance, residual: the three parts.
        distance: the same sum of J less the Jacobian of normalisation and residual.
        probed: (n_betas, n_probes), the covariance part's mean over rows by each probe alone; one column if exact.
    """

    attention: Tensor
    covariance: Tensor
    residual: Tensor
    distance: Tensor
    probed: Tensor


def row_energies(
    tokens: CentredTokens,
    betas: Sequence[float],
    alpha: float,
    causal: bool,
    rows: Tensor | None,
    probes: int | None,
    seed: int,
    tile: tuple[int, int],
) -> RowEnergies:
    r"""Σ_j |J_ij|² of every chosen row at every β.

    With h_ij = 1 - ⟨y_i, y_j⟩, D_ij = |y_j - m_i|²/2, r_j = |x_j| and averages ⟨·⟩ over row i of A:

    .. math::
        \sum_j |J_{ij}|^2 = \sum_j \Big(\frac{A_{ij}}{r_j}\Big)^2 \Big[(d-1) + 2\beta\big(D_{ii} - D_{ij}
        - h_{ij}(\tfrac{1+|m_i|^2}{2} - D_{ij})\big) + 2\beta^2 D_{ij} h_{ij}(2-h_{ij})\Big]
        + \frac{2 A_{ii}\beta T_i + \beta^2 F_i}{r_i^2} + \frac{2\alpha(A_{ii}(d-1) + \beta T_i)}{r_i} + \alpha^2 d

        T_i = 2\langle h\rangle - 2 D_{ii} - y_i^\top C_i y_i, \qquad F_i = |C_i|_F^2 - |C_i y_i|^2,
        \qquad C_i y_i = -(\langle h c\rangle - \langle h\rangle\langle c\rangle)

    Source: [*derived*](../derivations.md#jacobian-blocks), from the blocks in :func:`attnlim.context.naive.jacobian`,
    with the scores written as distances so that nothing cancels near the freezing point.

    Args:
        tokens, betas, causal, rows, tile: as for :func:`attnlim.context.attending.attend`.
        alpha: residual factor, dimensionless, at least 0.
        probes: None for |C_i|_F² exactly, else the number of random probes.
        seed: of the probes.
    """
    attended = attend(tokens, betas, causal, rows, tile)
    complete(attended.points)
    chosen = torch.arange(tokens.n_tokens, device=tokens.x.device) if rows is None else rows
    moments = EveryEntry(tokens) if probes is None else Probes(tokens, probes, seed)
    # the Gram way costs 2n a pair; it wins where d²/2 exceeds n
    gram = probes is None and moments.n_features > tokens.n_tokens
    n_features = 0 if gram else moments.n_features
    height = max(1, min(tile[0], _MOMENTS // (len(betas) * max(n_features, 1))))
    # relative to the shortest token, since squares of norms may leave the range of float32
    inverse_square = (tokens.norm.min() / tokens.norm).square().to(tokens.offset)

    parts, probed = [], []
    for part, index in row_blocks(chosen, height):
        n_rows = part.stop - part.start
        left = opposite(attended.points[:, part.start + _places(index, n_rows)])
        sums = _Sums.empty(tokens, len(betas), index, n_features)
        for keys, hidden, distance, scratch in key_tiles(tokens, index, causal, tile[1]):
            points = tokens.points[keys]
            features = None if gram else moments.features(keys).expand(len(index), -1, -1)
            itself = torch.arange(keys.start, keys.stop, device=index.device) == index[..., None]
            at_itself = itself if bool(itself.any()) else None
            to_mean, room = torch.empty_like(scratch)
            for k, weights in enumerate(boltzmann(distance, betas, scratch, hidden)):
                if features is not None:
                    sums.moments[k].baddbmm_(weights, features)
                half_distances(left[k], points, to_mean)
                sums.add(k, weights, distance, to_mean, room, points[:, :-2], inverse_square[keys], at_itself)
        index, sums = index.flatten()[:n_rows], sums.flat(n_rows)
        mean, partition = attended.mean[:, part], attended.partition[:, part]
        if gram:
            square = gram_squares(tokens, betas, causal, index, partition, mean, tile[1])[:, None]
        else:
            sums.moments /= partition[..., None]
            square = torch.stack([moments.squares(sums.moments[k], mean[k]) for k in range(len(betas))])
        of_rows, of_probes = _energies(tokens, betas, alpha, index, mean, partition, sums, square)
        parts.append(of_rows)
        probed.append(of_probes)
    attention, covariance, residual, distances = torch.cat(parts, dim=2)
    return RowEnergies(attention, covariance, residual, distances, torch.stack(probed).sum(dim=0) / len(chosen))


def _places(index: Tensor, n_rows: int) -> Tensor:
    """The places of a block's rows in its lanes; the last is repeated as its row is."""
    return torch.arange(index.numel(), device=index.device).clamp_(max=n_rows - 1).view(index.shape)


@dataclass
class _Sums:
    """Sums over the keys of a block of rows, with weights that are not yet divided by their sum.

    Of the weights alone: h, h c, second moments. Of their squares over r_j², without the row itself: 1, h, D, D h, D h².
    """

    distance: Tensor
    distance_offset: Tensor
    moments: Tensor
    squared: Tensor

    @classmethod
    def empty(cls, tokens: CentredTokens, n_betas: int, index: Tensor, n_features: int) -> _Sums:
        new, shape = tokens.points.new_zeros, index.shape
        return cls(
            new(n_betas, *shape),
            new(n_betas, *shape, tokens.width),
            new(n_betas, *shape, n_features),
            new(n_betas, 5, *shape),
        )

    def flat(self, n_rows: int) -> _Sums:
        """The same without lanes and repeated rows."""
        return _Sums(
            self.distance.flatten(1)[:, :n_rows],
            self.distance_offset.flatten(1, 2)[:, :n_rows],
            self.moments.flatten(1, 2)[:, :n_rows],
            self.squared.flatten(2)[..., :n_rows],
        )

    def add(
        self,
        k: int,
        weights: Tensor,
        distance: Tensor,
        to_mean: Tensor,
        one: Tensor,
        offset: Tensor,
        inverse_square: Tensor,
        itself: Tensor | None,
    ) -> None:
        torch.mul(weights, distance, out=one)
        self.distance[k] += one.sum(dim=2)
        self.distance_offset[k].baddbmm_(one, offset.expand(len(one), -1, -1))
        torch.mul(weights, weights, out=one).mul_(inverse_square)
        if itself is not None:
            one.masked_fill_(itself, 0.0)
        to_mean *= one
        squared = self.squared[k]
        squared[0] += one.sum(dim=2)
        squared[1] += one.mul_(distance).sum(dim=2)
        squared[2] += to_mean.sum(dim=2)
        squared[3] += to_mean.mul_(distance).sum(dim=2)
        squared[4] += to_mean.mul_(distance).sum(dim=2)


def _energies(
    tokens: CentredTokens,
    betas: Sequence[float],
    alpha: float,
    index: Tensor,
    mean: Tensor,
    partition: Tensor,
    sums: _Sums,
    square: Tensor,
) -> tuple[Tensor, Tensor]:
    """The four parts (4, n_betas, n_rows) and the covariance part by each probe, summed over the rows."""
    wide = tokens.norm
    offset, norm, d = tokens.offset[index].to(wide), tokens.norm[index.to(wide.device)], tokens.width
    unit, bar, z = offset + tokens.centre, mean.to(wide), partition.to(wide)
    beta = torch.tensor(betas, dtype=wide.dtype, device=wide.device)[:, None]
    own = 1 / z  # a token's distance to itself is 0
    to_mean = (offset - bar).square().sum(dim=2) / 2
    middle = (1 + (bar + tokens.centre).square().sum(dim=2)) / 2
    distance = sums.distance.to(wide) / z
    product = distance[..., None] * bar - sums.distance_offset.to(wide) / z[..., None]  # C y
    trace = 2 * distance - 2 * to_mean - (product * unit).sum(dim=2)
    squared = sums.squared.to(wide) / (z[:, None] * wide.min()) ** 2
    one, h, to, to_h, to_hh = squared.unbind(dim=1)

    bracket = 2 * beta * (to_mean * one - middle * h - to + (1 + 2 * beta) * to_h - beta * to_hh)
    in_norm = beta**2 / norm**2
    by_probe = in_norm[:, None] * (square.to(wide) - product.square().sum(dim=2)[:, None])
    energy = by_probe.mean(dim=1)
    cross = beta * trace / norm
    if d == 1:  # a line has no direction to change: what is left of these terms is rounding
        bracket, by_probe, energy, cross = (torch.zeros_like(term) for term in (bracket, by_probe, energy, cross))
    attention = (d - 1) * (one + (own / norm) ** 2)
    without_probes = bracket + 2 * own * cross / norm + 2 * alpha * cross
    residual = 2 * alpha * (d - 1) * own / norm + alpha**2 * d
    missing = 1 - own
    distance_energy = (d - 1) * one + bracket + energy + missing * ((d - 1) * missing / norm - 2 * cross) / norm
    parts = torch.stack([attention, without_probes + energy, residual.expand_as(attention), distance_energy])
    return parts, (by_probe + without_probes[:, None]).sum(dim=2)
