"""Panels beside the proof: layouts of one head, residual factors, published numbers, cosines and focus, growth, Lipschitz."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from scipy import stats

from attnlim.core.regression import slope
from attnlim.core.symbols import lookup
from attnlim.report.error_marks import AFTER, BEFORE, OTHERS, legend, log_frame, own_band, panel, signed, with_bars
from attnlim.report.figures import INK, MUTED, literal
from attnlim.report.meanfield_errors import MARKERS
from attnlim.report.meanfield_reading import errors
from attnlim.report.meanfield_scales import logarithmic, shade

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# of the residual perceptrons of arXiv 2509.10167
_PUBLISHED, _OUTPUTS = (0.15, 0.22), 10
X_1 = f"standard deviation of ${lookup('depth', 'limit_tokens').latex}_1$"


def layouts_of_heads(axes: Axes, dataset: xr.Dataset) -> None:
    """What chance leaves of X_1 with one head a layer, over L, by how heads depend on each other over depth."""
    panel(axes, "One head a layer, over depth", "before training; slopes", "$L$", X_1)
    layers = dataset["layout_layers"].to_numpy()
    for index, layout in enumerate(dataset["layout"].to_numpy()):
        values = dataset["layouts_deviation"].isel(layout=index).to_numpy()
        power = float(slope(np.log(layers), np.log(values)))
        label = f"{literal(str(layout))}: {signed(power)}"
        axes.plot(
            layers, values, MARKERS[index] + "-", color=(BEFORE, AFTER, OTHERS[0])[index % 3], ms=5, lw=1.3, label=label
        )
    log_frame(axes, 1.35, 1.6, 1.3)
    legend(axes, "lower left")


def residual_factors(axes: Axes, dataset: xr.Dataset) -> None:
    """The spread of X_1 over L with the residual factors L^-1/2 and 1/L."""
    panel(axes, "Factor of the residual", "$H$ = 2, before training; slopes", "$L$", X_1)
    depths = dataset["law_depth"].to_numpy()
    factors = {"diffusive": "$L^{-1/2}$", "mean-field": "$1/L$"}
    for index, regime in enumerate(dataset["regime"].to_numpy()):
        one = dataset[["law_deviation", "law_deviation_error"]].isel(regime=index)
        estimate, half = one["law_deviation"], stats.norm.ppf(0.975) * one["law_deviation_error"]
        power = float(slope(np.log(depths), np.log(estimate.to_numpy())))
        found = xr.Dataset({"estimate": estimate, "low": estimate - half, "high": estimate + half})
        label = f"{factors.get(str(regime), '')} {literal(str(regime))}: {signed(power)}"
        with_bars(axes, depths, found, "os"[index % 2] + "-", (AFTER, BEFORE)[index % 2], label=label)
    log_frame(axes, 1.35, 1.9, 1.3)
    legend(axes, "lower left")


def published_numbers(axes: Axes, dataset: xr.Dataset) -> None:
    """Errors of residual perceptrons over L·M for each L, with the published curves, and the reference's noise in grey."""
    step = int(dataset["validation_step"][-1])
    panel(
        axes, "Perceptrons of arXiv 2509.10167", f"after {step} steps; lines, as published: $0.22\\,(D/LM)^{{1/2}} + 0.15/L$",
        "$L \\cdot M$", "error of outputs",
    )  # fmt: skip
    layers, hidden = (dataset[f"validation_{name}"].to_numpy() for name in ("layers", "hidden"))
    depth, noise = _PUBLISHED
    for index, n_layers in enumerate(layers):
        one = dataset["validation_error"].isel(validation_step=-1).sel(validation_layers=n_layers)
        found = errors(one.stack(init=("validation_draw", "repetition")))
        known = np.isfinite(found["estimate"].to_numpy())
        products = n_layers * hidden[known]
        colour = shade(index, len(layers))
        with_bars(
            axes, products, found.isel(validation_hidden=known), MARKERS[index % len(MARKERS)], colour, label=f"L = {n_layers}"
        )  # fmt: skip
        finely = np.geomspace(products.min(), products.max(), 33)
        published = noise * np.sqrt(_OUTPUTS / finely) + depth / n_layers
        axes.plot(finely, published, color=colour, lw=1.1, zorder=2)
    own = float(dataset["validation_noise"].isel(validation_step=-1).max())
    low = axes.dataLim.y0
    log_frame(axes, 1.5, 1.4 * max(1.0, low / own if own > 0.03 * low else 1.0), 1.6)
    own_band(axes, [], own)
    legend(axes, "upper right", ncols=2)


