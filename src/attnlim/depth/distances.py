"""The distance of a network's tokens and adjoint from the limit's, over depth and inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnlim.core.checks import InputError
from attnlim.depth.collocated_flow import LimitFlow


@dataclass(frozen=True)
class PathDistance:
    r"""Squared distances, one a replica: the mean over replicas is E².

    Attributes:
        sup_tokens: sup over nodes t = r/L, sequences and tokens of |X - X̄|².
        sup_adjoint: likewise of |a - ā|²; NaN where no adjoint was given.
        sup_both: sup of |X - X̄|² + |a - ā|²; NaN likewise.
        sup_continuous: sup of |X - X̄|² over all t in [0, 1], with X̄ the staircase that jumps at the nodes.
        rms_tokens: sup over nodes of the mean over sequences and tokens of |X - X̄|².
        end_tokens: mean over sequences and tokens of |X - X̄|² at t = 1.
    """

    sup_tokens: Tensor
    sup_adjoint: Tensor
    sup_both: Tensor
    sup_continuous: Tensor
    rms_tokens: Tensor
    end_tokens: Tensor


def path_distance(tokens: Tensor, flow: LimitFlow, adjoint: Tensor | None = None) -> PathDistance:
    r"""How far replicas of a network are from the limit on the flow's inputs.

    .. math:: \sup_t \sup_y \max_i\; |X^i_t - \bar X^i_t|^2 + |a^i_t - \bar a^i_t|^2

    Between nodes the limit moves on while the staircase stands, so that the distance over all t is largest where a layer
    ends; it is taken at both ends and in the middle of every layer.

    Source: "Uniform scaling limits of AdamW-trained transformers", Theorem 7 and appendix H.

    Args:
        tokens: (n_layers+1, n_replicas, n_sequences, n_tokens, width), from :func:`attnlim.depth.forward`.
        flow: of the same inputs, with its adjoint where ``adjoint`` is given.
        adjoint: as ``tokens``, from :func:`attnlim.depth.adjoint`.

    Raises:
        InputError: shapes that do not fit.

    >>> from attnlim.depth import forward, initial_parameters, limit_flow, limit_particles
    >>> x = torch.eye(3, dtype=torch.float64)[None]
    >>> near, far = (
    ...     path_distance(forward(initial_parameters(n, n, 2, 3, n_replicas=4), x[None]),
    ...                   limit_flow(limit_particles(2, 1, 2, 3), x)).sup_tokens.mean() for n in (16, 2)
    ... )
    >>> bool(near < far / 10)
    True
    """
    if tokens.ndim != 5 or tokens.shape[2:] != flow.start.shape:
        raise InputError(
            f"tokens must have shape (n_layers+1, n_replicas, {', '.join(map(str, flow.start.shape))}), "
            f"got {tuple(tokens.shape)}"
        )
    n_layers = len(tokens) - 1
    nodes = np.arange(n_layers + 1) / n_layers
    off = (tokens - flow.tokens(nodes)[:, None]).square().sum(dim=-1)
    continuous = off.amax(dim=(0, 2, 3))
    for place in (0.5, 1.0):
        moved = flow.tokens((np.arange(n_layers) + place) / n_layers)[:, None]
        between = (tokens[:-1] - moved).square().sum(dim=-1)
        continuous = torch.maximum(continuous, between.amax(dim=(0, 2, 3)))
    unknown = torch.full_like(continuous, torch.nan)
    of_adjoint = both = unknown
    if adjoint is not None:
        costates_off = (adjoint - flow.adjoint(nodes)[:, None]).square().sum(dim=-1)
        of_adjoint, both = costates_off.amax(dim=(0, 2, 3)), (off + costates_off).amax(dim=(0, 2, 3))
    return PathDistance(
        off.amax(dim=(0, 2, 3)),
        of_adjoint,
        both,
        continuous,
        off.mean(dim=(2, 3)).amax(dim=0),
        off[-1].mean(dim=(1, 2)),
    )
