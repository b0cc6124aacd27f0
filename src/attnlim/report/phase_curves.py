"""λ or η over γ at few cosines: measured with its standard error, the closed form, the threshold and its window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from attnlim.core.checks import extra
from attnlim.core.symbols import lookup
from attnlim.report.figures import INK, MUTED, line_axes
from attnlim.report.phase_reading import known

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# told apart by lightness too
RHO_COLOURS = ("#0b5fa5", "#d55e00", "#009e73")
THEORY = INK
# the critical value of each quantity that has one
LEVELS = {"contraction": "forward_level", "eta": "backward_level"}


def draw_curves(axes: Axes, cell: xr.Dataset, name: str) -> None:
    """One quantity of one set of tokens over γ.

    Args:
        axes: where to draw.
        cell: a :func:`attnlim.report.phase_reading.summary` with the dimensions (rho, gamma) alone.
        name: the quantity, ``contraction`` or ``eta``.
    """
    gamma = cell["gamma"].to_numpy().astype(float)
    line_axes(axes, "", "", "")
    level = LEVELS.get(name)
    for index in range(cell.sizes["rho"]):
        one, colour = cell.isel(rho=index), RHO_COLOURS[index % len(RHO_COLOURS)]
        low, high = float(one["window_low"]), float(one["window_high"])
        if np.isfinite(low):
            axes.axvspan(low, high, color=colour, alpha=0.08, lw=0, zorder=0)
        axes.axvline(float(one["gamma_c"]), color=colour, lw=1.3, ls=(0, (5, 2.2)), zorder=1)
        if known(one, "gamma_half"):
            axes.axvline(float(one["gamma_half"]), color=colour, lw=1.5, ls=(0, (1, 1.3)), zorder=1)
        if known(one, f"{name}_simplex"):
            axes.plot(gamma, one[f"{name}_simplex"], color=THEORY, lw=1.2, ls=(0, (2.5, 1.5)), zorder=3)
        mean, error = one[name].to_numpy(), one[f"{name}_se"].to_numpy()
        axes.fill_between(gamma, mean - error, mean + error, color=colour, alpha=0.25, lw=0, zorder=2)
        axes.plot(gamma, mean, "o-", color=colour, lw=1.5, ms=2.6, zorder=4)
        if name == "eta":
            axes.plot(gamma, one["eta_attention"], "-", color=colour, lw=1.2, alpha=0.55, zorder=2)
        if level is not None:
            axes.plot(one["gamma_c"], one[level], "D", color=colour, mfc="white", ms=5.5, mew=1.3, zorder=5)
    if cell.sizes["rho"] == 1 and known(cell, "gamma_c"):
        axes.annotate(
            rf"${lookup('context', 'gamma_c').latex}$ = {float(cell['gamma_c'][0]):.2f}",
            (float(cell["gamma_c"][0]), 0), (7, 14), xycoords=("data", "axes fraction"), textcoords="offset points",
            ha="left", va="bottom", size=9, color=RHO_COLOURS[0], annotation_clip=True,
        )  # fmt: skip
    axes.set_xlim(gamma[0], gamma[-1] if gamma.size > 1 else gamma[0] + 1)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


def curve_legend(cells: list[xr.Dataset], names: list[str], draws: int) -> list[Any]:
    """What the lines of :func:`draw_curves` are in any of the panels, for a legend outside them."""
    line = extra("matplotlib.lines", "report").Line2D
    patch = extra("matplotlib.patches", "report").Patch
    rho_hat, gamma_half = lookup("context", "rho_hat").latex, lookup("context", "gamma_half").latex
    attention = lookup("context", "eta_attention").latex
    rhos = cells[0]["rho"].to_numpy()
    colour = RHO_COLOURS[0] if rhos.size == 1 else MUTED
    mean = f"mean of {draws} draws" if draws > 1 else "1 draw"
    if any(bool((cell[f"{name}_se"] > 0).any()) for cell in cells for name in names):
        mean += " ± standard error"
    handles = [line([], [], color=colour, marker="o", ms=3, lw=1.5, label=f"measured, {mean}")]
    if any(known(cell, f"{name}_simplex") for cell in cells for name in names):
        handles.append(
            line([], [], color=THEORY, ls=(0, (2.5, 1.5)), lw=1.2, label=rf"simplex at ${rho_hat}$, closed form")
        )
    if "eta" in names:
        handles.append(line([], [], color=colour, alpha=0.55, lw=1.2, label=rf"attention part ${attention}$, measured"))
    handles += [
        line([], [], color=colour, ls=(0, (5, 2.2)), lw=1.3, label=rf"$\gamma_c = 1/(1-{rho_hat})$"),
        patch(color=colour, alpha=0.12, lw=0, label="window, simplex: $p$ from .1 to .9"),
    ]
    if LEVELS.keys() & set(names):
        limit = r"limit at $\gamma_c$, $n \to \infty$"
        handles.append(line([], [], color=colour, marker="D", mfc="white", ls="", ms=5.5, label=limit))
    if any(known(cell, "gamma_half") for cell in cells):
        handles.append(line([], [], color=colour, ls=(0, (1, 1.3)), lw=1.5, label=rf"half weight ${gamma_half}$"))
    if rhos.size > 1:
        handles += [
            line([], [], color=RHO_COLOURS[i % len(RHO_COLOURS)], lw=3, label=rf"$\rho$ = {rho:g}")
            for i, rho in enumerate(rhos)
        ]
    return handles
