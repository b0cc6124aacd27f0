"""The audit on one sheet, for papers and READMEs."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
import xarray

from attnlim.core.checks import extra
from attnlim.report.audit_reading import (
    PHASES,
    checked,
    decided,
    entropy_curve,
    facts,
    has_wishes,
    interval_factor,
    missing_reason,
)
from attnlim.report.figures import INK, LINE, MUTED, PHASE_COLOURS, SEQUENTIAL, blank, line_axes, literal, second_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABSENT, ABSENT_LINE = "#ffffff", "#8b939d"
UNDECIDED = "#eceef0"
_DIVERGING = ("#0a3f73", "#5ba3d9", "#d9e5ee", "#f2f1ee", "#f4e6cc", "#eda63a", "#8a4b00")


def audit_figure(dataset: xarray.Dataset) -> Figure:
    """The phase map, the κ map, entropy against ln n and ρ̂ over depth of one audit, at its longest context; and a map of the
    sensitivities where they were measured.

    Args:
        dataset: an audit dataset (kind ``attnlim.audit``, schema 1).

    Returns:
        A matplotlib figure 14 inches wide, or 17 with a third map, free of pyplot's global state.

    Raises:
        InputError: ``dataset`` is not such an audit, or the extra ``report`` is not installed.
    """
    checked(dataset)
    attrs = dataset.attrs
    note = f" ({attrs['model_note']})" if attrs["model_note"] else ""
    about = f"at {int(dataset['context'][-1])} tokens · {facts(dataset)}"
    maps = [_phase_map, _kappa_map, *([_wish_map] if has_wishes(dataset) else [])]
    figure = blank(14 if len(maps) == 2 else 17, 9, f"{attrs['model']}{note}", about)
    grid = figure.add_gridspec(
        2, len(maps) + 1, width_ratios=(*[1] * len(maps), 2.3), left=0.045, right=0.94, top=0.875, bottom=0.1,
        wspace=0.28, hspace=0.32,
    )  # fmt: skip
    for column, drawn in enumerate(maps):
        drawn(figure.add_subplot(grid[:, column]), dataset)
    _entropy_lines(figure.add_subplot(grid[0, -1]), dataset)
    _rho_lines(figure.add_subplot(grid[1, -1]), dataset)
    return figure


def _phase_map(axes: Axes, dataset: xarray.Dataset) -> None:
    colors = extra("matplotlib.colors", "report")
    phase = dataset["phase"].isel(context=-1).transpose("layer", "head").to_numpy()
    palette = colors.ListedColormap([ABSENT, *(PHASE_COLOURS[name] for name in PHASES)])
    axes.imshow(phase, cmap=palette, vmin=-1.5, vmax=3.5, aspect="auto", interpolation="nearest")
    letters = phase.shape[0] <= 40 and phase.shape[1] <= 16
    for layer, head in np.ndindex(phase.shape):
        code = int(phase[layer, head])
        if letters or code < 0:
            letter = PHASES[code][0].upper() if code >= 0 else "×"
            axes.text(head, layer, letter, ha="center", va="center", size=9, color=INK if code >= 0 else MUTED)
    _map_axes(axes, dataset, "Phase")
    if (phase < 0).all():
        reason = missing_reason(dataset, "kappa") or "κ was not measured"
        axes.text(
            0.5, 0.5, fill(literal(reason), 26), transform=axes.transAxes, ha="center", va="center", size=11,
            color=INK, bbox={"facecolor": "white", "edgecolor": LINE, "boxstyle": "round,pad=0.6"},
        )  # fmt: skip
    handles = [
        extra("matplotlib.patches", "report").Patch(color=PHASE_COLOURS[name], label=f"{name[0].upper()} {name}")
        for name in PHASES
    ]
    axes.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(-0.04, -0.045), ncols=2, frameon=False,
        handlelength=1, handleheight=1, columnspacing=1, fontsize=9,
    )  # fmt: skip


def _kappa_map(axes: Axes, dataset: xarray.Dataset) -> None:
    colors = extra("matplotlib.colors", "report")
    frozen, diluted = float(dataset.attrs["frozen_below"]), float(dataset.attrs["diluted_above"])
    low, high = frozen - 0.4, diluted + 0.4
    places = [(value - low) / (high - low) for value in (low, frozen, frozen, (frozen + diluted) / 2)]
    places += [(value - low) / (high - low) for value in (diluted, diluted, high)]
    palette = colors.LinearSegmentedColormap.from_list("kappa", list(zip(places, _DIVERGING, strict=True)), N=512)
    palette = palette.with_extremes(bad=ABSENT)
    kappa = dataset["kappa"].isel(context=-1).transpose("layer", "head").to_numpy()
    image = axes.imshow(kappa, cmap=palette, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
    for layer, head in np.argwhere(np.isnan(kappa)):
        axes.text(head, layer, "×", ha="center", va="center", size=9, color=MUTED)
    _map_axes(axes, dataset, "Focus exponent κ")
    bar = axes.inset_axes((0.0, -0.075, 1.0, 0.014))
    axes.figure.colorbar(image, cax=bar, orientation="horizontal", ticks=[low, frozen, diluted, high])
    bar.tick_params(labelsize=9, length=2, colors=MUTED)


def _wish_map(axes: Axes, dataset: xarray.Dataset) -> None:
    """Sensitivities whose interval lies on one side of 0, with their sign; the others grey."""
    colors = extra("matplotlib.colors", "report")
    at = dataset["sensitivity"].isel(context=-1).transpose("layer", "head").to_numpy()
    wanted = decided(dataset)[-1]
    shown = np.abs(at[wanted])
    top = float(np.quantile(shown, 0.98)) if shown.size else 1.0
    axes.imshow(np.isfinite(at), cmap=colors.ListedColormap([ABSENT, UNDECIDED]), vmin=0, vmax=1, aspect="auto")
    palette = colors.LinearSegmentedColormap.from_list("wish", _DIVERGING[1:-1]).with_extremes(bad=(0, 0, 0, 0))
    image = axes.imshow(
        np.where(wanted, at, np.nan), cmap=palette, vmin=-top, vmax=top, aspect="auto", interpolation="nearest"
    )
    for layer, head in np.ndindex(at.shape):
        sign = (
            "×" if np.isnan(at[layer, head]) else ("−" if at[layer, head] < 0 else "+") if wanted[layer, head] else ""
        )
        axes.text(head, layer, sign, ha="center", va="center", size=9, color=INK if wanted[layer, head] else MUTED)
    _map_axes(axes, dataset, "Sensitivity, nats")
    bar = axes.inset_axes((0.0, -0.075, 1.0, 0.014))
    axes.figure.colorbar(
        image, cax=bar, orientation="horizontal", ticks=[-top, 0, top], format=lambda value, _: f"{value:.2g}"
    )
    bar.set_xlabel("−: would rather be sharper, +: softer", size=9, color=MUTED, labelpad=1)
    bar.tick_params(labelsize=9, length=2, colors=MUTED)


def _map_axes(axes: Axes, dataset: xarray.Dataset, title: str) -> None:
    for axis, values, room in ((axes.yaxis, dataset["layer"], 40), (axes.xaxis, dataset["head"], 10)):
        step = max(1, -(-values.size // room))
        axis.set_ticks(range(0, values.size, step), [str(int(value)) for value in values[::step]])
    axes.set_title(title, loc="left", size=12, weight="bold", color=INK)
    axes.set_ylabel("layer", labelpad=2)
    axes.set_xlabel("head", labelpad=1)
    axes.tick_params(labelsize=9, length=0, colors=MUTED)
    axes.set_xticks(np.arange(dataset.sizes["head"] + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(dataset.sizes["layer"] + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=0.8)
    axes.tick_params(which="minor", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _entropy_lines(axes: Axes, dataset: xarray.Dataset) -> None:
    curve = entropy_curve(dataset)
    phase = dataset["phase"].isel(context=-1).transpose("layer", "head").to_numpy()
    for layer, head in np.ndindex(phase.shape):
        code = int(phase[layer, head])
        colour = PHASE_COLOURS[PHASES[code]] if code >= 0 else ABSENT_LINE
        decided = 0 <= code < PHASES.index("undecided")
        axes.plot(
            curve.log_visible[:, layer], curve.entropy[:, layer, head], "o-", color=colour, lw=1, ms=2, alpha=0.75,
            zorder=3 if decided else 2,
        )  # fmt: skip
    low, high = float(np.nanmin(curve.log_visible)), float(np.nanmax(curve.log_visible))
    pad = max(0.05 * (high - low), 0.08)
    left, right = low - pad, high + pad
    start = max(left, 0.0)  # H is never negative, so the guide begins where ln n does
    axes.plot([start, right], [start, right], "--", color=INK, lw=1.2)
    axes.plot([left, right], [0, 0], "--", color=INK, lw=1.2)
    middle = left + 0.62 * (right - left)
    axes.annotate(
        "diluted: evenly over all, H = ln n (slope 1)", (middle, middle), (-8, 5), textcoords="offset points",
        ha="right", va="bottom", size=10, color=INK,
    )  # fmt: skip
    axes.annotate(
        "frozen: one token, H = 0 (slope 0)", (right, 0), (-6, -4), textcoords="offset points",
        ha="right", va="top", size=10, color=INK,
    )  # fmt: skip
    axes.set_xlim(left, right)
    axes.set_ylim(-0.1 * right, 1.08 * right)
    ticks = [2**k for k in range(40) if left <= k * np.log(2) <= right] or [round(float(np.exp(high)))]
    axes.set_xticks(np.log(ticks), [f"{n:,}" for n in ticks])
    counts = [n for n in (1, 10, 100, 1000, 10_000, 100_000) if np.log(n) < right]
    second_axis(axes, "tokens, $e^H$", list(np.log(counts)), [f"{n:,}" for n in counts])
    line_axes(axes, "Entropy against ln n, one line a head", "visible tokens n, on a scale of ln n", "H, nats")


def _rho_lines(axes: Axes, dataset: xarray.Dataset) -> None:
    ramp = extra("matplotlib.colors", "report").LinearSegmentedColormap.from_list("depth", SEQUENTIAL)
    kinds = (("rho_residual", "depth", "o-", "residual stream"), ("rho_input", "layer", "D:", "attention's input"))
    factor = float(np.nan_to_num(interval_factor(dataset)))  # one window has no interval, and no band
    for index, n_tokens in enumerate(dataset["context"].to_numpy()):
        colour = ramp(index / max(1, dataset.sizes["context"] - 1)) if dataset.sizes["context"] > 1 else ramp(1.0)
        for name, place, style, _ in kinds:
            x, y = dataset[place].to_numpy(), dataset[name].isel(context=index).to_numpy()
            half = factor * dataset[f"{name}_se"].isel(context=index).to_numpy()
            axes.fill_between(x, y - half, y + half, color=colour, alpha=0.15, lw=0)
            label = f"{n_tokens} tokens" if name == "rho_residual" else None
            axes.plot(x, y, style, color=colour, lw=1.6, ms=3, label=label)
    for _, _, style, label in kinds:
        axes.plot([], [], style, color=MUTED, lw=1.6, ms=3, label=label)
    widths = [factor * np.nan_to_num(dataset[f"{name}_se"].to_numpy()).ravel() for name, *_ in kinds]
    known = [dataset[name].to_numpy().ravel() for name, *_ in kinds]
    reached = np.concatenate(
        [value + sign * width for value, width in zip(known, widths, strict=True) for sign in (-1, 1)]
    )
    reached = reached[np.isfinite(reached)]
    if reached.size:
        axes.set_ylim(max(-1.0, min(0.0, reached.min())) - 0.03, min(1.0, reached.max()) + 0.03)
        axes.legend(loc="lower right", fontsize=9, frameon=False, ncols=2)
    else:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=MUTED)
    gammas = [g for g in (1, 1.25, 1.5, 2, 3, 4, 6, 10, 20) if 1 - 1 / g <= axes.get_ylim()[1]]
    second_axis(axes, r"$\gamma_c = 1/(1 - \hat\rho)$", [1 - 1 / g for g in gammas], [f"{g:g}" for g in gammas])
    line_axes(
        axes, "Mean cosine of two tokens over depth (band: 95 % interval)",
        "layer (the last point is the output)", r"$\hat\rho$",
    )  # fmt: skip
