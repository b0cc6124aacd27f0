"""The figures of docs/length.md, from the kept results of ``python -m benchmarks.length``.

Run ``python examples/length_figures.py FOLDER [NAME ...]`` at the root of the repository. It writes FOLDER/length-NAME.svg,
all of them or those that are named; ``--results FILE`` draws other results.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # benchmarks is no installed package

from benchmarks.length.measures import ARMS, RECALL, RECALL_NLL, TEXT, best, kappa  # noqa: E402
from benchmarks.length.multipliers import CRITICAL, LOG, NONE, SQUARE_ROOT  # noqa: E402
from benchmarks.length.results import Results  # noqa: E402
from benchmarks.length.tables import ARM_WORDS  # noqa: E402

from attnlim.report.figures import INK, MUTED, SEQUENTIAL, blank, line_axes, second_axis, write_figure  # noqa: E402

Floats = NDArray[np.float64]

KEPT = ROOT / "benchmarks" / "results" / "length.json"
COLOURS = {"softmax": "#0b5fa5", "ssmax": "#009e73", "critical": "#d55e00"}
WORDS = {"softmax": "softmax", "ssmax": "SSMax", "critical": "critical param."}
NAMES = {"softmax": "Softmax", "critical": "Critical"}
RULE_MARKS = {SQUARE_ROOT: "^", LOG: "s", CRITICAL: "D"}
RAMP = LinearSegmentedColormap.from_list("depth", SEQUENTIAL)
DASHED, DOTTED = (0, (4, 3)), (0, (1, 2))
WIDTH = 11.4


def focus(results: Results) -> Figure:
    """e^H/n against NLL and recall, along the multipliers."""
    figure = blank(WIDTH, 8.6, "How many tokens are attended, against how well it works", facts(results))
    n = results.longest
    for row, arm in enumerate(ARMS):
        for column, (quantity, share) in enumerate(((TEXT, "text_share"), (RECALL, "crowded_share"))):
            axes = place(figure, 2, 2, row, column)
            for length, style in ((results.lengths[0], DOTTED), (results.lengths[len(results.lengths) // 2], DASHED)):
                along(axes, results, "softmax", arm, length, quantity, share, style)
            for parametrisation in COLOURS:
                along(axes, results, parametrisation, arm, n, quantity, share, "-")
            for rule, mark in RULE_MARKS.items():
                x, y = (results.of(name, "softmax", arm, n, rule).mean() for name in (share, quantity))
                axes.plot(x, y, mark, color=COLOURS["softmax"], ms=7, mfc="white", zorder=5)
            axes.set_xscale("log")
            percent(axes, "x")
            what = f"NLL of the last {results.figures['setting'].get('last', 128)} bytes of text, nats"
            recall = "share of values recalled, crowded"
            title = f"{ARM_WORDS[arm].capitalize()}: {'text' if quantity == TEXT else 'recall'}"
            line_axes(
                axes, title, "e$^H$/n, share of the visible tokens that a head attends to", recall if column else what
            )
            if not column:
                axes.set_ylim(top=min(axes.get_ylim()[1], float(results.of(quantity, "softmax", arm, n).mean()) + 0.5))
    handles: list[Line2D] = [
        Line2D([], [], color=COLOURS[name], lw=2, label=f"{word} at {n}") for name, word in WORDS.items()
    ]
    for length, style in ((results.lengths[len(results.lengths) // 2], DASHED), (results.lengths[0], DOTTED)):
        handles.append(Line2D([], [], color=COLOURS["softmax"], ls=style, label=f"softmax at {length}"))
    handles.append(Line2D([], [], color=INK, marker="o", ls="", label="multiplier 1"))
    for rule, mark in RULE_MARKS.items():
        handles.append(Line2D([], [], color=COLOURS["softmax"], marker=mark, ls="", mfc="white", label=f"{rule} rule"))
    legend(figure, handles)
    return figure


def along(
    axes: Axes, results: Results, parametrisation: str, arm: str, n: int, quantity: str, share: str, style: object
) -> None:
    """One line over the constants, .5 at its right end and 2 at its left; the multiplier 1 is filled."""
    names = results.constants(parametrisation, arm, n)
    x, y = (
        np.array([results.of(name, parametrisation, arm, n, b).mean() for b in names]) for name in (share, quantity)
    )
    colour = COLOURS[parametrisation]
    axes.plot(x, y, color=colour, ls=style, lw=1.6 if style == "-" else 1.2, marker="o", ms=2.5)  # type: ignore[arg-type]
    at = names.index(NONE)
    axes.plot(x[at], y[at], "o", color=colour, ms=7, zorder=5)


def multiplier(results: Results) -> Figure:
    """The best constant at every length, between the two laws."""
    figure = blank(WIDTH, 8.6, "Which multiplier is best at which length", facts(results))
    lengths = np.array(results.lengths)
    ratio = np.log(lengths) / np.log(lengths[0])
    for row, arm in enumerate(ARMS):
        for column, (quantity, word) in enumerate(((TEXT, "text"), (RECALL_NLL, "recall, crowded"))):
            axes = place(figure, 2, 2, row, column)
            axes.plot(lengths, ratio, color=MUTED, ls=DASHED, lw=1.2)
            axes.plot(lengths, ratio**0.5, color=MUTED, ls=DOTTED, lw=1.4)
            axes.axhline(1, color=MUTED, lw=0.8)
            for offset, parametrisation in enumerate(COLOURS):
                found = np.array([best(results, quantity, parametrisation, arm, n).multiplier for n in lengths])
                jitter = lengths * 1.03 ** (offset - 1)
                axes.errorbar(
                    jitter,
                    found.mean(axis=1),
                    spread(found.T),
                    color=COLOURS[parametrisation],
                    marker="o",
                    ms=5,
                    lw=1.6,
                    capsize=2,
                )
            names = [float(name) for name in results.constants("softmax", arm, results.longest)]
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_ylim(min(names) * 0.95, max(names) * 1.05)
            axes.set_xticks(lengths, [str(n) for n in lengths])
            axes.set_yticks(names, [f"{b:g}" for b in names])
            axes.minorticks_off()
            line_axes(axes, f"{ARM_WORDS[arm].capitalize()}: {word}", "n, tokens", "best multiplier")
    handles = [Line2D([], [], color=COLOURS[name], marker="o", label=word) for name, word in WORDS.items()]
    handles += [
        Line2D([], [], color=MUTED, ls=DASHED, label="ln n/ln n$_0$"),
        Line2D([], [], color=MUTED, ls=DOTTED, label="its square root"),
        Line2D([], [], color="none", label="bars: least and largest seed"),
    ]
    legend(figure, handles)
    return figure


def training(results: Results) -> Figure:
    """ρ̂ with γ_c, κ, and what is learned, over training."""
    kinds = [("softmax", "nope"), ("softmax", "rope"), ("critical", "nope"), ("critical", "rope")]
    figure = blank(WIDTH, 7.4, "ρ̂, γ$_c$ and κ of every layer over training", facts(results))
    n_layers = results.run("rho", "softmax", "nope").shape[-1]
    for column, (parametrisation, arm) in enumerate(kinds):
        steps = results.run("step", parametrisation, arm)[0]
        top, bottom = (place(figure, 2, 4, row, column, right=0.065, gap=0.03) for row in range(2))
        rho = results.run("rho", parametrisation, arm)  # seed, checkpoint, layer
        exponent = results.run("kappa", parametrisation, arm).mean(axis=-1)  # over heads
        for layer in range(n_layers):
            colour = RAMP(layer / max(n_layers - 1, 1))
            for axes, values in ((top, rho[..., layer]), (bottom, exponent[..., layer])):
                axes.fill_between(steps, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15, lw=0)
                axes.plot(steps, values.mean(axis=0), color=colour, lw=1.8, marker="o", ms=2.5)
        top.set_ylim(0, 0.95)
        bottom.set_ylim(-0.1, 1.15)
        for height in (0.2, 0.8):
            bottom.axhline(height, color=MUTED, ls=DASHED, lw=0.9)
        first = column == 0
        line_axes(top, "", "", "ρ̂ of a layer's tokens" if first else "")
        top.set_title(f"{NAMES[parametrisation]}, {ARM_WORDS[arm]}", loc="left", size=10, weight="bold", color=INK)
        line_axes(bottom, "", "step of training", "κ over 32 … 256 tokens" if first else "")
        for axes in (top, bottom):
            axes.tick_params(labelleft=first)
        if column == 3:
            marks = [1.0, 1.25, 2.0, 4.0, 10.0]
            second_axis(top, "γ$_c$ = 1/(1 − ρ̂)", [1 - 1 / mark for mark in marks], [f"{mark:g}" for mark in marks])
    handles = [
        Line2D([], [], color=RAMP(layer / max(n_layers - 1, 1)), lw=2, label=f"layer {layer}")
        for layer in range(n_layers)
    ]
    handles.append(Line2D([], [], color=MUTED, ls=DASHED, label="κ = .2 and .8"))
    legend(figure, [*handles, Line2D([], [], color="none", label="bands: least to largest seed")], 6)
    return figure


def factors(results: Results) -> Figure:
    """What the parametrisations learn, head by head, and κ of every layer from the trained length on."""
    figure = blank(WIDTH, 8.6, "Learned factors, and what becomes of κ beyond the trained length", facts(results))
    for row, arm in enumerate(ARMS):
        axes = place(figure, 2, 3, row, 0)
        heads(axes, results.run("step", "critical", arm)[0], results.run("gain", "critical", arm))
        axes.axhline(1, color=MUTED, ls=DASHED, lw=1)
        axes.set_yscale("log")
        ticks(axes, (0.5, 0.7, 1, 1.4, 2, 3, 4))
        line_axes(axes, f"Critical param., {ARM_WORDS[arm]}", "step of training", "γ$_h$/γ$_c$ of every head")
        axes = place(figure, 2, 3, row, 1)
        heads(axes, results.run("step", "ssmax", arm)[0], results.run("scale", "ssmax", arm))
        axes.axhline(0.43, color=MUTED, ls=DASHED, lw=1)
        line_axes(axes, f"SSMax, {ARM_WORDS[arm]}", "step of training", "s$_h$ of every head")
        axes = place(figure, 2, 3, row, 2)
        for offset, parametrisation in enumerate(COLOURS):
            found = kappa(results, parametrisation, arm)
            layers = np.arange(found.shape[1]) + 0.12 * (offset - 1)
            axes.errorbar(
                layers,
                found.mean(axis=0),
                spread(found),
                color=COLOURS[parametrisation],
                marker="o",
                ls="",
                ms=5,
                capsize=2,
            )
        for height in (0.2, 0.8):
            axes.axhline(height, color=MUTED, ls=DASHED, lw=0.9)
        axes.set_xticks(range(found.shape[1]))
        axes.set_ylim(-0.1, 1.8)
        line_axes(axes, f"κ from {results.lengths[0]} to {results.longest}", "layer", "κ of the layer's mean entropy")
    handles = [Line2D([], [], color=COLOURS[name], marker="o", ls="", label=word) for name, word in WORDS.items()]
    handles.append(Line2D([], [], color=MUTED, ls=DASHED, label="start of training; κ = .2 and .8"))
    legend(figure, handles)
    return figure


def spread(values: Floats) -> Floats:
    """Bars from the mean over seeds (axis 0) to the least and the largest one."""
    mean = values.mean(axis=0)
    return np.maximum([mean - values.min(axis=0), values.max(axis=0) - mean], 0)  # rounding may leave -eps


def heads(axes: Axes, steps: Floats, values: Floats) -> None:
    """A thin line for every head of every seed, by layer: (seed, checkpoint, layer, head)."""
    n_layers = values.shape[2]
    for layer in range(n_layers):
        lines = values[:, :, layer].transpose(1, 0, 2).reshape(len(steps), -1)
        axes.plot(steps, lines, color=RAMP(layer / max(n_layers - 1, 1)), lw=0.8, alpha=0.8)


def place(
    figure: Figure, n_rows: int, n_columns: int, row: int, column: int, right: float = 0.01, gap: float = 0.09
) -> Axes:
    """Axes in a grid below the figure's two lines of text and above the legend."""
    height, width = figure.get_figheight(), figure.get_figwidth()
    left, top, bottom = 0.66 / width, 1 - 1.1 / height, 1.05 / height
    across = (1 - left - right - gap * (n_columns - 1) * (0.75 if n_columns > 2 else 1)) / n_columns
    between = 0.85 / height
    tall = (top - bottom - between * (n_rows - 1)) / n_rows
    step = gap * (0.75 if n_columns > 2 else 1)
    return figure.add_axes((left + column * (across + step), top - tall - row * (tall + between), across, tall))


