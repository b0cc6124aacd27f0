"""Shadow heads: a network's own heads at the start, moved by the limit's gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnlim.core.checks import InputError
from attnlim.depth.arguments import parameters
from attnlim.depth.assignment import wasserstein
from attnlim.depth.collocated_flow import LimitFlow
from attnlim.depth.gradient_descent import MakeOptimiser


class ShadowHeads:
    r"""The heads of ν̂: those of the network before training, trained in the limit.

    .. math:: \hat\nu_{t,\tau} = \Phi_{r_t,\tau}[\nu_{<\tau}]_\# \bar\nu_{t,0}, \qquad r_t = \lfloor Lt \rfloor / L

    Source: "Uniform scaling limits of AdamW-trained transformers", eq. 23.

    Args:
        theta: (..., n_layers, n_heads, 4, head_dim, width), the network's parameters before training.
        optimiser: as for :func:`attnlim.depth.training`.

    Raises:
        InputError: parameters of another shape.

    >>> from attnlim.depth import SGD, initial_parameters
    >>> shadows = ShadowHeads(initial_parameters(3, 2, 2, 2), lambda params, n_layers, n_heads: SGD(params, 1, 1, lr=0.1))
    >>> shadows.theta.shape
    torch.Size([3, 2, 4, 2, 2])
    """

    def __init__(self, theta: Tensor, optimiser: MakeOptimiser) -> None:
        theta = parameters(theta)
        self._shape = theta.shape
        layers_first = theta.reshape(-1, *theta.shape[-5:]).transpose(0, 1)  # L, replicas, H, 4, k, d
        self._parameter = torch.nn.Parameter(layers_first.flatten(1, 2).clone())
        self._optimiser = optimiser([self._parameter], 1, 1)

    @property
    def theta(self) -> Tensor:
        """The heads now, shaped as those of the network."""
        n_layers, n_heads = self._shape[-5:-3]
        heads = self._parameter.detach().view(n_layers, -1, n_heads, *self._shape[-3:])
        return heads.transpose(0, 1).reshape(self._shape)

    def follow(self, flow: LimitFlow) -> None:
        """One step with the gradients of the limit, each layer's at t = r/L.

        Args:
            flow: of the training sequences, with its adjoint.
        """
        n_layers = len(self._parameter)
        self._parameter.grad = flow.gradient(self._parameter.detach(), np.arange(n_layers) / n_layers)
        self._optimiser.step()


@dataclass(frozen=True)
class HeadDistance:
    """How far a network's heads are from their shadows.

    Attributes:
        coupling: (...), sup over t of the mean over heads of |θ - ϑ|²_F: Lemma 6's bound of W_2².
        average: (...), the same, but the mean over t.
        wasserstein: (...), sup over t of W_2²(ν̂_t, ν̄_t), exact.
    """

    coupling: Tensor
    average: Tensor
    wasserstein: Tensor


def head_distance(theta: Tensor, shadows: Tensor) -> HeadDistance:
    r"""The distance of the heads' laws at every layer, exact and by the coupling of each head with its shadow.

    .. math:: W_2^2(\hat\nu_t, \bar\nu_t) \le \frac{1}{H} \sum_h |\theta_h - \vartheta_h|_F^2

    Source: "Uniform scaling limits of AdamW-trained transformers", Lemma 6 and appendix G.

    Args:
        theta, shadows: (..., n_layers, n_heads, 4, head_dim, width).

    Raises:
        InputError: shapes that differ.

    >>> head_distance(torch.zeros(1, 2, 4, 1, 1), torch.ones(1, 2, 4, 1, 1)).coupling.item()
    4.0
    """
    if theta.shape != shadows.shape:
        raise InputError(f"shadows must have the shape of theta {tuple(theta.shape)}, got {tuple(shadows.shape)}")
    heads, others = theta.detach().flatten(-3), shadows.detach().flatten(-3)
    coupling = (heads - others).square().sum(dim=-1).mean(dim=-1)
    return HeadDistance(
        coupling.amax(dim=-1), coupling.mean(dim=-1), wasserstein(heads, others, 2.0).square().amax(dim=-1)
    )
