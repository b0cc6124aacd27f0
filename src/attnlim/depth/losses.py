"""Losses as functions of the measure of the last tokens, each with its derivative in that measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from attnlim.core.checks import InputError, real_number


class Loss(Protocol):
    r"""A loss ℓ(μ) of the measure μ = Σ w_i δ_{x_i} of the last tokens.

    Called with tokens (..., n_tokens, width) and shares (n_tokens,) or (..., n_tokens) of sum 1, it gives ℓ (...) and its
    Lions derivative ∂_μ ℓ(μ)(x_i) (..., n_tokens, width), which is ∂ℓ/∂x_i over w_i: the terminal value of
    :func:`attnlim.depth.adjoint`.
    """

    def __call__(self, x: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True)
class MomentLoss:
    r"""The mean token against a target, and a moment of the norm.

    .. math::
        \ell(\mu) = \tfrac12 |\bar x - y|^2 + c \int |x|^p\,d\mu, \qquad
        \partial_\mu\ell(x) = \bar x - y + c\,p\,|x|^{p-2} x

    Source: *ours*.

    Args:
        target: (width,) or (..., width), y, one for each sequence.
        factor: c, at least 0.
        power: p, at least 2.

    Raises:
        InputError: a target that is not finite, a factor below 0, a power below 2.

    >>> loss = MomentLoss(torch.zeros(2, dtype=torch.float64))
    >>> value, derivative = loss(torch.tensor([[1.0, 0.0], [3.0, 2.0]], dtype=torch.float64), torch.tensor([0.5, 0.5]))
    >>> value.item(), derivative.tolist()
    (2.5, [[2.0, 1.0], [2.0, 1.0]])
    """

    target: Tensor
    factor: float = 0.0
    power: float = 4.0

    def __post_init__(self) -> None:
        _finite("target", self.target)
        real_number("factor", self.factor, above=0.0, closed=True)
        real_number("power", self.power, above=2.0, closed=True)

    def __call__(self, x: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        shares = shares.to(x)
        off = (shares[..., None] * x).sum(dim=-2) - self.target
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        value = off.square().sum(dim=-1) / 2 + self.factor * (shares * norm[..., 0] ** self.power).sum(dim=-1)
        return value, off[..., None, :] + self.factor * self.power * norm ** (self.power - 2) * x


@dataclass(frozen=True)
class PooledClassification:
    r"""Cross entropy of a linear readout of the mean token.

    .. math::
        \ell(\mu) = -\ln \operatorname{softmax}(R \bar x)_y, \qquad
        \partial_\mu\ell(x) = R^\top(\operatorname{softmax}(R\bar x) - e_y)

    Source: *ours*.

    Args:
        readout: (n_classes, width), R, fixed.
        labels: (...), int, y of each sequence.

    Raises:
        InputError: a readout that is not finite, a label outside 0..n_classes-1.

    >>> loss = PooledClassification(torch.zeros(4, 2, dtype=torch.float64), torch.tensor(1))
    >>> round(loss(torch.ones(3, 2, dtype=torch.float64), torch.full((3,), 1 / 3))[0].exp().item(), 6)
    4.0
    """

    readout: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        _finite("readout", self.readout)
        if self.labels.dtype != torch.int64 or not bool(((self.labels >= 0) & (self.labels < len(self.readout))).all()):
            raise InputError(
                f"labels must be integers from 0 to {len(self.readout) - 1}, "
                f"got {self.labels.dtype} from {self.labels.min()} to {self.labels.max()}"
            )

    def __call__(self, x: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        pooled = (shares.to(x)[..., None] * x).sum(dim=-2)
        log_chance = torch.log_softmax(pooled @ self.readout.T, dim=-1)
        labels = self.labels.expand(log_chance.shape[:-1])[..., None]
        missed = log_chance.exp()
        missed.scatter_add_(-1, labels, -torch.ones_like(labels, dtype=x.dtype))
        value = -log_chance.gather(-1, labels)[..., 0]
        return value, (missed @ self.readout)[..., None, :].expand_as(x)


@dataclass(frozen=True)
class MaximumMeanDiscrepancy:
    r"""The squared maximum mean discrepancy to a target measure, with the Gaussian kernel.

    .. math::
        \ell(\mu) = \tfrac12 \iint k\, d(\mu - \nu)^{\otimes 2}, \qquad k(x, y) = e^{-|x-y|^2/2h^2}, \qquad
        \partial_\mu\ell(x) = \int \nabla_x k(x, \cdot)\, d(\mu - \nu)

    Source: *ours*.

    Args:
        target: (n_points, width), equal weights.
        bandwidth: h, in the unit of the tokens, above 0.

    Raises:
        InputError: a target that is not finite, a bandwidth that is not above 0.

    >>> points = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> value, derivative = MaximumMeanDiscrepancy(points)(points, torch.tensor([0.5, 0.5]))
    >>> abs(value.item()) < 1e-15, derivative.abs().max().item() < 1e-15    # it is the target
    (True, True)
    """

    target: Tensor
    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        _finite("target", self.target)
        real_number("bandwidth", self.bandwidth, above=0.0)

    def __call__(self, x: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        shares = shares.to(x).expand(x.shape[:-1])
        target = self.target.expand(*x.shape[:-2], *self.target.shape)
        points = torch.cat([x, target], dim=-2)
        signed = torch.cat([shares, -torch.full_like(target[..., 0], 1 / target.shape[-2])], dim=-1)
        difference = points[..., None, :] - points[..., None, :, :]
        kernel = torch.exp(difference.square().sum(dim=-1) / (-2 * self.bandwidth**2)) * signed[..., None, :]
        value = (signed * kernel.sum(dim=-1)).sum(dim=-1) / 2
        slope = -(kernel[..., None] * difference).sum(dim=-2) / self.bandwidth**2
        return value, slope[..., : x.shape[-2], :]


@dataclass(frozen=True)
class FunctionLoss:
    """Any torch function of the last tokens; its derivative comes from automatic differentiation of it alone.

    Source: *ours*.

    Args:
        function: takes (..., n_tokens, width), gives (...), one number a sequence.

    Raises:
        InputError: when called, a result of another shape.

    >>> loss = FunctionLoss(lambda x: x.square().sum(dim=(-2, -1)))
    >>> loss(torch.ones(2, 1), torch.tensor([0.5, 0.5]))[1].tolist()
    [[4.0], [4.0]]
    """

    function: Callable[[Tensor], Tensor]

    def __call__(self, x: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            value = self.function(leaf)
            if value.shape != x.shape[:-2]:
                raise InputError(
                    f"a loss must give one number a sequence, shape {tuple(x.shape[:-2])}, got {tuple(value.shape)}"
                )
            (slope,) = torch.autograd.grad(value.sum(), leaf)
        return value.detach(), slope / shares.to(x)[..., None]


def _finite(name: str, values: Any) -> None:
    if not isinstance(values, Tensor) or not values.is_floating_point() or not bool(torch.isfinite(values).all()):
        raise InputError(f"{name} must be a finite floating-point tensor, got NaN, inf or another type")
