"""Panels of training onto the limit: losses, the distance over steps, worst inputs, parameters over depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from attnlim.core.checks import extra
from attnlim.core.intervals import jackknife_mean
from attnlim.core.symbols import lookup
from attnlim.report.error_marks import AFTER, BEFORE, guide, legend, log_frame, own_band, panel, with_bars
from attnlim.report.figures import INK, MUTED
from attnlim.report.meanfield_errors import MARKERS
from attnlim.report.meanfield_reading import cells, errors
from attnlim.report.meanfield_scales import STEP_COLOURS, shade
from attnlim.report.uniform_reading import own_error, when

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEPS = f"optimiser steps ${lookup('depth', 'step').latex}$"


def loss_over_steps(axes: Axes, one: xr.Dataset) -> None:
    """The loss of every network, its mean with a 95 % band over initialisations, and that of the limit."""
    panel(axes, "Training onto the limit", "loss with 95 % bands; dashed, the limit with its own error", STEPS, "loss")
    steps = one["training_step"].to_numpy()
    networks = _networks(one["loss"])
    for values, colour, marker, words in networks:
        sets = values.transpose("init", "training_step").to_numpy()
        found = jackknife_mean(sets)
        axes.fill_between(steps, found.low, found.high, color=colour, alpha=0.18, lw=0)
        axes.plot(steps, found.estimate, marker + "-", color=colour, lw=1.3, ms=3.5, label=words)
    limit, error = (one[name].to_numpy() for name in ("limit_loss", "limit_loss_error"))
    axes.fill_between(steps, limit - error, limit + error, color=MUTED, alpha=0.35, lw=0)
    axes.plot(steps, limit, color=INK, lw=1.4, ls=(0, (4, 2)), label="limit", zorder=5)
    axes.set_ylim(0, 1.04 * axes.dataLim.y1)
    _whole(axes)
    legend(axes, "upper right", ncols=2 if len(networks) > 4 else 1)


def distance_over_steps(axes: Axes, one: xr.Dataset) -> None:
    """E √(LH) of every network over steps, fresh inputs; open marks are the inputs that are trained on."""
    panel(
        axes, "Its distance over steps", "networks as on the left; open, on training inputs", STEPS,
        f"${lookup('depth', 'distance').latex}$ √(LH)",
    )  # fmt: skip
    steps = one["step"].to_numpy()
    for inputs in ("fresh", "training"):
        found = _networks(one["sup_tokens"].sel(inputs=inputs))
        # beside each other
        spread = 0.009 * np.ptp(steps)
        for index, (values, colour, marker, _) in enumerate(found):
            scale = float(values["n_layers"] * values["n_heads"]) ** 0.5
            shift = spread * (index - (len(found) - 1) / 2)
            distances = scale * errors(values)
            if inputs == "fresh":
                with_bars(axes, steps + shift, distances, marker + "-", colour, ms=4.5)
            else:
                axes.plot(steps + shift, distances["estimate"], marker, color=colour, mfc="white", ms=4, zorder=3)
    axes.set_ylim(0, 1.04 * axes.dataLim.y1)
    _whole(axes)
    largest = float(one["n_layers"].max() * one["n_heads"].max()) ** 0.5
    own_band(axes, steps, largest * own_error(one).to_numpy())


def worst_inputs(axes: Axes, one: xr.Dataset) -> None:
    """E over L·H on fresh inputs, and on the worst that were found, before and after training."""
    last = int(one["step"][-1])
    panel(
        axes, "Uniform over inputs", "worst inputs that were found in a ball; open, fresh ones", "$L \\cdot H$",
        f"${lookup('depth', 'distance').latex}$",
    )  # fmt: skip
    for step, colour, marker in ((int(one["step"][0]), BEFORE, "o"), (last, AFTER, "s")):
        for inputs in ("worst", "fresh"):
            found = cells(errors(one["sup_tokens"].sel(step=step, inputs=inputs)).to_array("end")).to_dataset("end")
            with_bars(
                axes, found["n_layers"] * found["n_heads"], found, marker, colour, mfc=colour if inputs == "worst" else "white",
                label=when(step) if inputs == "worst" else None,
            )  # fmt: skip
    top, left = axes.dataLim.y1, axes.dataLim.x0
    right = axes.dataLim.x1
    own = own_error(one).sel(step=last).item()
    low = axes.dataLim.y0
    log_frame(axes, 1.35, 1.5 * max(1.0, low / own if own > 0.03 * low else 1.0), 2.2)
    guide(axes, (left, 1.5 * top), right / 1.25, -0.5, "1/2")
    own_band(axes, [], own)
    legend(axes, "upper right")


def parameters_over_depth(axes: Axes, one: xr.Dataset, matrix: str, about: str) -> None:
    """Root mean square of the entries of a matrix over t, a colour a step: layers of a network, nodes of the limit."""
    depth = f"depth ${lookup('depth', 't').latex}$"
    panel(axes, f"{matrix.capitalize()} matrices", about, depth, "root mean square entry")
    at = one["matrix"].to_numpy().tolist().index(matrix)
    for index, step in enumerate(one["step"].to_numpy()):
        colour = STEP_COLOURS[index % len(STEP_COLOURS)]
        law = one[["law_network", "law_limit"]].sel(step=step).isel(matrix=at)
        axes.plot(one["law_layer"], law["law_network"], color=colour, lw=1.1, alpha=0.75)
        axes.plot(
            one["law_node"],
            law["law_limit"],
            "o",
            color=colour,
            mec="white",
            mew=0.8,
            ms=6.5,
            zorder=4,
            label=when(step),
        )
    axes.set_xlim(0, 1)


def _networks(values: xr.DataArray) -> list[tuple[xr.DataArray, tuple[float, ...], str, str]]:
    """Those that were trained, with the colour of its L, the marker of its H, and its name."""
    found = cells(values)
    layers, heads = (np.unique(found[name].to_numpy()).tolist() for name in ("n_layers", "n_heads"))
    return [
        (
            one, shade(layers.index(one["n_layers"]), len(layers)), MARKERS[heads.index(one["n_heads"]) % len(MARKERS)],
            f"L = {int(one['n_layers'])}, H = {int(one['n_heads'])}",
        )
        for one in (found.isel(cell=index) for index in range(found.sizes["cell"]))
    ]  # fmt: skip


def _whole(axes: Axes) -> None:
    axes.xaxis.set_major_locator(extra("matplotlib.ticker", "report").MaxNLocator(6, integer=True))
