"""E over L·H after one step: measured, fitted, two slopes to compare with, and the limit's own error."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import xarray as xr

from attnlim.report.figures import INK, MUTED, line_axes
from attnlim.report.meanfield_reading import Bounded, Fit, cells, counted_steps, errors, fit_of, reference
from attnlim.report.meanfield_scales import logarithmic, shade

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "os^DvP"
GUIDES = (("1/2", 1 / 2, "solid"), ("1/3", 1 / 3, (0, (4, 2))))
OWN_ERROR = "the limit’s own error"
FIT = "fit, $E^2 = (c_1/L)^2 + (c_2 L^{-p} H^{-q})^2$"


class Frame(NamedTuple):
    """What the panels of all steps share."""

    products: tuple[float, float]  # of L·H
    errors: tuple[float, float]


def errors_panel(axes: Axes, system: xr.Dataset, frame: Frame) -> None:
    """One step: a colour and a marker for each H, error bars, the fit, two guides, and the limit's own error."""
    fresh = system.sel(inputs="fresh")
    fit = fit_of(fresh)
    line_axes(axes, f"After {counted_steps(int(system['step']))}", "$L \\cdot H$", "$E$")
    axes.set_title(axes.get_title(loc="left"), loc="left", size=12, weight="bold", color=INK, pad=20)
    axes.text(0, 1.03, fit_words(fit), transform=axes.transAxes, ha="left", va="bottom", size=9, color=MUTED)
    axes.set(xlim=frame.products, ylim=frame.errors)
    logarithmic(axes, "x", products=True)
    logarithmic(axes, "y")
    heads = system["n_heads"].to_numpy()
    for index, n_heads in enumerate(heads):
        found = errors(fresh["sup_tokens"].sel(n_heads=n_heads)).dropna("n_layers", subset=["estimate"])
        layers, estimate = found["n_layers"].to_numpy(), found["estimate"].to_numpy()
        bars = np.nan_to_num(np.stack([estimate - found["low"], found["high"] - estimate]))
        marker, colour = MARKERS[index % len(MARKERS)], shade(index, len(heads))
        axes.errorbar(
            layers * n_heads, estimate, bars, fmt=marker, color=colour, ms=5.5, lw=1.2, capsize=2, zorder=4,
            label=f"H = {n_heads}",
        )  # fmt: skip
        if "worst" in system["inputs"].to_numpy():
            worst = errors(system["sup_tokens"].sel(n_heads=n_heads, inputs="worst"))["estimate"]
            axes.plot(
                worst["n_layers"] * n_heads, worst, marker, color=colour, mfc="white", ms=5.5, mew=1.1, zorder=3,
                label="worst inputs found" if index == 0 else None,
            )  # fmt: skip
    if fit is not None:
        _fit_lines(axes, fit, cells(fresh["sup_tokens"]))
    _guides(axes, frame)
    own = float(reference(fresh, "sup_tokens"))
    # an empty band keeps its place in the legend
    axes.axhspan(frame.errors[0], max(own, frame.errors[0]), color=MUTED, alpha=0.2, lw=0, zorder=0, label=OWN_ERROR)
    if own > frame.errors[0]:
        axes.text(
            1.08 * frame.products[0], 0.94 * own, f"{OWN_ERROR}, {own:.2g}", ha="left", va="top", size=8.5, color=MUTED
        )  # fmt: skip


def _fit_lines(axes: Axes, fit: Fit, networks: xr.DataArray) -> None:
    """The fit over L for each H, or over H where there is one L."""
    layers, heads = networks["n_layers"].to_numpy(), networks["n_heads"].to_numpy()
    every = np.unique(heads)
    for index, n_heads in enumerate(every):
        own = layers[heads == n_heads]
        finely = np.geomspace(own.min(), own.max(), 65)
        label = FIT if index == len(every) - 1 and np.unique(layers).size > 1 else None
        axes.plot(
            finely * n_heads, fit.at(finely, n_heads), color=shade(index, len(every)), lw=1.4, zorder=2, label=label
        )  # fmt: skip
    if np.unique(layers).size == 1 and every.size > 1:
        finely = np.geomspace(every[0], every[-1], 65)
        axes.plot(finely * layers[0], fit.at(layers[0], finely), color=INK, lw=1.2, zorder=2, label=FIT)


def _guides(axes: Axes, frame: Frame) -> None:
    """Two slopes from one place above the errors."""
    left, right = 1.4 * frame.products[0], frame.products[1] / 1.4
    if right <= left:
        return
    top = frame.errors[1] / 1.25
    for words, power, dashes in GUIDES:
        low = top * (right / left) ** -power
        axes.plot([left, right], [top, low], color=MUTED, lw=0.9, ls=dashes, zorder=1, label=f"slope {words}")
        axes.annotate(words, (right, low), (3, 0), textcoords="offset points", va="center", size=8.5, color=MUTED)


def fit_words(fit: Fit | None) -> str:
    """The fitted powers with their intervals, and whether 1/L has a part, in mathtext.

    >>> none = Bounded(np.nan, np.nan, np.nan)
    >>> fit_words(Fit(none, Bounded(2.0, 1.9, 2.1), Bounded(0.512, -0.07, 0.551), none))
    '$p$ = 0.51 [−0.07, 0.55]'
    """
    if fit is None:
        return "too few networks for a fit"
    told = [f"${name}$ = {interval_words(one)}" for name, one in (("p", fit.p), ("q", fit.q)) if _known(one)]
    if fit.c1.estimate > 0:
        told.append("$c_1 > 0$")
    return ",  ".join(told) or "one size: no power was fitted"


def interval_words(one: Bounded) -> str:
    """A number with its interval, where there is one.

    >>> interval_words(Bounded(-0.5, -0.6, -0.4)), interval_words(Bounded(0.5, np.nan, np.nan))
    ('−0.50 [−0.60, −0.40]', '0.50')
    """
    ends = f" [{one.low:.2f}, {one.high:.2f}]" if np.isfinite(one.low) else ""
    return f"{one.estimate:.2f}{ends}".replace("-", "−")


def _known(one: Bounded) -> bool:
    return bool(np.isfinite(one.estimate))
