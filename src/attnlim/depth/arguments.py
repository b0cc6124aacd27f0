"""Checks of what the network takes, and the axes of replicas and sequences made explicit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlim.core.checks import InputError, real_number

# the four matrices of a head, along the axis of length 4
QUERY, KEY, VALUE, OUTPUT = range(4)


@dataclass(frozen=True)
class Batch:
    """Parameters, tokens and their weights with all axes present.

    Attributes:
        theta: (n_replicas, n_layers, n_heads, 4, head_dim, width).
        x: (n_replicas, n_sequences, n_tokens, width).
        log_weights: (n_replicas, n_sequences, n_tokens), logarithms of weights that sum to 1.
        replicas, sequences: the axes as they were given.
    """

    theta: Tensor
    x: Tensor
    log_weights: Tensor
    replicas: tuple[int, ...]
    sequences: tuple[int, ...]

    @property
    def leading(self) -> tuple[int, ...]:
        """The leading axes of results that belong to tokens."""
        return self.replicas + self.sequences


def batch(theta: Any, x: Any, weights: Any = None) -> Batch:
    """Parameters and tokens that fit each other.

    Args:
        theta: (..., n_layers, n_heads, 4, head_dim, width), leading axes are replicas.
        x: (n_tokens, width) for every replica alike, or (..., sequences..., n_tokens, width), where the leading axes are
            those of the replicas (a length of 1 serves all).
        weights: (n_tokens,) or as ``x`` without its last axis: a token's share of the measure, above 0; None: equal.

    Raises:
        InputError: shapes or dtypes that do not fit, values that are not finite, weights that are not above 0.
    """
    theta, x = parameters(theta), _tensor("x", x)
    width, n_axes = theta.shape[-1], theta.ndim - 5
    replicas = tuple(theta.shape[:-5])
    if x.ndim < 2 or x.shape[-1] != width or x.shape[-2] < 1:
        raise InputError(f"x must have shape (..., n_tokens, {width}) to fit theta, got {tuple(x.shape)}")
    if (x.dtype, x.device) != (theta.dtype, theta.device):
        raise InputError(f"x must be {theta.dtype} on {theta.device} as theta, got {x.dtype} on {x.device}")
    if not all_finite(x):
        raise InputError("x must be finite, got NaN or inf; look for where it was made")
    if x.ndim == 2:
        x = x.expand(*replicas, *x.shape)
    given, sequences = tuple(x.shape[:n_axes]), tuple(x.shape[n_axes:-2])
    if x.ndim - 2 < n_axes or any(size not in (1, wanted) for size, wanted in zip(given, replicas, strict=True)):
        raise InputError(
            f"the leading axes of x must be theta's replicas {replicas} (or 1), then sequences, got {tuple(x.shape)}"
        )
    x = x.expand(*replicas, *sequences, *x.shape[-2:])
    n_replicas, n_sequences = math.prod(replicas), math.prod(sequences)
    return Batch(
        theta.reshape(n_replicas, *theta.shape[-5:]),
        x.reshape(n_replicas, n_sequences, *x.shape[-2:]),
        _log_weights(weights, x).expand(x.shape[:-1]).reshape(n_replicas, n_sequences, -1),
        replicas,
        sequences,
    )


def parameters(theta: Any) -> Tensor:
    """Parameters of a network, without a gradient.

    Raises:
        InputError: another shape than (..., n_layers, n_heads, 4, head_dim, width), an empty axis, another dtype than
            float32 or float64, NaN or inf.
    """
    theta = checked = _tensor("theta", theta)
    if theta.ndim < 5 or theta.shape[-3] != 4 or 0 in theta.shape:
        raise InputError(
            "theta must have shape (..., n_layers, n_heads, 4, head_dim, width) with no empty axis, "
            f"got {tuple(theta.shape)}; the axis of 4 is query, key, value, output"
        )
    if not all_finite(theta):
        raise InputError("theta must be finite, got NaN or inf; the run has diverged, or look for where it was made")
    return checked


def all_finite(values: Tensor) -> bool:
    """Whether no entry is NaN or infinite: one sum says yes, and only if it cannot, entries are looked at."""
    return bool(torch.isfinite(values.sum())) or bool(torch.isfinite(values).all())


def residual_factor(residual: Any, n_layers: int, n_heads: int) -> float:
    """The factor of a layer's sum over heads: 1/(LH) by default."""
    return 1 / (n_layers * n_heads) if residual is None else real_number("residual", residual, above=0.0)


def _tensor(name: str, values: Any) -> Tensor:
    values = torch.from_numpy(values) if isinstance(values, np.ndarray) else values
    if not isinstance(values, Tensor) or values.dtype not in (torch.float32, torch.float64):
        came = values.dtype if isinstance(values, Tensor) else type(values).__name__
        raise InputError(f"{name} must be a float32 or float64 tensor, got {came}; convert with torch.as_tensor")
    detached: Tensor = values.detach()
    return detached


def _log_weights(weights: Any, x: Tensor) -> Tensor:
    if weights is None:
        return x.new_full(x.shape[-2:-1], -math.log(x.shape[-2]))
    weights = _tensor("weights", weights)
    if tuple(weights.shape) not in (tuple(x.shape[-2:-1]), tuple(x.shape[:-1])):
        raise InputError(
            f"weights must have shape {tuple(x.shape[-2:-1])} or {tuple(x.shape[:-1])}, got {tuple(weights.shape)}"
        )
    if not bool((weights > 0).all()) or not bool(torch.isfinite(weights).all()):
        raise InputError("weights must be above 0 and finite; leave tokens of weight 0 out")
    shares: Tensor = weights / weights.sum(dim=-1, keepdim=True)
    return shares.log().to(x)
