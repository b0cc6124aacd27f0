"""The backward equation of the network, written out: adjoint and gradients without automatic differentiation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnlim.core.checks import InputError, real_number
from attnlim.depth.arguments import KEY, OUTPUT, QUERY, VALUE, batch, residual_factor
from attnlim.depth.network import attend, head_groups, head_matrices, normalised, step


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
    for r in reversed(range(n_layers)):
        x, a = states[r], costates[r + 1]
        if post_norm:
            _, scale = normalised(step(given, x, r, beta, factor, causal))
            direction = states[r + 1] / x.shape[-1] ** 0.5
            a = scale * (a - direction * (direction * a).sum(dim=-1, keepdim=True))
        pull, gradient[:, r] = layer_adjoint(given.theta[:, r], x, a, given.log_weights, beta, causal)
        costates[r] = a + factor * pull
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
    share = log_weights.exp()[..., None]
    of_head = share[:, None]
    n_sequences = x.shape[1]
    flat, weighted = x.flatten(1, 2)[:, None], (share * a).flatten(1, 2)[:, None]
    pulled, gradient = torch.zeros_like(x), torch.empty_like(theta)
    for heads in head_groups(x, theta.shape[1]):
        head = theta[:, heads]
        score, value = head_matrices(head, beta)
        attention, z, attended = attend(x, score, log_weights, causal)
        u = (a.flatten(1, 2)[:, None] @ value).view(z.shape)
        pull = u @ x[:, None].transpose(3, 4)
        pull -= (attention * pull).sum(dim=-1, keepdim=True)
        pull *= attention  # W
        c = pull @ x[:, None]
        to_keys = attention.transpose(3, 4) @ (of_head * u) + pull.transpose(3, 4) @ (of_head * z)
        own = (c.flatten(2, 3) @ score.transpose(2, 3)).view(c.shape)
        pulled += (own + to_keys / of_head).sum(dim=1)
        second = (of_head * c).flatten(2, 3).transpose(2, 3) @ flat / n_sequences  # Σ w c x^T
        third = weighted.transpose(2, 3) @ attended.flatten(2, 3) / n_sequences  # Σ w a g^T
        gradient[:, heads, QUERY] = beta * head[:, :, KEY] @ second
        gradient[:, heads, KEY] = beta * head[:, :, QUERY] @ second.transpose(2, 3)
        gradient[:, heads, VALUE] = head[:, :, OUTPUT] @ third
        gradient[:, heads, OUTPUT] = head[:, :, VALUE] @ third.transpose(2, 3)
    return pulled, gradient
