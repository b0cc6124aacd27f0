"""Inputs on which a network is far from its limit, by projected gradient ascent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnlim.core.checks import real_number, whole_number
from attnlim.core.seeds import generator
from attnlim.depth.collocated_flow import limit_flow
from attnlim.depth.costates import adjoint
from attnlim.depth.network import forward


@dataclass(frozen=True)
class Adversary:
    """The worst inputs that were found, one set of tokens a replica.

    Attributes:
        inputs: (n_replicas, n_tokens, width), inside the ball.
        sup_tokens: (n_replicas,), sup over nodes and tokens of |X - X̄|² there.
        random: (n_replicas,), the same where the ascent began, the best of all starts.
    """

    inputs: Tensor
    sup_tokens: Tensor
    random: Tensor


def adversary(
    theta: Tensor,
    particles: Tensor,
    n_tokens: int,
    radius: float,
    beta: float = 1.0,
    *,
    n_starts: int = 4,
    n_steps: int = 30,
    seed: int = 0,
    tolerance: float = 1e-7,
) -> Adversary:
    r"""Tokens in the ball of a radius that bring a network far from its limit.

    .. math:: \max_{y \in \bar B(R)^N} \; \sum_i |X^i_1(y) - x^i_L(y)|^2

    The ascent goes by the adjoints of both, with steps of R·2/3, falling to a hundredth of that; what is
    kept is the input with the largest sup over t and tokens that any step came upon. A lower bound of the supremum.

    Source: *ours*; the supremum is that of "Uniform scaling limits of AdamW-trained transformers", Theorem 7.

    Args:
        theta: (n_replicas, n_layers, n_heads, 4, head_dim, width).
        particles: of the limit, see :func:`attnlim.depth.limit_flow`.
        n_tokens: N, at least 1.
        radius: R, in the unit of the tokens, above 0.
        beta: inverse temperature.
        n_starts: random inputs to begin from, a replica, at least 1.
        n_steps: of the ascent, at least 0.
        seed: of the starts.
        tolerance: of the flow.

    Raises:
        InputError: a number outside its range, or shapes that do not fit.

    Cost: n_steps forward and backward passes of n_starts sequences a replica, of the network and of the limit.

    >>> from attnlim.depth import initial_parameters, limit_particles
    >>> found = adversary(initial_parameters(4, 1, 2, 3, n_replicas=2), limit_particles(2, 1, 2, 3), 4, 2.0)
    >>> bool((found.sup_tokens > found.random).all()), bool((found.inputs.norm(dim=-1) <= 2 + 1e-12).all())
    (True, True)
    """
    radius = real_number("radius", radius, above=0.0)
    n_starts, n_steps = whole_number("n_starts", n_starts, 1), whole_number("n_steps", n_steps, 0)
    n_replicas, n_layers, width = len(theta), theta.shape[1], theta.shape[-1]
    rng = generator(seed, "adversary")
    drawn = rng.normal(size=(n_replicas, n_starts, whole_number("n_tokens", n_tokens, 1), width))
    y = torch.from_numpy(drawn).to(theta)
    # uniform in the ball
    reach = torch.from_numpy(rng.random(size=(*drawn.shape[:-1], 1))).to(theta) ** (1 / width)
    y = radius * reach * y / y.norm(dim=-1, keepdim=True)
    nodes = np.arange(n_layers + 1) / n_layers
    best, best_y, random = torch.full((n_replicas,), -1.0).to(theta), y[:, 0].clone(), y.new_zeros(n_replicas)
    for step in range(n_steps + 1):
        tokens = forward(theta, y, beta)
        flow = limit_flow(particles, y.flatten(0, 1), beta, tolerance=tolerance)
        off = tokens - flow.tokens(nodes).view(tokens.shape)
        each = off.square().sum(dim=-1).amax(dim=(0, 3))
        now, place = each.max(dim=1)
        better = now > best
        best, best_y[better] = torch.maximum(best, now), y[torch.arange(n_replicas), place][better]
        if step == 0:
            random = now
        if step < n_steps:
            slope = adjoint(theta, tokens, off[-1], beta).adjoint[0]
            slope = slope - flow.with_adjoint(off[-1].flatten(0, 1)).adjoint(0.0)[0].view(y.shape)
            size = slope.norm(dim=-1, keepdim=True).amax(dim=2, keepdim=True).clamp_min(torch.finfo(y.dtype).tiny)
            y = _inside(y + 2 / 3 * radius * 0.01 ** (step / n_steps) * slope / size, radius)
    return Adversary(best_y, best, random)


def _inside(y: Tensor, radius: float) -> Tensor:
    size = torch.linalg.vector_norm(y, dim=-1, keepdim=True).clamp_min(radius)
    inside: Tensor = y * (radius / size)
    return inside
