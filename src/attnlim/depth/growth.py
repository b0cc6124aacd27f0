"""How gradients and tokens grow with the scale of the parameters, beside the bounds that the theory begins with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlim.core.checks import InputError, real_number
from attnlim.depth.arguments import KEY, OUTPUT, QUERY, VALUE, batch, residual_factor
from attnlim.depth.costates import adjoint
from attnlim.depth.losses import Loss
from attnlim.depth.network import forward

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GradientGrowth:
    """Rescaled gradients at parameters sθ.

    Attributes:
        scales: (n_scales,), s, dimensionless, ascending.
        norms: (n_scales, ..., 4), Frobenius norms of G_Q, G_K, G_V, G_O over all layers and heads of a replica.
        slopes: (n_scales-1, ..., 4), d ln|G|/d ln s between neighbours; NaN where a norm is 0.
        bound: as ``norms``.
    """

    scales: Floats
    norms: Tensor
    slopes: Tensor
    bound: Tensor


@dataclass(frozen=True)
class StateGrowth:
    """The largest norm of a token at parameters sθ.

    Attributes:
        scales: (n_scales,), s, dimensionless, ascending.
        largest: (n_scales, n_layers+1, ...), max_i |x_i^r|; NaN or ``inf`` once the float range is left.
        post_norm: the same of the network with post-norm: √width behind every layer.
        bound: of ``largest``.
    """

    scales: Floats
    largest: Tensor
    post_norm: Tensor
    bound: Tensor


def gradient_growth(
    theta: Tensor,
    x: Tensor,
    loss: Loss,
    scales: Iterable[float],
    beta: float = 1.0,
    weights: Tensor | None = None,
) -> GradientGrowth:
    r"""The gradients of query, key, value and output matrices over the scale of all parameters.

    .. math::
        |G_Q| \le \beta|K|\,|O^\top V|\,R^3 A, \quad |G_K| \le \beta|Q|\,|O^\top V|\,R^3 A, \quad
        |G_V| \le |O|\,R A, \quad |G_O| \le |V|\,R A

    for each layer and head, with R = max|x^r|, A = max|a^{r+1}| and spectral norms of parameters. At small s tokens and
    adjoint do not depend on s, so that |G_Q| and |G_K| grow as s³, |G_V| and |G_O| as s; the local slopes differ from
    3 and 1 by O(s²). This cube is why no bound is global in training without decoupled decay.

    Source: "Uniform scaling limits of AdamW-trained transformers", introduction, for the cube; bounds and rate are
    [*derived*](../depth-derivations.md#growth).

    Args:
        theta, x, beta, weights: as for :func:`attnlim.depth.forward`; residual 1/(LH).
        loss: of the last tokens, see :class:`attnlim.depth.Loss`.
        scales: s, above 0, ascending.

    Returns:
        :class:`GradientGrowth`.

    Raises:
        InputError: as for :func:`attnlim.depth.forward`, or scales that do not ascend from above 0.

    Cost: forward and adjoint for every scale.

    >>> from attnlim.depth import MomentLoss, initial_parameters
    >>> found = gradient_growth(
    ...     initial_parameters(2, 1, 2, 3), torch.eye(3).double() + 1, MomentLoss(torch.zeros(3).double()), [1e-3, 2e-3]
    ... )
    >>> found.slopes[0].round(decimals=3).tolist()
    [3.0, 3.0, 1.0, 1.0]
    """
    given, steps = batch(theta, x, weights), _ascending(scales)
    shares = given.log_weights.exp().view(*given.leading, -1)
    norms, bounds = [], []
    for scale in steps:
        scaled = scale * theta
        tokens = forward(scaled, x, beta, weights)
        _, terminal = loss(tokens[-1], shares)
        found = adjoint(scaled, tokens, terminal, beta, weights)
        norms.append(_root_of_squares(torch.linalg.matrix_norm(found.gradient)))
        # (n_layers, replicas..., sequences...): R of the layer's input, A behind it
        reach, pull = _largest(tokens[:-1]), _largest(found.adjoint[1:])
        linear, cubic = (
            _to_heads(values.flatten(1 + len(given.replicas)), len(given.replicas))
            for values in ((reach * pull)[..., None], (reach**3 * pull)[..., None])
        )
        size = torch.linalg.matrix_norm(scaled, ord=2)
        both = torch.linalg.matrix_norm(_products(scaled), ord=2)
        of_head = torch.empty_like(size)
        of_head[..., QUERY] = beta * size[..., KEY] * both * cubic
        of_head[..., KEY] = beta * size[..., QUERY] * both * cubic
        of_head[..., VALUE] = size[..., OUTPUT] * linear
        of_head[..., OUTPUT] = size[..., VALUE] * linear
        bounds.append(_root_of_squares(of_head))
    found_norms = torch.stack(norms)
    stride = found_norms.new_tensor(np.diff(np.log(steps))).view(-1, *[1] * (found_norms.ndim - 1))
    return GradientGrowth(steps, found_norms, found_norms.log().diff(dim=0) / stride, torch.stack(bounds))


def state_growth(
    theta: Tensor,
    x: Tensor,
    scales: Iterable[float],
    beta: float = 1.0,
    weights: Tensor | None = None,
    *,
    residual: float | None = None,
    causal: bool = False,
) -> StateGrowth:
    r"""The largest token after each layer over the scale of all parameters, with and without post-norm.

    .. math::
        \max_i |x_i^r| \le \max_i |x_i^0| \prod_{l<r} \Big(1 + \frac{s^2}{LH}\sum_h |O_h^\top V_h|\Big)
        \le \max_i |x_i^0|\, \exp\Big(\frac{s^2}{LH} \sum_{l<r}\sum_h |O_h^\top V_h|\Big)

    in spectral norms: attention averages, so that its output is no longer than the longest token. Equality holds for
    equal tokens along a common first singular direction. Post-norm holds every token at √width.

    Source: "Uniform scaling limits of AdamW-trained transformers", section 2, for Grönwall's bound and its absence under
    post-norm; the product is [*derived*](../depth-derivations.md#growth).

    Args:
        theta, x, beta, weights, residual, causal: as for :func:`attnlim.depth.forward`; another residual stands in the
            bound for 1/(LH).
        scales: s, above 0, ascending.

    Returns:
        :class:`StateGrowth`.

    Raises:
        InputError: as for :func:`attnlim.depth.forward`, or scales that do not ascend from above 0.

    Cost: two forward passes for every scale.

    >>> theta = torch.zeros(4, 1, 4, 2, 2, dtype=torch.float64)
    >>> theta[:, 0, 2] = theta[:, 0, 3] = torch.eye(2)
    >>> found = state_growth(theta, torch.tensor([[3.0, 4.0]]).double(), [1.0])    # (1 + 1/4)^4 at the end
    >>> found.largest[0, -1].item() == found.bound[0, -1].item() == 5 * 1.25**4
    True
    >>> round(found.post_norm[0, -1].item() ** 2, 9)
    2.0
    """
    given, steps = batch(theta, x, weights), _ascending(scales)
    n_layers, n_heads = given.theta.shape[1:3]
    factor = residual_factor(residual, n_layers, n_heads)
    spectral = torch.linalg.matrix_norm(_products(given.theta), ord=2).sum(dim=-1)  # (n_replicas, n_layers)
    start = torch.linalg.vector_norm(given.x, dim=-1).amax(dim=-1)
    largest: list[Tensor] = []
    normed: list[Tensor] = []
    bounds = []
    for scale in steps:
        for kept, post_norm in ((largest, False), (normed, True)):
            tokens = forward(scale * theta, x, beta, weights, residual=residual, causal=causal, post_norm=post_norm)
            kept.append(_largest(tokens))
        growth = (1 + factor * scale**2 * spectral).cumprod(dim=1)
        growth = torch.cat([torch.ones_like(growth[:, :1]), growth], dim=1).T
        bounds.append((growth[..., None] * start).view(n_layers + 1, *given.leading))
    return StateGrowth(steps, torch.stack(largest), torch.stack(normed), torch.stack(bounds))


def _ascending(scales: Iterable[float]) -> Floats:
    steps = [real_number("scales", scale, above=0.0) for scale in scales]
    if not steps or any(not one < other for one, other in pairwise(steps)):
        raise InputError(f"scales must hold at least one number and ascend, got {steps}")
    return np.array(steps)


def _largest(tokens: Tensor) -> Tensor:
    """Largest norm of a token, without the last two axes."""
    norm: Tensor = torch.linalg.vector_norm(tokens, dim=-1)
    return norm.amax(dim=-1)


def _products(theta: Tensor) -> Tensor:
    """O^T V of every head."""
    return theta[..., OUTPUT, :, :].mT @ theta[..., VALUE, :, :]


def _to_heads(values: Tensor, n_axes: int) -> Tensor:
    """(n_layers, replicas..., sequences) as a mean over sequences beside heads, (replicas..., n_layers, 1)."""
    return values.mean(dim=-1).movedim(0, n_axes)[..., None]


def _root_of_squares(values: Tensor) -> Tensor:
    """(..., n_layers, n_heads, 4) to (..., 4)."""
    return values.square().sum(dim=(-3, -2)).sqrt()
