"""What finite n does to the transition: the window's collapse, the denominator's kink, and four laws of β side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from attnlim.core.checks import extra
from attnlim.core.symbols import lookup
from attnlim.report.critical_reading import checked
from attnlim.report.figures import INK, MUTED, SEQUENTIAL, SHARP, blank, line_axes, literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

LAW_STYLES = (
    ("#0b5fa5", "solid"),
    ("#d55e00", (0, (5, 2))),
    ("#009e73", (0, (1, 1.2))),
    ("#8a4b9f", (0, (4, 1.5, 1, 1.5))),
)
_MARKERS = "os^Dv"


def finite_figure(dataset: xr.Dataset) -> Figure:
    """p against t for n up to 10^300, ln Z/ln n against γ, and ρ', η, e^H and γ over n for four laws of β.

    Args:
        dataset: a reproduction (kind ``attnlim.reproduce.critical``).

    Returns:
        A matplotlib figure 14 inches wide, free of pyplot's global state.

    Raises:
        InputError: ``dataset`` is not such a reproduction, or the extra ``report`` is not installed.
    """
    checked(dataset)
    attrs = dataset.attrs
    about = f"lines: simplex, closed form · marks: {attrs['tokens']} tokens ± standard error, seed {attrs['seed']}"
    figure = blank(14, 9, "The same transition at finite n", about, SHARP)
    grid = figure.add_gridspec(2, 4, left=0.055, right=0.985, top=0.855, bottom=0.115, wspace=0.32, hspace=0.42)
    ramp = extra("matplotlib.colors", "report").LinearSegmentedColormap.from_list("n", SEQUENTIAL)
    _collapse(figure.add_subplot(grid[0, :2]), dataset, ramp)
    _partition(figure.add_subplot(grid[0, 2:]), dataset, ramp)
    laws = [figure.add_subplot(grid[1, column]) for column in range(4)]
    for axes, name in zip(laws, ("law_rho", "law_eta", "law_entropy", "law_gamma"), strict=True):
        _laws(axes, dataset, name)
    handles, _ = laws[-1].get_legend_handles_labels()
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.045, 0.0), ncols=len(handles), frameon=False, fontsize=10,
        handlelength=3.2, columnspacing=2.5, borderaxespad=0.6,
    )  # fmt: skip
    start = f"simplex with ρ = {float(attrs['law_rho_0']):g}, d = {attrs['law_width']}"
    figure.text(0.985, 0.02, start, ha="right", va="bottom", size=10, color=MUTED)
    return figure


def _collapse(axes: Axes, dataset: xr.Dataset, ramp: Colormap) -> None:
    p, t = (lookup("context", name).latex for name in ("self_weight", "window_coordinate"))
    line_axes(axes, "The window: one curve for all n", f"${t} = (\\gamma(1-\\rho)-1)\\,\\ln n$", f"self weight ${p}$")
    place = dataset["window_t"].to_numpy().astype(float)
    weights = dataset["collapse_self_weight"].transpose("log10_n", "window_t").to_numpy()
    _ramped(axes, dataset, ramp, place, weights)
    axes.plot(place, 1 / (1 + np.exp(-place)), ls=(0, (4, 3)), color=INK, lw=1.2, label=f"limit, logistic(${t}$)")
    for index, n_tokens in enumerate(dataset["simulated_n_tokens"].to_numpy()):
        one = dataset.isel(simulated_n_tokens=index)
        axes.errorbar(
            one["simulated_t"], one["simulated_self_weight"], one["simulated_self_weight_se"],
            fmt=_MARKERS[index % len(_MARKERS)], color="#d55e00", mfc="white", ms=5, lw=1, zorder=4,
            label=f"drawn tokens, n = {_size(float(np.log10(n_tokens)))}",
        )  # fmt: skip
    axes.set_xlim(place[0], place[-1])
    axes.set_ylim(-0.04, 1.04)
    axes.legend(loc="upper left", fontsize=9, frameon=False)


def _partition(axes: Axes, dataset: xr.Dataset, ramp: Colormap) -> None:
    gamma = f"${lookup('context', 'gamma').latex}$"
    rho = float(dataset.attrs["partition_rho"])
    log_z = f"${lookup('context', 'log_partition').latex}/\\ln n$"
    line_axes(axes, f"The softmax denominator at ρ = {rho:g}: the kink is the transition", gamma, log_z)
    place = dataset["partition_gamma"].to_numpy().astype(float)
    _ramped(axes, dataset, ramp, place, dataset["partition_ratio"].transpose("log10_n", "partition_gamma").to_numpy())
    axes.plot(
        place,
        dataset["partition_limit"],
        ls=(0, (4, 3)),
        color=INK,
        lw=1.2,
        label=r"limit, $\max(\gamma, 1+\rho\gamma)$",
    )
    axes.set_xlim(place[0], place[-1])
    axes.legend(loc="upper left", fontsize=9, frameon=False)


def _ramped(axes: Axes, dataset: xr.Dataset, ramp: Colormap, place: np.ndarray, values: np.ndarray) -> None:
    """A line for each n, darker for more; the ends and the middle are named."""
    sizes = dataset["log10_n"].to_numpy().astype(float)
    named = {0, len(sizes) // 2, len(sizes) - 1}
    for index, size in enumerate(sizes):
        colour = ramp(index / max(1, len(sizes) - 1))
        axes.plot(place, values[index], color=colour, lw=1.5, label=f"n = {_size(size)}" if index in named else None)


def _laws(axes: Axes, dataset: xr.Dataset, name: str) -> None:
    sizes = dataset["law_log10_n"].to_numpy().astype(float)
    eta, perplexity = (lookup("context", symbol).latex for symbol in ("eta", "perplexity"))
    titles = {
        # a prime of mathtext is a glyph of a font that no browser has, and would show as a 0
        "law_rho": "cosine after the layer $\\rho$′",
        "law_eta": f"Jacobian energy ${eta}$",
        "law_entropy": f"tokens attended ${perplexity}$",
        "law_gamma": r"effective $\gamma = \beta/\ln n$",
    }
    line_axes(axes, titles[name], "n", "")
    axes.title.set_fontsize(11)
    # e^H itself would overflow
    scale = 1 / np.log(10) if name == "law_entropy" else 1.0
    for index, law in enumerate(dataset["law"].to_numpy()):
        colour, dashes = LAW_STYLES[index % len(LAW_STYLES)]
        values = scale * dataset[name].isel(law=index).to_numpy()
        axes.plot(sizes, values, color=colour, ls=dashes, lw=1.8, label=literal(str(law)))
    if name == "law_gamma":
        critical = 1 / (1 - float(dataset.attrs["law_rho_0"]))
        label = f"${lookup('context', 'gamma_c').latex}$ = {critical:.3g}"
        axes.axhline(critical, color=MUTED, lw=1, label=label)
    axes.set_xlim(sizes[0], sizes[-1])
    axes.xaxis.set_major_locator(extra("matplotlib.ticker", "report").MaxNLocator(5, integer=True))
    powers = extra("matplotlib.ticker", "report").FuncFormatter(lambda value, _: _size(value))
    axes.xaxis.set_major_formatter(powers)
    if name == "law_entropy":
        axes.yaxis.set_major_locator(extra("matplotlib.ticker", "report").MaxNLocator(5, integer=True))
        axes.yaxis.set_major_formatter(powers)


def _size(log10_n: float) -> str:
    """A number of tokens from its decimal logarithm.

    >>> _size(300.0), _size(2.5)
    ('$10^{300}$', '316')
    """
    if log10_n == round(log10_n):
        return f"$10^{{{log10_n:.0f}}}$"
    return f"{10**log10_n:,.0f}" if log10_n < 5 else f"$10^{{{log10_n:.1f}}}$"
