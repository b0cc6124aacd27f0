"""The tables of docs/length.md, from the kept figures."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from attnlim.core.intervals import jackknife_mean
from benchmarks.length.measures import ARMS, RECALL, TEXT, best, judged
from benchmarks.length.multipliers import CRITICAL, FROZEN, LOG, NONE, SQUARE_ROOT, YARN
from benchmarks.length.results import DEPTHS, Results

Floats = NDArray[np.float64]

ARM_WORDS = {"nope": "no positions", "rope": "rotary", "rope unseen": "rotary, distances unseen"}
OWN_WORDS = {"ssmax": "SSMax", "critical": "critical parametrisation"}
FEW = "few_right"


def every_table(results: Results) -> dict[str, str]:
    """Name → Markdown."""
    found = {"predictions": predictions_table(results)}
    for arm in ARMS:
        found[f"text, {arm}"] = rules_table(results, TEXT, arm)
        found[f"crowded, {arm}"] = rules_table(results, RECALL, arm)
        found[f"few, {arm}"] = rules_table(results, FEW, arm)
    return found | {"unseen": unseen_table(results), "depth": depth_table(results)}


def predictions_table(results: Results) -> str:
    """What was expected, what was measured, and the verdict."""
    lines = ["| predicted | range | measured | 95 % interval | verdict |", "|---|---:|---:|---:|---|"]
    for one in judged(results):
        expected = _range(one.prediction.low, one.prediction.high)
        measured = f"{_number(one.estimate)} | {_number(one.low)} … {_number(one.high)}"
        lines.append(f"| {one.prediction.says} | {expected} | {measured} | {one.verdict} |")
    return "\n".join(lines)


def rules_table(results: Results, quantity: str, arm: str) -> str:
    """Every rule at every length, and the difference to no rule at the longest one, paired over seeds."""
    lengths, longest = results.lengths, results.longest
    as_share = quantity.endswith("right")
    lines = [
        f"| {'recall' if as_share else 'NLL of text'}, {ARM_WORDS[arm]} | {' | '.join(map(str, lengths))} | less none at {longest} |",
        f"|---|{'---:|' * (len(lengths) + 1)}",
    ]
    none = results.of(quantity, "softmax", arm, longest)
    rows: list[tuple[str, list[Floats]]] = []
    for name, word in (
        (NONE, "softmax, none"),
        *((rule, f"softmax, {rule}") for rule in (SQUARE_ROOT, LOG, FROZEN, CRITICAL)),
    ):
        rows.append((word, [results.of(quantity, "softmax", arm, n, name) for n in lengths]))
    if not as_share:
        rows.insert(1, ("softmax, best constant", [best(results, quantity, "softmax", arm, n).value for n in lengths]))
    for parametrisation, word in OWN_WORDS.items():
        rows.append((word, [results.of(quantity, parametrisation, arm, n) for n in lengths]))
        rows.append(
            (f"{word}, critical rule", [results.of(quantity, parametrisation, arm, n, CRITICAL) for n in lengths])
        )
    for word, values in rows:
        apart = "" if word.endswith("none") else _with_half(values[-1] - none, as_share, signed=True)
        lines.append(f"| {word} | {' | '.join(_with_half(one, as_share) for one in values)} | {apart} |")
    return "\n".join(lines)


def unseen_table(results: Results) -> str:
    """Rotary distances that training did not show, as they are and stretched."""
    lengths = results.lengths
    lines = [
        f"| NLL of text, {ARM_WORDS['rope unseen']} | {' | '.join(map(str, lengths))} |",
        f"|---|{'---:|' * len(lengths)}",
    ]
    for arm, word in (("rope unseen", "as they are"), ("rope unseen, yarn", "stretched by parts (YaRN)")):
        for name in (NONE, LOG, YARN):
            values = [results.of(TEXT, "softmax", arm, n, name) for n in lengths]
            rule = {NONE: "no multiplier", LOG: "log", YARN: "YaRN's own constant"}[name]
            lines.append(f"| {word}, {rule} | {' | '.join(_with_half(one, False) for one in values)} |")
    return "\n".join(lines)


def depth_table(results: Results) -> str:
    """Recall at the longest context by where the pair lies."""
    n = results.longest
    parts = [f"{k}/{DEPTHS} … {k + 1}/{DEPTHS}" for k in range(DEPTHS)]
    lines = [f"| recall at {n} by depth, crowded | {' | '.join(parts)} |", f"|---|{'---:|' * DEPTHS}"]
    for arm in ARMS:
        kinds = [
            ("softmax", name, f"softmax, {word}") for name, word in ((NONE, "none"), (LOG, LOG), (CRITICAL, CRITICAL))
        ]
        kinds += [(parametrisation, NONE, word) for parametrisation, word in OWN_WORDS.items()]
        for parametrisation, name, word in kinds:
            values = results.of("crowded_by_depth", parametrisation, arm, n, name)
            cells = " | ".join(_with_half(values[:, k], True) for k in range(DEPTHS))
            lines.append(f"| {ARM_WORDS[arm]}, {word} | {cells} |")
    return "\n".join(lines)


def _with_half(values: Floats, as_share: bool, signed: bool = False) -> str:
    """Mean over seeds and half the 95 % interval; shares in per cent."""
    interval = jackknife_mean(values * 100 if as_share else values)
    mean, half = float(interval.estimate), float(interval.high - interval.estimate)
    digits = 0 if as_share else 3
    told = f"{mean:{'+' if signed else ''}.{digits}f}".replace("-", "−")
    return f"{told} ± {half:.{digits}f}" if math.isfinite(half) else told


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−") if math.isfinite(value) else "–"


def _range(low: float, high: float) -> str:
    if math.isfinite(low) and math.isfinite(high):
        return f"{_number(low)} … {_number(high)}"
    return f"> {_number(low)}" if math.isfinite(low) else f"< {_number(high)}"
