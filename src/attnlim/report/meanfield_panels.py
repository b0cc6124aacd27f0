"""The panels of a mean-field experiment that stand beside its rates: published rates, losses, shadow heads, N and d."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from scipy import stats

from attnlim.core.checks import extra
from attnlim.report.figures import INK, LINE, MUTED, line_axes, literal
from attnlim.report.meanfield_reading import cells, counted_steps, errors, rates
from attnlim.report.meanfield_scales import STEP_COLOURS, logarithmic, shade

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# of the networks whose losses are drawn
_FEW = 3


def rates_panel(axes: Axes, one: xr.Dataset, steps: list[int]) -> None:
    """How far each published rate stays from the errors, a mark a step; filled where it is best beyond chance.

    Args:
        axes: where to draw.
        one: a system and inputs alone, with the dimension ``step``.
        steps: which of its steps.
    """
    line_axes(axes, "Published rates, fitted", "root mean square of ln E less the fit", "")
    names = [rate.name for step in steps for rate in rates(one.sel(step=step))]
    # below its name
    offsets = np.linspace(0.06, -0.42, len(steps)) if len(steps) > 1 else [-0.12]
    places = {name: -place for place, name in enumerate(dict.fromkeys(names))}
    for index, (step, offset) in enumerate(zip(steps, offsets, strict=True)):
        found = rates(one.sel(step=step))
        colour = STEP_COLOURS[index % len(STEP_COLOURS)]
        for rate in found:
            height = places[rate.name] + offset
            axes.plot([0, rate.residual], [height, height], color=LINE, lw=1.2, zorder=1)
            axes.plot(
                rate.residual, height, "o", color=colour, mfc=colour if rate.best else "white", ms=6, mew=1.5, zorder=3,
                label=f"after {counted_steps(step)}" if rate is found[0] else None,
            )  # fmt: skip
    # room for the legend on the right
    axes.set_xlim(0, 2.0 * axes.dataLim.x1)
    axes.set_ylim(min(places.values()) - 0.62, 0.5)
    axes.set_yticks([])
    for name, place in places.items():
        axes.text(
            0.012 * axes.get_xlim()[1], place + 0.16, rate_words(name), ha="left", va="bottom", size=9.5, color=INK
        )
    if any(rate.best for step in steps for rate in rates(one.sel(step=step))):
        # outside the axes: for the legend alone
        axes.plot([], [], "o", color=MUTED, ms=6, label="best beyond chance")
    axes.legend(loc="upper right", fontsize=8.5, frameon=False)


def rate_words(name: str) -> str:
    r"""A published rate in mathtext.

    >>> rate_words("L^-1 + (log(L+1)/H)^1/2"), rate_words("some $ text")
    ('$L^{-1} + (\\log(L+1)/H)^{1/2}$', 'some \\$ text')
    """
    if not re.fullmatch(r"(?:log|[LH0-9 ()+/^-])+", name):
        return literal(name)
    raised = re.sub(r"\^(-?\d+(?:/\d+)?)", r"^{\1}", name)
    return f"${raised.replace('log', chr(92) + 'log')}$"


def loss_panel(axes: Axes, one: xr.Dataset) -> None:
    """The training loss of a few networks, its mean and range over initialisations, and the limit's."""
    line_axes(axes, "Training loss", "optimiser steps", "mean over training sequences")
    steps = one["training_step"].to_numpy()
    networks = cells(one["loss"])
    products = (networks["n_layers"] * networks["n_heads"]).to_numpy()
    order = np.argsort(products, kind="stable")
    chosen = order[np.unique(np.linspace(0, len(order) - 1, _FEW).round().astype(int))]
    for index, cell in enumerate(chosen):
        network = networks.isel(cell=cell).transpose("init", "training_step")
        colour = shade(index, len(chosen))
        axes.fill_between(steps, network.min("init"), network.max("init"), color=colour, alpha=0.16, lw=0)
        layers, heads = int(network["n_layers"]), int(network["n_heads"])
        axes.plot(steps, network.mean("init"), "o-", color=colour, lw=1.5, ms=3, label=f"L = {layers}, H = {heads}")
    limit, error = one["limit_loss"].to_numpy(), one["limit_loss_error"].to_numpy()
    drawn = [networks.min().item(), float(np.nanmin(limit))]
    if min(drawn) > 0 and networks.max().item() > 10 * min(drawn):
        axes.set_ylim(0.7 * min(drawn), 1.4 * networks.max().item())
        logarithmic(axes, "y")
    axes.fill_between(steps, np.maximum(limit - error, 1e-300), limit + error, color=INK, alpha=0.2, lw=0)
    axes.plot(steps, limit, color=INK, lw=1.4, ls=(0, (4, 2)), label="limit, with its own error")
    axes.xaxis.set_major_locator(extra("matplotlib.ticker", "report").MaxNLocator(6, integer=True))
    axes.legend(loc="best", fontsize=8.5, frameon=False)


