"""The attention map γ(z, μ) on measures of tokens, with its derivatives in z and in the measure."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnlim.core.checks import InputError


def attended_mean(z: Tensor, points: Tensor, weights: Tensor | None = None) -> Tensor:
    r"""The mean of a measure under the tilt e^{⟨z, y⟩}: what a query z attends to.

    .. math:: \gamma(z, \mu) = \frac{\int e^{\langle z, y\rangle}\, y\, d\mu(y)}{\int e^{\langle z, y\rangle}\, d\mu(y)}

    Source: "Uniform scaling limits of AdamW-trained transformers", section 2.

    Args:
        z: (..., width), any unit, finite; z = βK^⊤Qx in the network.
        points: (..., n_points, width), in the inverse unit of ``z``, finite; leading axes broadcast against those of
            ``z``.
        weights: (n_points,) or as ``points`` without its last axis, above 0, of any sum; None: equal.

    Returns:
        (..., width); it keeps the gradient, as all functions here.

    Raises:
        InputError: shapes or dtypes that do not fit, values that are not finite, weights that are not above 0.

    Precision: a few eps max|y|(1 + |z| max|y|); no overflow at any |z|. Twin: ``attend`` in
    :mod:`attnlim.depth.naive`.

    >>> points = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> attended_mean(torch.tensor([0.0]).double(), points).item()
    0.5
    >>> attended_mean(torch.tensor([1e6]).double(), points).item()
    1.0
    """
    log_tilted, _ = _tilted(z, points, weights)
    return _mean(log_tilted, points)


def attended_covariance(z: Tensor, points: Tensor, weights: Tensor | None = None) -> Tensor:
    r"""The derivative of :func:`attended_mean` in z: the covariance under the tilt.

    .. math:: \nabla_z\gamma(z, \mu) = \operatorname{Cov}_{w_z \mu}(y), \qquad
        w_z(y) = \frac{e^{\langle z, y\rangle}}{\int e^{\langle z, \cdot\rangle}\, d\mu}

    Source: "Uniform scaling limits of AdamW-trained transformers", Lemma 1;
    [*derived*](../depth-derivations.md#attention-map).

    Args:
        z, points, weights: as for :func:`attended_mean`.

    Returns:
        (..., width, width), symmetric.

    Raises:
        InputError: as for :func:`attended_mean`.

    >>> points = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> attended_covariance(torch.tensor([0.0]).double(), points).item()
    0.25
    """
    log_tilted, _ = _tilted(z, points, weights)
    off = points - _mean(log_tilted, points)[..., None, :]
    return (log_tilted.exp()[..., None] * off).mT @ off


def lions_derivative(z: Tensor, points: Tensor, weights: Tensor | None = None, at: Tensor | None = None) -> Tensor:
    r"""The derivative of :func:`attended_mean` in the measure.

    .. math:: \partial_\mu\gamma(z, \mu)(y) = w_z(y)\,\big[I + (y - \gamma)\, z^\top\big]

    Moving the points by dy_j changes γ by Σ_j w_j ∂_μγ(y_j) dy_j for weights of sum 1. The density w_z is at most
    e^{2R|z|} in a ball of radius R, and at most 1/w_j at a point.

    Source: "Uniform scaling limits of AdamW-trained transformers", Lemma 1;
    [*derived*](../depth-derivations.md#attention-map).

    Args:
        z, points, weights: as for :func:`attended_mean`.
        at: (..., n_places, width), y, in the unit of the points; None: at the points themselves.

    Returns:
        (..., n_places, width, width): rows are coordinates of γ, columns those of y.

    Raises:
        InputError: as for :func:`attended_mean`.

    Precision: eps max|y| |z| relative to the density; far off the support the density may overflow to inf.

    >>> points = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> lions_derivative(torch.tensor([2.0]).double(), points, at=torch.tensor([[0.5]]).double()).round(decimals=6).item()
    0.1545
    """
    log_tilted, log_total = _tilted(z, points, weights)
    mean = _mean(log_tilted, points)
    at = points if at is None else at
    _finite("at", at)
    if at.ndim < 2 or at.shape[-1] != points.shape[-1]:
        raise InputError(f"at must have shape (..., n_places, {points.shape[-1]}), got {tuple(at.shape)}")
    density = ((at @ z[..., None])[..., 0] - log_total).exp()
    lever = (at - mean[..., None, :])[..., None] * z[..., None, None, :]
    return density[..., None, None] * (torch.eye(z.shape[-1]).to(z) + lever)


def _mean(log_tilted: Tensor, points: Tensor) -> Tensor:
    return (log_tilted.exp()[..., None, :] @ points)[..., 0, :]


def _tilted(z: Tensor, points: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Logarithms of the tilted weights, (..., n_points), and of their sum before they were normalised, (..., 1)."""
    _finite("z", z)
    _finite("points", points)
    if points.ndim < 2 or z.ndim < 1 or 0 in points.shape[-2:] or points.shape[-1] != z.shape[-1]:
        raise InputError(
            f"points must have shape (..., n_points, width) and z (..., width), got {tuple(points.shape)} "
            f"and {tuple(z.shape)}"
        )
    logits = (points @ z[..., None])[..., 0]
    if weights is None:
        logits = logits - math.log(points.shape[-2])
    else:
        _finite("weights", weights)
        if tuple(weights.shape) not in (tuple(points.shape[-2:-1]), tuple(points.shape[:-1])):
            raise InputError(
                f"weights must have shape {tuple(points.shape[-2:-1])} or {tuple(points.shape[:-1])}, "
                f"got {tuple(weights.shape)}"
            )
        if not bool((weights > 0).all()):
            raise InputError("weights must be above 0; leave points of weight 0 out")
        logits = logits + (weights / weights.sum(dim=-1, keepdim=True)).log()
    total = torch.logsumexp(logits, dim=-1, keepdim=True)
    return logits - total, total


def _finite(name: str, values: Tensor) -> None:
    if values.dtype not in (torch.float32, torch.float64):
        raise InputError(f"{name} must be float32 or float64, got {values.dtype}; convert with .double()")
    if not bool(torch.isfinite(values).all()):
        raise InputError(f"{name} must be finite, got NaN or inf; look for where it was made")
