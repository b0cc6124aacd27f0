"""Training onto the limit and the rate of it on one sheet: losses, parameters over depth, errors over L and H, constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import xarray as xr

from attnlim.report.error_marks import legend
from attnlim.report.figures import MUTED, SHARP, blank
from attnlim.report.uniform_rate_panels import (
    constant_over_focus,
    constant_over_inputs,
    constant_over_tokens,
    constant_over_width,
    equal_products,
    error_over_layers,
    published_rates,
    surface,
)
from attnlim.report.uniform_reading import checked, facts, of_grid, varying
from attnlim.report.uniform_training_panels import (
    distance_over_steps,
    loss_over_steps,
    parameters_over_depth,
    worst_inputs,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Panel = Callable[["Axes"], None]
# panels beside each other, and how many inches high they are
Row = tuple[float, Sequence[Panel]]

# what the panels of the four matrices say below their titles, in turn
_LAWS = (
    "lines: layers of the largest network",
    "marks: nodes of the limit",
    "each after the same steps",
    "on one scale",
)
_WIDTH, _LEFT, _RIGHT, _HEAD, _FOOT, _BETWEEN, _GUTTER = 14.0, 0.72, 0.3, 1.55, 0.6, 1.15, 0.85


def uniform_figure(dataset: xr.Dataset) -> Figure:
    """Losses and distances over steps, parameters over depth, the error over L and H, and what its constant depends on.

    Args:
        dataset: a reproduction (kind ``attnlim.reproduce.uniform``).

    Returns:
        A matplotlib figure 14 inches wide, free of pyplot's global state.

    Raises:
        InputError: ``dataset`` is not such a reproduction, or the extra ``report`` is not installed.
    """
    checked(dataset)
    rates, training, worst = (
        of_grid(dataset, name).squeeze(("n_tokens", "width")) for name in ("rates", "training", "worst")
    )
    first, last = (int(rates["step"][place]) for place in (0, -1))
    widths = {
        words: of_grid(dataset, f"widths-{grid}")
        for grid, words in (("adamw", "AdamW"), ("blockwise", "blockwise AdamW"))
    }
    focus, inputs = (
        {word: of_grid(dataset, grid) for grid, word in varying(dataset, start).items()}
        for start in ("gamma", "inputs")
    )
    rows: list[Row] = [
        (
            2.9,
            [
                partial(loss_over_steps, one=training),
                partial(distance_over_steps, one=training),
                partial(worst_inputs, one=worst),
            ],
        ),
        (
            2.0,
            [
                partial(parameters_over_depth, one=training, matrix=matrix, about=about)
                for matrix, about in zip(training["matrix"].to_numpy(), _LAWS, strict=True)
            ],
        ),
        (
            3.4,
            [
                partial(error_over_layers, one=rates, step=first),
                partial(error_over_layers, one=rates, step=last),
                partial(equal_products, one=rates),
            ],
        ),
        (
            2.7,
            [
                partial(surface, one=rates, step=first),
                partial(surface, one=rates, step=last),
                partial(published_rates, one=rates),
            ],
        ),
        (
            2.4,
            [
                partial(constant_over_tokens, one=of_grid(dataset, "tokens")),
                partial(constant_over_width, grids=widths),
                partial(constant_over_focus, grids=focus),
                partial(constant_over_inputs, grids=inputs),
            ],
        ),
    ]
    about = (
        "E: largest distance over depth between tokens of a network and of its limit, root mean square over initialisations · "
        "bars: 95 % intervals · grey: the limit’s own error"
    )
    figure, drawn = sheet_of_rows("Training onto the limit, and how fast", facts(dataset), rows, about)
    laws = drawn[1]
    low = min(axes.get_ylim()[0] for axes in laws)
    high = max(axes.get_ylim()[1] for axes in laws)
    for axes in laws:
        # room for the legend, two steps a line
        axes.set_ylim(low, high + 0.14 * math.ceil(training.sizes["step"] / 2) * (high - low))
    legend(laws[0], "upper left", ncols=2)
    return figure


def sheet_of_rows(title: str, about: str, rows: Sequence[Row], marks: str) -> tuple[Figure, list[list[Axes]]]:
    """A sheet 14 inches wide of rows of panels, and the axes of each row; ``marks`` says what all panels share."""
    height = _HEAD + sum(row[0] + _BETWEEN for row in rows) - _BETWEEN + _FOOT
    figure = blank(_WIDTH, height, title, about, SHARP)
    figure.text(0.21 / _WIDTH, 1 - 0.83 / height, marks, size=10, color=MUTED)
    top = height - _HEAD
    drawn = []
    for inches, panels in rows:
        width = (_WIDTH - _LEFT - _RIGHT - _GUTTER * (len(panels) - 1)) / len(panels)
        beside = []
        for place, panel in enumerate(panels):
            left = _LEFT + place * (width + _GUTTER)
            axes = figure.add_axes((left / _WIDTH, (top - inches) / height, width / _WIDTH, inches / height))
            panel(axes)
            beside.append(axes)
        drawn.append(beside)
        top -= inches + _BETWEEN
    return figure, drawn
