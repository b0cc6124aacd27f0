"""Training in the limit: particles that follow the optimiser with the gradients of the limit's own flow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from attnlim.depth.arguments import parameters
from attnlim.depth.collocated_flow import LimitFlow, limit_flow
from attnlim.depth.gradient_descent import Certificate, Evaluation, MakeOptimiser, descent, finite_loss
from attnlim.depth.losses import Loss


@dataclass(frozen=True)
class LimitState:
    """The limit after τ optimiser steps.

    Attributes:
        step: τ, from 0.
        particles: (n_nodes, n_particles, 4, head_dim, width), ν_τ at the nodes; a view that the next step changes.
        flow: of the training sequences, with its adjoint.
        loss: the mean over sequences.
        certificate: of the step that led here.
    """

    step: int
    particles: Tensor
    flow: LimitFlow
    loss: float
    certificate: Certificate


def limit_training(
    particles: Tensor,
    x: Tensor,
    loss: Loss,
    optimiser: MakeOptimiser,
    n_steps: int,
    beta: float = 1.0,
    weights: Tensor | None = None,
    *,
    tolerance: float = 1e-9,
) -> Iterator[LimitState]:
    r"""Train the limit, full batch, and show every state on the way.

    .. math:: \nu_{t,0} = \pi, \qquad \nu_{t,\tau} = \Phi_{t,\tau}[\nu_{<\tau}]_\# \pi

    Each particle moves by the optimiser with the gradient at its own node of t.

    Source: "Uniform scaling limits of AdamW-trained transformers", eqs. 17-22.

    Args:
        particles, x, beta, weights, tolerance: as for :func:`attnlim.depth.limit_flow`; ``particles`` is not changed.
        loss, optimiser, n_steps: as for :func:`attnlim.depth.training`; the optimiser is made for L = H = 1.

    Yields:
        :class:`LimitState` for τ = 0, 1, …, n_steps.

    Raises:
        InputError: as there, or the flow cannot be solved.

    Cost: a step about five times one of a network with n_nodes layers of n_particles heads, times the iterations.

    >>> import torch
    >>> from attnlim.depth import AdamW, MomentLoss, limit_particles
    >>> run = limit_training(
    ...     limit_particles(32, 3, 2, 3), torch.eye(3, dtype=torch.float64),
    ...     MomentLoss(torch.ones(3, dtype=torch.float64)),
    ...     lambda params, n_layers, n_heads: AdamW(params, n_layers, n_heads, lr=0.1, weight_decay=0.1), n_steps=10,
    ... )
    >>> losses = [state.loss for state in run]
    >>> round(losses[0], 4), losses[-1] < losses[0] / 2
    (0.6667, True)
    """
    latest: LimitFlow | None = None

    def evaluated(parameter: Tensor) -> Evaluation[LimitFlow]:
        nonlocal latest
        forward = limit_flow(
            parameter, x, beta, weights, tolerance=tolerance, guess=None if latest is None else latest.drift
        )
        end = forward.tokens(1.0)[0]
        value, terminal = loss(end, forward.log_weights.exp())
        mean = value.expand(end.shape[:-2]).mean()
        finite_loss(mean)
        found = forward.with_adjoint(terminal, None if latest is None else latest.pull)
        assert found.gradients is not None
        latest = found
        return Evaluation(mean, found.gradients, found)

    for at in descent(parameters(particles), evaluated, optimiser, n_steps, 1, 1):
        yield LimitState(at.step, at.parameter, at.result.more, float(at.result.loss), at.certificate)
