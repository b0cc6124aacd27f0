"""The backward equation of the network, written out: adjoint and gradients without automatic differentiation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnlim.core.checks import InputError, real_number
from attnlim.depth.arguments import KEY, OUTPUT, QUERY, VALUE, batch, residual_factor
from attnlim.depth.network import (
    attend,
    beside,
    by_sequence,
    head_matrices,
    head_slices,
    layer_blocks,
    normalised,
    padded,
    spread,
    summed_heads,
    weighted_columns,
)


@dataclass(frozen=True)
class Adjoint:
    """The result of :func:`adjoint`.

    Attributes:
        adjoint: (n_layers+1, ..., n_tokens, width), a_i^r, the loss's derivative in the token measure; N ∂ℓ/∂x_i for
            equal weights.
        gradient: (..., n_layers, n_heads, 4, head_dim, width), LH times the gradient, averaged over sequences.
    """

    adjoint: Tensor
    gradient: Tensor


def adjoint(
    theta: Tensor,
    tokens: Tensor,
    terminal: Tensor,
    beta: float = 1.0,
    weights: Tensor | None = None,
    *,
    residual: float | None = None,
    causal: bool = False,
    post_norm: bool = False,
) -> Adjoint:
    r"""Adjoint and rescaled gradients, from the last layer to the first.

    With u_i = V^⊤O a_i, W_ij = A_ij ⟨x_j - g_i, u_i⟩ and c_i = Σ_j W_ij x_j, all of layer r but a = a^{r+1}:

    .. math::
        a_i^r = a_i + \frac{1}{LH} \sum_h \Big[\beta Q^\top K c_i
        + \frac{1}{w_i}\sum_j w_j (A_{ji} u_j + W_{ji} z_j)\Big]

        G_O = \sum_i w_i (V g_i) a_i^\top, \quad G_V = \sum_i w_i (O a_i) g_i^\top, \quad
        G_Q = \beta K \sum_i w_i c_i x_i^\top, \quad G_K = \beta Q \sum_i w_i x_i c_i^\top

    Source: "Uniform scaling limits of AdamW-trained transformers", eqs. 9-13 and 20; written out for attention it is
    [*derived*](../depth-derivations.md#adjoint). Equal to automatic differentiation to rounding:
    a_i = ∂ℓ/∂x_i / w_i and G = LH ∂ℓ/∂θ.

    Args:
        theta, beta, weights, residual, causal, post_norm: as for :func:`attnlim.depth.forward`.
        tokens: (n_layers+1, ..., n_tokens, width), from :func:`attnlim.depth.forward`.
        terminal: (..., n_tokens, width), a^L, the derivative of the loss in the measure of the last tokens.

    Returns:
        An :class:`Adjoint`, without a gradient; with another ``residual`` ε the gradient is 1/ε times that of the loss.

    Raises:
        InputError: shapes that do not fit, NaN or inf.

    Cost: about three forward passes; memory one token trajectory more, and a layer's attention.
    Twin: :func:`attnlim.depth.naive.adjoint`.

    >>> theta = torch.zeros(1, 1, 4, 2, 2, dtype=torch.float64)
    >>> theta[0, 0, 2] = theta[0, 0, 3] = torch.eye(2)
    >>> tokens = torch.stack([torch.eye(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64) + 0.5])
    >>> adjoint(theta, tokens, torch.eye(2, dtype=torch.float64)).adjoint[0].tolist()    # a + its mean
    [[1.5, 0.5], [0.5, 1.5]]
    """
    given = batch(theta, tokens[0], weights)
    beta = real_number("beta", beta, above=0.0, closed=True)
    n_layers, n_heads = given.theta.shape[1:3]
    shape = (n_layers + 1, *given.leading, *given.x.shape[-2:])
    if tuple(tokens.shape) != shape or tuple(terminal.shape) != shape[1:]:
        raise InputError(
            f"tokens must have shape {shape} and terminal {shape[1:]}, "
            f"got {tuple(tokens.shape)} and {tuple(terminal.shape)}"
        )
    if not bool(torch.isfinite(terminal).all()):
        raise InputError("terminal must be finite, got NaN or inf; look at the targets and for a run that diverged")
    factor = residual_factor(residual, n_layers, n_heads)
    states = tokens.detach().reshape(n_layers + 1, *given.x.shape)
    costates, gradient = torch.empty_like(states), torch.empty_like(given.theta)
    costates[n_layers] = terminal.detach().reshape(given.x.shape)
    shares = given.log_weights.exp()
    for block in reversed(layer_blocks(given.theta)):
        layers = slice(block.start, block.stop)
        matrices = head_matrices(given.theta[:, layers], beta)
        moments = torch.empty_like(matrices)
        for r in reversed(block):
            x, a, at = states[r], costates[r + 1], r - block.start
            if post_norm:
                _, scale = normalised(x + factor * summed_heads(matrices[at], x, shares, causal))
                direction = states[r + 1] / x.shape[-1] ** 0.5
                a = scale * (a - direction * (direction * a).sum(dim=-1, keepdim=True))
            costates[r] = a + factor * pulled(matrices[at], x, a, shares, causal, moments[at])
        parameter_gradients(given.theta[:, layers], moments, beta, gradient[:, layers])
    return Adjoint(costates.view(shape), gradient.view(given.replicas + tuple(given.theta.shape[1:])))


def layer_adjoint(
    theta: Tensor, x: Tensor, a: Tensor, log_weights: Tensor, beta: float, causal: bool
) -> tuple[Tensor, Tensor]:
    """What one layer adds to the adjoint, summed over heads, and the gradients of its heads by themselves.

    Args:
        theta: (n_replicas, n_heads, 4, head_dim, width).
        x, a: (n_replicas, n_sequences, n_tokens, width), before the layer and behind it.
        log_weights: (n_replicas, n_sequences, n_tokens).
        beta, causal: as for :func:`adjoint`.

    Returns:
        Σ_h K_h, as ``x``, and G, as ``theta``, a mean over sequences.
    """
    matrices = head_matrices(theta[:, None], beta)
    moments, gradient = torch.empty_like(matrices), torch.empty_like(theta)
    summed = pulled(matrices[0], x, a, log_weights.exp(), causal, moments[0])
    parameter_gradients(theta[:, None], moments, beta, gradient[:, None])
    return summed, gradient


def pulled(matrices: Tensor, x: Tensor, a: Tensor, shares: Tensor, causal: bool, moments: Tensor) -> Tensor:
    """Σ_h K_h of one layer, as ``x``; the moments Σ w c x^T and Σ w g a^T of every head go into ``moments``.

    The sums of :func:`adjoint` with w_i a_i/B for a_i, which leaves all else as it stands: u_i, W_ij and c_i carry the
    factor w_i/B, and the division of attention by its sums is done in u_i, where it costs least.

    Args:
        matrices, moments: (2, n_replicas, width, n_heads, width), a layer of :func:`attnlim.depth.network.head_matrices`.
        x, a, shares, causal: as for :func:`layer_adjoint`.
    """
    shape, width, part = x.shape, x.shape[3], shares[..., None] / x.shape[1]
    x, matrices = padded(x, matrices)
    wide = x.shape[3]
    a = torch.nn.functional.pad(part * a, (0, wide - width))
    groups, x = spread(matrices, x)
    measures, weighted = x.flatten(0, 1), weighted_columns(x, shares)
    rows, costates = x.flatten(1, 2), a.reshape(len(x), -1, wide)
    own, to_keys = torch.zeros_like(rows), torch.zeros_like(measures)
    for heads in head_slices(x, matrices.shape[3]):
        to_query, to_value = groups[:, :, :, heads].flatten(2, 3)
        z = by_sequence(torch.bmm(to_query, rows.mT), x).view(len(measures), wide, -1)
        u = by_sequence(torch.bmm(to_value, costates.mT), x).view(z.shape)
        attention, inverse, g = attend(measures, weighted, z, causal)
        u *= inverse
        pull = torch.bmm(measures, u)  # <x_j, u_i>
        pull -= (g * u).sum(dim=1, keepdim=True)
        pull *= attention  # W_ij / w_j
        c = torch.bmm(weighted[:, :wide], pull)
        to_keys.baddbmm_(attention, u.mT).baddbmm_(pull, z.mT)
        c, g = beside(c, x), beside(g, x)
        own.baddbmm_(c.mT, to_query)
        for moment, left, right in ((moments[0], c, rows), (moments[1], g, costates)):
            of_group = torch.bmm(left, right).view(shape[0], -1, wide, moment[:, :, heads].shape[2], wide)
            moment[:, :, heads] = of_group.sum(dim=1)[:, :width, :, :width]
    summed = own.view(*shape[:3], wide) / part + shape[1] * to_keys.view(*shape[:3], wide)
    return summed[..., :width].contiguous()


def parameter_gradients(theta: Tensor, moments: Tensor, beta: float, gradient: Tensor) -> None:
    """Put G of some layers, (n_replicas, n_layers, n_heads, ...) as ``theta``, from :func:`pulled`'s moments."""
    with_tokens, with_adjoint = moments.permute(1, 2, 0, 4, 3, 5).contiguous()  # Σ w c x^T and Σ w g a^T
    with_tokens *= beta
    gradient[..., QUERY, :, :] = theta[..., KEY, :, :] @ with_tokens
    gradient[..., KEY, :, :] = theta[..., QUERY, :, :] @ with_tokens.mT
    gradient[..., VALUE, :, :] = theta[..., OUTPUT, :, :] @ with_adjoint.mT
    gradient[..., OUTPUT, :, :] = theta[..., VALUE, :, :] @ with_adjoint
