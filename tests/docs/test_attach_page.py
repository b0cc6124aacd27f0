"""What docs/attach.md says of the cost of an attached rule is what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROWS = (
    ("reading", "reading {context} tokens", "logn"),
    ("reading", "the same, one exponent a layer and head (`critical`)", "critical"),
    ("reading", "the same, learned scales and biases (`ssmax`)", "ssmax"),
    ("reading padded", "reading {context} slots, an eighth of them padding (`logn`)", "logn"),
    ("decoding", "decoding {decoded} tokens after {prompt} (`logn`)", "logn"),
    ("decoding", "the same, `ssmax`", "ssmax"),
)


def cell(measured: dict[str, Any]) -> str:
    ratios = measured["processor_ratios"]
    return f"{measured['median_processor_ratio']:.3f} ({min(ratios):.2f} … {max(ratios):.2f})"


def test_cost_is_that_of_the_benchmark(root: Path) -> None:
    result = json.loads((root / "benchmarks" / "results" / "rules.json").read_text(encoding="utf-8"))
    figures, machine = result["figures"], result["machine"]
    text = (root / "docs" / "attach.md").read_text(encoding="utf-8")
    for mode, words, rule in ROWS:
        assert f"| {words.format(**figures)} | {cell(figures[rule][mode])} |" in text
    flat = " ".join(text.split())
    assert f"{figures['model']}, {figures['rounds']} rounds" in flat
    assert f"{machine['processor']}, {machine['threads']} thread" in flat
    assert f"torch {machine['torch']}, transformers {machine['transformers']}" in flat


def test_reading_costs_less_than_three_hundredths(root: Path) -> None:
    """What the project asks of itself, of the kept figures."""
    figures = json.loads((root / "benchmarks" / "results" / "rules.json").read_text(encoding="utf-8"))["figures"]
    assert figures["context"] == 4096
    for rule in ("logn", "critical", "ssmax"):
        assert figures[rule]["reading"]["median_processor_ratio"] < 1.03, rule
