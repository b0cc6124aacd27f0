"""Figures 1 and 2 of "Critical attention scaling" on one sheet, with where the measured transitions lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from attnlim.core.symbols import lookup
from attnlim.report.critical_reading import Column, checked, columns, facts
from attnlim.report.figures import INK, MUTED, SHARP, blank, literal
from attnlim.report.planes import OVER_FROM, Plane, colour_bar, draw_plane, legend_handles, scale_top
from attnlim.report.quantities import QUANTITIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL, _GAP, _LEFT, _RIGHT, _HEAD, _FOOT = 2.75, 0.3, 0.75, 0.95, 1.15, 1.35
_CURVES = ("gamma_c", "gamma_half", "forward", "backward")


def critical_figure(dataset: xr.Dataset) -> Figure:
    """λ and the attention part of η over (ρ, γ), a column for the simplex and for each width.

    Both crossings, of λ and of η, are drawn in both rows, so that the forward and the backward transition can be
    compared with each other and with 1/(1-ρ̂); their distances from it stand below each column.

    Args:
        dataset: a reproduction (kind ``attnlim.reproduce.critical``).

    Returns:
        A matplotlib figure, free of pyplot's global state.

    Raises:
        InputError: ``dataset`` is not such a reproduction, or the extra ``report`` is not installed.
    """
    shown = columns(checked(dataset))
    rho, gamma = (np.sort(dataset[name].to_numpy().astype(float)) for name in ("rho", "gamma"))
    width = _LEFT + len(shown) * (_PANEL + _GAP) - _GAP + _RIGHT
    height = _HEAD + 2 * _PANEL + _GAP + _FOOT
    title = "Forward and backward transition of one attention layer"
    figure = blank(width, height, title, facts(dataset), SHARP)
    grid = figure.add_gridspec(
        2, len(shown), left=_LEFT / width, right=1 - _RIGHT / width, top=1 - _HEAD / height, bottom=_FOOT / height,
        wspace=_GAP / _PANEL, hspace=_GAP / _PANEL,
    )  # fmt: skip
    for row, name in enumerate(("contraction", "eta_attention")):
        values = [getattr(column, name) for column in shown]
        top = 1.0 if row == 0 else scale_top(values)
        for index, column in enumerate(shown):
            axes = figure.add_subplot(grid[row, index])
            curves = {key: curve for key, curve in column.curves.items() if np.isfinite(curve).any()}
            image = draw_plane(axes, Plane(rho, gamma, values[index], curves), top)
            _label(axes, column, row, index)
        place = axes.get_position()
        bar = figure.add_axes((place.x1 + 0.14 / width, place.y0, 0.13 / width, place.height))
        over = any(bool((part > OVER_FROM * top).any()) for part in values)
        colour_bar(bar, image, QUANTITIES[name].label, over)
    keys = [key for key in _CURVES if any(np.isfinite(column.curves[key]).any() for column in shown)]
    figure.legend(
        handles=legend_handles(keys), loc="lower left", bbox_to_anchor=(_LEFT / width - 0.01, 0.0), ncols=4,
        frameon=False, fontsize=9, handlelength=2.8, columnspacing=2.0, borderaxespad=0.5,
    )  # fmt: skip
    figure.text(
        1 - 0.15 / width, 0.012, f"percent: a crossing's distance from ${lookup('context', 'gamma_c').latex}$, median over ρ (range)",
        ha="right", va="bottom", size=8.5, color=MUTED,
    )  # fmt: skip
    return figure


def distance_words(column: Column) -> str:
    """How far both crossings lie from γ_c in percent of it: the median over ρ and the range, a line each."""
    lines = []
    for key, name in (("forward", "contraction"), ("backward", "eta_attention")):
        symbol = f"${lookup('context', name).latex}$"
        excess = 100 * column.excess[key]
        known = excess[np.isfinite(excess)]
        if known.size:
            spread = f"{_signed(float(known.min()))} … {_signed(float(known.max()))}"
            lines.append(f"{symbol}: {_signed(float(np.median(known)))} % ({spread}), {known.size} of {excess.size} ρ")
        else:
            lines.append(f"{symbol}: no crossing inside the grid")
    return "\n".join(lines)


def _signed(value: float) -> str:
    """
    >>> _signed(-3.21), _signed(0.04), _signed(12.6)
    ('−3.2', '0.0', '+13')
    """
    text = f"{value:+.1f}" if abs(value) < 10 else f"{value:+.0f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def _label(axes: Axes, column: Column, row: int, index: int) -> None:
    if row == 0:
        axes.set_title(literal(column.title), loc="left", size=11, weight="bold", color=INK)
        axes.tick_params(labelbottom=False)
    else:
        axes.set_xlabel(f"${lookup('context', 'rho').latex}$", labelpad=1)
        axes.text(
            0, -0.17, distance_words(column), transform=axes.transAxes, ha="left", va="top", size=8.5, color=MUTED,
            linespacing=1.4,
        )  # fmt: skip
        if index == 0:
            axes.text(
                -0.06, -0.17, "from\n$\\gamma_c$", transform=axes.transAxes, ha="right", va="top", size=8.5, color=MUTED,
                linespacing=1.4,
            )  # fmt: skip
    if index == 0:
        axes.set_ylabel(f"${lookup('context', 'gamma').latex}$")
    else:
        axes.tick_params(labelleft=False)