def legend(figure: Figure, handles: list[Line2D], n_columns: int = 5) -> None:
    """Below all panels."""
    figure.legend(handles=handles, loc="lower center", ncols=n_columns, frameon=False, fontsize=9, labelcolor=INK)


def percent(axes: Axes, which: str) -> None:
    """Ticks of a share at plain places."""
    marks = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    chosen = [mark for mark in marks if low <= mark <= high]
    (axes.set_xticks if which == "x" else axes.set_yticks)(chosen, [f"{100 * mark:g} %" for mark in chosen])
    axes.minorticks_off()


def ticks(axes: Axes, marks: Iterable[float]) -> None:
    """Plain numbers along a logarithmic height."""
    low, high = axes.get_ylim()
    chosen = [mark for mark in marks if low <= mark <= high]
    axes.set_yticks(chosen, [f"{mark:g}" for mark in chosen])
    axes.minorticks_off()


def facts(results: Results) -> str:
    """The quiet line below a figure's title."""
    setting = results.figures["setting"]
    return (
        f"decoders of {setting['layers']} layers × {setting['heads']} heads, width {setting['width']}, trained at "
        f"{setting['trained']} tokens · means of {len(setting['seeds'])} seeds"
    )


FIGURES: dict[str, Callable[[Results], Figure]] = {
    "focus": focus,
    "multiplier": multiplier,
    "training": training,
    "factors": factors,
}


def write(results: Results, folder: Path, names: Iterable[str]) -> list[Path]:
    """Draw the named figures into a folder."""
    return [write_figure(FIGURES[name](results), folder / f"length-{name}.svg") for name in names]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--results", type=Path, default=KEPT)
    given = parser.parse_args()
    if unknown := set(given.names) - set(FIGURES):
        parser.error(f"no figure is called {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    for path in write(Results.load(given.results), given.folder, given.names or list(FIGURES)):
        print(path, flush=True)


if __name__ == "__main__":
    main()
