"""The arithmetic of a calibration: from measured derivatives of a few windows to the next slopes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlim.core.checks import InputError, one_of, real_number

Per = Literal["head", "layer", "model"]
PER: tuple[Per, ...] = ("head", "layer", "model")


@dataclass(frozen=True)
class Shrunk:
    """A derivative moved towards the means that it belongs to.

    Attributes:
        gradient: (n_layers, n_heads), nats per unit of slope.
        towards_layer: B_h, how much of a head's distance from its layer is kept, in [0, 1].
        towards_model: B_l, the same of a layer's distance from the model.
        noise: standard error of one head's derivative, pooled over heads.
    """

    gradient: NDArray[np.float64]
    towards_layer: float
    towards_model: float
    noise: float


def shrunk_gradient(windows: ArrayLike, per: Per = "head") -> Shrunk:
    r"""The mean derivative over windows, shrunk towards the layer's and the model's mean.

    .. math::
        m_l = \bar g + B_l(\bar g_l - \bar g), \quad \tilde g_{lh} = m_l + B_h(\bar g_{lh} - m_l), \quad
        B_l = \frac{\tau_l^2}{\tau_l^2 + (\tau_h^2 + v)/H}, \quad B_h = \frac{\tau_h^2}{\tau_h^2 + v}

    v is the variance of a head's mean over windows, from the differences between windows, pooled over heads; τ² are what
    is left of the spread between heads and between layers once the rest is taken off, 0 where nothing is. Where a layer
    shares a slope, its own mean is what counts, and only its noise v/H is shrunk.

    Source: the empirical Bayes estimate of Efron and Morris (Journal of the American Statistical Association 70, 1975), in
    two levels.

    Args:
        windows: (n_windows, n_layers, n_heads), nats per unit of slope, at least two windows; NaN for a head without one.
        per: "head", "layer" (every head has its layer's) or "model" (all have one).

    Returns:
        A :class:`Shrunk`; heads that are NaN stay NaN.

    Raises:
        InputError: another shape, fewer than two windows, or no head at all.

    >>> shrunk_gradient([[[1.0, 1.0], [3.0, 3.0]], [[1.0, 1.0], [3.0, 3.0]]]).gradient.tolist()
    [[1.0, 1.0], [3.0, 3.0]]
    """
    data = np.asarray(windows, dtype=np.float64)
    if data.ndim != 3 or len(data) < 2:
        raise InputError(f"windows must be (n_windows ≥ 2, n_layers, n_heads), got shape {data.shape}")
    if not np.isfinite(data).any():
        raise InputError("windows must hold the derivative of a head, got NaN throughout")
    per = one_of("per", per, PER)
    everything = data.mean(axis=0)
    held = np.isfinite(everything).any(axis=1)  # layers without softmax attention have no head to speak of
    mean = everything[held]
    n_layers, n_measured = len(mean), int(np.isfinite(mean).sum())
    n_heads = n_measured / n_layers
    noise = float(np.nanmean(data[:, held].var(axis=0, ddof=1))) / len(data)
    layer_mean = np.nanmean(mean, axis=1, keepdims=True)
    model_mean = float(layer_mean.mean())
    between_heads = _excess(mean - layer_mean, noise, n_measured - n_layers)
    of_layer = ((between_heads if per == "head" else 0.0) + noise) / n_heads
    between_layers = _excess(layer_mean - model_mean, of_layer, n_layers - 1)
    keep_layer = between_layers / (between_layers + of_layer) if between_layers and per != "model" else 0.0
    keep_head = between_heads / (between_heads + noise) if between_heads and per == "head" else 0.0
    of_layers = model_mean + keep_layer * (layer_mean - model_mean)
    shrunk = np.broadcast_to(of_layers, mean.shape) + (keep_head * (mean - of_layers) if keep_head else 0.0)
    gradient = np.full(everything.shape, np.nan)
    gradient[held] = np.where(np.isnan(mean), np.nan, shrunk)
    return Shrunk(gradient, keep_head, keep_layer, float(np.sqrt(noise)))


def stepped(slope: ArrayLike, gradient: ArrayLike, radius: float) -> NDArray[np.float64]:
    r"""Slopes one step down the derivative, inside a trust region.

    .. math:: w - r\,\tilde g/\sqrt{\operatorname{mean}\tilde g^2}

    The derivative is only right near where it was taken, so the length of the step is chosen apart, on text of its own.

    Source: *ours*.

    Args:
        slope: (n_layers, n_heads), per nat.
        gradient: (n_layers, n_heads), nats per unit of slope; NaN heads stay where they are.
        radius: root mean square of the step over the heads that have a derivative, per nat, at least 0.

    Returns:
        (n_layers, n_heads), per nat.

    >>> stepped([[0.0, 0.0]], [[3.0, -4.0]], 0.5).round(3).tolist()
    [[-0.424, 0.566]]
    """
    radius = real_number("radius", radius, above=0.0, closed=True)
    down = np.asarray(gradient, dtype=np.float64)
    measured = down[np.isfinite(down)]
    size = float(np.sqrt((measured**2).mean())) if measured.size else 0.0
    start = np.asarray(slope, dtype=np.float64)
    return start - radius * np.nan_to_num(down) / size if size else start


def _excess(deviations: NDArray[np.float64], noise: float, freedom: int) -> float:
    """The variance of deviations beyond what noise makes, at least 0; 0 where a single one has nothing to differ from."""
    if not freedom:
        return 0.0
    return max(0.0, float(np.nansum(deviations**2)) / freedom - noise)
