"""The tables of docs/evidence.md, from kept figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.judging import Part, together
from benchmarks.predictions import MULTIPLIER, RULES, Prediction

Figures = Mapping[str, Any]


def multiplier_tables(figures: Figures, parts: Mapping[str, Sequence[Part]]) -> dict[str, str]:
    """Name → Markdown, of the sweep of one multiplier."""
    return {
        "predictions of one multiplier": predictions_table(MULTIPLIER, parts),
        "one multiplier": multiplier_table(figures),
        "half-weight points": half_weight_table(figures),
    }


def rules_tables(runs: Sequence[Figures], parts: Mapping[str, Sequence[Part]]) -> dict[str, str]:
    """Name → Markdown, of comparisons of rules."""
    found = {"predictions of rules": predictions_table(RULES, parts, so_far=len({run["target"] for run in runs}) < 2)}
    for run in runs:
        name = f"{run['texts'][-1]}, {run['target']}"
        found[f"rules, {name}"] = rules_table(run)
        found[f"needles, {name}"] = needles_table(run)
    return found


def predictions_table(
    predictions: Sequence[Prediction], parts: Mapping[str, Sequence[Part]], so_far: bool = False
) -> str:
    """What was expected, what was measured with its 95 % interval, and the verdict, which may be about a part alone."""
    lines = ["| predicted | measured | verdict |", "|---|---|---|"]
    for one in predictions:
        measured = "; ".join(
            f"{part.where}: {interval(part.estimate, part.low, part.high)}" for part in parts.get(one.name, ())
        )
        word = f"{together(parts[one.name])}{' so far' if so_far else ''}" if one.name in parts else "not measured yet"
        lines.append(f"| {one.says} | {measured} | {word} |")
    return "\n".join(lines)


def multiplier_table(figures: Figures) -> str:
    """One row a context and multiplier; means over windows."""
    lines = [
        "| n | b | loss, nats | tokens attended, e<sup>H</sup> | largest weight | ρ̂ after the middle layer | η of its attention | η of its block |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    columns = (
        ("nll", 3), ("median_tokens", 1), ("median_largest_weight", 2), ("rho_middle", 3), ("eta_attention", 2), ("eta_block", 2),
    )  # fmt: skip
    for point in figures["points"]:
        cells = " | ".join(half(point[name], digits) for name, digits in columns)
        lines.append(f"| {point['n_tokens']} | {point['b']:g} | {cells} |")
    return "\n".join(lines)


def half_weight_table(figures: Figures) -> str:
    """Where half of a head's weight lies on one key, beside b_c, a context."""
    plain = {point["n_tokens"]: point for point in figures["points"] if point["b"] == 1}
    least, largest = (f"{pick(point['b'] for point in figures['points']):g}" for pick in (min, max))
    lines = [
        f"| n | median b_c | heads with half their weight on one key at b = {least} | from some b between | not at b = {largest} | the b of the median head |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for one in figures["half_weight"]:
        median = "outside" if one["median"] is None else f"{one['median']:.2f}"
        lines.append(
            f"| {one['n_tokens']} | {half(plain[one['n_tokens']]['median_b_c'], 2)} | {one['below_range']} | {one['inside']} | {one['above_range']} | {median} |"
        )
    return "\n".join(lines)


def rules_table(run: Figures) -> str:
    """One row a variant: loss beyond the trained length, paired differences."""
    trained, target = run["trained_length"], run["target"]
    lines = [
        f"| rule | loss, {trained} to {target} | less none | below {trained}, less raw |",
        "|---|---:|---:|---:|",
    ]
    for one in run["variants"]:
        apart = "·" if one["name"] == "none" else interval(*one["against_none"])
        within = "·" if one["name"] == "raw" else interval(*one["within_against_raw"])
        lines.append(f"| {one['name']} | {one['loss']:.4f} | {apart} | {within} |")
    return "\n".join(lines)


def needles_table(run: Figures) -> str:
    """One row a variant: needles found of each company, and what their numbers cost."""
    first = run["variants"][0]["found"]
    heads = " | ".join(f"found, {company}" for company in first)
    lines = [f"| rule | {heads} | nats a number | less none |", f"|---|{'---:|' * (len(first) + 2)}"]
    for one in run["variants"]:
        apart = "·" if one["name"] == "none" else interval(*one["needle_against_none"])
        found = " | ".join(str(count) for count in one["found"].values())
        lines.append(f"| {one['name']} | {found} | {one['needle_loss']:.2f} | {apart} |")
    return "\n".join(lines)


def half(value: Mapping[str, float], digits: int) -> str:
    """A mean and half its interval."""
    width = value["high"] - value["mean"]
    mean = f"{value['mean']:.{digits}f}".replace("-", "−")
    return f"{mean} ± {width:.{digits}f}" if math.isfinite(width) else mean


def interval(estimate: float, low: float, high: float) -> str:
    """An estimate with its interval, or alone where it has none."""
    digits = 4 if abs(estimate) < 0.1 else 3 if abs(estimate) < 1 else 2
    shown = [f"{value:+.{digits}f}".replace("-", "−") for value in (estimate, low, high)]
    return shown[0] if low == high or math.isnan(low) else f"{shown[0]} ({shown[1]} to {shown[2]})"
