"""The figures of docs/evidence.md, from the kept results of `benchmarks.multiplier` and `benchmarks.evidence`.

Run ``python examples/evidence_figures.py FOLDER [multiplier] [rules]`` at the root of the repository. It writes
FOLDER/evidence-NAME.svg.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attnlim.core.intervals import jackknife_mean
from attnlim.report.figures import INK, LINE, MUTED, SEQUENTIAL, blank, line_axes, write_figure

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
RAMP = LinearSegmentedColormap.from_list("context", SEQUENTIAL)
DASHED = (0, (4, 3))
RULES = {"yarn": "#e69f00", "longrope": "#8c5fb0", "qwen": "#3d96d2", "critical": "#d55e00", "calibrated": "#009e73"}


def multiplier(figures: Mapping[str, Any]) -> Figure:
    """Loss, tokens attended, cosine and gradient over the multiplier, a line a context."""
    contexts = sorted({point["n_tokens"] for point in figures["points"]})
    colours = {n: RAMP(i / max(len(contexts) - 1, 1)) for i, n in enumerate(contexts)}
    figure = blank(
        11.4,
        8.8,
        "One multiplier on all logits",
        f"{figures['model']} · {figures['windows']} windows · bands: 95 % intervals over windows",
    )
    panels = (
        ("Loss", "nats a token more than at b = 1", lambda point, plain: _less(point, plain, "nll")),
        ("Tokens attended", "e$^H$ of the median head", lambda point, plain: point["median_tokens"]),
        ("Cosine of tokens", "ρ̂ after the middle layer", lambda point, plain: point["rho_middle"]),
        ("Gradient", "η of the middle layer's attention", lambda point, plain: point["eta_attention"]),
    )
    for i, (title, label, pick) in enumerate(panels):
        axes = figure.add_axes((0.07 + 0.49 * (i % 2), 0.56 - 0.43 * (i // 2), 0.41, 0.32))
        for n in contexts:
            points = {point["b"]: point for point in figures["points"] if point["n_tokens"] == n}
            shown = [pick(point, points[1.0]) for point in points.values()]
            _band(axes, list(points), shown, colours[n])
        _multiplier_axis(axes, sorted({point["b"] for point in figures["points"]}))
        line_axes(axes, title, "b, multiplier of all logits", label)
        if i in (1, 3):
            axes.set_yscale("log")
        if i == 1:
            _marks(axes, figures, colours)
    handles = [Line2D([], [], color=colours[n], lw=2, label=f"n = {n}") for n in contexts]
    handles += [
        Line2D([], [], color=INK, marker="D", ls="", mfc="white", label="b$_c$ of the median head"),
        Line2D([], [], color=INK, marker="v", ls="", label="b where the median head has half its weight on one key"),
    ]
    figure.legend(handles=handles, loc="lower center", ncols=5, frameon=False, fontsize=9, labelcolor=INK)
    return figure


def _less(point: Mapping[str, Any], plain: Mapping[str, Any], quantity: str) -> dict[str, float]:
    found = jackknife_mean(np.subtract(point[quantity]["windows"], plain[quantity]["windows"]))
    return {"mean": float(found.estimate), "low": float(found.low), "high": float(found.high)}


def _band(axes: Axes, places: Sequence[float], values: Sequence[Mapping[str, float]], colour: Any) -> None:
    mean, low, high = (np.array([value[name] for value in values]) for name in ("mean", "low", "high"))
    axes.fill_between(places, low, high, color=colour, alpha=0.15, lw=0)
    axes.plot(places, mean, color=colour, lw=1.8, marker="o", ms=3.5)


def _multiplier_axis(axes: Axes, multipliers: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(multipliers, [f"{b:g}" for b in multipliers])
    axes.minorticks_off()
    axes.axvline(1.0, color=MUTED, lw=0.8)


def _marks(axes: Axes, figures: Mapping[str, Any], colours: Mapping[int, Any]) -> None:
    """On each line: the median b_c of the model as it is, and the half-weight point of the median head."""
    half = {one["n_tokens"]: one["median"] for one in figures["half_weight"]}
    for n, colour in colours.items():
        points = {point["b"]: point for point in figures["points"] if point["n_tokens"] == n}
        log_b, tokens = np.log(list(points)), np.log([point["median_tokens"]["mean"] for point in points.values()])
        for place, mark, fill in ((points[1.0]["median_b_c"]["mean"], "D", "white"), (half[n], "v", colour)):
            if place is not None and min(points) <= place <= max(points):
                height = float(np.exp(np.interp(np.log(place), log_b, tokens)))
                axes.plot(place, height, mark, color=colour, mfc=fill, ms=8, zorder=5)


def rules(figures: Mapping[str, Any]) -> Figure:
    """A row a run: the paired difference from none by position, and beyond the trained length for every rule."""
    runs = sorted(figures["runs"], key=lambda run: run["target"])
    first = runs[0]
    height = 4.3 * len(runs) + 1.4
    figure = blank(
        11.4,
        height,
        "Rules beyond the trained length",
        f"{first['model']}, trained to {first['trained_length']} · loss less that of YaRN's frequencies alone · 95 % intervals",
    )
    for row, run in enumerate(runs):
        bottom, tall = 1 - (1.15 + 4.3 * row + 3.35) / height, 3.35 / height
        _by_position(figure.add_axes((0.075, bottom, 0.42, tall)), run)
        _forest(figure.add_axes((0.60, bottom, 0.385, tall)), run)
    handles = [Line2D([], [], color=colour, lw=2, label=name) for name, colour in RULES.items()]
    figure.legend(handles=handles, loc="lower left", ncols=len(RULES), frameon=False, fontsize=9, labelcolor=INK)
    return figure


def _by_position(axes: Axes, run: Mapping[str, Any]) -> None:
    names = [name for name in run["buckets"] if "–" in name]
    edges = [[int(end) for end in name.split("–")] for name in names]
    middle = [(low + high) / 2 for low, high in edges]
    of = {variant["name"]: variant for variant in run["variants"]}
    axes.axhline(0, color=MUTED, lw=0.9)
    axes.axvline(run["trained_length"], color=MUTED, ls=DASHED, lw=1)
    for name, colour in RULES.items():
        if name in of:
            mean, low, high = (np.array(values)[: len(names)] for values in of[name]["by_bucket"])
            axes.fill_between(middle, low, high, color=colour, alpha=0.12, lw=0)
            axes.plot(middle, mean, color=colour, lw=1.8, marker="o", ms=4)
    axes.set_xticks([0, *(high for _, high in edges)])
    axes.tick_params(axis="x", rotation=30)
    line_axes(axes, f"{run['target']} tokens of {run['texts'][-1]}, by position", "position", "nats a token less none")


def _forest(axes: Axes, run: Mapping[str, Any]) -> None:
    shown = [one for one in run["variants"] if one["name"] not in ("raw", "none")]
    for place, one in enumerate(reversed(shown)):
        mean, low, high = one["against_none"]
        colour = RULES.get(one["name"], MUTED)
        axes.plot([low, high], [place, place], color=colour, lw=2)
        axes.plot(mean, place, "o", color=colour, ms=6)
    axes.axvline(0, color=MUTED, lw=0.9)
    line_axes(axes, f"{run['texts'][-1]}, {run['trained_length']} to {run['target']}", "nats a token less none", "")
    axes.set_yticks(range(len(shown)), [one["name"] for one in reversed(shown)])
    axes.grid(axis="y", color=LINE, lw=0)


FIGURES: dict[str, tuple[str, Callable[[Mapping[str, Any]], Figure]]] = {
    "multiplier": ("multiplier", multiplier),
    "rules": ("rescale", rules),
}


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args()
    if unknown := set(given.names) - set(FIGURES):
        parser.error(f"no figure is called {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    for name in given.names or FIGURES:
        source, draw = FIGURES[name]
        results = json.loads((RESULTS / f"{source}.json").read_text(encoding="utf-8"))["figures"]
        print(write_figure(draw(results), given.folder / f"evidence-{name}.svg"), flush=True)


if __name__ == "__main__":
    main()
