"""Where a network's error comes from: martingale, time shift, propagation and parameters, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnlim.core.checks import InputError, whole_number
from attnlim.depth.collocated_flow import LimitFlow
from attnlim.depth.network import layer_output

# two-point Gauss rule inside a layer
_PLACES = (0.5 - 0.5 / 3**0.5, 0.5 + 0.5 / 3**0.5)


@dataclass(frozen=True)
class ErrorStack:
    """The parts of X - x at every node; each (n_layers+1, n_replicas, n_sequences, n_tokens, width).

    Attributes:
        martingale: M_r, by which the limit's own drift differs from that of the shadow heads along the limit's tokens.
        time_shift: the drift of ν_s less that of ν at the beginning of s's layer.
        propagated: the shadow heads at the limit's tokens less the same at the network's.
        parameters: the shadow heads less the network's heads, both at the network's tokens.
    """

    martingale: Tensor
    time_shift: Tensor
    propagated: Tensor
    parameters: Tensor

    @property
    def total(self) -> Tensor:
        """Their sum, X - x at the nodes."""
        return self.martingale + self.time_shift + self.propagated + self.parameters


def error_stack(theta: Tensor, shadows: Tensor, tokens: Tensor, flow: LimitFlow) -> ErrorStack:
    r"""The error of a network's tokens, taken apart.

    .. math::
        X_{r/L} - x_r = M_r + \int_0^{r/L} \Gamma(X_s, \nu_s) - \Gamma(X_s, \nu_{r_s})
        + \Gamma(X_s, \hat\nu_s) - \Gamma(\bar X_s, \hat\nu_s)
        + \Gamma(\bar X_s, \hat\nu_s) - \Gamma(\bar X_s, \bar\nu_s)\; ds

        M_r = \int_0^{r/L} \Gamma(X_s, \nu_{r_s}) - \Gamma(X_s, \hat\nu_s)\, ds

    The increments of M have mean zero over initialisations, since the shadow heads of different layers are independent
    and the limit does not know them.

    Source: "Uniform scaling limits of AdamW-trained transformers", Lemmas 38 and 40; the split of the last part into two is
    *ours*.

    Args:
        theta: (n_replicas, n_layers, n_heads, 4, head_dim, width), the network's heads.
        shadows: as ``theta``, see :class:`attnlim.depth.ShadowHeads`.
        tokens: (n_layers+1, n_replicas, n_sequences, n_tokens, width), of the network.
        flow: of the same inputs.

    Raises:
        InputError: shapes that do not fit.

    Precision: integrals over a layer by the two-point Gauss rule, exact to order 4 in 1/L; the parts sum to X - x to
    rounding whatever its error.

    >>> from attnlim.depth import forward, initial_parameters, limit_flow, limit_particles
    >>> x, theta = torch.eye(3, dtype=torch.float64)[None], initial_parameters(4, 2, 2, 3, n_replicas=2)
    >>> flow, tokens = limit_flow(limit_particles(2, 2, 2, 3), x), forward(theta, x[None])
    >>> stack = error_stack(theta, theta, tokens, flow)
    >>> bool(torch.allclose(stack.total, x - tokens)), stack.parameters.abs().max().item() < 1e-15
    (True, True)
    """
    n_layers = theta.shape[1] if theta.ndim == 6 else 0
    shape = (n_layers + 1, len(theta), *flow.start.shape)
    if theta.ndim != 6 or shadows.shape != theta.shape or tuple(tokens.shape) != shape:
        raise InputError(
            "theta and shadows must have shape (n_replicas, n_layers, n_heads, 4, head_dim, width) and tokens "
            f"{shape}, got {tuple(theta.shape)}, {tuple(shadows.shape)} and {tuple(tokens.shape)}"
        )
    begins = np.arange(n_layers + 1) / n_layers
    limit_step = flow.tokens(begins).diff(dim=0)[:, None]
    shifts = [_shifted(flow, begins[:-1], place) for place in _PLACES]
    shift = -torch.stack(shifts).mean(dim=0)[:, None] / n_layers
    along_limit = [
        _drift(shadows, flow.tokens(begins[:-1] + place / n_layers)[:, None].expand(n_layers, *shape[1:]), flow)
        for place in _PLACES
    ]
    of_limit = torch.stack(along_limit).mean(dim=0) / n_layers
    of_network = _drift(shadows, tokens[:-1], flow) / n_layers
    network_step = tokens.diff(dim=0)
    return ErrorStack(
        martingale=_from_zero(limit_step - shift - of_limit),
        time_shift=_from_zero(shift.expand(n_layers, *shape[1:])),
        propagated=_from_zero(of_limit - of_network),
        parameters=_from_zero(of_network - network_step),
    )


def _drift(theta: Tensor, x: Tensor, flow: LimitFlow) -> Tensor:
    """Mean output of every layer's heads, each at its own tokens: (n_layers, n_replicas, ...)."""
    heads = theta.transpose(0, 1).flatten(0, 1)
    flat = x.flatten(0, 1)
    log_weights = flow.log_weights.expand(flat.shape[:-1])
    return (layer_output(heads, flat, log_weights, flow.beta, False) / heads.shape[1]).view(x.shape)


