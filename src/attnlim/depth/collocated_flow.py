"""The limit of infinite depth and heads, for given particles: tokens and adjoint as functions of t."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from attnlim.core.checks import InputError, real_number
from attnlim.depth.arguments import batch, parameters
from attnlim.depth.collocation import Nodes, gauss_nodes
from attnlim.depth.costates import layer_adjoint
from attnlim.depth.gradient_descent import Diverged
from attnlim.depth.network import layer_output

# flows that need more than about 30 are beyond what a few nodes resolve
_ITERATIONS = 200
# iterates that are mixed
_MIXED = 5


@dataclass(frozen=True)
class LimitFlow:
    """Tokens of the limit and, once :meth:`with_adjoint` was called, their adjoint.

    Attributes:
        particles: (n_nodes, n_particles, 4, head_dim, width), ν_t at the nodes.
        start: (n_sequences, n_tokens, width), y.
        log_weights: (n_sequences, n_tokens).
        drift: (n_nodes, n_sequences, n_tokens, width), Γ(X, μ, ν) at the nodes.
        beta: inverse temperature.
        tolerance: at which the iteration stopped, in the unit of the tokens.
        terminal: (n_sequences, n_tokens, width), a at t = 1, or None.
        pull: as ``drift``, K(X, ρ, ν, a) at the nodes, or None.
        gradients: as ``particles``, eq. 20 for every particle at its own node, a mean over sequences, or None.
    """

    particles: Tensor
    start: Tensor
    log_weights: Tensor
    drift: Tensor
    beta: float
    tolerance: float
    terminal: Tensor | None = None
    pull: Tensor | None = None
    gradients: Tensor | None = None

    @cached_property
    def nodes(self) -> Nodes:
        """Where the flow is collocated."""
        return gauss_nodes(len(self.particles))

    def tokens(self, t: ArrayLike) -> Tensor:
        """(n_times, n_sequences, n_tokens, width), X_t.

        Raises:
            InputError: times outside [0, 1].
        """
        return self.start + _over_nodes(self.nodes.integral(t), self.drift)

    def adjoint(self, t: ArrayLike) -> Tensor:
        """(n_times, n_sequences, n_tokens, width), a_t.

        Raises:
            InputError: times outside [0, 1], or :meth:`with_adjoint` was not called.
        """
        terminal, pull = self._backward()
        return terminal + _over_nodes(self.nodes.integral(1.0) - self.nodes.integral(t), pull)

    def gradient(self, theta: Tensor, t: ArrayLike) -> Tensor:
        """The gradients of other heads that are placed into the limit at times t, by eq. 20.

        Args:
            theta: (n_times, n_heads, 4, head_dim, width).
            t: (n_times,).

        Raises:
            InputError: as for :meth:`adjoint`.
        """
        x, a = self.tokens(t), self.adjoint(t)
        return layer_adjoint(theta, x, a, self.log_weights.expand(x.shape[:-1]), self.beta, False)[1]

    def with_adjoint(self, terminal: Tensor, guess: Tensor | None = None) -> LimitFlow:
        """This flow with its adjoint, which ends in ``terminal``.

        Args:
            terminal: (n_sequences, n_tokens, width), ∂_μ ℓ(μ_1)(X_1).
            guess: of :attr:`pull`, to begin with.

        Raises:
            InputError: another shape, values that are not finite, or an iteration that does not settle.
        """
        if terminal.shape != self.start.shape or not bool(torch.isfinite(terminal).all()):
            raise InputError(f"terminal must be finite of shape {tuple(self.start.shape)}, got {tuple(terminal.shape)}")
        x, log_weights = self.tokens(self.nodes.t), self.log_weights.expand(len(self.particles), -1, -1)
        to_end = self.nodes.integral(1.0) - self.nodes.integral(self.nodes.t)
        gradients = torch.empty(0)

        def pulled(pull: Tensor) -> Tensor:
            nonlocal gradients
            summed, gradients = layer_adjoint(
                self.particles, x, terminal + _over_nodes(to_end, pull), log_weights, self.beta, False
            )
            return summed / self.particles.shape[1]

        pull = _settled(pulled, torch.zeros_like(self.drift) if guess is None else guess, to_end, self.tolerance)
        return replace(self, terminal=terminal, pull=pull, gradients=gradients)

    def _backward(self) -> tuple[Tensor, Tensor]:
        if self.terminal is None or self.pull is None:
            raise InputError("the adjoint must have been solved, got a forward flow; call with_adjoint(terminal) first")
        return self.terminal, self.pull


def limit_flow(
    particles: Tensor,
    x: Tensor,
    beta: float = 1.0,
    weights: Tensor | None = None,
    *,
    tolerance: float = 1e-9,
    guess: Tensor | None = None,
) -> LimitFlow:
    r"""The flow of the tokens in the limit, forward in t.

    .. math:: \frac{dX_t}{dt} = \Gamma(X_t, \mu_t, \nu_t), \quad X_0 = y, \qquad
        \Gamma(x, \mu, \nu) = \int O^\top V\, \gamma(\beta K^\top Q x, \mu)\, d\nu

    Collocation at Gauss-Legendre nodes, each with particles of its own for ν_t, solved by a mixed Picard iteration, like
    that of the paper's proof.

    Source: "Uniform scaling limits of AdamW-trained transformers", eqs. 17-19; the discretisation is *ours*, see
    [the limit](../depth-derivations.md#limit).

    Args:
        particles: (n_nodes, n_particles, 4, head_dim, width), equal weights, see
            :func:`attnlim.depth.limit_particles`.
        x: (n_tokens, width) or (n_sequences, n_tokens, width).
        beta: inverse temperature, dimensionless, at least 0.
        weights: as for :func:`attnlim.depth.forward`.
        tolerance: largest change of X by the last iteration, in the unit of the tokens.
        guess: of the drift at the nodes, to begin with.

    Raises:
        InputError: shapes that do not fit, values that are not finite, an iteration that does not settle.

    Cost: iterations × n_nodes × n_particles heads of a layer, about 5 to 10 of them.

    >>> from attnlim.depth import limit_particles
    >>> x = torch.eye(3, dtype=torch.float64)
    >>> flow = limit_flow(limit_particles(64, 2, 2, 3), x)    # centred parameters: the identity
    >>> (flow.tokens([0.5, 1.0]) - x).abs().max().item() < 1e-15
    True
    """
    particles = parameters(particles)
    if particles.ndim != 5:
        raise InputError(
            f"particles must have shape (n_nodes, n_particles, 4, head_dim, width), got {tuple(particles.shape)}"
        )
    given = batch(particles[None], x[None] if x.ndim > 2 else x[None, None], weights)
    beta = real_number("beta", beta, above=0.0, closed=True)
    tolerance = real_number("tolerance", tolerance, above=0.0)
    start, log_weights = given.x[0], given.log_weights[0]
    nodes = gauss_nodes(len(particles))
    to_node = nodes.integral(nodes.t)
    at_nodes = log_weights.expand(len(particles), *log_weights.shape)

    def drifted(drift: Tensor) -> Tensor:
        return layer_output(particles, start + _over_nodes(to_node, drift), at_nodes, beta, False) / particles.shape[1]

    first = start.new_zeros(len(particles), *start.shape) if guess is None else guess
    return LimitFlow(particles, start, log_weights, _settled(drifted, first, to_node, tolerance), beta, tolerance)


def _settled(step: Callable[[Tensor], Tensor], values: Tensor, integral: Tensor, tolerance: float) -> Tensor:
    """The fixed point of ``step``, to what ``tolerance`` allows its integrals to change.

    Picard's iteration with Anderson's mixing of the last few iterates, which settles where the plain one would swing.
    """
    tried: list[Tensor] = []
    changes: list[Tensor] = []
    change = math.inf
    for _ in range(_ITERATIONS):
        following = step(values)
        residual = following - values
        change = float(_over_nodes(integral, residual).abs().max())
        if change <= tolerance:
            return following
        if not math.isfinite(change):
            break
        tried, changes = [*tried[-_MIXED:], following.flatten()], [*changes[-_MIXED:], residual.flatten()]
        values = _mixed(tried, changes).view_as(values)
    raise Diverged(
        f"the limit's equations must settle within {_ITERATIONS} iterations, the last changed by {change:.3g}, "
        "parameters or tokens are too large"
    )


def _mixed(tried: list[Tensor], changes: list[Tensor]) -> Tensor:
    """The combination of iterates whose combined change is least (Walker and Ni 2011, the unconstrained form)."""
    if len(tried) == 1:
        return tried[0]
    steps = torch.stack([newer - older for older, newer in pairwise(changes)], dim=1)
    moves = torch.stack([newer - older for older, newer in pairwise(tried)], dim=1)
    share = torch.linalg.lstsq(steps, changes[-1][:, None], driver="gelsd").solution
    mixed: Tensor = tried[-1] - (moves @ share)[:, 0]
    return mixed


def _over_nodes(matrix: Tensor, values: Tensor) -> Tensor:
    summed: Tensor = torch.tensordot(matrix.to(values), values, dims=1)
    return summed
