"""The attention-only network of the mean-field limit, on token measures."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from attnlim.core.checks import real_number
from attnlim.depth.arguments import KEY, OUTPUT, QUERY, VALUE, batch, residual_factor

# entries of attention weights held at a time: on a CPU as many as its cache has room for
_WEIGHTS = {"cpu": 2**18, "cuda": 2**26}
# entries of the matrices of heads that are held at a time, if one layer has no more
_MATRICES = 2**22
# multiplications of a product below which torch.bmm goes a slow way on a CPU
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
    n_replicas, n_sequences, n_tokens, width = x.shape
    x, matrices = padded(x, matrices)
    measures, weighted = x.flatten(0, 1), weighted_columns(x, shares)
    columns = x.flatten(1, 2).mT
    moved = x.new_zeros(n_replicas, n_sequences * n_tokens, x.shape[-1])
    for heads in head_groups(x, matrices.shape[3]):
        to_query, to_value = matrices[:, :, :, heads].flatten(2, 3)
        z = by_sequence(to_query @ columns, n_sequences).view(len(measures), x.shape[-1], -1)
        _, _, g = attend(measures, weighted, z, causal)
        beside = g.view(n_replicas, n_sequences, -1, n_tokens).transpose(1, 2).flatten(2)
        moved.baddbmm_(beside.mT, to_value)
    return moved.view(x.shape)[..., :width]


def attend(x: Tensor, weighted: Tensor, z: Tensor, causal: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Attention before its division, with a row for every key and a column for every head and query.

    Args:
        x: (n_measures, N, d), all sequences of all replicas.
        weighted: (n_measures, d+1, N), from :func:`weighted_columns`.
        z: (n_measures, d, n_heads * N).
        causal: as for :func:`forward`.

    Returns:
        E_ji = e^{<z_i, x_j> - max_j}, (n_measures, N, n_heads * N); its sums Σ_j w_j E_ji, with 1 row, and
        g_i = Σ_j w_j E_ji x_j over them, with d rows. Weights are in the few columns of x, not in the many of E.
    """
    n_tokens, width = x.shape[1:]
    attention = torch.bmm(x, z)
    if causal:
        earlier = torch.ones(n_tokens, n_tokens, dtype=torch.bool, device=x.device).tril_(-1)
        attention.view(len(x), n_tokens, -1, n_tokens).masked_fill_(earlier[:, None], -torch.inf)
    attention -= attention.amax(dim=1, keepdim=True)
    attention.exp_()
    sums = torch.bmm(weighted, attention)
    return attention, sums[:, width:], sums[:, :width] / sums[:, width:]


def weighted_columns(x: Tensor, shares: Tensor) -> Tensor:
    """w_i x_i, and w_i below it, as columns: (n_replicas * n_sequences, d+1, N)."""
    shares = shares.flatten(0, 1)[:, None]
    return torch.cat([x.flatten(0, 1).mT * shares, shares], dim=1)


def by_sequence(columns: Tensor, n_sequences: int) -> Tensor:
    """(..., rows, n_sequences * N) as (..., n_sequences, rows, N)."""
    return columns.unflatten(-1, (n_sequences, -1)).transpose(-3, -2).contiguous()


def padded(x: Tensor, matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens and matrices with zeros behind their width, if a product of one head is so small that they save time."""
    wanted = -(-_SMALL // (matrices.shape[3] * x.shape[2] ** 2))
    more = wanted - x.shape[-1]
    if not 0 < more <= x.shape[-1] or x.device.type != "cpu":
        return x, matrices
    pad = torch.nn.functional.pad
    return pad(x, (0, more)), pad(matrices, (0, more, 0, 0, 0, more))


def head_groups(x: Tensor, n_heads: int) -> Iterator[slice]:
    """Heads in groups whose attention weights are held at a time."""
    n_replicas, n_sequences, n_tokens, _ = x.shape
    size = max(1, _WEIGHTS["cpu" if x.device.type == "cpu" else "cuda"] // (n_replicas * n_sequences * n_tokens**2))
    for start in range(0, n_heads, size):
        yield slice(start, min(start + size, n_heads))


def normalised(x: Tensor) -> tuple[Tensor, Tensor]:
    """x √d/|x| and √d/|x|, (..., d) and (..., 1)."""
    scale = x.shape[-1] ** 0.5 / torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x * scale, scale
