"""Tokens in coordinates around their mean direction, in which no digit is lost however close they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnlim.context.arguments import checked_tokens

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
        offset: (n, d), c_i = y_i - centre, in the dtype of ``x``.
        half_square: (n,), |c_i|²/2, in the dtype of ``x``.
        spread: mean of |c_i|², dimensionless; (1-ρ̂)(n-1)/n.
    """

    x: Tensor
    norm: Tensor
    centre: Tensor
    offset: Tensor
    half_square: Tensor
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
        offset, half_square = torch.empty_like(x), x.new_empty(n_tokens)
        spread = 0.0
        for start in range(0, n_tokens, _BLOCK):
            part = slice(start, start + _BLOCK)
            wide = _unit(x[part])[0] - centre
            offset[part] = wide
            # of the rounded offset, so that a token's distance to itself is 0 up to the rounding of the product
            square = offset[part].to(wide).square().sum(dim=1)
            half_square[part] = square / 2
            spread += float(square.sum())
        return cls(x, norm, centre, offset, half_square, spread / n_tokens)

    @property
    def n_tokens(self) -> int:
        """n."""
        return int(self.x.shape[0])

    @property
    def width(self) -> int:
        """d."""
        return int(self.x.shape[1])

    def unit(self, index: Tensor | slice) -> Tensor:
        """(n_rows, d), y_i in float64, on the device of ``norm``."""
        return _unit(self.x[index])[0]


def half_distances(
    offset: Tensor, half_square: Tensor, other: Tensor, other_half_square: Tensor, out: Tensor | None = None
) -> Tensor:
    r"""Half the squared distances between two sets of points, as one matrix product.

    .. math:: h_{ij} = |a_i - b_j|^2/2 = (-a_i, |a_i|^2/2, 1) \cdot (b_j, 1, |b_j|^2/2)

    Args:
        offset, other: (p, d) and (q, d).
        half_square, other_half_square: (p,) and (q,), half their squared norms.
        out: (p, q), where to write.

    Returns:
        (p, q); rounding may leave a value a few eps |a|² below 0.

    >>> a = torch.tensor([[1.0, 0.0]]); b = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> half_distances(a, torch.tensor([0.5]), b, torch.tensor([0.5, 0.5])).tolist()
    [[1.0, 0.0]]
    """
    left = torch.cat([-offset, half_square[:, None], torch.ones_like(half_square)[:, None]], dim=1)
    right = torch.cat([other, torch.ones_like(other_half_square)[:, None], other_half_square[:, None]], dim=1)
    return torch.mm(left, right.T) if out is None else torch.mm(left, right.T, out=out)


def _wide_device(x: Tensor) -> torch.device:
    return torch.device("cpu") if x.device.type == "mps" else x.device  # mps has no float64


def _unit(x: Tensor) -> tuple[Tensor, Tensor]:
    """y and |x| in float64; the largest entry first, so that the squares neither overflow nor vanish."""
    wide = x.to(_wide_device(x), torch.float64)
    largest = wide.abs().amax(dim=1, keepdim=True)
    scaled = wide / largest
    length = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return scaled / length, (length * largest)[:, 0]
