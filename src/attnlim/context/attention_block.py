"""The paper's layer with weights: learned or random Q, K, V, O, several heads and an MLP."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attnlim.context.arguments import as_tensor, checked_tokens, directions, inverse_temperatures
from attnlim.context.simplex_arguments import residual_factor
from attnlim.core.checks import InputError, whole_number
from attnlim.core.seeds import generator


@dataclass(frozen=True)
class Weights:
    r"""The weights of one layer: H heads of size k on tokens of width d, and an optional MLP of m hidden units.

    Raises:
        InputError: shapes that do not fit, one MLP matrix without the other, weights of different dtypes or
            devices, or NaN or infinity in them.
    """

    query: Tensor  # (H, k, d)
    key: Tensor  # (H, k, d)
    value: Tensor  # (H, k, d)
    output: Tensor  # (H, k, d), used transposed, as in the paper on depth and heads
    mlp_in: Tensor | None = None  # (m, d)
    mlp_out: Tensor | None = None  # (d, m)

    def __post_init__(self) -> None:
        shape = tuple(self.query.shape)
        if len(shape) != 3 or 0 in shape:
            raise InputError(f"query must have shape (heads, head size, width), none of them 0, got {shape}")
        wanted: dict[str, tuple[int, ...]] = dict.fromkeys(("query", "key", "value", "output"), shape)
        if (self.mlp_in is None) != (self.mlp_out is None):
            raise InputError("mlp_in and mlp_out come together, got one of them; give both or neither")
        if self.mlp_in is not None:
            hidden = self.mlp_in.shape[0]
            wanted |= {"mlp_in": (hidden, shape[2]), "mlp_out": (shape[2], hidden)}
        for name, size in wanted.items():
            matrix: Tensor = getattr(self, name)
            if tuple(matrix.shape) != size:
                raise InputError(f"{name} must have shape {size} to fit query {shape}, got {tuple(matrix.shape)}")
            if (matrix.dtype, matrix.device) != (self.query.dtype, self.query.device):
                came = f"{matrix.dtype} on {matrix.device}"
                raise InputError(f"{name} must be {self.query.dtype} on {self.query.device} as query, got {came}")
            if not bool(torch.isfinite(matrix).all()):
                raise InputError(f"{name} must be finite, got NaN or inf; look for an overflow where it was made")

    @property
    def width(self) -> int:
        """The dimension d of the tokens."""
        return self.query.shape[2]

    def to(self, like: Tensor) -> Weights:
        """The same weights in the dtype and on the device of ``like``, usually the tokens.

        >>> identity_weights(2).to(torch.zeros(1, 2)).query.dtype
        torch.float32
        """
        given: list[Tensor] = [getattr(self, field.name) for field in fields(self)]
        return Weights(*(matrix if matrix is None else matrix.to(like) for matrix in given))


def identity_weights(width: int) -> Weights:
    """One head with Q = K = V = O = I and no MLP, float64: the paper's layer.

    Source: "Critical attention scaling", section 2.

    Raises:
        InputError: ``width`` is not a whole number of at least 1.

    >>> x = torch.tensor([[3.0, 4.0], [0.0, 2.0]], dtype=torch.float64)
    >>> torch.equal(block(x, identity_weights(2), beta=1.0), block(x, None, beta=1.0))
    True
    """
    identity = torch.eye(whole_number("width", width, 1), dtype=torch.float64)[None]
    return Weights(identity, identity, identity, identity)


def random_weights(width: int, n_heads: int, head_dim: int, mlp_width: int | None = None, seed: int = 0) -> Weights:
    r"""Independent normal weights that keep lengths in expectation, float64.

    .. math::
        Q, K, V \sim N(0, 1/k), \quad O \sim N(0, 1/(dH)), \quad W_{in} \sim N(0, 1), \quad W_{out} \sim N(0, 1/(dm))

    For a unit y: E|Q y|² = E|K y|² = E|Σ_h O_h^T V_h y|² = 1, and each hidden unit of the MLP has variance 1.
    Scores <Q y_i, K y_j> have mean 0 and variance 1/k: they do not favour a token's own direction.

    Source: *ours*.

    Args:
        width: d, at least 1.
        n_heads: H, at least 1.
        head_dim: k, at least 1.
        mlp_width: m, at least 1; None for a layer without MLP.
        seed: at least 0.

    Returns:
        :class:`Weights`.

    Raises:
        InputError: an argument outside its range.

    >>> weights = random_weights(8, n_heads=2, head_dim=4, mlp_width=16)
    >>> tuple(weights.query.shape), tuple(weights.mlp_out.shape)
    ((2, 4, 8), (8, 16))
    """
    width, n_heads = whole_number("width", width, 1), whole_number("n_heads", n_heads, 1)
    head_dim = whole_number("head_dim", head_dim, 1)
    hidden = 0 if mlp_width is None else whole_number("mlp_width", mlp_width, 1)

    def draw(name: str, shape: tuple[int, ...], variance: float) -> Tensor:
        normal = generator(seed, "weights", name).standard_normal(shape)
        return torch.from_numpy(normal * math.sqrt(variance))

    heads = (n_heads, head_dim, width)
    query, key, value = (draw(name, heads, 1 / head_dim) for name in ("query", "key", "value"))
    output = draw("output", heads, 1 / (width * n_heads))
    if not hidden:
        return Weights(query, key, value, output)
    mlp_in, mlp_out = draw("mlp_in", (hidden, width), 1.0), draw("mlp_out", (width, hidden), 1 / (width * hidden))
    return Weights(query, key, value, output, mlp_in, mlp_out)


def weights_from_projections(query: Tensor, key: Tensor, value: Tensor, output: Tensor, n_heads: int) -> Weights:
    """The weights of a model's attention, from the matrices of its linear layers.

    Where the model normalises by root mean square with a gain, multiply the columns of query, key and value by
    gain·√d first. Rotary positions and biases have no place in this layer.

    Source: *ours*.

    Args:
        query: (H·k, d), as ``q_proj.weight``.
        key: (G·k, d), G a divisor of H: each key head serves H/G consecutive query heads.
        value: (G·k, d).
        output: (d, H·k), as ``o_proj.weight``.
        n_heads: H, at least 1.

    Returns:
        :class:`Weights` without an MLP; the model's softmax scale, usually 1/√k, is the ``beta`` of :func:`block`.

    Raises:
        InputError: shapes that do not fit.

    >>> matrix = torch.arange(12.0).reshape(4, 3)
    >>> weights = weights_from_projections(matrix, matrix[:2], matrix[:2], matrix.T, n_heads=2)
    >>> tuple(weights.key.shape), torch.equal(weights.key[0], weights.key[1])
    ((2, 2, 3), True)
    """
    n_heads = whole_number("n_heads", n_heads, 1)
    if query.ndim != 2 or query.shape[0] % n_heads:
        raise InputError(f"query must have shape (heads · head size, width), got {tuple(query.shape)}, {n_heads} heads")
    head_dim, width = query.shape[0] // n_heads, query.shape[1]

    def heads(name: str, matrix: Tensor) -> Tensor:
        groups = matrix.shape[0] // head_dim if matrix.ndim == 2 else 0
        if not groups or tuple(matrix.shape) != (groups * head_dim, width) or n_heads % groups:
            wanted = f"(G·{head_dim}, {width}) with G a divisor of {n_heads}"
            raise InputError(f"{name} must have shape {wanted} to fit query, got {tuple(matrix.shape)}")
        return matrix.reshape(groups, head_dim, width).repeat_interleave(n_heads // groups, dim=0)

    if tuple(output.shape) != (width, n_heads * head_dim):
        raise InputError(f"output must have shape {(width, n_heads * head_dim)}, got {tuple(output.shape)}")
    return Weights(heads("query", query), heads("key", key), heads("value", value), heads("output", output.T))


def block(
    x: Tensor | np.ndarray, weights: Weights | None, beta: float, alpha: float = 0.0, causal: bool = False
) -> Tensor:
    r"""One layer: attention of all heads, the residual branch and, if there is one, the MLP.

    .. math::
        y_i = \frac{x_i}{|x_i|}, \quad A^h_{ij} = \operatorname{softmax}_j(\beta \langle Q_h y_i, K_h y_j\rangle), \quad
        x_i' = \sum_h O_h^T V_h \sum_j A^h_{ij} y_j + \alpha x_i

        x_i'' = x_i' + W_{out}\, \mathrm{GELU}(W_{in}\, x_i'/|x_i'|)

    There is no 1/√k beside β: with Q = K = I the score is the cosine, and β has the paper's meaning. A model's own
    scale is the ``beta`` that reproduces it.

    Source: "Critical attention scaling", section 2, for Q = K = V = O = I; weights, heads and MLP are *ours*.

    Args:
        x: (n, d), tokens, any unit, float32 or float64; n ≥ 2, d ≥ 1, finite, no zero norm.
        weights: of the same width, dtype and device; None is Q = K = V = O = I with one head and no MLP.
        beta: inverse temperature, dimensionless, at least 0.
        alpha: residual factor of the attention, dimensionless, at least 0.
        causal: whether row i sees tokens 1..i alone.

    Returns:
        (n, d), x'' (x' without an MLP) in the unit of the weights; differentiable in ``x`` and in the weights.

    Raises:
        InputError: bad tokens, weights that do not fit them, ``beta`` or ``alpha`` negative, NaN or infinite.

    Cost: about 4Hn²k + 8Hndk operations; memory H·n·k, also for one backward pass, where torch has a fused kernel
    for the dtype (float32; float64 on the CPU), else H·n². Fused kernels have no second derivative and no forward
    mode; both work inside ``torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)``.
    Precision: that of the scores, so about β eps relative in A.
    Twin: the loops in ``tests/context/test_attention_block.py``.

    >>> x = torch.tensor([[3.0, 4.0], [0.0, 2.0]], dtype=torch.float64)
    >>> block(x, None, beta=0.0).round(decimals=6).tolist()    # the mean of (.6, .8) and (0, 1), twice
    [[0.3, 0.9], [0.3, 0.9]]
    """
    x = as_tensor(x)
    checked_tokens(x)  # what it returns carries no gradient
    # a list, so that a sequence of betas is refused as what it is: not a number
    beta = inverse_temperatures([beta], x.dtype)[0][0]
    alpha = residual_factor(alpha)
    y, _ = directions(x)
    if weights is None:
        return _attend(beta * y[None], y[None], y[None], causal)[0] + alpha * x
    if (weights.width, weights.query.dtype, weights.query.device) != (x.shape[1], x.dtype, x.device):
        came = f"width {weights.width}, {weights.query.dtype} on {weights.query.device}"
        raise InputError(f"weights must fit tokens of width {x.shape[1]}, {x.dtype} on {x.device}, got {came}")
    query, key, value = (y @ matrix.mT for matrix in (weights.query, weights.key, weights.value))
    attended = _attend(beta * query, key, value, causal)
    x = torch.einsum("hnk,hkd->nd", attended, weights.output) + alpha * x
    if weights.mlp_in is None or weights.mlp_out is None:
        return x
    return x + F.gelu(directions(x)[0] @ weights.mlp_in.T) @ weights.mlp_out.T


def _attend(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    """Softmax attention (H, n, k); the fused kernels want an axis of sequences in front."""
    return F.scaled_dot_product_attention(query[None], key[None], value[None], is_causal=causal, scale=1.0)[0]
