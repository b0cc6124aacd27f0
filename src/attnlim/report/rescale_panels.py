"""The panels of a comparison of rules: differences with intervals, losses along the context, needles, slopes."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from attnlim.core.checks import extra
from attnlim.report.figures import INK, LINE, MUTED, SEQUENTIAL, line_axes, literal
from attnlim.report.rescale_reading import (
    BEYOND,
    CALIBRATED,
    NONE,
    calibrated_slopes,
    companies,
    names_of,
    scale_ends,
    signed,
    stretches,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# the page's light colours; a test holds the two together
SERIES = (
    *("#5b6470", "#1b1f24", "#0b5fa5", "#d55e00", "#a0322d", "#009e73"),
    *("#8a4b9f", "#e69f00", "#3d96d2", "#c2559b", "#7a6a00", "#00798c"),
)
BETTER, WORSE, UNSURE = "#0b5fa5", "#c04a00", "#8b939d"
SOFTENING = ("#8a4b00", "#eda63a", "#f4e6cc", "#f2f1ee", "#d9e5ee", "#5ba3d9", "#0a3f73")
_MARKERS = "osD^vPX*hpd<"
_LONGEST = 13


def forest_panel(axes: Axes, dataset: xr.Dataset, name: str, bucket: str, base: str, title: str) -> None:
    """A difference of every variant from one of them, with its interval and its numbers at the right.

    Args:
        axes: where to draw.
        dataset: with the variables NAME, NAME_low and NAME_high.
        name: of the difference.
        bucket: of the positions.
        base: the variant that all are compared with.
        title: of the panel.
    """
    names = names_of(dataset)
    one = dataset.sel(bucket=bucket)
    estimate, low, high = (one[f"{name}{end}"].to_numpy().astype(np.float64) for end in ("", "_low", "_high"))
    ends = scale_ends(estimate, low, high)
    pad = 0.07 * (ends[1] - ends[0])
    left, right = ends[0] - pad, ends[1] + pad
    line_axes(axes, title, f"nats a token, less that of {literal(base)}", "")
    axes.set(xlim=(left, right), ylim=(len(names) - 0.5, -0.5))
    axes.grid(visible=False, axis="y")
    axes.axvline(0, color=INK, lw=1, zorder=1)
    axes.axhspan(*(names.index(dataset.attrs["recommended"]) + side for side in (-0.5, 0.5)), color=BETTER, alpha=0.1)
    for index, variant in enumerate(names):
        value, bounds = estimate[index], (low[index], high[index])
        shade = INK if variant == base else _shade(*bounds)
        if left <= value <= right:
            known = np.isfinite(bounds).all()
            if known:
                axes.plot(np.clip(bounds, left, right), [index, index], color=shade, lw=1.8, zorder=3)
            axes.plot(
                value, index, "o", color=shade, ms=5.5, mfc=shade if known or variant == base else "white", zorder=4
            )
        elif np.isfinite(value):
            place = left if value < left else right
            axes.plot(
                place, index, "<" if value < left else ">", color=shade, mfc="white", ms=7, clip_on=False, zorder=4
            )
        text = "·" if variant == base else _numbers(value, *bounds)
        axes.annotate(
            text, (1.02, index), xycoords=("axes fraction", "data"), va="center", size=8.5,
            color=INK if variant == dataset.attrs["recommended"] else MUTED, annotation_clip=False,
        )  # fmt: skip
    _name_rows(axes, dataset)
    _few_ticks(axes, 5)


def along_panel(axes: Axes, dataset: xr.Dataset) -> None:
    """Differences from none by stretch of positions; bands for what is recommended, what has the least loss, what was calibrated."""
    names = names_of(dataset)
    along = stretches(dataset)
    begins, ends = (along[f"bucket_{end}"].to_numpy().astype(np.float64) for end in ("begins", "ends"))
    middles = (begins + ends) / 2
    line_axes(axes, "Along the context: less the loss of none", "position", "nats a token")
    parts = [along[f"difference{end}"].to_numpy() for end in ("", "_low", "_high")]
    low, high = scale_ends(*parts)
    pad = 0.07 * (high - low)
    axes.set(xlim=(0, ends[-1]), ylim=(low - pad, high + pad))
    axes.axhline(0, color=INK, lw=1, zorder=1)
    trained = int(dataset.attrs["trained_length"])
    axes.axvline(trained, color=MUTED, lw=1, ls=(0, (4, 3)), zorder=1)
    axes.annotate(
        "trained length", (trained, 1), xycoords=("data", "axes fraction"), xytext=(4, -3), textcoords="offset points",
        va="top", size=8.5, color=MUTED,
    )  # fmt: skip
    loud = _emphasised(dataset)
    off = []
    for index, name in enumerate(names):
        if name == NONE:
            continue
        estimate, below, above = (part[index] for part in parts)
        shade, strong = SERIES[index % len(SERIES)], name in loud
        if strong and np.isfinite(below).any():
            axes.fill_between(middles, below, above, color=shade, alpha=0.16, lw=0, zorder=2)
        axes.plot(
            middles, estimate, _MARKERS[index % len(_MARKERS)], ls="-", color=shade, lw=2.2 if strong else 1.0,
            ms=5.5 if strong else 4, zorder=4 if strong else 3, label=literal(_short(name)),
        )  # fmt: skip
        outside = (estimate < low - pad) | (estimate > high + pad)
        if outside.any():
            off.append(
                f"{_short(name)} ({'up to ' if outside.sum() > 1 else ''}{signed(float(estimate[outside].max()))})"
            )
    edges = np.unique([*begins, *ends])
    edges = edges[:: max(1, -(-len(edges) // 9))]
    axes.set_xticks(edges, [f"{int(edge):,}" for edge in edges])
    if off:
        axes.text(
            0.995, 0.015, fill(literal(f"off the scale: {', '.join(off)}"), 60), transform=axes.transAxes, ha="right", va="bottom",
            size=8, color=MUTED,
        )  # fmt: skip
    axes.legend(
        loc="upper left", bbox_to_anchor=(-0.02, -0.14), ncols=5, frameon=False, fontsize=8.5, handlelength=1.8,
        columnspacing=1.1, handletextpad=0.4, labelspacing=0.35,
    )  # fmt: skip


def needles_panel(axes: Axes, dataset: xr.Dataset) -> None:
    """The loss of every needle's number under every variant, with a dot where it is found exactly."""
    kinds = companies(dataset)
    company, depth = dataset["needle_company"].to_numpy(), dataset["needle_depth"].to_numpy()
    order = np.concatenate([np.flatnonzero(company == kind) for kind in kinds])
    loss = dataset["needle_nll"].to_numpy().astype(np.float64)[:, order]
    found = dataset["needle_found"].to_numpy().astype(bool)[:, order]
    # half a column between one company and the next
    places = np.arange(len(order)) + 0.5 * np.array([kinds.index(str(one)) for one in company[order]])
    low, high = _clipped(loss)
    colors = extra("matplotlib.colors", "report")
    palette = colors.LinearSegmentedColormap.from_list("loss", ("#f3f0e4", "#c3dfc8", *SEQUENTIAL)).with_extremes(
        bad="#ffffff"
    )
    scale = colors.Normalize(low, high)
    for kind in kinds:
        mine = company[order] == kind
        axes.imshow(
            loss[:, mine], cmap=palette, norm=scale, aspect="auto", interpolation="nearest",
            extent=(places[mine][0] - 0.5, places[mine][-1] + 0.5, len(loss) - 0.5, -0.5),
        )  # fmt: skip
        axes.annotate(
            literal(kind), (places[mine][0] - 0.45, 1), xycoords=("data", "axes fraction"), xytext=(0, 3),
            textcoords="offset points", va="bottom", size=9, color=MUTED,
        )  # fmt: skip
    for row, column in np.argwhere(found):
        dark = scale(loss[row, column]) > 0.45
        axes.plot(places[column], row, "o", ms=4, color="white" if dark else INK, mew=0)
    blank = np.argwhere(np.isnan(loss))
    axes.plot(places[blank[:, 1]], blank[:, 0], "x", ms=5, mew=0.8, color=MUTED, rasterized=True)
    axes.set(xlim=(places[0] - 0.5, places[-1] + 0.5), ylim=(len(loss) - 0.5, -0.5))
    axes.set_title("Needles: loss of the number, ● found", loc="left", size=12, weight="bold", color=INK, pad=18)
    axes.set_xlabel("depth in the context, %")
    shown = slice(None, None, max(1, -(-len(order) // 14)))
    axes.set_xticks(places[shown], [f"{100 * value:.0f}" for value in depth[order][shown]])
    axes.tick_params(labelsize=9, length=0, colors=MUTED)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for row, count in enumerate(found.sum(axis=1)):
        axes.annotate(
            f"{count}/{len(order)}", (1.02, row), xycoords=("axes fraction", "data"), va="center", size=8.5, color=MUTED,
            annotation_clip=False,
        )  # fmt: skip
    _name_rows(axes, dataset)
    bar = axes.inset_axes((0.42, -0.235, 0.58, 0.032))
    mappable = extra("matplotlib.cm", "report").ScalarMappable(scale, palette)
    axes.figure.colorbar(mappable, cax=bar, orientation="horizontal")
    bar.set_title("nats a number", loc="left", size=8.5, color=MUTED, pad=3)
    bar.tick_params(labelsize=8.5, length=2, colors=MUTED)
    bar.set_frame_on(False)


def slope_panel(axes: Axes, dataset: xr.Dataset) -> None:
    """The calibrated slope of every head, or why there is none."""
    axes.set_title("Calibrated slope", loc="left", size=12, weight="bold", color=INK)
    for spine in axes.spines.values():
        spine.set_visible(False)
    slopes = calibrated_slopes(dataset)
    if slopes is None:
        axes.set(xticks=[], yticks=[])
        axes.text(
            0.5, 0.5, fill("nothing was calibrated: --rule calibrate measures which way each head wants to go", 22),
            transform=axes.transAxes, ha="center", va="center", size=10, color=INK,
            bbox={"facecolor": "white", "edgecolor": LINE, "boxstyle": "round,pad=0.6"},
        )  # fmt: skip
        return
    slope = slopes.to_numpy().astype(np.float64)
    known = np.abs(slope[np.isfinite(slope)])
    half = float(min(known.max(), 1.25 * np.quantile(known, 0.98))) if known.size and known.max() > 0 else 1.0
    colors = extra("matplotlib.colors", "report")
    palette = colors.LinearSegmentedColormap.from_list("softening", SOFTENING).with_extremes(bad="#ffffff")
    image = axes.imshow(slope, cmap=palette, vmin=-half, vmax=half, aspect="auto", interpolation="nearest")
    blank = np.argwhere(np.isnan(slope))
    # rasterised: a large hybrid has thousands
    axes.plot(blank[:, 1], blank[:, 0], "x", ms=4, mew=0.8, color=MUTED, rasterized=True)
    for axis, values, room in ((axes.yaxis, dataset["layer"], 40), (axes.xaxis, dataset["head"], 10)):
        step = max(1, -(-values.size // room))
        axis.set_ticks(range(0, values.size, step), [str(int(value)) for value in values[::step]])
    axes.set_ylabel("layer", labelpad=2)
    axes.set_xlabel("head", labelpad=1)
    axes.tick_params(labelsize=9, length=0, colors=MUTED)
    bar = axes.inset_axes((0.0, -0.085, 1.0, 0.016))
    axes.figure.colorbar(image, cax=bar, orientation="horizontal", ticks=[-half, 0, half])
    bar.set_xticks(
        [-half, 0, half], [f"{value:+.2f}".replace("-", "−") if value else "0" for value in (-half, 0, half)]
    )
    bar.tick_params(labelsize=9, length=2, colors=MUTED)
    bar.set_xlabel("softer      per nat of ln n      sharper", size=8.5, color=MUTED, labelpad=2)
    bar.set_frame_on(False)


def _emphasised(dataset: xr.Dataset) -> set[str]:
    """What a reader wants to see apart from the others."""
    names = names_of(dataset)
    loss = dataset["bucket_nll"].sel(bucket=BEYOND).to_numpy()
    best = {names[int(np.nanargmin(loss))]} if np.isfinite(loss).any() else set()
    return (best | {dataset.attrs["recommended"], CALIBRATED}) & set(names)


def _shade(low: float, high: float) -> str:
    """Better or worse beyond doubt, or not told apart."""
    return BETTER if high < 0 else WORSE if low > 0 else UNSURE


def _numbers(value: float, low: float, high: float) -> str:
    """An estimate and its interval, where there is one that is more than the estimate itself."""
    if not np.isfinite(low) or not np.isfinite(high) or low == high == 0:
        return signed(value)
    return f"{signed(value)} [{signed(low)}, {signed(high)}]"


def _name_rows(axes: Axes, dataset: xr.Dataset) -> None:
    names = names_of(dataset)
    axes.set_yticks(range(len(names)), [literal(_short(name)) for name in names])
    for name, label in zip(names, axes.get_yticklabels(), strict=True):
        chosen = name == dataset.attrs["recommended"]
        label.set(color=INK if chosen else MUTED, weight="bold" if chosen else "normal", size=9.5)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _few_ticks(axes: Axes, most: int) -> None:
    axes.xaxis.set_major_locator(extra("matplotlib.ticker", "report").MaxNLocator(most))


def _clipped(values: np.ndarray) -> tuple[float, float]:
    """The ends of a scale of losses that one outlier does not wash out."""
    known = values[np.isfinite(values)]
    if not known.size:
        return 0.0, 1.0
    low, high = np.quantile(known, [0.02, 0.98])
    spread = 0.5 * (high - low)
    ends = max(float(known.min()), low - spread), min(float(known.max()), high + spread)
    return ends if ends[0] < ends[1] else (ends[0], ends[0] + 1.0)
