"""A quantity over the plane of cosines ρ and temperatures γ, with the lines of the theory on top."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnlim.core.checks import extra
from attnlim.core.symbols import lookup
from attnlim.report.figures import INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.lines import Line2D

# perceptually uniform and made for colour-blind readers; what lies above its end has a colour that it lacks
COLOURS, OVER = "cividis", "#e0218a"
# values are marked as beyond the scale from here on, in units of its end: noise around the end is not beyond it
OVER_FROM = 1.05
HALO = "#101418"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Plane:
    """What one panel shows.

    Attributes:
        rho: (m,), ascending.
        gamma: (k,), ascending.
        values: (m, k); NaN leaves a cell blank.
        curves: a γ for each ρ by the curve's key in :data:`CURVES`; NaN interrupts a curve.
    """

    rho: Floats
    gamma: Floats
    values: Floats
    curves: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True)
class CurveStyle:
    """How a curve over the plane looks, and what its legend says."""

    label: str
    colour: str
    dashes: Any
    width: float


def curve_styles() -> dict[str, CurveStyle]:
    """Every curve over a plane, the lowest first: crossings of what is measured in colour, theory in white above them."""
    rho_hat, gamma_half = lookup("context", "rho_hat").latex, lookup("context", "gamma_half").latex
    contraction, attention = lookup("context", "contraction").latex, lookup("context", "eta_attention").latex
    return {
        "forward": CurveStyle(rf"${contraction} = 1/(1+3{rho_hat})$, measured", "#ff7f0e", "solid", 3.0),
        "backward": CurveStyle(rf"${attention}$ = its limit/4, measured", "#6fd0ff", "solid", 3.0),
        "gamma_c": CurveStyle(rf"$\gamma_c = 1/(1-{rho_hat})$, theory", "white", (0, (4, 2.4)), 1.3),
        "gamma_half": CurveStyle(rf"half weight ${gamma_half}$, theory", "white", (0, (1, 1.6)), 1.3),
    }


def palette() -> Colormap:
    """The colours of a plane; a cell without a number has none."""
    colours: Colormap = extra("matplotlib", "report").colormaps[COLOURS].with_extremes(over=OVER, bad=(0, 0, 0, 0))
    return colours


def scale_top(values: Sequence[Floats]) -> float:
    """Where the scale of a row of panels ends: at 1, unless 98 % of the values ask for another end.

    One row has one scale, and values above its end are marked as such: a few of them must not wash out the others.

    >>> scale_top([np.linspace(0, 1.05, 50)]), scale_top([np.linspace(0, 1.2, 50)]), scale_top([np.linspace(0, 0.02, 50)])
    (1.0, 1.2, 0.02)
    """
    known = np.concatenate([part.ravel() for part in values])
    known = known[np.isfinite(known)]
    high = float(np.quantile(known, 0.98)) if known.size else 1.0
    if high <= 0 or 0.4 <= high <= OVER_FROM:
        return 1.0
    # the next number of two digits, the second of them even
    step = 2 * 10.0 ** (math.floor(math.log10(high)) - 1)
    return float(f"{math.ceil(round(high / step, 6)) * step:.2g}")


def draw_plane(axes: Axes, plane: Plane, top: float) -> Any:
    """Draw one panel; returns what a colour bar needs.

    The scale runs from 0 to ``top``, what is above :data:`OVER_FROM` times that is marked; the axes end with the
    grid, wherever the curves go.
    """
    edges = _edges(plane.rho), _edges(plane.gamma)
    image = axes.pcolormesh(
        *edges, np.ma.masked_invalid(plane.values.T), cmap=palette(), vmin=0, vmax=OVER_FROM * top, rasterized=True
    )
    effects = extra("matplotlib.patheffects", "report")
    for key, style in curve_styles().items():
        if key in plane.curves:
            axes.plot(
                plane.rho, plane.curves[key], linestyle=style.dashes, color=style.colour, lw=style.width, label=key,
                path_effects=[effects.withStroke(linewidth=style.width + 1.2, foreground=HALO)],
            )  # fmt: skip
    axes.set_xlim(edges[0][0], edges[0][-1])
    axes.set_ylim(edges[1][0], edges[1][-1])
    axes.tick_params(labelsize=9, length=2.5, colors=MUTED)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return image


def legend_handles(keys: Sequence[str], alpha: float = 0.0) -> list[Line2D]:
    """One line a curve, for a legend outside the panels; with a residual branch λ has another critical value."""
    line = extra("matplotlib.lines", "report").Line2D
    effects = extra("matplotlib.patheffects", "report")
    residual = rf"${lookup('context', 'contraction').latex}$ = its limit at half weight, measured"
    return [
        line(
            [], [], linestyle=style.dashes, color=style.colour, lw=style.width,
            label=residual if key == "forward" and alpha > 0 else style.label,
            path_effects=[effects.withStroke(linewidth=style.width + 1.2, foreground=HALO)],
        )
        for key, style in curve_styles().items()
        if key in keys
    ]  # fmt: skip


def colour_bar(axes: Axes, image: Any, label: str, over: bool) -> None:
    """The scale of a row of panels in axes of its own; ``over`` shows the colour of values above its end."""
    bar = axes.figure.colorbar(image, cax=axes, extend="max" if over else "neither", extendfrac=0.06)
    bar.set_label(label, color=INK)
    top = image.norm.vmax / OVER_FROM
    ticks = extra("matplotlib.ticker", "report").MaxNLocator(6).tick_values(0, top)
    bar.set_ticks([tick for tick in ticks if tick <= top * (1 + 1e-9)])
    if over:
        axes.text(0.5, 1.075, f"> {OVER_FROM * top:.3g}", transform=axes.transAxes, ha="center", size=8, color=MUTED)
    bar.outline.set_visible(False)
    axes.tick_params(labelsize=9, length=2, colors=MUTED)


def _edges(centres: Floats) -> Floats:
    """Borders of cells, halfway between their centres."""
    if centres.size < 2:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])
