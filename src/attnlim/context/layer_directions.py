"""The directions of tokens before and after a layer, each as offsets from their mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlim.context.arguments import directions
from attnlim.context.attending import attend
from attnlim.context.centred import CentredTokens, complete
from attnlim.context.identity_layer import mapped
from attnlim.core.checks import InputError

# of float32 tokens, pairs closer than this part are computed from outputs in float64: float32 outputs differ by a
# few eps of noise, which here is up to 1/300 of their distance
CLOSEST = (1000 * torch.finfo(torch.float32).eps) ** 2
# entries of outputs normalised at a time, so that they stay in the cache
_BLOCK_ENTRIES = 2**17


@dataclass(frozen=True)
class Directions:
    """The chosen tokens' directions before and after the layer, each time as offsets from their mean.

    Attributes:
        unit: (n_rows, d), before, float64.
        before, after: (n_rows, d+2) and (n_betas, n_rows, d+2), as points of :mod:`attnlim.context.centred`.
        closest: (n_rows,), half squared distance from which a pair is left to more precise outputs.
        inverse_square: one number a β, the mean of 1/|x_i'|², by which a direction multiplies the noise of an output.
        spread, spread_after: the mean squared distance from the mean direction before the layer, and one number a β.
        largest_half_after: one number a β, a bound on half the squared distance of a pair after the layer.
        resolution: one number a β, how near to 1 a ratio cannot be told from it.
        undefined: the k at which a token is mapped to 0, which has no direction.
        ordered: whether a row meets the later rows alone, or every other row.
    """

    unit: Tensor
    before: Tensor
    after: Tensor
    closest: Tensor
    inverse_square: list[float]
    spread: float
    spread_after: list[float]
    largest_half_after: list[float]
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
        n_rows, height = after.shape[1], max(1, _BLOCK_ENTRIES // tokens.width)
        parts = [slice(start, start + height) for start in range(0, n_rows, height)]
        unit, length = tokens.norm.new_empty(n_rows, tokens.width), tokens.norm.new_empty(n_rows)
        undefined = set()
        inverse_square: list[float] = []
        for k in range(len(betas)):
            for part in parts:
                moved = mapped(tokens, attended, k, alpha, rows, part)
                unit[part], length[part] = directions(moved)
                if not bool(torch.isfinite(length[part]).all()):
                    if not bool(torch.isfinite(moved).all()):
                        raise InputError(
                            "alpha times the tokens must be finite in float64, got an overflow; scale the tokens down"
                        )
                    undefined.add(k)
            inverse_square.append(float(length.pow(-2).mean()))
            centre = unit.mean(dim=0)
            for part in parts:
                after[k, part, :-2] = unit[part] - centre
                complete(after[k, part])
        chosen = slice(None) if rows is None else rows
        before = tokens.points[chosen]
        closest = before[:, -1].to(tokens.norm) * (CLOSEST if before.dtype == torch.float32 else 0.0)
        spread_after = (2 * after[..., -1].mean(dim=1, dtype=tokens.norm.dtype)).tolist()
        largest_half_after = (4 * after[..., -1].amax(dim=1)).clamp_(max=2.0).tolist()
        eps = torch.finfo(before.dtype).eps
        resolution = [min(8 * eps * (4 + beta * tokens.spread), 0.5) for beta in betas]
        return cls(
            tokens.unit(chosen),
            before,
            after,
            closest,
            inverse_square,
            tokens.spread,
            spread_after,
            largest_half_after,
            resolution,
            frozenset(undefined),
            rows is None,
        )