def _shifted(flow: LimitFlow, begins: np.ndarray, place: float) -> Tensor:
    """Γ(X_s, ν_{r_s}) - Γ(X_s, ν_s) at one place in every layer: (n_layers, n_sequences, n_tokens, width).

    Both measures are interpolated between the nodes; of their difference the particles' noise is O(1/L).
    """
    n_nodes = len(flow.particles)
    x = flow.tokens(flow.nodes.t)
    pairs = x[:, None].expand(n_nodes, *x.shape).flatten(0, 1)  # tokens of node i, particles of node j
    particles = flow.particles[None].expand(n_nodes, *flow.particles.shape).flatten(0, 1)
    log_weights = flow.log_weights.expand(pairs.shape[:-1])
    table = layer_output(particles, pairs.contiguous(), log_weights, flow.beta, False) / particles.shape[1]
    times = begins + place * (begins[1] - begins[0] if len(begins) > 1 else 1.0)
    tokens_at, measure_at = flow.nodes.interpolation(times), flow.nodes.interpolation(begins)
    return torch.einsum(
        "li,lj,ij...->l...", tokens_at.to(x), (measure_at - tokens_at).to(x), table.view(n_nodes, n_nodes, *x.shape[1:])
    )


def _from_zero(increments: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(increments[:1]), increments.cumsum(dim=0)])


@dataclass(frozen=True)
class BlockBound:
    """The two terms of Lemma 36 for blocks of m layers, without their constants.

    Attributes:
        size: (n,), m.
        noise: (mH)^{-1/2}, what the mean over a block scatters by.
        remainder: (m/L) H^{-1/2}, by how much tokens move inside a block.
    """

    size: np.ndarray
    noise: np.ndarray
    remainder: np.ndarray

    @property
    def best(self) -> float:
        """The smallest sum of both, about L^{-1/3} H^{-1/2}, at m near L^{2/3}."""
        return float((self.noise + self.remainder).min())


def block_bound(n_layers: int, n_heads: int) -> BlockBound:
    r"""The trade-off by which the proof comes to a rate of L^{-1/3}.

    .. math:: (mH)^{-1/2} + \frac{m}{L} H^{-1/2}, \qquad m = 1, \dots, L

    The martingale itself scatters by (LH)^{-1/2}; the third root comes from cutting depth into blocks.

    Source: "Uniform scaling limits of AdamW-trained transformers", Lemma 36.

    Args:
        n_layers, n_heads: L and H, at least 1.

    >>> found = block_bound(1000, 1)
    >>> int(found.size[(found.noise + found.remainder).argmin()]), round(found.best, 3)
    (63, 0.189)
    """
    n_layers, n_heads = whole_number("n_layers", n_layers, 1), whole_number("n_heads", n_heads, 1)
    size = np.arange(1, n_layers + 1)
    return BlockBound(size, 1 / np.sqrt(size * n_heads), size / n_layers / np.sqrt(n_heads))
