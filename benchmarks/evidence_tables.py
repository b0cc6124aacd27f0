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
    return {
        "predictions of rules": predictions_table(RULES, parts, so_far=len({run["target"] for run in runs}) < 2),
        "beyond the trained length": loss_table(runs, "none", "loss", "against_none"),
        "within the trained length": loss_table(runs, "raw", "loss_within", "within_against_raw"),
        "needles": needles_table(runs),
    }


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


def wishes_table(figures: Figures) -> str:
    """One row a context: heads by their wish, and whether they want the same."""
    lines = [
        "| n | sharper | softer | undecided | one of both by chance | all heads at once | sum of sizes | by chance | rank with κ | with b_c |",
        f"|{'---:|' * 10}",
    ]
    for one in figures["contexts"]:
        counts = " | ".join(str(one[name]) for name in ("sharper", "softer", "undecided"))
        ranks = " | ".join(f"{one[name]:+.2f}".replace("-", "−") for name in ("rank_with_kappa", "rank_with_b_c"))
        lines.append(
            f"| {one['n_tokens']} | {counts} | {one['by_chance']:.0f} | {interval(*one['together'])} "
            f"| {one['apart']:.2f} | {one['apart_by_chance']:.2f} | {ranks} |"
        )
    return "\n".join(lines)


def loss_table(runs: Sequence[Figures], base: str, loss: str, apart: str) -> str:
    """One row a variant, one column a run: the loss of ``base`` itself, and what the others differ from it, paired."""
    lines = _head(f"nats a token less {base}", runs)
    for name in (base, *(one["name"] for one in runs[0]["variants"] if one["name"] != base)):
        variants = [_variant(run, name) for run in runs]
        cells = [f"{one[loss]:.4f}" if name == base else interval(*one[apart]) for one in variants]
        lines.append(f"| {f'*{base} itself*' if name == base else name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def again_table(runs: Mapping[str, Figures]) -> str:
    """What a rule differs from none beyond the trained length, on the same tokens in one run after another; – where a run lacks it."""
    lines = [f"| nats a token less none | {' | '.join(runs)} |", f"|---|{'---:|' * len(runs)}"]
    columns = [{one["name"]: interval(*one["against_none"]) for one in run["variants"]} for run in runs.values()]
    for name in columns[0]:
        if name != "none":
            lines.append(f"| {name} | {' | '.join(column.get(name, '–') for column in columns)} |")
    return "\n".join(lines)


def needles_table(runs: Sequence[Figures]) -> str:
    """One row a variant, one column a run: needles found of each company, and what their numbers cost, less none."""
    lines = _head("needles found: " + ", ".join(runs[0]["variants"][0]["found"]), runs)
    for one in runs[0]["variants"]:
        cells = []
        for variant in (_variant(run, one["name"]) for run in runs):
            found = ", ".join(str(count) for count in variant["found"].values())
            cost = variant["needle_loss"] if one["name"] == "none" else None
            cells.append(f"{found}; {interval(*variant['needle_against_none']) if cost is None else f'*{cost:.2f}*'}")
        lines.append(f"| {one['name']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _head(says: str, runs: Sequence[Figures]) -> list[str]:
    places = " | ".join(f"{run['target']}, {run['texts'][-1]}" for run in runs)
    return [f"| {says} | {places} |", f"|---|{'---:|' * len(runs)}"]


def _variant(run: Figures, name: str) -> Figures:
    found: Figures = next(one for one in run["variants"] if one["name"] == name)
    return found


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
