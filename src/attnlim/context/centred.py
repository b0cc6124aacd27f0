"""Tokens in coordinates around their mean direction, in which no digit is lost however close they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnlim.context.arguments import checked_tokens, directions

# unit vectors of one direction differ by less than this in float64, whatever the lengths of the tokens
SAME_DIRECTION = 8 * torch.finfo(torch.float64).eps
# tokens converted to float64 at a time, so that the copy stays small beside the tokens
_BLOCK = 8192


@dataclass(frozen=True)
class CentredTokens:
    r"""Unit tokens y_i = centre + offset_i.

    Scores enter a softmax only through half the squared distance, which the offsets give without cancellation:

    .. math:: h_{ij} = 1 - \langle y_i, y_j\rangle = \tfrac12|c_i|^2 + \tfrac12|c_j|^2 - \langle c_i, c_j\rangle

    Its rounding error is a few eps times 1-ρ̂ in place of a few eps, so that at the critical temperature
    β ~ ln n/(1-ρ̂) an exponent is off by a few eps ln n at any ρ̂.

    Attributes:
        x: (n, d), the tokens as they came.
        norm: (n,), |x_i|, float64.
        centre: (d,), mean of the y_i, float64.
        points: (n, d+2), c_i, 1 and |c_i|²/2, in the dtype of ``x``: the form that :func:`half_distances` takes.
        spread: mean of |c_i|², dimensionless; (1-ρ̂)(n-1)/n.
    """

    x: Tensor
    norm: Tensor
    centre: Tensor
    points: Tensor
    spread: float

    @classmethod
    def of(cls, x: Tensor | np.ndarray) -> CentredTokens:
        """Check, normalise and centre tokens; in float64 throughout, rounded once at the end.

        Args:
            x: (n, d), tensor or array, float32 or float64, finite, no token of zero norm, n ≥ 2, d ≥ 1.

        Raises:
            InputError: anything else.

        >>> tokens = CentredTokens.of(np.array([[2.0, 0.0], [0.0, 3.0]]))
        >>> tokens.centre.tolist(), tokens.offset.tolist(), tokens.spread
        ([0.5, 0.5], [[0.5, -0.5], [-0.5, 0.5]], 0.5)
        """
        x = checked_tokens(x)
        n_tokens, width = x.shape
        norm = x.new_empty(n_tokens, dtype=torch.float64, device=_wide_device(x))
        total = torch.zeros(width, dtype=torch.float64, device=norm.device)
        for start in range(0, n_tokens, _BLOCK):
            unit, norm[start : start + _BLOCK] = _unit(x[start : start + _BLOCK])
            total += unit.sum(dim=0)
        centre = total / n_tokens
        points = x.new_empty(n_tokens, width + 2)
        for start in range(0, n_tokens, _BLOCK):
            part = slice(start, start + _BLOCK)
            points[part, :width] = _unit(x[part])[0] - centre
        complete(points)
        return cls(x, norm, centre, points, 2 * float(points[:, -1].mean(dtype=torch.float64)))

    @property
    def n_tokens(self) -> int:
        """n."""
        return int(self.x.shape[0])

    @property
    def width(self) -> int:
        """d."""
        return int(self.x.shape[1])

    @property
    def offset(self) -> Tensor:
        """(n, d), c_i = y_i - centre."""
        return self.points[:, : self.width]

    def unit(self, index: Tensor | slice) -> Tensor:
        """(n_rows, d), y_i in float64, on the device of ``norm``."""
        return _unit(self.x[index])[0]


def complete(points: Tensor) -> None:
    """Fill in the last two columns, 1 and half the square, of points whose first d columns are there.

    The squares are those of the rounded coordinates, so that a point's distance to itself is 0 but for the rounding
    of a product.

    >>> points = torch.tensor([[3.0, 4.0, 0.0, 0.0]])
    >>> complete(points); points.tolist()
    [[3.0, 4.0, 1.0, 12.5]]
    """
    points[..., -2] = 1.0
    points[..., -1] = torch.linalg.vecdot(points[..., :-2], points[..., :-2]) / 2


def opposite(points: Tensor) -> Tensor:
    """(..., d+2), the points as the left side of :func:`half_distances`: -c, |c|²/2 and 1.

    >>> opposite(torch.tensor([[3.0, 4.0, 1.0, 12.5]])).tolist()
    [[-3.0, -4.0, 12.5, 1.0]]
    """
    return torch.cat([-points[..., :-2], points[..., -1:], points[..., -2:-1]], dim=-1)


def half_distances(left: Tensor, points: Tensor, out: Tensor) -> Tensor:
    r"""Half the squared distances between two sets of points, as one matrix product.

    .. math:: h_{ij} = |a_i - b_j|^2/2 = (-a_i, |a_i|^2/2, 1) \cdot (b_j, 1, |b_j|^2/2)

    Args:
        left: (n_lanes, p, d+2), the :func:`opposite` of the points a.
        points: (q, d+2), the points b.
        out: (n_lanes, p, q), where to write.

    Returns:
        (n_lanes, p, q); rounding may leave a value a few eps |a|² below 0.

    >>> a, b = torch.tensor([[[1.0, 0.0, 1.0, 0.5]]]), torch.tensor([[0.0, 1.0, 1.0, 0.5], [1.0, 0.0, 1.0, 0.5]])
    >>> half_distances(opposite(a), b, torch.empty(1, 1, 2)).tolist()
    [[[1.0, 0.0]]]
    """
    torch.mm(left.reshape(-1, left.shape[-1]), points.T, out=out.view(-1, out.shape[-1]))
    return out


def _wide_device(x: Tensor) -> torch.device:
    return torch.device("cpu") if x.device.type == "mps" else x.device  # mps has no float64


def _unit(x: Tensor) -> tuple[Tensor, Tensor]:
    """y and |x| in float64."""
    return directions(x.to(_wide_device(x), torch.float64))
