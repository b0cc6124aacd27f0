"""The attention-only network of the mean-field limit, on token measures."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attnlim.core.checks import real_number
from attnlim.depth.arguments import KEY, OUTPUT, QUERY, VALUE, batch, residual_factor

# entries of attention weights held at a time: on a CPU as many as its cache has room for
_WEIGHTS = {"cpu": 2**17, "cuda": 2**26}
# entries of the matrices of heads that are held at a time, if one layer has no more
_MATRICES = 2**22
# multiplications in a product of two matrices below which torch.bmm goes a slow way on a CPU
_SMALL = 400


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
    shares = given.log_weights.exp()
    tokens = given.x.new_empty(n_layers + 1, *given.x.shape)
    tokens[0] = given.x
    for block in layer_blocks(given.theta):
        for r, matrices in zip(block, head_matrices(given.theta[:, block.start : block.stop], beta), strict=True):
            moved = tokens[r] + factor * summed_heads(matrices, tokens[r], shares, causal)
            tokens[r + 1] = normalised(moved)[0] if post_norm else moved
    return tokens.view(n_layers + 1, *given.leading, *given.x.shape[-2:])


def layer_output(theta: Tensor, x: Tensor, log_weights: Tensor, beta: float, causal: bool) -> Tensor:
    """Σ_h O^T V g_i of one layer, as ``x`` (n_replicas, n_sequences, n_tokens, d); theta (n_replicas, n_heads, ...)."""
    (matrices,) = head_matrices(theta[:, None], beta)
    return summed_heads(matrices, x, log_weights.exp(), causal)


def layer_blocks(theta: Tensor) -> list[range]:
    """Layers whose heads' matrices are made together, in order; theta (n_replicas, n_layers, n_heads, ...)."""
    n_replicas, n_layers, n_heads, _, _, width = theta.shape
    size = max(1, _MATRICES // (2 * n_replicas * n_heads * width**2))
    return [range(start, min(start + size, n_layers)) for start in range(0, n_layers, size)]


def head_matrices(theta: Tensor, beta: float) -> Tensor:
    """β K^T Q and V^T O of every head: all that a layer's output depends on.

    Args:
        theta: (n_replicas, n_layers, n_heads, 4, head_dim, width).
        beta: inverse temperature.

    Returns:
        (n_layers, 2, n_replicas, width, n_heads, width): the matrices of all heads on top of each other, with rows in the
        order (width, n_heads), so that one product with tokens serves all heads.
    """
    n_replicas, n_layers, n_heads, _, _, width = theta.shape
    matrices = theta.new_empty(n_layers, 2, n_replicas, width, n_heads, width)
    matrices[:, 0] = (theta[..., KEY, :, :].mT @ theta[..., QUERY, :, :]).permute(1, 0, 3, 2, 4)
    matrices[:, 1] = (theta[..., VALUE, :, :].mT @ theta[..., OUTPUT, :, :]).permute(1, 0, 3, 2, 4)
    matrices[:, 0] *= beta
    return matrices


def summed_heads(matrices: Tensor, x: Tensor, shares: Tensor, causal: bool) -> Tensor:
    """Σ_h O^T V g_i of one layer, as ``x``, from a layer of :func:`head_matrices`."""
    shape = x.shape
    x, matrices = padded(x, matrices)
    groups, x = spread(matrices, x)
    measures, weighted = x.flatten(0, 1), weighted_columns(x, shares)
    rows = x.flatten(1, 2)
    moved = torch.zeros_like(rows)
    for heads in head_slices(x, matrices.shape[3]):
        to_query, to_value = groups[:, :, :, heads].flatten(2, 3)
        z = by_sequence(torch.bmm(to_query, rows.mT), x).view(len(measures), rows.shape[2], -1)
        _, _, g = attend(measures, weighted, z, causal)
        moved.baddbmm_(beside(g, x).mT, to_value)
    return moved.view(*shape[:3], -1)[..., : shape[3]].contiguous()


def spread(matrices: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices and tokens in groups that share matrices: of a replica's sequences, or each sequence by itself.

    A copy of the matrices for every sequence is smaller than the copies that sequences beside each other need, unless a
    sequence has fewer tokens than their width.

    Returns:
        (2, n_groups, width, n_heads, width) and (n_groups, sequences of a group, n_tokens, width).
    """
    n_sequences, n_tokens, width = x.shape[1:]
    if width > n_tokens:
        return matrices, x
    each = matrices[:, :, None].expand(-1, -1, n_sequences, -1, -1, -1)
    return each.flatten(1, 2), x.reshape(-1, 1, n_tokens, width)


def by_sequence(columns: Tensor, x: Tensor) -> Tensor:
    """(n_groups, rows, sequences of a group * N) as (n_groups, sequences of a group, rows, N)."""
    return columns.view(*columns.shape[:2], *x.shape[1:3]).transpose(1, 2).contiguous()


def beside(columns: Tensor, x: Tensor) -> Tensor:
    """(n_measures, width, n_heads * N) as (n_groups, width * n_heads, sequences of a group * N)."""
    return columns.view(*x.shape[:2], -1, x.shape[2]).transpose(1, 2).flatten(2)


def attend(x: Tensor, weighted: Tensor, z: Tensor, causal: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Attention before its division, with a row for every key and a column for every head and query.

    Args:
        x: (n_measures, N, d), all sequences of all replicas.
        weighted: (n_measures, d+1, N), from :func:`weighted_columns`.
        z: (n_measures, d, n_heads * N).
        causal: as for :func:`forward`.

    Returns:
        E_ji = e^{<z_i, x_j> - max_j}, (n_measures, N, n_heads * N); 1/Σ_j w_j E_ji, with 1 row; and its product with
        Σ_j w_j E_ji x_j, which is g_i, with d rows. Weights are in the few columns of x, not in the many of E.
    """
    n_tokens, width = x.shape[1:]
    attention = torch.bmm(x, z)
    if causal:
        earlier = torch.ones(n_tokens, n_tokens, dtype=torch.bool, device=x.device).tril_(-1)
        attention.view(len(x), n_tokens, -1, n_tokens).masked_fill_(earlier[:, None], -torch.inf)
    attention -= attention.amax(dim=1, keepdim=True)
    attention.exp_()
    sums = torch.bmm(weighted, attention)
    inverse = sums[:, width:].reciprocal()
    return attention, inverse, sums[:, :width] * inverse


def weighted_columns(x: Tensor, shares: Tensor) -> Tensor:
    """w_i x_i, and w_i below it, as columns: (n_replicas * n_sequences, d+1, N)."""
    shares = shares.reshape(-1, 1, shares.shape[-1])
    return torch.cat([x.flatten(0, 1).mT * shares, shares], dim=1)


def padded(x: Tensor, matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens and matrices with zeros behind their width, if products are so small that wider ones take less time."""
    smallest = _SMALL / (matrices.shape[3] * x.shape[2])
    wanted = math.ceil(max(smallest / x.shape[2], smallest**0.5))
    more = wanted - x.shape[-1]
    if not 0 < more <= x.shape[-1] or x.device.type != "cpu":
        return x, matrices
    pad = torch.nn.functional.pad
    return pad(x, (0, more)), pad(matrices, (0, more, 0, 0, 0, more))


def head_slices(x: Tensor, n_heads: int) -> Iterator[slice]:
    """Heads whose attention weights are held at a time."""
    n_groups, n_sequences, n_tokens, _ = x.shape
    size = max(1, _WEIGHTS["cpu" if x.device.type == "cpu" else "cuda"] // (n_groups * n_sequences * n_tokens**2))
    for start in range(0, n_heads, size):
        yield slice(start, min(start + size, n_heads))


def normalised(x: Tensor) -> tuple[Tensor, Tensor]:
    """x √d/|x| and √d/|x|, (..., d) and (..., 1)."""
    scale = x.shape[-1] ** 0.5 / torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x * scale, scale
