"""Training by the explicit equations: forward, adjoint, one step of the optimiser, with the certificate of the theory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from attnlim.core.checks import InputError, whole_number
from attnlim.depth.adam_bound import parameter_bound
from attnlim.depth.arguments import batch, parameters
from attnlim.depth.costates import adjoint
from attnlim.depth.losses import Loss
from attnlim.depth.network import forward
from attnlim.depth.optimisers import AdamW, MeanFieldOptimiser

More = TypeVar("More")
MakeOptimiser = Callable[[list[torch.nn.Parameter], int, int], MeanFieldOptimiser]


@dataclass(frozen=True)
class Certificate:
    """How far a run is from what no run can leave; all ratios are at most 1, NaN where the theory gives no bound.

    Attributes:
        update: the largest |m̂|/(√v̂ + ε) of the last step over the bound C_t of that step; NaN before the first.
        parameter: the largest |θ| over max(|θ_0|, C/λ), of entries or, under blockwise AdamW, of Frobenius norms.
    """

    update: float
    parameter: float


@dataclass(frozen=True)
class TrainingState:
    """A network after τ optimiser steps, with everything that the next step is made of.

    Attributes:
        step: τ, from 0.
        theta: (..., n_layers, n_heads, 4, head_dim, width); a view that the next step changes, clone to keep.
        tokens: (n_layers+1, ..., n_tokens, width).
        adjoint: (n_layers+1, ..., n_tokens, width).
        gradient: LH-rescaled, as ``theta``.
        loss: (...), one number a replica, the mean over its sequences.
        certificate: of the step that led here.
    """

    step: int
    theta: Tensor
    tokens: Tensor
    adjoint: Tensor
    gradient: Tensor
    loss: Tensor
    certificate: Certificate


def training(
    theta: Tensor,
    x: Tensor,
    loss: Loss,
    optimiser: MakeOptimiser,
    n_steps: int,
    beta: float = 1.0,
    weights: Tensor | None = None,
    *,
    residual: float | None = None,
    causal: bool = False,
    post_norm: bool = False,
) -> Iterator[TrainingState]:
    r"""Train replicas side by side, full batch, and show every state on the way.

    .. math:: \theta_{\tau+1} = \text{optimiser}(\theta_\tau, G_\tau), \qquad
        G_\tau = LH\,\nabla_\theta \tfrac1B\sum_b \ell_b

    Source: "Uniform scaling limits of AdamW-trained transformers", algorithm of section 2, by eqs. 1-13.

    Args:
        theta, x, beta, weights, residual, causal, post_norm: as for :func:`attnlim.depth.forward`; ``theta`` is not
            changed.
        loss: of the last tokens, see :class:`attnlim.depth.Loss`.
        optimiser: makes one from (parameters, n_layers, n_heads), such as
            ``lambda params, n_layers, n_heads: AdamW(params, n_layers, n_heads, lr=0.1)``.
        n_steps: τ of the last state, at least 0.

    Yields:
        :class:`TrainingState` for τ = 0, 1, …, n_steps.

    Raises:
        InputError: bad arguments; a loss that is not finite, with the step at which the run diverged; a step or a
            parameter outside its bound, which only a fault of this program could bring about.

    Cost: about four forward passes a step; memory two token trajectories and four times the parameters.

    >>> from attnlim.depth import AdamW, MomentLoss, initial_parameters
    >>> run = training(
    ...     initial_parameters(4, 2, 2, 3), torch.eye(3, dtype=torch.float64),
    ...     MomentLoss(torch.ones(3, dtype=torch.float64)),
    ...     lambda params, n_layers, n_heads: AdamW(params, n_layers, n_heads, lr=0.1, weight_decay=0.1), n_steps=20,
    ... )
    >>> losses = [float(state.loss) for state in run]
    >>> len(losses), losses[-1] < losses[0] / 2
    (21, True)
    """
    theta = parameters(theta)
    shares = batch(theta, x, weights).log_weights.exp()
    options = {"residual": residual, "causal": causal, "post_norm": post_norm}

    def evaluated(parameter: Tensor) -> Evaluation[tuple[Tensor, Tensor]]:
        tokens = forward(parameter, x, beta, weights, **options)  # type: ignore[arg-type]
        of_sequence, terminal = loss(tokens[-1], shares.view(tokens.shape[1:-1]))
        value = of_sequence.expand(tokens.shape[1:-2]).reshape(*parameter.shape[:-5], -1).mean(dim=-1)
        finite_loss(value)
        found = adjoint(parameter, tokens, terminal, beta, weights, **options)  # type: ignore[arg-type]
        return Evaluation(value, found.gradient, (tokens, found.adjoint))

    n_layers, n_heads = theta.shape[-5:-3]
    for at in descent(theta, evaluated, optimiser, n_steps, n_layers, n_heads):
        tokens, costates = at.result.more
        yield TrainingState(at.step, at.parameter, tokens, costates, at.result.gradient, at.result.loss, at.certificate)


@dataclass(frozen=True)
class Evaluation(Generic[More]):
    """What one evaluation of a network gives.

    Attributes:
        loss: one number a replica.
        gradient: LH-rescaled, as the parameters.
        more: what else the caller wants to see again.
    """

    loss: Tensor
    gradient: Tensor
    more: More


@dataclass(frozen=True)
class Descended(Generic[More]):
    """A state of :func:`descent`."""

    step: int
    parameter: Tensor
    result: Evaluation[More]
    certificate: Certificate


def descent(
    theta: Tensor,
    evaluated: Callable[[Tensor], Evaluation[More]],
    optimiser: MakeOptimiser,
    n_steps: int,
    n_layers: int,
    n_heads: int,
) -> Iterator[Descended[More]]:
    """Steps of an optimiser with the certificate of each; of a network or, with L = H = 1, of the limit's particles.

    Raises:
        InputError: a run that diverged, with its step; a bound that was left.
    """
    n_steps = whole_number("n_steps", n_steps, 0)
    parameter = torch.nn.Parameter(theta.clone())
    made = optimiser([parameter], n_layers, n_heads)
    bound = _parameter_bound(parameter.detach(), made)
    update = math.nan
    for step in range(n_steps + 1):
        try:
            result = evaluated(parameter.detach())
        except Diverged as reason:
            raise InputError(f"{reason} at step {step}: the run has diverged") from reason
        certificate = Certificate(update, made.size(parameter.detach()) / bound if math.isfinite(bound) else math.nan)
        if certificate.update > 1 + 1e-6 or certificate.parameter > 1 + 1e-6:
            raise InputError(f"bounds of Adam must hold, got {certificate} at step {step}; report this as a bug")
        yield Descended(step, parameter.detach(), result, certificate)
        if step < n_steps:
            parameter.grad = result.gradient / (n_layers * n_heads)
            made.step()
            update = made.largest_step / made.bound() if math.isfinite(made.bound()) else math.nan


class Diverged(InputError):
    """Numbers that are no longer finite, or equations that no longer settle."""


def _parameter_bound(parameter: Tensor, optimiser: MeanFieldOptimiser) -> float:
    """The compact set by the settings at the start."""
    group = optimiser.param_groups[0]
    if not isinstance(optimiser, AdamW):
        return math.inf
    beta_1, beta_2 = group["betas"]
    return parameter_bound(optimiser.size(parameter), beta_1, beta_2, group["lr"], group["weight_decay"])


def finite_loss(value: Tensor) -> None:
    """Raise :class:`Diverged` where a replica's loss is not finite."""
    bad = value.flatten()[~torch.isfinite(value.flatten())]
    if len(bad):
        raise Diverged(f"the loss must stay finite, got {float(bad[0])} in {len(bad)} of {value.numel()} replicas")
