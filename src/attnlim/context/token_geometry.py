"""The geometry of a token set: the bounds of Assumption 2 as they are realised, and how the cosines spread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnlim.context.arguments import as_tensor, unit_tokens
from attnlim.context.centred import SAME_DIRECTION
from attnlim.context.cosine import mean_cosine
from attnlim.context.row_sample import Rows, sampled_rows, unseen_share
from attnlim.core.checks import whole_number

# below this distance from 1 a cosine is taken from differences; above, the Gram matrix has it to 1e-8 of 1 - cosine
_NEAR = 1e-6


@dataclass(frozen=True)
class TokenGeometry:
    """What Theorems 2.1 to 2.5 assume of tokens, measured; all dimensionless.

    Attributes:
        rho_hat: mean cosine over all pairs i ≠ j.
        rho_1: smallest cosine over the pairs looked at.
        rho_2: largest cosine over them.
        one_minus_rho_2: 1 - ρ_2 with the digits that ``1 - rho_2`` has lost.
        q_1: smallest squared norm.
        q_2: largest squared norm.
        score_variance: variance of a token's cosines with the others, mean over the anchors.
        score_variance_standard_error: of that mean, over drawn anchors; 0 where all tokens are, NaN for a single one and
            for those that are named, which are a choice and no sample.
        duplicates: pairs of one direction among those looked at, up to the rounding of float64.
        n_tokens: tokens.
        width: their dimension.
        n_pairs: pairs looked at, n(n-1)/2 where all tokens are anchors.
    """

    rho_hat: float
    rho_1: float
    rho_2: float
    one_minus_rho_2: float
    q_1: float
    q_2: float
    score_variance: float
    score_variance_standard_error: float
    duplicates: int
    n_tokens: int
    width: int
    n_pairs: int


def geometry(
    x: Tensor | np.ndarray,
    anchors: Rows = None,
    *,
    seed: int = 0,
    tile: int = 1024,
) -> TokenGeometry:
    r"""Mean, bounds and spread of the cosines of a token set, and the bounds of its squared norms.

    .. math::
        \rho_1 = \min_{i \ne j} \langle y_i, y_j \rangle, \quad \rho_2 = \max_{i \ne j} \langle y_i, y_j \rangle, \quad
        q_1 = \min_i |x_i|^2, \quad q_2 = \max_i |x_i|^2

        v = \frac1n \sum_i \frac1{n-1} \sum_{j \ne i} (\langle y_i, y_j \rangle - \bar s_i)^2, \qquad
        \bar s_i = \frac1{n-1} \sum_{j \ne i} \langle y_i, y_j \rangle

    v is the spread *within* rows, which is what the softmax of a row sees; the spread of the row means
    themselves is not in it.

    Source: ρ_1, ρ_2, q_1, q_2 are those of "Critical attention scaling", Assumption 2; v is *ours*.

    Args:
        x: (n, d), tokens, tensor or array, float32 or float64; n ≥ 2, d ≥ 1, finite, no zero norm.
        anchors: the tokens whose cosines with *all others* are looked at: None for all; a number of them to draw, at
            least 1; or their indices, counted from 0. Of fewer than all, ρ_1 and ρ_2 are bounds from inside: the true
            ones are no narrower. A number draws the tokens that ``rows`` of the same number and seed draws in
            :func:`attnlim.context.contraction`, which takes the pairs *among* them.
        seed: of the draw, at least 0.
        tile: rows and columns held at a time; it does not change the result beyond rounding.

    Returns:
        A :class:`TokenGeometry`.

    Raises:
        InputError: bad tokens, more anchors than tokens, an index that is not there or twice, a tile below 1.

    Cost: n²d/2 multiply-adds, or that of the anchors' rows alone; memory n·d and a few tiles, all in float64.
    Precision: float64 whatever the dtype of ``x``; near 1, where the cosine itself rounds, 1 - ρ_2 is taken from
    |y_i - y_j|²/2 and right to 1e-8 of itself. Twin: in the tests, a double loop.

    >>> shape = geometry(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]))
    >>> shape.rho_1, shape.rho_2, shape.q_2, shape.duplicates
    (0.0, 1.0, 9.0, 1)
    """
    x = as_tensor(x)
    if isinstance(x, Tensor) and x.device.type == "mps":  # has no float64
        x = x.cpu()
    if isinstance(x, Tensor) and x.dtype == torch.float32:
        x = x.double()
    y = unit_tokens(x)
    n_tokens, width = y.shape
    tile = whole_number("tile", tile, 1)
    squares = x.detach().square().sum(dim=1)
    rho_hat = mean_cosine(y)
    row_mean = (y @ y.sum(dim=0) - 1) / (n_tokens - 1)
    order, n_rows = _anchors_first(n_tokens, anchors, seed)
    if n_rows < n_tokens:
        y, row_mean = y[order.to(y.device)], row_mean[order.to(y.device)]

    margin = 2 * (width + 8) * torch.finfo(torch.float64).eps  # what rounding may do to an entry of the Gram matrix
    smallest, nearest, duplicates = torch.inf, torch.inf, 0
    spread = y.new_zeros(n_tokens)  # Σ_j (s_ij - ρ̂)² of each row
    for i, j in _tiles(n_rows, n_tokens, tile):
        stop = min(i + tile, n_rows)
        cosines = y[i:stop] @ y[j : j + tile].T
        hidden = torch.ones_like(cosines, dtype=torch.bool).tril_() if i == j else None  # each pair once
        smallest = min(smallest, float(_without(cosines, hidden, torch.inf).min()))
        shown = _without(cosines, hidden, -torch.inf)
        gap = 1 - float(shown.max())
        if gap > min(nearest, _NEAR) + margin:
            nearest = min(nearest, gap)
        else:
            distance = torch.cdist(y[i:stop], y[j : j + tile], compute_mode="donot_use_mm_for_euclid_dist")
            distance = _without(distance, hidden, torch.inf)
            nearest = min(nearest, float(distance.min()) ** 2 / 2)
            duplicates += int((distance <= SAME_DIRECTION).sum())
        squared = _without(cosines.sub_(rho_hat).square_(), hidden, 0.0)
        spread[i : i + squared.shape[0]] += squared.sum(dim=1)
        spread[j : j + squared.shape[1]] += squared.sum(dim=0)

    within = (spread / (n_tokens - 1) - (row_mean - rho_hat).square_())[:n_rows].clamp_(min=0.0)
    nearest = 0.0 if duplicates else nearest
    return TokenGeometry(
        rho_hat=rho_hat,
        rho_1=max(smallest, -1.0),
        rho_2=1 - nearest,
        one_minus_rho_2=nearest,
        q_1=float(squares.min()),
        q_2=float(squares.max()),
        score_variance=float(within.mean()),
        score_variance_standard_error=_standard_error(within, unseen_share(anchors, n_tokens)),
        duplicates=duplicates,
        n_tokens=n_tokens,
        width=width,
        n_pairs=n_rows * (n_tokens - 1) - n_rows * (n_rows - 1) // 2,
    )


def _anchors_first(n_tokens: int, anchors: Rows, seed: int) -> tuple[Tensor, int]:
    """The tokens in an order in which the anchors come first, and the number of these."""
    every = torch.arange(n_tokens)
    chosen = sampled_rows(anchors, n_tokens, seed, least=1, name="anchors")
    if chosen is None:
        return every, n_tokens
    rest = torch.ones(n_tokens, dtype=torch.bool)
    rest[chosen] = False
    return torch.cat([chosen, every[rest]]), len(chosen)


def _tiles(n_rows: int, n_tokens: int, tile: int) -> Iterator[tuple[int, int]]:
    """First row and column of the tiles that cover every pair i < j with i < ``n_rows``."""
    for i in range(0, n_rows, tile):
        for j in range(i, n_tokens, tile):
            yield i, j


def _without(cosines: Tensor, hidden: Tensor | None, value: float) -> Tensor:
    return cosines if hidden is None else cosines.masked_fill(hidden, value)


def _standard_error(per_anchor: Tensor, unseen: float) -> float:
    """Of their mean; NaN of a single one, which shows no spread."""
    if unseen == 0:
        return 0.0
    return float((per_anchor.var() * unseen / len(per_anchor)).sqrt()) if len(per_anchor) > 1 else torch.nan
