"""Colours for sizes and steps, and log axes that read as plain numbers, for the sheet of a mean-field experiment."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from attnlim.core.checks import extra
from attnlim.report.figures import SEQUENTIAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# steps, told apart by lightness too
STEP_COLOURS = ("#0b5fa5", "#d55e00", "#009e73", "#8a4b9f", "#e69f00", "#5b6470")


def shade(index: int, count: int) -> tuple[float, ...]:
    """The colour of one of so many sizes, darker for more."""
    colours = extra("matplotlib.colors", "report")
    ramp = colours.LinearSegmentedColormap.from_list("sizes", SEQUENTIAL)
    made: tuple[float, ...] = ramp(index / (count - 1) if count > 1 else 1.0)
    return made


def logarithmic(axes: Axes, which: str, *, products: bool = False) -> None:
    """Plain numbers on a log axis, "x" or "y", between the limits that it has; powers of 2 for sizes of networks."""
    ticker = extra("matplotlib.ticker", "report")
    low, high = getattr(axes, f"get_{which}lim")()
    axes.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
    decades = math.log10(high / low)
    within = (1, 1.5, 2, 3, 4, 5, 6, 8) if decades < 0.8 else (1, 2, 5) if decades < 3.5 else (1,)
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(ticker.LogLocator(2, numticks=8) if products else ticker.LogLocator(10, within, numticks=12))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}" if products else _plain(value)))
    axis.set_minor_locator(ticker.NullLocator())


def _plain(value: float) -> str:
    """
    >>> _plain(0.05), _plain(1e-6)
    ('0.05', '$10^{-6}$')
    """
    if 1e-3 <= value < 1e5:
        return f"{value:g}"
    power = math.floor(math.log10(value) + 1e-9)
    first = value / 10**power
    return (f"{first:g}·" if round(first, 6) != 1 else "") + f"$10^{{{power}}}$"
