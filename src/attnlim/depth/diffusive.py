"""The diffusive residual 1/(√L·H) beside the mean-field one 1/(LH): what has a limit as depth grows, the law or the path."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlim.core.checks import InputError, one_of, whole_number
from attnlim.core.seeds import generator
from attnlim.depth.initialisation import Law, drawn_heads
from attnlim.depth.network import forward

REGIMES = ("diffusive", "mean-field")
# replicas whose parameters are held at a time
_BLOCK = 256

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LawOverDepth:
    """Tokens X_1 behind the last layer over independent initial parameters; depths are independent of each other.

    Attributes:
        n_layers: L of the first axis.
        mean, mean_error: (n_depths, n_tokens, width), with standard errors, in the unit of the tokens.
        deviation, deviation_error: as ``mean``, the standard deviation over initial parameters.
        split, split_error: (n_depths,), root mean square of |X_1 - X_1'| over replicas and tokens, X_1' from the same
            heads in L/2 layers of 2H, with the factor that the regime has there.
        same_factor, same_factor_error: as ``split``, with the factor of the deeper network in both.
    """

    n_layers: tuple[int, ...]
    mean: Floats
    mean_error: Floats
    deviation: Floats
    deviation_error: Floats
    split: Floats
    split_error: Floats
    same_factor: Floats
    same_factor_error: Floats


def diffusive_factor(n_layers: int, n_heads: int) -> float:
    r"""The residual factor of the diffusive regime.

    .. math:: 1/(\sqrt{L}\, H)

    Source: the L^{-1/2} residual that "Uniform scaling limits of AdamW-trained transformers" contrasts with its own in
    section 2; the mean over heads is kept.

    Args:
        n_layers, n_heads: L and H, at least 1.

    Raises:
        InputError: a size below 1.

    >>> diffusive_factor(16, 2)
    0.125
    """
    return 1 / (math.sqrt(whole_number("n_layers", n_layers, 1)) * whole_number("n_heads", n_heads, 1))


def law_over_depth(
    x: Tensor,
    depths: Iterable[int],
    n_heads: int,
    head_dim: int,
    regime: str = "diffusive",
    law: str | Law = "xavier",
    beta: float = 1.0,
    n_replicas: int = 1024,
    seed: int = 0,
) -> LawOverDepth:
    r"""Mean and standard deviation of X_1 over initial parameters, as depth grows at a fixed number of heads.

    .. math:: x^{r+1} = x^r + \frac{1}{\sqrt{L}\,H} \sum_h O_h^\top V_h\, g \qquad \text{(diffusive)}

    A centred law makes the steps martingale increments of variance O(1/(LH)). In the diffusive regime X_1 has a limit in
    law, an Itô equation whose noise depends on H; its paths have none that the heads would determine: the same heads in
    half as many layers, with the factor of those, stay away at a distance of order one. With 1/(LH) the standard
    deviation falls as (LH)^{-1/2} and the two paths meet.

    With one factor in both networks the same heads do the same steps in another order, and the paths meet at
    L^{-1/2} in the diffusive regime too: it is the factor's dependence on L and H apart that keeps them from it.

    Source: [*derived*](../depth-derivations.md#diffusive); "Uniform scaling limits of AdamW-trained transformers",
    section 2, leaves this regime to further research.

    Assumes: for the limit in law, π symmetric under O → -O, as the named laws are.

    Args:
        x: (n_tokens, width), float64.
        depths: numbers of layers, each even.
        n_heads, head_dim: H and k, at least 1.
        regime: "diffusive" or "mean-field".
        law: as for :func:`attnlim.depth.initial_parameters`; iid over layers and heads.
        beta: inverse temperature, dimensionless, at least 0.
        n_replicas: draws of parameters at each depth, at least 4.
        seed: of the draws.

    Returns:
        :class:`LawOverDepth`; standard errors are over replicas, that of a deviation by the delta method.

    Raises:
        InputError: an odd or missing depth, an unknown regime, or as for :func:`attnlim.depth.forward`.

    Cost: three forward passes of n_replicas networks at every depth; memory 256 of them at a time.

    >>> found = law_over_depth(torch.eye(2).double(), [2, 8], n_heads=1, head_dim=2, n_replicas=64)
    >>> found.deviation.shape, bool((found.deviation > found.deviation_error).all())
    ((2, 2, 2), True)
    """
    one_of("regime", regime, REGIMES)
    sizes = [whole_number("depths", depth, 2) for depth in depths]
    if not sizes or any(depth % 2 for depth in sizes):
        raise InputError(f"depths must hold at least one number and even ones alone, got {sizes}; halves are compared")
    n_heads, head_dim = whole_number("n_heads", n_heads, 1), whole_number("head_dim", head_dim, 1)
    n_replicas = whole_number("n_replicas", n_replicas, 4)
    columns = []
    for depth in sizes:
        last, split, same = [], [], []
        for start in range(0, n_replicas, _BLOCK):
            count = min(_BLOCK, n_replicas - start)
            rng = generator(seed, "diffusive", depth, start)
            heads = drawn_heads(count * depth * n_heads, head_dim, x.shape[-1], law, rng)
            theta = heads.view(count, depth, n_heads, *heads.shape[1:])
            halved = theta.view(count, depth // 2, 2 * n_heads, *heads.shape[1:])
            factor, other = (_factor(regime, *net.shape[1:3]) for net in (theta, halved))
            last.append(forward(theta, x, beta, residual=factor)[-1])
            split.append(_square_distance(last[-1], forward(halved, x, beta, residual=other)[-1]))
            same.append(_square_distance(last[-1], forward(halved, x, beta, residual=factor)[-1]))
        columns.append(
            (*_moments(torch.cat(last).numpy()), *_root_mean(torch.cat(split)), *_root_mean(torch.cat(same)))
        )
    return LawOverDepth(tuple(sizes), *(np.stack(column) for column in zip(*columns, strict=True)))


def _factor(regime: str, n_layers: int, n_heads: int) -> float:
    return diffusive_factor(n_layers, n_heads) if regime == "diffusive" else 1 / (n_layers * n_heads)


def _square_distance(x: Tensor, y: Tensor) -> Tensor:
    """(n_replicas,), mean over tokens of the squared distance."""
    return (x - y).square().sum(dim=-1).mean(dim=-1)


def _moments(values: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Mean and standard deviation along the first axis, each followed by its standard error."""
    n = len(values)
    # from the first replica on: equal ones have no spread, not even of rounding
    off = values - values[0]
    mean, variance = values[0] + off.mean(axis=0), off.var(axis=0, ddof=1)
    fourth = ((off - off.mean(axis=0)) ** 4).mean(axis=0)
    deviation = np.sqrt(variance)
    of_variance = np.sqrt(np.maximum(fourth - variance**2 * (n - 3) / (n - 1), 0.0) / n)
    with np.errstate(invalid="ignore", divide="ignore"):
        return mean, deviation / math.sqrt(n), deviation, of_variance / (2 * deviation)


def _root_mean(squares: Tensor) -> tuple[Floats, Floats]:
    """The root of the mean with its standard error."""
    root = squares.mean().sqrt()
    return root.numpy(), (squares.std() / math.sqrt(len(squares)) / (2 * root)).numpy()
