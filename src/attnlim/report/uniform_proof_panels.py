"""Panels of what the proof is made of: split coupling, the parts of the error, M and its blocks, parameters, Lemmas 28 to 30."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from attnlim.core.regression import slope
from attnlim.core.symbols import lookup
from attnlim.report.error_marks import AFTER, BEFORE, OTHERS, guide, legend, log_frame, panel, signed, with_bars
from attnlim.report.figures import INK
from attnlim.report.meanfield_errors import MARKERS
from attnlim.report.meanfield_reading import cells, errors
from attnlim.report.meanfield_scales import STEP_COLOURS, logarithmic, shade
from attnlim.report.uniform_reading import when
from attnlim.report.uniform_training_panels import STEPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

M = lookup("depth", "martingale").latex
_PARTS = {
    "martingale": ("chance of the heads", "#0b5fa5", "solid"),
    "time_shift": ("shift of ν in t", "#009e73", (0, (1, 1.2))),
    "propagated": ("propagated", "#d55e00", (0, (5, 2))),
    "parameters": ("parameters", "#8a4b9f", (0, (4, 1.5, 1, 1.5))),
    "total": ("their sum, the error", INK, "solid"),
}
# the error lies on the part by chance before training
_WIDTHS = {"martingale": 3.4, "total": 1.3}
LEMMAS = {"parameters": "heads, Lemma 28", "depth": "depth, Lemma 29", "gradients": "gradients, Lemma 30"}


def split_errors(axes: Axes, dataset: xr.Dataset) -> None:
    """Between (2L, 1) and (L, 2) of the same heads, over L: Xavier after some steps, and a law with a drift."""
    panel(axes, "Split coupling", "the same heads as $2L$ layers of one or $L$ of two; slopes", "$L$", "distance")
    layers = dataset["split_layers"].to_numpy()
    series = [("xavier", int(step), when(int(step))) for step in dataset["split_step"]]
    for index, (law, step, words) in enumerate([*series, ("off-centre", 0, "with a drift")]):
        sets = dataset["split_error"].sel(split_law=law, split_step=step).rename(split_init="init")
        found = errors(sets)
        power = float(slope(np.log(layers), np.log(found["estimate"].to_numpy())))
        with_bars(
            axes, layers, found, MARKERS[index % len(MARKERS)] + "-", STEP_COLOURS[index % len(STEP_COLOURS)],
            label=f"{words}: {signed(power)}",
        )  # fmt: skip
    # the legend stands below
    log_frame(axes, 1.35, 6.0, 1.6)
    legend(axes, "lower left")


def error_parts(axes: Axes, one: xr.Dataset, step: int, top: float) -> None:
    """Root mean squares of the parts of the error over t.

    Args:
        axes: where to draw.
        one: of one network.
        step: which of its steps.
        top: of the axes, the same for all steps.
    """
    size = f"L = {int(one['stack_layers'])}, H = {int(one['stack_heads'])}"
    panel(
        axes, f"Parts of the error, {when(step)}", f"Lemma 40, root mean square; {size}", f"depth ${lookup('depth', 't').latex}$",
        "root mean square",
    )  # fmt: skip
    for name, (words, colour, dashes) in _PARTS.items():
        values = one["stack_part"].sel(stack_step=step, part=name)
        axes.plot(one["stack_t"], values, color=colour, ls=dashes, lw=_WIDTHS.get(name, 1.6), label=words)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.42 * top)
    legend(axes, "upper left", ncols=2)


def martingale_over_sizes(axes: Axes, dataset: xr.Dataset) -> None:
    """sup |M| over L·H, for each H, before training and after."""
    about = f"filled {when(int(dataset['stack_step'][-1]))}, open before training"
    panel(axes, "Chance of the heads", about, "$L \\cdot H$", f"sup $|{M}|$")
    heads, layers = (dataset[name].to_numpy() for name in ("stack_heads", "stack_layers"))
    for index, n_heads in enumerate(heads):
        for place in (-1, 0):
            sets = dataset["stack_martingale"].sel(stack_heads=n_heads).isel(stack_step=place).rename(stack_init="init")
            colour = shade(index, len(heads))
            with_bars(
                axes, layers * n_heads, errors(sets), MARKERS[index % len(MARKERS)] + "-", colour, lw=1.4 if place else 0.8,
                mfc=colour if place else "white", label=f"H = {n_heads}" if place else None,
            )  # fmt: skip
    left, right, top = axes.dataLim.x0, axes.dataLim.x1, axes.dataLim.y1
    log_frame(axes, 1.5, 1.4, 2.4)
    for words, power, dashes in (("1/2", -1 / 2, "solid"), ("1/3", -1 / 3, (0, (4, 2)))):
        guide(axes, (left, 1.6 * top), right, power, words, dashes)
    legend(axes, "lower left")


def blocks_of_depth(axes: Axes, dataset: xr.Dataset) -> None:
    """The two terms of Lemma 36 over the length m of a block, without their constants, and what was measured."""
    one = dataset.isel(stack_layers=-1, stack_heads=-1)
    n_layers, n_heads = int(one["stack_layers"]), int(one["stack_heads"])
    panel(
        axes,
        "Blocks of depth, Lemma 36",
        f"without constants; L = {n_layers}, H = {n_heads}",
        "layers of a block $m$",
        "",
    )
    m = np.geomspace(1, n_layers, 65)
    chance, remainder = (m * n_heads) ** -0.5, m / n_layers * n_heads**-0.5
    axes.plot(m, chance, color=BEFORE, lw=1.6, label="chance $(mH)^{-1/2}$")
    axes.plot(m, remainder, color=AFTER, lw=1.6, ls=(0, (5, 2)), label="remainder $(m/L)\\,H^{-1/2}$")
    best = n_layers ** (2 / 3)
    height = n_layers ** (-1 / 3) * n_heads**-0.5
    axes.plot(best, height, "o", color=INK, ms=6, zorder=5, label="best, $m = L^{2/3}$")
    measured = errors(one["stack_martingale"].isel(stack_step=-1).rename(stack_init="init"))
    axes.axhspan(float(measured["low"]), float(measured["high"]), color=OTHERS[0], alpha=0.25, lw=0)
    axes.axhline(float(measured["estimate"]), color=OTHERS[0], lw=1.3, label=f"measured sup $|{M}|$")
    axes.set_xlim(1, n_layers)
    axes.set_ylim(min(remainder[0], float(measured["low"])) / 1.5, 9 * max(1.0, float(measured["high"]), chance[0]) / 2)
    logarithmic(axes, "x", products=True)
    logarithmic(axes, "y")
    legend(axes, "upper right", ncols=2)


def heads_after_a_step(axes: Axes, small: xr.Dataset, large: xr.Dataset) -> None:
    """How far heads are from their shadows after one step of AdamW, with a small eps and a large one, over L·H."""
    panel(axes, "Heads and their shadows", "after 1 step of AdamW; slopes", "$L \\cdot H$", "root mean square distance")
    for one, colour, marker, words in ((small, BEFORE, "o", "small eps"), (large, AFTER, "s", "large eps")):
        found = cells(errors(one["coupling_average"].sel(step=1)).to_array("end")).to_dataset("end")
        products, estimate = (found["n_layers"] * found["n_heads"]).to_numpy(), found["estimate"].to_numpy()
        power = float(slope(np.log(products), np.log(estimate)))
        with_bars(axes, products, found, marker, colour, label=f"{words}: {signed(power)}")
        ends = np.array([products.min(), products.max()])
        level = np.exp(np.log(estimate).mean() - power * np.log(products).mean())
        axes.plot(ends, level * ends**power, color=colour, lw=1.2, zorder=2)
    log_frame(axes, 1.35, 4.0, 1.5)
    legend(axes, "lower left")


def stability_ratios(axes: Axes, dataset: xr.Dataset, weight_decay: float, top: float) -> None:
    """The ratios of Lemmas 28 to 30 over steps at one weight decay; ``top`` ends the axes, the same for all."""
    words = f"with a weight decay of {weight_decay:g}" if weight_decay else "without weight decay"
    panel(axes, f"Ratios {words}", "measured over what the lemma bounds it by", STEPS, "ratio")
    for index, (name, label) in enumerate(LEMMAS.items()):
        values = dataset["stability_ratio"].sel(weight_decay=weight_decay, stability_lemma=name).to_numpy()
        colour, dashes = (BEFORE, AFTER, OTHERS[0])[index], ("solid", (0, (5, 2)), (0, (1, 1.2)))[index]
        axes.plot(np.arange(len(values)), values, color=colour, ls=dashes, lw=1.6, label=label)
    axes.set_xlim(0, dataset.sizes["stability_step"] - 1)
    axes.set_ylim(0, 1.45 * top)
    legend(axes, "upper left", ncols=1)


def largest_parameter(axes: Axes, dataset: xr.Dataset) -> None:
    """Largest |θ| over steps, with and without weight decay."""
    theta = lookup("depth", "theta").latex
    panel(axes, "Parameters stay bounded", "Remark 27", STEPS, f"largest $|{theta}|$")
    for index, decay in enumerate(dataset["weight_decay"].to_numpy()):
        values = dataset["stability_largest"].sel(weight_decay=decay).to_numpy()
        words = f"weight decay {decay:g}" if decay else "none"
        dashes = ("solid", (0, (5, 2)))[index % 2]
        axes.plot(np.arange(len(values)), values, color=(BEFORE, AFTER)[index % 2], ls=dashes, lw=1.6, label=words)
    axes.set_xlim(0, dataset.sizes["stability_step"] - 1)
    axes.set_ylim(0, 1.3 * axes.dataLim.y1)
    legend(axes, "upper left", ncols=2)
