"""The page on two texts says what the kept figures say."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.texts import markdown

ROOT = Path(__file__).parents[2]
FIGURES = json.loads((ROOT / "benchmarks" / "results" / "texts.json").read_text(encoding="utf-8"))["figures"]


def test_tables_are_the_kept_figures() -> None:
    assert markdown(FIGURES) in (ROOT / "docs" / "texts.md").read_text(encoding="utf-8")


def test_no_head_goes_from_one_decided_phase_to_another() -> None:
    """The sentence that the page leads with."""
    decided = ("diluted", "sparse", "frozen")
    moved = [FIGURES["phases"][f"{one} → {other}"] for one in decided for other in decided if one != other]
    assert sum(moved) == 0
