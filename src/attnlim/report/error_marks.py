"""What stands in many panels: errors with intervals, lines of a power beside them, the band in which a limit is unsure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from attnlim.core.checks import extra
from attnlim.report.figures import INK, MUTED, line_axes, literal
from attnlim.report.meanfield_scales import logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# before training, and after it
BEFORE, AFTER = "#0b5fa5", "#d55e00"
OTHERS = ("#009e73", "#8a4b9f", "#e69f00", "#5b6470")
SMALL = 8.5


def panel(axes: Axes, title: str, about: str, x_label: str, y_label: str) -> None:
    """A chart of lines with a second, quiet line below its title that says what is drawn."""
    line_axes(axes, title, x_label, y_label)
    second_line(axes, title, about)
    axes.xaxis.label.set_fontsize(10)
    axes.yaxis.label.set_fontsize(10)


def second_line(axes: Axes, title: str, about: str) -> None:
    """The title again, higher, with ``about``, which may hold mathematics, below it."""
    axes.set_title(literal(title), loc="left", size=11.5, weight="bold", color=INK, pad=19)
    axes.text(0, 1.025, about, transform=axes.transAxes, ha="left", va="bottom", size=9, color=MUTED)


def with_bars(axes: Axes, places: ArrayLike, found: xr.Dataset, marker: str, colour: Any, **style: Any) -> None:
    """Estimates with bars to ``low`` and ``high``; those that are not finite are left out, bars where they are not."""
    estimate = found["estimate"].to_numpy()
    bars = np.stack([estimate - found["low"].to_numpy(), found["high"].to_numpy() - estimate])
    known = np.isfinite(estimate)
    axes.errorbar(
        np.asarray(places)[known], estimate[known], np.nan_to_num(bars[:, known]), color=colour, capsize=2,
        **{"fmt": marker, "ms": 5, "lw": 1.2, "zorder": 4, "elinewidth": 1.1, **style},
    )  # fmt: skip


def own_band(axes: Axes, places: ArrayLike, own: ArrayLike) -> None:
    """Grey from below up to the limit's own error, over the width of the axes where it does not vary."""
    bottom = axes.get_ylim()[0]
    if np.ndim(own) == 0:
        axes.axhspan(bottom, max(float(np.asarray(own)), bottom), color=MUTED, alpha=0.2, lw=0, zorder=0)
        return
    top = np.maximum(np.asarray(own, dtype=np.float64), bottom)
    axes.fill_between(np.asarray(places), bottom, top, color=MUTED, alpha=0.2, lw=0, zorder=0)


def log_frame(axes: Axes, x_room: float = 1.3, low_room: float = 1.3, high_room: float = 1.3) -> None:
    """Log axes around what is drawn so far, with room as factors; powers of 2 along x."""
    box = axes.dataLim
    axes.set_xlim(box.x0 / x_room, box.x1 * x_room)
    axes.set_ylim(box.y0 / low_room, box.y1 * high_room)
    logarithmic(axes, "x", products=True)
    logarithmic(axes, "y")


def log_steps(axes: Axes, places: ArrayLike) -> None:
    """Ticks at the few sizes that were measured."""
    axes.xaxis.set_major_locator(extra("matplotlib.ticker", "report").FixedLocator(np.asarray(places)))


def guide(axes: Axes, start: tuple[float, float], end: float, power: float, words: str, dashes: Any = "solid") -> None:
    """A line of a power from a place to where x is ``end``, with its name at that end."""
    height = start[1] * (end / start[0]) ** power
    axes.plot([start[0], end], [start[1], height], color=MUTED, lw=0.9, ls=dashes, zorder=1)
    axes.annotate(words, (end, height), (3, 0), textcoords="offset points", va="center", size=SMALL, color=MUTED)


def signed(power: float) -> str:
    """A slope, with its sign.

    >>> signed(-0.513), signed(0.004)
    ('−0.51', '+0.00')
    """
    return f"{power:+.2f}".replace("-", "−")


def legend(axes: Axes, place: Any, **style: Any) -> None:
    """The panel's legend, small and without a frame."""
    look = {"fontsize": SMALL, "handlelength": 1.8, "handletextpad": 0.5, "columnspacing": 1.2, "labelspacing": 0.35}
    found = axes.legend(loc=place, frameon=False, **(look | style))
    found.set_zorder(6)
