"""The attention layer of the theory: K = Q = V = I, normalised tokens, a residual."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attnlim.context.arguments import Beta, inverse_temperatures, tile_shape
from attnlim.context.attending import TILE, Attended, attend
from attnlim.context.centred import CentredTokens
from attnlim.context.simplex_arguments import residual_factor
from attnlim.core.checks import InputError


def layer(
    x: Tensor | np.ndarray,
    beta: Beta,
    alpha: float = 0.0,
    causal: bool = False,
    *,
    tile: tuple[int, int] = TILE,
) -> Tensor:
    r"""One attention layer with K = Q = V = I.

    .. math::
        x_i' = \sum_j A_{ij}\, y_j + \alpha x_i, \qquad
        A_{ij} = \operatorname{softmax}_j(\beta \langle y_i, y_j \rangle), \qquad y_i = x_i/|x_i|

    Source: "Critical attention scaling", section 2.

    Args:
        x: (n, d), tokens, tensor or array, any unit, float32 or float64; n ≥ 2, d ≥ 1, finite, no zero norm.
        beta: inverse temperature or a sequence of them, dimensionless, at least 0.
        alpha: residual factor, dimensionless, at least 0.
        causal: whether row i sees tokens 1..i alone.
        tile: rows and keys at a time. It does not change the result beyond rounding.

    Returns:
        (n, d), or (n_betas, n, d) for a sequence, in the dtype and on the device of ``x``, without a gradient.

    Raises:
        InputError: bad tokens, a negative, NaN or infinite ``beta`` or ``alpha``, a ``tile`` below 1, an output that overflows.

    Cost: n²(2d + about 3) operations a β, half of it if causal; memory n·d a β and a few tiles, never n².
    Precision: a few eps β(1-ρ̂). Twin: :func:`attnlim.context.naive.layer`.

    >>> layer(torch.eye(2, dtype=torch.float64), beta=np.log(3), alpha=1.0).round(decimals=6).tolist()
    [[1.75, 0.25], [0.25, 1.75]]
    """
    tokens = CentredTokens.of(x)
    betas, single = inverse_temperatures(beta, tokens.x.dtype)
    alpha = residual_factor(alpha)
    attended = attend(tokens, betas, causal, tile=tile_shape(tile))
    after = torch.stack([mapped(tokens, attended, k, alpha).to(tokens.x) for k in range(len(betas))])
    if not bool(torch.isfinite(after).all()):
        raise InputError(
            f"alpha times the tokens must be finite in {after.dtype}, got an overflow; scale the tokens down"
        )
    return after[0] if single else after


def mapped(
    tokens: CentredTokens,
    attended: Attended,
    k: int,
    alpha: float,
    rows: Tensor | None = None,
    part: slice = slice(None),
) -> Tensor:
    """The tokens x_i' that the layer makes at the k-th β, in float64; ``part`` of the attended rows alone."""
    device = tokens.norm.device
    after = attended.mean[k, part].to(device, torch.float64) + tokens.centre
    if alpha:
        before = tokens.x[part] if rows is None else tokens.x[rows[part]]
        after += alpha * before.to(device, torch.float64)
    return after
