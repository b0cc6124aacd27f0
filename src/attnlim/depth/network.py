"""The attention-only network of the mean-field limit, on token measures."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from attnlim.core.checks import real_number
from attnlim.depth.arguments import KEY, OUTPUT, QUERY, VALUE, Batch, batch, residual_factor

# entries of attention weights held at a time
_WEIGHTS = 2**24


def forward(
    theta: Tensor,
    x: Tensor,
    beta: float = 1.0,
    weights: Tensor | None = None,
    *,
    residual: float | None = None,
    causal: bool = False,
    post_norm: bool = False,
) -> Tensor:
    r"""The tokens before the first layer and after every one.

    .. math::
        A_{ij} = \frac{w_j e^{\langle z_i, x_j\rangle}}{\sum_l w_l e^{\langle z_i, x_l\rangle}}, \quad
        z_i = \beta K^\top Q x_i, \quad
        x_i^{r+1} = x_i^r + \frac{1}{LH}\sum_h O_h^\top V_h \sum_j A^h_{ij} x_j^r

    A token's output depends on the others through their measure Σ w_j δ_{x_j} alone: replicating every token changes
    nothing.

    Source: "Uniform scaling limits of AdamW-trained transformers", eqs. 1-5; ``residual``, ``causal`` and
    ``post_norm`` are labelled extensions, *ours*, to which no theorem applies.

    Args:
        theta: (..., n_layers, n_heads, 4, head_dim, width), float32 or float64, in the order query, key, value, output;
            leading axes are replicas.
        x: (n_tokens, width) for every replica, or (replicas..., sequences..., n_tokens, width).
        beta: inverse temperature, dimensionless, at least 0.
        weights: (n_tokens,) or as ``x`` without its last axis, above 0, of any sum; None: equal.
        residual: factor of the sum over heads, above 0; None: 1/(LH). The diffusive regime has 1/(√L·H).
        causal: whether token i sees tokens 1..i alone.
        post_norm: whether every layer's output is brought back to the norm √width.

    Returns:
        (n_layers+1, ..., n_tokens, width), the leading axes those of replicas and sequences; without a gradient.

    Raises:
        InputError: shapes that do not fit, NaN or inf in parameters or tokens, ``beta`` negative or not finite.

    Cost: about 4N²d + 4Nd² operations a head, layer and sequence; memory the result and a layer's attention.
    Twin: :func:`attnlim.depth.naive.forward`.

    >>> theta = torch.zeros(1, 1, 4, 2, 2, dtype=torch.float64)
    >>> theta[0, 0, 2] = theta[0, 0, 3] = torch.eye(2)    # attention is uniform, the output the mean
    >>> forward(theta, torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64))[1].tolist()
    [[1.5, 0.5], [0.5, 1.5]]
    """
    given = batch(theta, x, weights)
    beta = real_number("beta", beta, above=0.0, closed=True)
    n_layers, n_heads = given.theta.shape[1:3]
    factor = residual_factor(residual, n_layers, n_heads)
    tokens = given.x.new_empty(n_layers + 1, *given.x.shape)
    tokens[0] = given.x
    for r in range(n_layers):
        moved = step(given, tokens[r], r, beta, factor, causal)
        tokens[r + 1] = normalised(moved)[0] if post_norm else moved
    return tokens.view(n_layers + 1, *given.leading, *given.x.shape[-2:])


def step(given: Batch, x: Tensor, r: int, beta: float, factor: float, causal: bool) -> Tensor:
    """(n_replicas, n_sequences, n_tokens, d), the tokens after layer r, before a normalisation."""
    return x + factor * layer_output(given.theta[:, r], x, given.log_weights, beta, causal)


def layer_output(theta: Tensor, x: Tensor, log_weights: Tensor, beta: float, causal: bool) -> Tensor:
    """Σ_h O^T V g_i of one layer, as ``x`` (n_replicas, n_sequences, n_tokens, d); theta (n_replicas, n_heads, ...)."""
    moved = torch.zeros_like(x.flatten(1, 2))
    for heads in head_groups(x, theta.shape[1]):
        score, value = head_matrices(theta[:, heads], beta)
        _, _, attended = attend(x, score, log_weights, causal)
        beside = attended.flatten(2, 3).transpose(1, 2).flatten(2)  # heads beside each other
        moved.baddbmm_(beside, value.transpose(2, 3).flatten(1, 2))
    return moved.view(x.shape)


def head_matrices(theta: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """β Q^T K and O^T V of every head: all that a layer's output depends on; (n_replicas, n_heads, d, d) each."""
    score = beta * theta[:, :, QUERY].transpose(2, 3) @ theta[:, :, KEY]
    return score, theta[:, :, OUTPUT].transpose(2, 3) @ theta[:, :, VALUE]


def head_groups(x: Tensor, n_heads: int) -> Iterator[slice]:
    """Heads in groups whose attention weights are held at a time."""
    n_replicas, n_sequences, n_tokens, _ = x.shape
    size = max(1, _WEIGHTS // (n_replicas * n_sequences * n_tokens**2))
    for start in range(0, n_heads, size):
        yield slice(start, min(start + size, n_heads))


def attend(x: Tensor, score: Tensor, log_weights: Tensor, causal: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of some heads: A (n_replicas, n_heads, n_sequences, N, N), z and g (..., N, d)."""
    n_replicas, n_sequences, n_tokens, width = x.shape
    z = (x.view(n_replicas, 1, -1, width) @ score).view(n_replicas, -1, n_sequences, n_tokens, width)
    keys = x[:, None]
    logits = z @ keys.transpose(3, 4)
    logits += log_weights[:, None, :, None, :]
    if causal:
        later = torch.ones(n_tokens, n_tokens, dtype=torch.bool, device=x.device).triu_(1)
        logits.masked_fill_(later, -torch.inf)
    attention = torch.softmax(logits, dim=-1)
    return attention, z, attention @ keys


def normalised(x: Tensor) -> tuple[Tensor, Tensor]:
    """x √d/|x| and √d/|x|, (..., d) and (..., 1)."""
    scale = x.shape[-1] ** 0.5 / torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x * scale, scale
