"""Two networks of the same heads, one twice as deep: what is left is the error of discretisation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from attnlim.core.checks import InputError
from attnlim.depth.arguments import parameters
from attnlim.depth.gradient_descent import MakeOptimiser, training
from attnlim.depth.losses import Loss
from attnlim.depth.network import forward


def merged_layers(theta: Tensor) -> Tensor:
    """(..., n_layers/2, 2·n_heads, 4, head_dim, width): each two neighbouring layers as one with all their heads.

    Raises:
        InputError: an odd number of layers.

    >>> import torch
    >>> merged_layers(torch.zeros(6, 2, 4, 1, 1)).shape
    torch.Size([3, 4, 4, 1, 1])
    """
    theta = parameters(theta)
    *replicas, n_layers, n_heads = theta.shape[:-3]
    if n_layers % 2:
        raise InputError(f"n_layers must be even to merge layers in pairs, got {n_layers}")
    return theta.reshape(*replicas, n_layers // 2, 2 * n_heads, *theta.shape[-3:])


@dataclass(frozen=True)
class SplitState:
    """Both networks after τ steps.

    Attributes:
        step: τ.
        sup_tokens: (n_replicas,), sup over the shallow one's nodes, sequences and tokens of the squared distance.
        end_tokens: (n_replicas,), mean over sequences and tokens of the squared distance at t = 1.
    """

    step: int
    sup_tokens: Tensor
    end_tokens: Tensor


def split_coupling(
    theta: Tensor,
    x: Tensor,
    loss: Loss,
    optimiser: MakeOptimiser,
    n_steps: int,
    beta: float = 1.0,
    fresh: Tensor | None = None,
) -> Iterator[SplitState]:
    r"""Train the same heads as (2L, H) and as (L, 2H), and compare.

    Both carry the same Monte Carlo noise of the parameters, so that it cancels. At the start the difference decays as
    L^{-3/2} for centred π, whose drift is zero on average, as L^{-1} once there is a drift.

    Source: *derived*, see [split coupling](../depth-derivations.md#split).

    Args:
        theta: (n_replicas, 2·n_layers, n_heads, 4, head_dim, width).
        x: (n_sequences, n_tokens, width), to train on.
        loss, optimiser, n_steps, beta: as for :func:`attnlim.depth.training`.
        fresh: (n_other, n_tokens, width), to compare on; None: ``x``.

    Yields:
        :class:`SplitState` for τ = 0, 1, …, n_steps.

    Raises:
        InputError: an odd number of layers, or as there.

    >>> import torch
    >>> from attnlim.depth import SGD, MomentLoss, initial_parameters
    >>> x, loss = torch.eye(2, dtype=torch.float64)[None], MomentLoss(torch.zeros(2, dtype=torch.float64))
    >>> [state] = split_coupling(
    ...     initial_parameters(8, 1, 2, 2, n_replicas=3), x, loss,
    ...     lambda params, n_layers, n_heads: SGD(params, n_layers, n_heads), n_steps=0,
    ... )
    >>> state.sup_tokens.shape
    torch.Size([3])
    """
    fresh = x if fresh is None else fresh
    deep = training(theta, x[None], loss, optimiser, n_steps, beta)
    shallow = training(merged_layers(theta), x[None], loss, optimiser, n_steps, beta)
    for state, other in zip(deep, shallow, strict=True):
        off = forward(state.theta, fresh[None], beta)[::2] - forward(other.theta, fresh[None], beta)
        squared = off.square().sum(dim=-1)
        yield SplitState(state.step, squared.amax(dim=(0, 2, 3)), squared[-1].mean(dim=(1, 2)))
