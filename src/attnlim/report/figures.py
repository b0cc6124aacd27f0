"""The look that all figures share, and how one is written to a file."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlim.core.checks import extra, one_of
from attnlim.core.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
# the page's light colours; a test holds the two together
PHASE_COLOURS = {"diluted": "#e69f00", "sparse": "#009e73", "frozen": "#3d96d2", "undecided": "#a3a9b0"}
INK, MUTED, LINE = "#1b1f24", "#5b6470", "#dfe2e6"
# dots an inch where a figure holds maps of many cells
SHARP = 200
SEQUENTIAL = ("#6fbfc0", "#2f8fb5", "#2a5c9a", "#262f6b")
# metadata that would differ from one writing to the next
_UNDATED: Mapping[str, Mapping[str, Any]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
_UNSIGNED: Mapping[str, Any] = {"Creator": None, "Format": None, "Type": None}


def blank(width: float, height: float, title: str, facts: str, dpi: int = 100) -> Figure:
    """A figure of that many inches, free of pyplot's global state, with two lines of text above it.

    Raises:
        InputError: the extra ``report`` is not installed.
    """
    figure: Figure = extra("matplotlib.figure", "report").Figure(figsize=(width, height), dpi=dpi)
    extra("matplotlib.backends.backend_agg", "report").FigureCanvasAgg(figure)
    left = 0.21 / width
    figure.text(left, 1 - 0.315 / height, literal(title), size=16, weight="bold", color=INK)
    figure.text(left, 1 - 0.585 / height, literal(facts), size=11, color=MUTED)
    return figure


def write_figure(figure: Figure, path: Path) -> Path:
    """Write a figure to a file whose suffix is its format; the same figure gives the same bytes.

    Raises:
        InputError: another suffix than .png, .svg or .pdf.
    """
    form = suffix_format(path)
    with _repeatable("attnlim"), replacing(path) as temporary:
        figure.savefig(temporary, format=form, metadata=dict(_UNDATED[form]))
    return path


def svg_element(figure: Figure, name: str) -> str:
    """The figure as an ``svg`` element to put inside a page; ``name`` keeps its identifiers from another figure's.

    The texts in it are escaped by matplotlib, so that a name from outside cannot become markup.
    """
    written = io.StringIO()
    with _repeatable(f"attnlim-{name}"):
        figure.savefig(written, format="svg", metadata={**_UNDATED["svg"], **_UNSIGNED})
    text = written.getvalue()
    return text[text.index("<svg") :]


def _repeatable(salt: str) -> AbstractContextManager[None]:
    """Identifiers inside an SVG follow from the salt alone."""
    context: AbstractContextManager[None] = extra("matplotlib", "report").rc_context(
        {"svg.hashsalt": salt, "svg.fonttype": "none"}
    )
    return context


def suffix_format(path: Path) -> str:
    """The format that the suffix of ``path`` names.

    Raises:
        InputError: another suffix than .png, .svg or .pdf.
    """
    form: str = one_of("the figure's suffix", path.suffix.lstrip(".").lower(), FORMATS)
    return form


def literal(text: str) -> str:
    """Names from outside must not be read as matplotlib's mathematics."""
    return text.replace("$", r"\$")


def line_axes(axes: Axes, title: str, x_label: str, y_label: str) -> None:
    """A chart of lines: a quiet grid, no box, ticks without marks."""
    axes.set_title(title, loc="left", size=12, weight="bold", color=INK)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(color=LINE, lw=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9, length=0, colors=MUTED)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(LINE)


def second_axis(axes: Axes, label: str, places: list[float], texts: list[str]) -> None:
    """The same height read in another unit, on the right."""
    other = axes.secondary_yaxis("right")
    other.set_yticks(places, texts)
    other.set_ylabel(label, color=MUTED)
    other.tick_params(labelsize=9, length=0, colors=MUTED)
    other.spines["right"].set_visible(False)
