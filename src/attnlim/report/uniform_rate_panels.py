"""Panels of the rate: the error over L, equal products L·H, the surface of both, and what the constant depends on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from attnlim.core.checks import extra
from attnlim.core.symbols import lookup
from attnlim.report.error_marks import (
    AFTER,
    BEFORE,
    OTHERS,
    guide,
    legend,
    log_steps,
    own_band,
    panel,
    second_line,
    with_bars,
)
from attnlim.report.figures import INK, SEQUENTIAL
from attnlim.report.meanfield_errors import MARKERS, fit_words
from attnlim.report.meanfield_panels import rates_panel
from attnlim.report.meanfield_reading import errors, fit_of
from attnlim.report.meanfield_scales import logarithmic, shade
from attnlim.report.uniform_reading import own_error, when

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

E = lookup("depth", "distance").latex
# a root of mathematics is a glyph that no browser has
SCALED = f"${E}$ √(LH)"


def error_over_layers(axes: Axes, one: xr.Dataset, step: int) -> None:
    """E over L for each H with the fitted surface's lines, two guides, and the exponents with their intervals.

    Args:
        axes: where to draw.
        one: the grid of rates.
        step: which of its steps.
    """
    fresh, own = one.sel(inputs="fresh"), own_error(one)
    at = fresh.sel(step=step)
    fit = fit_of(at)
    title = when(step)
    panel(axes, f"Error over layers, {title}", f"fitted {fit_words(fit)}", "$L$", f"${E}$")
    heads = one["n_heads"].to_numpy()
    every = errors(fresh["sup_tokens"])
    for index, n_heads in enumerate(heads):
        found = errors(at["sup_tokens"].sel(n_heads=n_heads)).dropna("n_layers", subset=["estimate"])
        layers, colour = found["n_layers"].to_numpy(), shade(index, len(heads))
        with_bars(axes, layers, found, MARKERS[index % len(MARKERS)], colour, label=f"H = {n_heads}")
        if fit is not None:
            finely = np.geomspace(layers.min(), layers.max(), 65)
            axes.plot(finely, fit.at(finely, n_heads), color=colour, lw=1.3, zorder=2)
    # one frame for all steps, with the limit's own error where it is not negligible
    low, high = float(every["low"].min()), float(every["high"].max())
    counts = own.to_numpy()[own > 0.03 * low]
    sizes = one["n_layers"].to_numpy()
    axes.set_xlim(sizes[0] / 1.3, sizes[-1] * 1.6)
    axes.set_ylim(min([0.7 * low, *(0.6 * counts)]), 3.2 * high)
    logarithmic(axes, "x", products=True)
    logarithmic(axes, "y")
    for words, power, dashes in (("1/2", -1 / 2, "solid"), ("1/3", -1 / 3, (0, (4, 2)))):
        guide(axes, (1.2 * sizes[0], 1.9 * high), float(sizes[-1]), power, words, dashes)
    own_band(axes, [], own.sel(step=step).item())
    legend(axes, "upper right")


def equal_products(axes: Axes, one: xr.Dataset) -> None:
    """E √(LH) over L·H: networks of one product stand above each other, before training and after."""
    last = int(one["step"][-1])
    panel(axes, "Equal products", f"filled {when(last)}, open before training", "$L \\cdot H$", SCALED)
    heads, fresh = one["n_heads"].to_numpy(), one["sup_tokens"].sel(inputs="fresh")
    for index, n_heads in enumerate(heads):
        for step in (last, int(one["step"][0])):
            found = errors(fresh.sel(step=step, n_heads=n_heads)).dropna("n_layers", subset=["estimate"])
            products = found["n_layers"].to_numpy() * n_heads
            colour, place = shade(index, len(heads)), 1.07 ** (index - (len(heads) - 1) / 2)
            with_bars(
                axes, place * products, found * products**0.5, MARKERS[index % len(MARKERS)], colour,
                mfc=colour if step == last else "white", label=f"H = {n_heads}" if step == last else None,
            )  # fmt: skip
    axes.set_xlim(axes.dataLim.x0 / 1.3, 1.3 * axes.dataLim.x1)
    axes.set_ylim(0, 1.12 * axes.dataLim.y1)
    logarithmic(axes, "x", products=True)
    products = np.geomspace(*axes.get_xlim(), 65)
    own_band(axes, products, products**0.5 * own_error(one).sel(step=last).item())
    legend(axes, "upper left", ncols=len(heads))


def surface(axes: Axes, one: xr.Dataset, step: int) -> None:
    """E √(LH) of each network as a map over L and H, with its numbers; one scale for the first and the last step."""
    panel(axes, f"Surface {when(step)}", f"{SCALED} of each network", "$L$", "$H$")
    layers, heads = one["n_layers"].to_numpy(), one["n_heads"].to_numpy()
    scaled = errors(one["sup_tokens"].sel(inputs="fresh"))["estimate"] * (one["n_layers"] * one["n_heads"]) ** 0.5
    colours = extra("matplotlib.colors", "report").LinearSegmentedColormap.from_list("errors", SEQUENTIAL)
    scaled = scaled.isel(step=[0, -1])
    low, high = float(scaled.min()), float(scaled.max())
    values = scaled.sel(step=step).transpose("n_heads", "n_layers").to_numpy()
    axes.pcolormesh(
        np.arange(len(layers) + 1) - 0.5, np.arange(len(heads) + 1) - 0.5, np.ma.masked_invalid(values), cmap=colours,
        vmin=low, vmax=high, edgecolors="white", lw=1,
    )  # fmt: skip
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            # dark on light cells
            ink = INK if value < low + 0.4 * (high - low) else "white"
            axes.text(column, row, f"{value:.1f}", ha="center", va="center", size=9, color=ink)
    axes.grid(visible=False)
    axes.set_xticks(range(len(layers)), [str(value) for value in layers])
    axes.set_yticks(range(len(heads)), [str(value) for value in heads])


def published_rates(axes: Axes, one: xr.Dataset) -> None:
    """How far four published rates stay from the errors, at every step."""
    rates_panel(axes, one.sel(inputs="fresh"), one["step"].to_numpy().tolist())
    second_line(axes, axes.get_title(loc="left"), "each with a factor of its own for both terms")


def constant_over_tokens(axes: Axes, one: xr.Dataset) -> None:
    """E √(LH) over N by two distances, before training and after."""
    last = int(one["step"][-1])
    panel(
        axes, "Tokens", f"filled {when(last)}, open before training", f"${lookup('depth', 'n_tokens').latex}$", SCALED
    )
    for index, (name, words) in enumerate((("sup_tokens", "largest over tokens"), ("rms_tokens", "root mean square"))):
        colour, marker = (BEFORE, OTHERS[0])[index], "os"[index]
        _constants(axes, one, "n_tokens", name, colour, marker, words)
    _flat(axes, one["n_tokens"].to_numpy())
    own_band(axes, one["n_tokens"], _scale(one) * own_error(one).sel(step=last).squeeze("width"))
    legend(axes, "upper left")


def constant_over_width(axes: Axes, grids: Mapping[str, xr.Dataset]) -> None:
    """E √(LH) over d, for each optimiser, before training and after."""
    last = int(next(iter(grids.values()))["step"][-1])
    panel(axes, "Width", f"filled {when(last)}, open before training", f"${lookup('depth', 'width').latex}$", SCALED)
    own = []
    for index, (words, one) in enumerate(grids.items()):
        _constants(axes, one, "width", "sup_tokens", (AFTER, OTHERS[1])[index], "os"[index], words)
        own.append(_scale(one) * own_error(one).sel(step=last).squeeze("n_tokens").to_numpy())
    places = one["width"].to_numpy()
    _flat(axes, places)
    own_band(axes, places, np.max(own, axis=0))
    legend(axes, "upper right")


def constant_over_focus(axes: Axes, grids: Mapping[str, xr.Dataset]) -> None:
    """E √(LH) over N with β = γ ln N, root mean square over tokens, before training and after."""
    panel(
        axes, "Both limits at once", "$\\beta = \\gamma\\,\\ln N$, root mean square over tokens",
        f"${lookup('depth', 'n_tokens').latex}$", SCALED,
    )  # fmt: skip
    own = []
    for index, (gamma, one) in enumerate(grids.items()):
        _constants(
            axes, one, "n_tokens", "rms_tokens", shade(index, len(grids)), MARKERS[index % len(MARKERS)], f"$\\gamma$ = {gamma}",
            1.03 ** (index - (len(grids) - 1) / 2),
        )  # fmt: skip
        own.append(_scale(one) * own_error(one, "rms_tokens").isel(step=-1).squeeze("width").to_numpy())
    places = one["n_tokens"].to_numpy()
    _flat(axes, places)
    own_band(axes, places, np.max(own, axis=0))
    legend(axes, "upper left", ncols=len(grids))


def constant_over_inputs(axes: Axes, grids: Mapping[str, xr.Dataset]) -> None:
    """E √(LH) for each law of the inputs, before training and after."""
    last = int(next(iter(grids.values()))["step"][-1])
    panel(axes, "Law of the inputs", f"filled {when(last)}, open before training", "", SCALED)
    own = []
    for index, one in enumerate(grids.values()):
        for step in (int(one["step"][0]), last):
            found = _scale(one) * errors(one["sup_tokens"].sel(inputs="fresh", step=step).squeeze())
            colour = (BEFORE, AFTER)[int(step == last)]
            with_bars(
                axes, [index], found.expand_dims("law"), "o", colour, ms=6, mfc=colour if step == last else "white",
                label=None,
            )  # fmt: skip
        own.append(_scale(one) * own_error(one).sel(step=last).item())
    axes.set_xlim(-0.6, len(grids) - 0.4)
    axes.set_ylim(0, 1.15 * axes.dataLim.y1)
    axes.set_xticks(range(len(grids)), list(grids))
    edges = np.arange(len(grids) + 1) - 0.5
    own_band(axes, np.repeat(edges, 2)[1:-1], np.repeat(own, 2))


def _constants(
    axes: Axes, one: xr.Dataset, name: str, distance: str, colour: object, marker: str, words: str, shift: float = 1.0
) -> None:
    for step in (int(one["step"][-1]), int(one["step"][0])):
        found = _scale(one) * errors(one[distance].sel(inputs="fresh", step=step).squeeze())
        last = step != int(one["step"][0])
        with_bars(
            axes, shift * one[name].to_numpy(), found, marker + "-", colour, lw=1.4 if last else 0.8,
            mfc=colour if last else "white", label=words if last else None,
        )  # fmt: skip


def _scale(one: xr.Dataset) -> float:
    """√(LH) of the one network that was measured."""
    return math.sqrt(one["n_layers"].item() * one["n_heads"].item())


def _flat(axes: Axes, places: np.ndarray) -> None:
    """Sizes on a log axis, and heights from 0, on which what is constant looks so."""
    axes.set_xlim(places[0] / 1.25, 1.25 * places[-1])
    # room for the legend
    axes.set_ylim(0, 1.32 * axes.dataLim.y1)
    logarithmic(axes, "x", products=True)
    log_steps(axes, places)
