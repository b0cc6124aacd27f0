"""The tables of docs/length.md, from the kept figures."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from attnlim.core.intervals import jackknife_mean
from benchmarks.length.measures import ARMS, RECALL, RECALL_NLL, TEXT, best, best_power, judged, share_at
from benchmarks.length.multipliers import CRITICAL, FROZEN, LOG, NONE, SQUARE_ROOT, YARN
from benchmarks.length.results import DEPTHS, Results

Floats = NDArray[np.float64]

ARM_WORDS = {"nope": "no positions", "rope": "rotary", "rope unseen": "rotary, distances unseen"}
OWN_WORDS = {"ssmax": "SSMax", "critical": "critical parametrisation"}
FEW = "few_right"
TABLE_WORDS = {TEXT: "NLL of text", RECALL: "% recalled, crowded", FEW: "% recalled of few pairs"}


def every_table(results: Results) -> dict[str, str]:
    """Name → Markdown."""
    found = {"predictions": predictions_table(results)}
    for arm in ARMS:
        found[f"text, {arm}"] = rules_table(results, TEXT, arm)
        found[f"crowded, {arm}"] = rules_table(results, RECALL, arm)
        found[f"few, {arm}"] = rules_table(results, FEW, arm)
    return found | {
        "best": best_table(results),
        "tokens": tokens_table(results),
        "unseen": unseen_table(results),
        "depth": depth_table(results),
    }


def predictions_table(results: Results) -> str:
    """What was expected, what was measured, and the verdict."""
    lines = ["| predicted | range | measured | 95 % interval | verdict |", "|---|---:|---:|---:|---|"]
    for one in judged(results):
        expected = _range(one.prediction.low, one.prediction.high)
        measured = f"{_bound(one.low == -math.inf, one.high == math.inf)}{_number(one.estimate)} | {_number(one.low)} … {_number(one.high)}"
        if math.isnan(one.estimate):
            measured = "no seed without a bound | –"
        lines.append(f"| {one.prediction.says} | {expected} | {measured} | {one.verdict} |")
    return "\n".join(lines)


def rules_table(results: Results, quantity: str, arm: str) -> str:
    """Every rule at every length, and the difference to no rule at the longest one, paired over seeds."""
    lengths, longest = results.lengths, results.longest
    as_share = quantity.endswith("right")
    lines = [
        f"| {TABLE_WORDS[quantity]}, {ARM_WORDS[arm]} | {' | '.join(map(str, lengths))} | less none at {longest} |",
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
        apart = "" if word.endswith("none") else _told(values[-1] - none, quantity, signed=True)
        lines.append(f"| {word} | {' | '.join(_told(one, quantity) for one in values)} | {apart} |")
    return "\n".join(lines)


def best_table(results: Results) -> str:
    """The best constant at every length, and the power of ln n with which it grows; a best one at the end of the range is a bound."""
    lines = [
        f"| best multiplier | {' | '.join(map(str, results.lengths))} | power of ln n |",
        f"|---|{'---:|' * (len(results.lengths) + 1)}",
    ]
    for arm in ARMS:
        for quantity, word in ((TEXT, "text"), (RECALL_NLL, "recall, crowded")):
            for parametrisation in ("softmax", *OWN_WORDS):
                found = [_best_told(results, quantity, parametrisation, arm, n) for n in results.lengths]
                cells = " | ".join(found)
                bounded = any(one[0] in "≤≥" for one in found)
                power = "–" if bounded else _with_half(best_power(results, quantity, parametrisation, arm), 2)
                kind = OWN_WORDS.get(parametrisation, parametrisation)
                lines.append(f"| {ARM_WORDS[arm]}, {word}, {kind} | {cells} | {power} |")
    return "\n".join(lines)


def _best_told(results: Results, quantity: str, parametrisation: str, arm: str, n: int) -> str:
    """The mean over seeds, with ≥ or ≤ where the best one of some seed is the largest or smallest that was read."""
    found = best(results, quantity, parametrisation, arm, n)
    side = _bound(bool((found.side < 0).any()), bool((found.side > 0).any()))
    return f"{side}{float(found.multiplier.mean()):.2f}"


def _bound(below: bool, above: bool) -> str:
    """What stands in front of a number when the true one may lie ``below`` it, or ``above``."""
    if below and above:
        raise ValueError("open on both sides, a number bounds nothing")
    return "≥ " if above else "≤ " if below else ""


def tokens_table(results: Results) -> str:
    """e^H/n of the mean head at the best constant, in per cent: geometric means over seeds."""
    lines = [f"| e<sup>H</sup>/n in % at the best constant | {' | '.join(map(str, results.lengths))} |"]
    lines.append(f"|---|{'---:|' * len(results.lengths)}")
    for arm in ARMS:
        for quantity, share, word in ((TEXT, "text_share", "text"), (RECALL_NLL, "crowded_share", "recall, crowded")):
            for parametrisation in ("softmax", *OWN_WORDS):
                cells = []
                for n in results.lengths:
                    place = best(results, quantity, parametrisation, arm, n).multiplier
                    mean = share_at(results, arm, n, place, share, parametrisation).mean()
                    cells.append(f"{100 * math.exp(float(mean)):.1f}")
                kind = OWN_WORDS.get(parametrisation, parametrisation)
                lines.append(f"| {ARM_WORDS[arm]}, {word}, {kind} | {' | '.join(cells)} |")
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
            lines.append(f"| {word}, {rule} | {' | '.join(_told(one, TEXT) for one in values)} |")
    return "\n".join(lines)


def depth_table(results: Results) -> str:
    """Recall at the longest context by where the pair lies."""
    n = results.longest
    parts = [f"{k}/{DEPTHS} … {k + 1}/{DEPTHS}" for k in range(DEPTHS)]
    lines = [f"| % recalled at {n} by depth, crowded | {' | '.join(parts)} |", f"|---|{'---:|' * DEPTHS}"]
    for arm in ARMS:
        kinds = [
            ("softmax", name, f"softmax, {word}") for name, word in ((NONE, "none"), (LOG, LOG), (CRITICAL, CRITICAL))
        ]
        kinds += [(parametrisation, NONE, word) for parametrisation, word in OWN_WORDS.items()]
        for parametrisation, name, word in kinds:
            values = results.of("crowded_by_depth", parametrisation, arm, n, name)
            cells = " | ".join(_told(values[:, k], RECALL) for k in range(DEPTHS))
            lines.append(f"| {ARM_WORDS[arm]}, {word} | {cells} |")
    return "\n".join(lines)


def _with_half(values: Floats, digits: int, signed: bool = False) -> str:
    """Mean over seeds and half the 95 % interval."""
    interval = jackknife_mean(values)
    mean, half = float(interval.estimate), float(interval.high - interval.estimate)
    told = f"{mean:{'+' if signed else ''}.{digits}f}".replace("-", "−")
    return f"{told} ± {half:.{digits}f}" if math.isfinite(half) else told


def _told(values: Floats, quantity: str, signed: bool = False) -> str:
    """Shares in per cent, NLL in nats."""
    return _with_half(100 * values, 0, signed) if quantity.endswith("right") else _with_half(values, 3, signed)


def _number(value: float) -> str:
    shown = "–" if math.isnan(value) else f"{value:.3g}"
    return shown.replace("inf", "∞").replace("-", "−")


def _range(low: float, high: float) -> str:
    if math.isfinite(low) and math.isfinite(high):
        return f"{_number(low)} … {_number(high)}"
    return f"> {_number(low)}" if math.isfinite(low) else f"< {_number(high)}"
