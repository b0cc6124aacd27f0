"""What a comparison of rules comes to, in words: what won, by how much, what it costs, what to take."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
import xarray as xr

from attnlim.rules.rescale_dataset import BEYOND, WITHIN, pair

# nats a token: a smaller loss of short contexts is not worth a word of warning
SMALL = 0.005


def recommended(data: xr.Dataset) -> str:
    """The variant to take: the simplest that is not worse beyond the trained length than the best, as far as the intervals tell.

    Variants stand in the order of their simplicity, raw extrapolation first and the calibrated slopes last. The best of many
    has the least loss by chance too, so the intervals are Bonferroni's: with k others each covers 1 - 0.05/k.

    Source: *ours*.
    """
    best = best_of(data)
    for name in data["variant"].values.tolist():
        # NaN, where there is too little text for an interval, tells nothing apart
        if name == best or not float(pair(data, name, best, BEYOND, _among_many(data)).low) > 0:
            return str(name)
    return best


def _among_many(data: xr.Dataset) -> float:
    """The level of each interval at which all of the best against the others hold together in 95 of 100."""
    return 1 - 0.05 / max(1, data.sizes["variant"] - 1)


def best_of(data: xr.Dataset, among: list[str] | None = None) -> str:
    """The variant with the least loss beyond the trained length."""
    loss = data["bucket_nll"].sel(bucket=BEYOND)
    if among is not None:
        loss = loss.sel(variant=among)
    return str(loss["variant"].values[int(np.argmin(loss.values))])


def rivals(names: Iterable[str]) -> list[str]:
    """The variants that slopes by head have to beat: all but those themselves and what everything is measured against."""
    return [name for name in names if name not in ("raw", "none", "calibrated")]


def verdict(data: xr.Dataset) -> str:
    """One paragraph a line: the losses beyond the trained length, short contexts, needles, the calibration, what to take."""
    told = [_losses(data), _short(data), _needles(data), _calibration(data), _advice(data)]
    return "\n".join(paragraph for paragraph in told if paragraph)


def _losses(data: xr.Dataset) -> str:
    names = data["variant"].values.tolist()
    others = rivals(names)
    trained, target = data.attrs["trained_length"], data.attrs["target"]
    text = (
        f"On the test text, tokens {trained} to {target}: positions as trained {_loss(data, 'raw')}, with YaRN's frequencies and "
        f"no scaling {_loss(data, 'none')}"
    )
    if others:
        best = best_of(data, others)
        alone = "the best rule without slopes by head" if "calibrated" in names else "the best rule"
        text += f", with {alone} ({best}) {_loss(data, best)}, {_change(data, best, 'none')} against none"
    if "calibrated" in names:
        text += f", calibrated {_loss(data, 'calibrated')}, {_change(data, 'calibrated', 'none')}"
    text += " (mean loss in nats a token, 95 % intervals of paired differences)."
    if "calibrated" in names and others:
        best = best_of(data, others)
        text += f" Calibrated against {best}: {_change(data, 'calibrated', best)}, {_ruling(data, best)}."
    return text


def _ruling(data: xr.Dataset, best: str) -> str:
    apart = pair(data, "calibrated", best, BEYOND)
    if float(apart.high) < 0:
        return "so it is better than every other rule here"
    if float(apart.low) > 0:
        return f"so {best} beats it"
    return "which does not tell them apart"


def _short(data: xr.Dataset) -> str:
    trained = data.attrs["trained_length"]
    cost = pair(data, "none", "raw", WITHIN)
    text = f"Within {trained} tokens YaRN's frequencies alone change the loss by {_told(cost)}"
    moved = [
        name
        for name in data["variant"].values.tolist()
        if name not in ("raw", "none") and abs(float(pair(data, name, "none", WITHIN).estimate)) > 1e-12
    ]
    still = data.sizes["variant"] - 2 - len(moved)
    if still:
        text += f"; {still} of the rules are 1 there and change nothing more"
    if moved:
        most = max(moved, key=lambda name: abs(float(pair(data, name, "none", WITHIN).estimate)))
        text += f"; of those that act there, {most} changes it most, by {_change(data, most, 'none', WITHIN)}"
    return text + "."


def _needles(data: xr.Dataset) -> str:
    found = data["needle_found"]
    total = data.sizes["needle"]
    names = data["variant"].values.tolist()
    counts = {name: int(found.sel(variant=name).sum()) for name in names}
    most = max(counts.values())
    if most == 0:
        text = f"No variant brings forth any of the {total} needles exactly"
    else:
        leaders = [name for name in names if counts[name] == most]
        text = (
            f"Of {total} needles at {data.attrs['target']} tokens the model without scaling ('none') finds {counts['none']}; most are "
            f"found by {', '.join(leaders)} ({most})"
        )
    change = data["needle_difference"]
    best = str(names[int(np.argmin(change.values))])
    if best != "none":
        at = {"variant": best}
        low, high = float(data["needle_difference_low"].sel(at)), float(data["needle_difference_high"].sel(at))
        text += (
            f"; their numbers cost least with {best}, {_signed(float(change.sel(at)))} nats a number against none "
            f"({_signed(low)} to {_signed(high)})"
        )
    return text + "."


def _calibration(data: xr.Dataset) -> str:
    if "slope" not in data:
        return ""
    first = data["direction"].isel(round=0).values
    slope = data["slope"].values[np.isfinite(first)]  # elsewhere, as in layers with a window, it does nothing
    sharper, softer = int((first < 0).sum()), int((first > 0).sum())
    kept = ""
    if data.attrs["per"] == "head":
        share, windows = float(data["towards_layer"][0]), data.sizes["fit_window"]
        kept = f"; of what a head differs from its layer {100 * share:.0f} % is told from noise by {windows} windows"
    return (
        f"The calibration began at {data.attrs['begun']}, where {sharper} heads would rather be sharper beyond the trained length and "
        f"{softer} softer, and took {_steps(data)}{kept}. Slopes end between {_signed(slope.min())} and {_signed(slope.max())} (mean {_signed(slope.mean())}) per nat."
    )


def _steps(data: xr.Dataset) -> str:
    taken = len(json.loads(data.attrs["taken"]))
    return {0: "no step, since none helped on text of its own", 1: "one step"}.get(taken, f"{taken} steps")


def _advice(data: xr.Dataset) -> str:
    name, best = recommended(data), best_of(data)
    words = str(data["words"].sel(variant=name).item())
    text = f"Recommended: {name} ({words})"
    if name != best:
        level = _among_many(data)
        note = f", {100 * level:.1f} % for the best of {data.sizes['variant']}"
        change = _told(pair(data, best, name, BEYOND, level), note)
        text += f"; {best} has the least loss, but not beyond doubt: {change} against {name}"
    cost = pair(data, name, "raw", WITHIN)
    if name != "raw" and float(cost.low) > SMALL:
        text += f". Short contexts pay {_told(cost)} for it: keep the plain model for them"
    return text + "."


def _loss(data: xr.Dataset, name: str) -> str:
    return f"{float(data['bucket_nll'].sel(variant=name, bucket=BEYOND)):.3f}"


def _change(data: xr.Dataset, name: str, base: str, bucket: str = BEYOND) -> str:
    return _told(pair(data, name, base, bucket))


def _told(change: object, note: str = "") -> str:
    estimate, low, high = (float(getattr(change, name)) for name in ("estimate", "low", "high"))
    if np.isnan(low):
        return _signed(estimate)
    return f"{_signed(estimate)} ({_signed(low)} to {_signed(high)}{note})"


def _signed(value: float) -> str:
    shown = f"{value:+.4f}" if abs(value) < 0.01 else f"{value:+.3f}"
    return shown.replace("-", "−")
