"""Three heads of an audited model, one of each phase, beside the simplex in closed form.

Run ``python examples/phases_figure.py RUN OUT`` with the folder of a finished audit and the figure to write (.svg,
.png or .pdf). It prints the same heads as a Markdown table. The heads are those of docs/phases.md; choose others
with ``--heads 0.6,8.0,2.1``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from attnlim.context import PHASES
from attnlim.context.theory import critical_gamma, simplex_focus
from attnlim.core.runs import open_run
from attnlim.report.figures import INK, LINE, MUTED, PHASE_COLOURS

Head = tuple[int, int]

HEADS: tuple[Head, ...] = ((0, 6), (8, 0), (2, 1))
# the same κ over positions as the audit's: octaves of visible keys down to a sixteenth of the context
OCTAVES = 4
RHO = 0.5
FACTORS = (0.5, 1.0, 1.25)


def heads_table(data: xr.Dataset, heads: Sequence[Head] = HEADS) -> str:
    """Tokens attended at every context, κ and the first token's share at the longest one, as Markdown."""
    contexts = [int(n) for n in data["context"]]
    lines = [
        f"| layer.head | phase | {' | '.join(f'at {n}' for n in contexts)} | κ (95 % interval) | on the first token |",
        f"|---|---|{'---:|' * len(contexts)}---|---:|",
    ]
    for layer, head in heads:
        one = data.sel(layer=layer, head=head)
        last = one.isel(context=-1)
        tokens = " | ".join(_tokens(float(value)) for value in one["perplexity"])
        kappa = f"{float(last['kappa']):.2f} ({float(last['kappa_low']):.2f} … {float(last['kappa_high']):.2f})"
        sink = f"{100 * float(last['sink_mass']):.1f} %"
        lines.append(f"| {layer}.{head} | {PHASES[int(last['phase'])]} | {tokens} | {kappa} | {sink} |")
    return "\n".join(lines)


def draw(data: xr.Dataset, heads: Sequence[Head] = HEADS) -> Figure:
    """Entropy against ln n: left the simplex in closed form, right measured heads at the longest context."""
    figure = Figure(figsize=(12, 4.8), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    figure.subplots_adjust(left=0.06, right=0.93, top=0.86, bottom=0.13, wspace=0.06)
    longest = int(data["context"][-1])
    sizes = longest / 2.0 ** np.arange(6, -1, -1)
    _simplex(left, sizes)
    _measured(right, data, heads, sizes)
    for axes in (left, right):
        _ceiling_and_floor(axes, sizes)
        axes.set_xlim(np.log(sizes[0]), np.log(longest) + 2.3)
        axes.set_xticks(np.log(sizes), [f"{n:.0f}" for n in sizes])
        axes.set_xlabel("n, visible tokens (logarithmic)")
        axes.grid(color=LINE, lw=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=9, length=0, colors=MUTED)
        for side, spine in axes.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(LINE)
    left.set_ylabel("H, entropy of a row (nats)")
    left.set_ylim(-0.35, np.log(longest) + 0.6)
    tokens = right.secondary_yaxis("right")
    tokens.set_yticks(np.log([1, 4, 16, 64, 256, 1024, 4096]))
    tokens.yaxis.set_major_formatter(FuncFormatter(lambda height, _: f"{np.exp(height):.0f}"))
    tokens.set_ylabel("$e^H$, tokens attended", color=MUTED)
    tokens.tick_params(labelsize=9, length=0, colors=MUTED)
    tokens.spines["right"].set_visible(False)
    return figure


def _simplex(axes: Axes, sizes: np.ndarray) -> None:
    phases = ("diluted", "sparse", "frozen")
    words = ("below: all tokens", "at the threshold: 2√n", "above: itself")
    for factor, phase, word in zip(FACTORS, phases, words, strict=True):
        gamma = factor * critical_gamma(RHO)
        entropy = [simplex_focus(int(n), RHO, gamma=gamma).entropy for n in sizes]
        axes.plot(np.log(sizes), entropy, color=PHASE_COLOURS[phase], lw=2)
        name = r"$\gamma_c$" if factor == 1 else rf"{factor:g} $\gamma_c$"
        _label(axes, sizes, entropy[-1], f"γ = {name}\n{word}")
    axes.set_title(
        f"A simplex of tokens with cosine {RHO:g}: closed form", loc="left", size=11, weight="bold", color=INK
    )


def _measured(axes: Axes, data: xr.Dataset, heads: Sequence[Head], sizes: np.ndarray) -> None:
    longest = data.isel(context=-1)
    for layer, head in heads:
        one = longest.sel(layer=layer, head=head)
        colour = PHASE_COLOURS[PHASES[int(one["phase"])]]
        x = one["sample_log_visible"].isel(octave=slice(OCTAVES)).to_numpy()  # (window, octave)
        y = one["sample_entropy"].isel(octave=slice(OCTAVES)).to_numpy()
        axes.plot(x.T, y.T, "o", color=colour, ms=3, alpha=0.45, mew=0)
        centre_x, centre_y, kappa = x.mean(), y.mean(), float(one["kappa"])
        ends = np.array([np.log(sizes[2]) - 0.35, np.log(sizes[-1])])
        axes.plot(ends, centre_y + kappa * (ends - centre_x), color=colour, lw=2)
        interval = f"({float(one['kappa_low']):.2f} … {float(one['kappa_high']):.2f})"
        name = f"{PHASES[int(one['phase'])]}: layer {layer}, head {head}"
        _label(axes, sizes, float(centre_y + kappa * (ends[1] - centre_x)), f"{name}\nκ = {kappa:.2f} {interval}")
    note = f" ({data.attrs['model_note']})" if data.attrs["model_note"] else ""
    axes.set_title(
        f"{data.attrs['model']}{note}\nat {int(data['context'][-1])} tokens of {data.attrs['text']}, "
        f"{data.attrs['n_windows']} windows (dots)",
        loc="left", size=11, weight="bold", color=INK,
    )  # fmt: skip


def _label(axes: Axes, sizes: np.ndarray, height: float, text: str) -> None:
    """Beside the right end of a line."""
    place = (np.log(sizes[-1]), height)
    axes.annotate(text, place, xytext=(6, 0), textcoords="offset points", size=9, color=INK, va="center")


def _ceiling_and_floor(axes: Axes, sizes: np.ndarray) -> None:
    x = np.log(sizes)
    for slope, word in ((1.0, "H = ln n: all tokens alike, κ = 1"), (0.0, "H = 0: one token, κ = 0")):
        axes.plot(x, slope * x, color=MUTED, lw=1, ls=(0, (4, 3)))
        lift = 82 if slope else 4
        axes.annotate(word, (x[0], slope * x[0]), xytext=(2, lift), textcoords="offset points", size=9, color=MUTED)


def _tokens(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder of a finished audit of several contexts")
    parser.add_argument("out", type=Path, help="the figure to write")
    parser.add_argument("--heads", default=",".join(f"{layer}.{head}" for layer, head in HEADS), help="LAYER.HEAD,...")
    given = parser.parse_args()
    pairs = [tuple(map(int, word.split("."))) for word in given.heads.split(",")]
    heads = [(layer, head) for layer, head in pairs]
    data, _ = open_run(given.run)
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    draw(data, heads).savefig(given.out, metadata=undated.get(given.out.suffix[1:].lower(), {}))
    print(heads_table(data, heads))


if __name__ == "__main__":
    main()
