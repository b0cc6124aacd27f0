"""How fast networks come to their limit on one sheet: errors over L·H after each step, and what stands beside them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from attnlim.report.figures import MUTED, SHARP, blank
from attnlim.report.meanfield_errors import Frame, errors_panel
from attnlim.report.meanfield_panels import dependence_panel, loss_panel, rates_panel, shadows_panel
from attnlim.report.meanfield_reading import cells, checked, errors, facts, rates, reference

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Panel = Callable[[Axes], None]

# steps that have room on a sheet
MOST_STEPS = 6
_COLUMNS, _WIDTH, _PANEL, _GAP, _HEAD, _FOOT = 3, 14.0, 3.1, 1.25, 1.75, 0.95
# a reference error further below all measured ones is not worth its room on the axis
_NEGLIGIBLE = 0.03


def meanfield_figure(dataset: xr.Dataset) -> Figure:
    """E over L·H for each step with its fit, then rates, losses, shadow heads, and N and d where they vary.

    The first seed, N and d; E is the largest distance over depth of tokens of fresh inputs, root mean square over
    initialisations.

    Args:
        dataset: a mean-field experiment (kind ``attnlim.meanfield``).

    Returns:
        A matplotlib figure 14 inches wide, free of pyplot's global state.

    Raises:
        InputError: ``dataset`` is not such an experiment, or the extra ``report`` is not installed.
    """
    dataset = checked(dataset)
    panels = _panels(dataset)
    rows = math.ceil(len(panels) / _COLUMNS)
    height = _HEAD + rows * (_PANEL + _GAP) - _GAP + _FOOT
    title = "How fast networks come to their limit of infinite depth and heads"
    figure = blank(_WIDTH, height, title, facts(dataset, first=True), SHARP)
    grid = figure.add_gridspec(
        rows, _COLUMNS, left=0.06, right=0.985, top=1 - _HEAD / height, bottom=_FOOT / height, wspace=0.3,
        hspace=_GAP / _PANEL,
    )  # fmt: skip
    for index, panel in enumerate(panels):
        panel(figure.add_subplot(grid[divmod(index, _COLUMNS)]))
    handles, labels = figure.axes[0].get_legend_handles_labels()
    # those of H come last as matplotlib lists them
    order = sorted(range(len(labels)), key=lambda index: not labels[index].startswith("H = "))
    figure.legend(
        [handles[index] for index in order], [labels[index] for index in order], loc="upper left",
        bbox_to_anchor=(0.01, 1 - 0.68 / height), ncols=len(labels) if len(labels) <= 9 else math.ceil(len(labels) / 2),
        frameon=False, fontsize=9.5, handlelength=2.2, columnspacing=1.6, borderaxespad=0.3,
    )  # fmt: skip
    figure.text(
        0.985, 0.14 / height, "E: largest distance over depth between tokens of fresh inputs in a network and in its limit, "
        "root mean square over initialisations, with 95 % intervals", ha="right", va="bottom", size=9, color=MUTED,
    )  # fmt: skip
    return figure


def _panels(dataset: xr.Dataset) -> list[Panel]:
    """Those that have something to show."""
    steps = drawn_steps(dataset)
    system = dataset.isel(seed=0, n_tokens=0, width=0)
    fresh = system.sel(inputs="fresh")
    frame = _frame(system, steps)
    panels: list[Panel] = [partial(errors_panel, system=system.sel(step=step), frame=frame) for step in steps]
    if any(rates(fresh.sel(step=step)) for step in steps):
        panels.append(partial(rates_panel, one=fresh, steps=steps))
    if dataset.sizes["training_step"] > 1:
        panels.append(partial(loss_panel, one=system))
    if any(bool((system[name].sel(step=steps) > 0).any()) for name in ("coupling", "wasserstein")):
        panels.append(partial(shadows_panel, one=system, steps=steps))
    for name, other in (("n_tokens", "width"), ("width", "n_tokens")):
        if dataset.sizes[name] > 1:
            values = dataset["sup_tokens"].sel(inputs="fresh").isel({"seed": 0, other: 0})
            panels.append(partial(dependence_panel, values=values, name=name, steps=steps))
    return panels


def drawn_steps(dataset: xr.Dataset) -> list[int]:
    """At most six of the steps: the first, the last, and some between."""
    steps = dataset["step"].to_numpy()
    places = np.linspace(0, len(steps) - 1, min(len(steps), MOST_STEPS)).round().astype(int)
    return [int(step) for step in steps[places]]


def _frame(system: xr.Dataset, steps: list[int]) -> Frame:
    """One pair of axes for all steps, with the reference where it counts."""
    found = cells(errors(system["sup_tokens"].sel(step=steps)).to_array("end").stack(at=("step", "inputs")))
    ends = found.sel(end=["estimate", "low", "high"]).to_numpy()
    ends = ends[ends > 0]
    low, high = float(ends.min()), float(ends.max())
    own = reference(system, "sup_tokens").sel(step=steps, inputs="fresh").to_numpy()
    own = own[own > _NEGLIGIBLE * low]
    products = (found["n_layers"] * found["n_heads"]).to_numpy()
    return Frame(
        (float(products.min()) / 1.4, float(products.max()) * 1.4),
        (min([0.75 * low, *(0.6 * own)]), 2.2 * high),
    )
