"""A network of L layers as functions of t in [0, 1], with the conventions of index that its limit needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from attnlim.core.checks import InputError
from attnlim.depth.arguments import batch, parameters
from attnlim.depth.costates import layer_adjoint

# L·t within this of a whole number is that number: t = r/L need not be exact in binary
_ROUNDING = 1e-9


@dataclass(frozen=True)
class ContinuousTime:
    r"""The continuous-time extension of one network (no axis of replicas).

    .. math::
        \bar X_t = x_{\lfloor Lt \rfloor}, \qquad \bar a_t = a_{\lceil Lt \rceil}, \qquad
        \bar\nu_t = \frac{1}{H} \sum_h \delta_{\theta^h_{\lfloor Lt \rfloor}}

    Tokens and heads are right-continuous, the adjoint is left-continuous. Inside the interval of a layer this pairs x^r
    with a^{r+1}, as the gradient does; at a node t = r/L it would pair x^r with a^r. As printed, ā has no value at t = 0
    and ν̄ none at t = 1.

    Source: "Uniform scaling limits of AdamW-trained transformers", eqs. 14-16.

    Args:
        theta: (n_layers, n_heads, 4, head_dim, width).
        tokens, adjoint: (n_layers+1, n_sequences, n_tokens, width), from :func:`attnlim.depth.forward` and
            :func:`attnlim.depth.adjoint`.

    Raises:
        InputError: shapes that do not fit.

    >>> import torch
    >>> from attnlim.depth import adjoint, forward, initial_parameters
    >>> theta, x = initial_parameters(4, 1, 2, 3), torch.eye(3, dtype=torch.float64)[None]
    >>> tokens = forward(theta, x); costates = adjoint(theta, tokens, torch.ones_like(x)).adjoint
    >>> network = ContinuousTime(theta, tokens, costates)
    >>> bool((network.tokens_at([0.25]) == tokens[1]).all()), bool((network.adjoint_at([0.3]) == costates[2]).all())
    (True, True)
    """

    theta: Tensor
    tokens: Tensor
    adjoint: Tensor

    def __post_init__(self) -> None:
        n_layers = parameters(self.theta).shape[0] if self.theta.ndim == 5 else -1
        if self.tokens.ndim != 4 or len(self.tokens) != n_layers + 1 or self.adjoint.shape != self.tokens.shape:
            raise InputError(
                "theta must have shape (n_layers, n_heads, 4, head_dim, width), tokens and adjoint both "
                f"(n_layers+1, n_sequences, n_tokens, width), got {tuple(self.theta.shape)}, "
                f"{tuple(self.tokens.shape)} and {tuple(self.adjoint.shape)}"
            )

    def tokens_at(self, t: ArrayLike) -> Tensor:
        """(n_times, n_sequences, n_tokens, width), X̄ for t in [0, 1]."""
        return self.tokens[self._layers(t, closed_below=True, closed_above=True)[0]]

    def adjoint_at(self, t: ArrayLike) -> Tensor:
        """(n_times, n_sequences, n_tokens, width), ā for t in (0, 1].

        Raises:
            InputError: t = 0, where it is not defined, or t outside.
        """
        return self.adjoint[self._layers(t, closed_below=False, closed_above=True)[1]]

    def heads_at(self, t: ArrayLike) -> Tensor:
        """(n_times, n_heads, 4, head_dim, width), the atoms of ν̄ for t in [0, 1).

        Raises:
            InputError: t = 1, where it is not defined, or t outside.
        """
        return self.theta[self._layers(t, closed_below=True, closed_above=False)[0]]

    def gradient_at(self, t: ArrayLike, beta: float = 1.0, weights: Tensor | None = None) -> Tensor:
        """Eq. 20 evaluated at the heads of ν̄_t, for t in (0, 1): the network's own LH-rescaled gradients where Lt is
        not a whole number, and O(1/L) beside them where it is.

        Args:
            t: (n_times,).
            beta, weights: as for :func:`attnlim.depth.forward`.
        """
        heads, x, a = self.heads_at(t), self.tokens_at(t), self.adjoint_at(t)
        given = batch(heads[:, None], x, weights)
        return layer_adjoint(given.theta[:, 0], given.x, a, given.log_weights, beta, False)[1]

    def _layers(
        self, t: ArrayLike, *, closed_below: bool, closed_above: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """⌊Lt⌋ and ⌈Lt⌉."""
        times = np.atleast_1d(np.asarray(t, dtype=np.float64))
        low = times >= 0 if closed_below else times > 0
        high = times <= 1 if closed_above else times < 1
        if not (low & high).all():
            left, right = "[" if closed_below else "(", "]" if closed_above else ")"
            raise InputError(f"t must lie in {left}0, 1{right}, got {times.min():.6g} to {times.max():.6g}")
        scaled = len(self.theta) * times
        nearest = np.rint(scaled)
        scaled = np.where(np.abs(scaled - nearest) <= _ROUNDING * len(self.theta), nearest, scaled)
        return np.floor(scaled).astype(np.int64), np.ceil(scaled).astype(np.int64)