def shadows_panel(axes: Axes, one: xr.Dataset, steps: list[int]) -> None:
    """How far heads are from their shadows, by the coupling and by W_2, a colour a step; 0 is not drawn.

    Args:
        axes: where to draw.
        one: a system alone.
        steps: which of its steps.
    """
    line_axes(axes, "Heads and their shadow heads", "$L \\cdot H$", "distance of parameters")
    shown = set()
    for name, marker, words in (("coupling", "o", "by the coupling"), ("wasserstein", "s", "$W_2$")):
        for index, step in enumerate(steps):
            found = cells(errors(one[name].sel(step=step))["estimate"])
            products, distances = (found["n_layers"] * found["n_heads"]).to_numpy(), found.to_numpy()
            above = distances > 0
            if above.any():
                colour = STEP_COLOURS[index % len(STEP_COLOURS)]
                axes.plot(
                    products[above], distances[above], marker, color=colour, ms=4 if marker == "o" else 7.5,
                    mfc=colour if marker == "o" else "none", mew=1.2,
                    label=None if step in shown else f"after {counted_steps(step)}",
                )  # fmt: skip
                shown.add(step)
        mark = "none" if marker == "s" else MUTED
        axes.plot([], [], marker, color=MUTED, ms=4 if marker == "o" else 7.5, mfc=mark, mew=1.2, label=words)
    low, high = axes.dataLim.y0, axes.dataLim.y1
    axes.set_xlim(axes.dataLim.x0 / 1.4, 1.4 * axes.dataLim.x1)
    # the legend has the lower end to itself
    axes.set_ylim(low * min(low / high, 0.5) ** 0.45 / 1.3, 1.3 * high)
    logarithmic(axes, "x", products=True)
    logarithmic(axes, "y")
    axes.legend(loc="lower left", fontsize=8.5, frameon=False, handletextpad=0.3, ncols=2)


def dependence_panel(axes: Axes, values: xr.DataArray, name: str, steps: list[int]) -> None:
    """E √(LH) over N or d, a line a step: the geometric mean over the networks that all sizes have, with its interval.

    Args:
        axes: where to draw.
        values: distances of one seed and inputs [name, n_layers, n_heads, step, init], not squared.
        name: ``n_tokens`` or ``width``.
        steps: which of its steps.
    """
    words = {"n_tokens": ("Tokens", "N"), "width": ("Width", "d")}[name]
    line_axes(axes, f"{words[0]}: the error scaled by √(LH)", f"${words[1]}$", "E √(LH)")
    sizes = values[name].to_numpy()
    for index, step in enumerate(steps):
        mean, half = scaled_log(values.sel(step=step), name)
        colour = STEP_COLOURS[index % len(STEP_COLOURS)]
        spread = np.exp(mean) * np.stack([1 - np.exp(-half), np.exp(half) - 1])
        axes.errorbar(
            sizes, np.exp(mean), spread, fmt="o-", color=colour, ms=4, lw=1.5, capsize=2, label=f"after {counted_steps(step)}"
        )  # fmt: skip
    # a flat line must look flat; the legend stands on the right
    low, high = axes.dataLim.y0, axes.dataLim.y1
    room = 1.1 * max(1.0, 2 * low / high) ** 0.5
    axes.set_ylim(low / room, high * room)
    reach = sizes[-1] / sizes[0]
    axes.set_xlim(sizes[0] / reach**0.06, sizes[-1] * reach**0.65)
    logarithmic(axes, "x", products=True)
    logarithmic(axes, "y")
    axes.xaxis.set_major_locator(extra("matplotlib.ticker", "report").FixedLocator(sizes))
    axes.legend(loc="upper right", fontsize=8.5, frameon=False)


def scaled_log(values: xr.DataArray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The mean over networks of ln(E √(LH)) at each size, and half its 95 % interval: the jackknife over initialisations.

    Args:
        values: [name, n_layers, n_heads, init].
        name: the dimension of the sizes.

    >>> one = xr.DataArray(np.full((2, 1, 1, 4), 3.0), coords={"width": [4, 8], "n_layers": [16], "n_heads": [4]},
    ...                    dims=("width", "n_layers", "n_heads", "init"))
    >>> mean, half = scaled_log(one, "width")
    >>> np.exp(mean).round(9).tolist(), half.tolist()
    ([24.0, 24.0], [0.0, 0.0])
    """
    networks = values.stack(cell=("n_layers", "n_heads")).dropna("cell").transpose(name, "cell", "init")
    squares = networks.to_numpy() ** 2
    shift = 0.5 * np.log((networks["n_layers"] * networks["n_heads"]).to_numpy()).mean()
    count = squares.shape[-1]
    mean = 0.5 * np.log(squares.mean(axis=-1)).mean(axis=-1) + shift
    if count < 2:
        return mean, np.full_like(mean, np.nan)
    left_out = 0.5 * np.log((squares.sum(axis=-1, keepdims=True) - squares) / (count - 1)).mean(axis=1)
    error = np.sqrt((count - 1) * left_out.var(axis=-1))
    return mean, stats.t.ppf(0.975, count - 1) * error