def cosines_over_depth(axes: Axes, dataset: xr.Dataset) -> None:
    """Mean cosine of two tokens over depth with β = γ ln N, before training and after, at the largest N."""
    n_tokens = int(dataset["focus_tokens"][-1])
    panel(
        axes, "Cosine of two tokens", f"$\\beta = \\gamma\\,\\ln N$, N = {n_tokens}; dashed, before", f"depth ${lookup('depth', 't').latex}$",
        f"mean cosine ${lookup('context', 'rho_hat').latex}$",
    )  # fmt: skip
    _over_depth(axes, dataset["focus_rho_hat"].isel(focus_tokens=-1), np.linspace(0, 1, dataset.sizes["focus_depth"]))
    low, high = axes.dataLim.y0, axes.dataLim.y1
    axes.set_ylim(low - 0.06 * (high - low), high + 0.3 * (high - low))
    legend(axes, "upper left", ncols=dataset.sizes["focus_gamma"], columnspacing=0.9)


def entropy_over_depth(axes: Axes, dataset: xr.Dataset) -> None:
    """Entropy of attention rows in units of ln N over depth, before training and after, at the largest N."""
    n_tokens = int(dataset["focus_tokens"][-1])
    panel(
        axes, "Focus of attention", f"$\\beta = \\gamma\\,\\ln N$, N = {n_tokens}; dashed, before", f"depth ${lookup('depth', 't').latex}$",
        "entropy$/\\ln N$",
    )  # fmt: skip
    n_layers = dataset.sizes["focus_layer"]
    entropy = dataset["focus_entropy"].isel(focus_tokens=-1) / math.log(n_tokens)
    _over_depth(axes, entropy, np.arange(n_layers) / n_layers)
    axes.set_ylim(0, 1.25)
    legend(axes, "upper left", ncols=dataset.sizes["focus_gamma"], columnspacing=0.9)


def _over_depth(axes: Axes, values: xr.DataArray, places: np.ndarray) -> None:
    gammas = values["focus_gamma"].to_numpy()
    for index, gamma in enumerate(gammas):
        one = values.sel(focus_gamma=gamma)
        colour = shade(index, len(gammas))
        axes.plot(places, one.isel(focus_step=0), color=colour, lw=1.1, ls=(0, (4, 2)))
        axes.plot(places, one.isel(focus_step=-1), color=colour, lw=1.8, label=f"$\\gamma$ = {gamma:g}")
    axes.set_xlim(0, 1)


def growth_of_tokens(axes: Axes, dataset: xr.Dataset) -> None:
    """The largest token after all layers over the scale of the parameters, without and with post-norm, and its bound."""
    panel(axes, "Growth of tokens", "largest after all layers", "parameters, in units of Xavier’s", "")
    scales = dataset["state_scale"].to_numpy()
    for index, (name, words) in enumerate(
        (("growth_ceiling", "bound"), ("growth_plain", "without norm"), ("growth_normed", "post-norm"))
    ):
        colour, marker = (MUTED, AFTER, BEFORE)[index], ("^--", "s-", "o-")[index]
        axes.plot(scales, dataset[name], marker, color=colour, ms=4.5, lw=1.4, label=words)
    log_frame(axes, 1.2, 20.0, 10.0)
    legend(axes, "upper left")


def lipschitz_ratios(axes: Axes, dataset: xr.Dataset) -> None:
    """The largest Lipschitz ratio of γ that was found, over its bound, in W_p over R|z|."""
    symbol = lookup("depth", "attended_mean").latex
    panel(
        axes,
        "Lipschitz constants",
        "largest ratio found over its bound",
        "$R\\,|z|$",
        f"share of the bound of ${symbol}$",
    )
    share, reach = dataset["maps_ratio"] / dataset["maps_bound"], dataset["reach"].to_numpy()
    for index, power in enumerate(dataset["power"].to_numpy()):
        label = "$p = \\infty$" if math.isinf(power) else f"$p$ = {power:g}"
        values = share.isel(power=index)
        colour = (BEFORE, AFTER, OTHERS[0])[index % 3]
        axes.plot(reach, values, MARKERS[index % len(MARKERS)] + "-", color=colour, ms=5, lw=1.3, label=label)
    axes.axhline(1.0, color=INK, lw=1, ls=(0, (4, 2)))
    axes.set_ylim(0, 1.3)
    axes.set_xlim(reach[0] / 1.2, 1.2 * reach[-1])
    logarithmic(axes, "x")
    axes.set_xticks(reach, [f"{value:g}" for value in reach])
    legend(axes, "lower left")
