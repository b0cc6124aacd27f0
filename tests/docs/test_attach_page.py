"""What docs/attach.md says of the cost of an attached rule is what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

ROWS = (
    ("reading", "reading {context} tokens", "logn"),
    ("reading", "the same, one exponent a layer and head (`critical`)", "critical"),
    ("reading", "the same, learned scales and biases (`ssmax`)", "ssmax"),
    ("reading padded", "reading {context} slots, an eighth of them padding (`logn`)", "logn"),
    ("decoding", "decoding {decoded} tokens after {prompt} (`logn`)", "logn"),
    ("decoding", "the same, `critical`", "critical"),
    ("decoding", "the same, `ssmax`", "ssmax"),
)


def kept(root: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))
    return found


def rows(ratios: dict[str, Any], shares: dict[str, Any]) -> list[str]:
    """The table's lines: the median of the paired ratios and their range, and the rule's own part in per cent."""
    lines = []
    for mode, words, rule in ROWS:
        measured, own = ratios[rule][mode], shares[rule][mode]
        every = measured["processor_ratios"]
        lines.append(
            f"| {words.format(**ratios)} | {measured['median_processor_ratio']:.3f} ({min(every):.2f} … {max(every):.2f}) | "
            f"{100 * median(own):.2f} % ({100 * min(own):.2f} … {100 * max(own):.2f}) |"
        )
    return lines


def test_cost_is_that_of_the_benchmark(root: Path) -> None:
    result, shares = kept(root, "rules"), kept(root, "rules_shares")["figures"]
    figures, machine = result["figures"], result["machine"]
    text = (root / "docs" / "attach.md").read_text(encoding="utf-8")
    for line in rows(figures, shares):
        assert line in text
    flat = " ".join(text.split())
    assert f"{figures['model']}, {figures['rounds']} rounds of the ratios and {shares['rounds']} of the shares" in flat
    assert f"{machine['processor']}, {machine['threads']} thread" in flat
    assert f"torch {machine['torch']}, transformers {machine['transformers']}" in flat


def test_reading_costs_less_than_three_hundredths(root: Path) -> None:
    """What the project asks of itself, of the kept figures."""
    figures, shares = (kept(root, name)["figures"] for name in ("rules", "rules_shares"))
    assert figures["context"] == shares["context"] == 4096
    for rule in ("logn", "critical", "ssmax"):
        assert figures[rule]["reading"]["median_processor_ratio"] < 1.03, rule
        assert max(shares[rule]["reading"]) < 0.03, rule
