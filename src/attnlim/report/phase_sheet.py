"""The phase diagram on one sheet: λ above the attention part of η, a column for each number of tokens and width."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from attnlim.core.checks import InputError, one_of
from attnlim.core.symbols import lookup
from attnlim.report.figures import INK, MUTED, SHARP, blank, literal
from attnlim.report.phase_curves import curve_legend, draw_curves
from attnlim.report.phase_reading import checked, facts, known, summary
from attnlim.report.planes import OVER_FROM, Plane, colour_bar, draw_plane, legend_handles, scale_top
from attnlim.report.quantities import QUANTITIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# fewer cosines than this are curves over γ; as many make a plane
PLANE_FROM = 4
MOST_COLUMNS = 4
# what a block of panels shows from above to below, as far as it was measured; else the first of _INSTEAD that was
_PLANES, _CURVES, _INSTEAD = ("contraction", "eta_attention"), ("contraction", "eta"), ("entropy", "perplexity")
# inches: a panel with its labels, the head, the foot
_PANEL = (2.75, 2.5)
_LEFT, _RIGHT, _HEAD, _GAP = 0.75, 0.95, 1.15, 0.75
# a line of the legend, and the room between it and the panels
_LINE, _ROOM = 0.21, 0.62


def phase_figure(dataset: xr.Dataset, page: int = 0) -> Figure:
    """λ and the attention part of η over (ρ, γ), or over γ where there are few ρ, with the theory on top.

    Means over draws. A page is one residual factor α with or without a causal mask; :func:`phase_sheets` lists them.

    Args:
        dataset: a phase diagram (kind ``attnlim.phase``).
        page: which of the pages, from 0.

    Returns:
        A matplotlib figure, free of pyplot's global state.

    Raises:
        InputError: ``dataset`` is not such a diagram, there is no such page, or the extra ``report`` is not installed.
    """
    means = summary(checked(dataset))
    pages = _pages(means)
    alpha, causal = list(pages.values())[one_of("page", page, range(len(pages)))]
    chosen = means.isel(alpha=alpha, causal=causal)
    sizes = [(i, j) for i in range(means.sizes["n_tokens"]) for j in range(means.sizes["width"])]
    cells = [chosen.isel(n_tokens=i, width=j) for i, j in sizes]
    planes = means.sizes["rho"] >= PLANE_FROM
    wanted = _PLANES if planes else _CURVES
    names = [name for name in wanted if known(means, name)] or [name for name in _INSTEAD if known(means, name)][:1]
    if not names:
        raise InputError("the phase diagram has no number to draw; run `attnlim phase` again")
    notes = [f"{QUANTITIES[name].words}: {dataset[name].attrs.get('missing', 'not measured')}" for name in wanted]
    notes = [note for note, name in zip(notes, wanted, strict=True) if name not in names]
    about = f"{facts(dataset)}{_page_words(chosen)}"
    if planes:
        figure = _planes(cells, names, about, notes)
    else:
        figure = _curves(cells, names, about, notes, dataset.sizes["draw"])
    if notes:
        right = 1 - 0.15 / figure.get_figwidth()
        figure.text(right, 0.012, literal(" · ".join(notes)), ha="right", va="bottom", size=9, color=MUTED)
    return figure


def phase_sheets(dataset: xr.Dataset) -> Mapping[str, Callable[[], Figure]]:
    """The name of each figure file of a phase diagram with what draws it, one for each α and mask."""
    return {name: partial(phase_figure, dataset, page) for page, name in enumerate(_pages(dataset))}


def _pages(dataset: xr.Dataset) -> dict[str, tuple[int, int]]:
    """Positions of the pages by the names of their files; the first is always called phase."""
    found: dict[str, tuple[int, int]] = {}
    for i, alpha in enumerate(dataset["alpha"].to_numpy()):
        for j, causal in enumerate(dataset["causal"].to_numpy()):
            parts = [f"alpha-{alpha:g}"] if dataset.sizes["alpha"] > 1 else []
            parts += ["causal" if causal else "full"] if dataset.sizes["causal"] > 1 else []
            found["-".join(["phase", *parts]) if found else "phase"] = (i, j)
    return found


def _page_words(chosen: xr.Dataset) -> str:
    alpha = f" · α = {float(chosen['alpha']):g}" if float(chosen["alpha"]) != 0 else ""
    rho = float(chosen["rho"][0])
    single = f" · ρ = {rho:g}" if chosen.sizes["rho"] == 1 and math.isfinite(rho) else ""
    return f"{single}{alpha}{' · causal' if bool(chosen['causal']) else ''}"


def _planes(cells: list[xr.Dataset], names: list[str], about: str, notes: list[str]) -> Figure:
    columns = _columns(cells)
    shown = {name: [cell[name].transpose("rho", "gamma").to_numpy() for cell in cells] for name in names}
    missing = sum(int(np.isnan(part).sum()) for values in shown.values() for part in values)
    if missing:
        count = sum(part.size for values in shown.values() for part in values)
        notes.append(f"blank cells have no number ({missing:,} of {count:,})")
    title = "Phase diagram of one attention layer"
    figure, panels = _grid(title, about, len(cells), len(names), columns, _RIGHT, 4, bool(notes))
    keys: set[str] = set()
    for row, (name, values) in enumerate(shown.items()):
        top = 1.0 if name == "contraction" else scale_top(values)
        over = any(bool((part > OVER_FROM * top).any()) for part in values)
        for index, (cell, part) in enumerate(zip(cells, values, strict=True)):
            axes = panels[row][index]
            curves = {key: cell[key].to_numpy() for key in _curve_keys(name) if key in cell}
            curves = {key: curve for key, curve in curves.items() if np.isfinite(curve).any()}
            keys |= curves.keys()
            plane = Plane(cell["rho"].to_numpy().astype(float), cell["gamma"].to_numpy().astype(float), part, curves)
            image = draw_plane(axes, plane, top)
            _label(axes, cell, row == 0, index % columns == 0)
            if index % columns == columns - 1 or index == len(cells) - 1:
                _bar(figure, axes, image, name, over)
    _legend(figure, legend_handles(sorted(keys), float(cells[0]["alpha"])), bool(notes))
    return figure


def _curve_keys(name: str) -> tuple[str, ...]:
    crossing = QUANTITIES[name].crossing
    return ("gamma_c", "gamma_half", crossing) if crossing else ("gamma_c", "gamma_half")


def _curves(cells: list[xr.Dataset], names: list[str], about: str, notes: list[str], draws: int) -> Figure:
    handles = curve_legend(cells, names, draws)
    # a single set of tokens has its quantities side by side
    beside = len(names) if len(cells) == 1 else 0
    columns = beside or _columns(cells)
    shape = (beside, 1) if beside else (len(cells), len(names))
    title = "One attention layer across its transition"
    figure, panels = _grid(title, about, *shape, columns, 0.35, len(handles), bool(notes))
    for index, cell in enumerate(cells):
        for row, name in enumerate(names):
            axes = panels[0][row] if beside else panels[row][index]
            draw_curves(axes, cell, name)
            _label(axes, cell, bool(beside) or row == 0, bool(beside) or index % columns == 0, name)
    _legend(figure, handles, bool(notes))
    return figure


def _columns(cells: list[xr.Dataset]) -> int:
    """A row for each number of tokens where its widths fit, else as many as fit."""
    widths = len({int(cell["width"]) for cell in cells})
    return widths if 1 < widths <= MOST_COLUMNS else min(len(cells), MOST_COLUMNS)


def _grid(
    title: str, about: str, count: int, rows: int, columns: int, right: float, entries: int, noted: bool
) -> tuple[Figure, list[list[Axes]]]:
    """A figure with ``count`` panels of ``rows`` quantities each, and room below for a legend of ``entries``, and notes.

    The panels of a quantity come in the order of the sets of tokens; those of all quantities stand below each other,
    and a set that has no place left in its row of columns begins another block.
    """
    # a single column would be narrower than the words above it
    width = max(_LEFT + columns * (_PANEL[0] + _GAP) - _GAP + right, 7.6)
    lines = rows * math.ceil(count / columns)
    foot = _ROOM + _LINE * (math.ceil(entries / _legend_columns(width)) + noted)
    height = _HEAD + lines * (_PANEL[1] + _GAP) - _GAP + foot
    figure = blank(width, height, title, about, SHARP)
    grid = figure.add_gridspec(
        lines, columns, left=_LEFT / width, right=1 - right / width, top=1 - _HEAD / height, bottom=foot / height,
        wspace=_GAP / _PANEL[0], hspace=_GAP / _PANEL[1],
    )  # fmt: skip
    places = [divmod(index, columns) for index in range(count)]
    return figure, [
        [figure.add_subplot(grid[block * rows + row, column]) for block, column in places] for row in range(rows)
    ]


def _legend_columns(width: float) -> int:
    return 3 if width > 10 else 2


def _legend(figure: Figure, handles: list[Any], noted: bool) -> None:
    width, lowest = figure.get_figwidth(), _LINE * noted / figure.get_figheight()
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(_LEFT / width - 0.01, lowest), ncols=_legend_columns(width),
        frameon=False, fontsize=9, handlelength=2.8, columnspacing=2.0, borderaxespad=0.5,
    )  # fmt: skip


def _label(axes: Axes, cell: xr.Dataset, titled: bool, first: bool, name: str = "") -> None:
    """Titles and axes' labels; with a ``name`` the panel is a curve over γ, without one a plane."""
    n_tokens, width = int(cell["n_tokens"]), int(cell["width"])
    if titled:
        axes.set_title(f"n = {n_tokens:,}, d = {width}", loc="left", size=11, weight="bold", color=INK)
    gamma = f"${lookup('context', 'gamma').latex}$"
    if name:
        axes.set_xlabel(gamma, labelpad=1)
        axes.set_ylabel(QUANTITIES[name].label if first else "")
        return
    axes.set_xlabel(f"${lookup('context', 'rho').latex}$", labelpad=1)
    axes.set_ylabel(gamma if first else "")


def _bar(figure: Figure, beside: Axes, image: Any, name: str, over: bool) -> None:
    place = beside.get_position()
    width = figure.get_figwidth()
    axes = figure.add_axes((place.x1 + 0.14 / width, place.y0, 0.13 / width, place.height))
    colour_bar(axes, image, QUANTITIES[name].label, over)
