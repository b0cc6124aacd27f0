"""The page on two texts says what the kept figures say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from benchmarks.texts import compared, markdown

ROOT = Path(__file__).parents[2]
FIGURES = json.loads((ROOT / "benchmarks" / "results" / "texts.json").read_text(encoding="utf-8"))["figures"]


def test_tables_are_the_kept_figures() -> None:
    assert markdown(FIGURES) in (ROOT / "docs" / "texts.md").read_text(encoding="utf-8")


def test_no_head_goes_from_one_decided_phase_to_another() -> None:
    """The sentence that the page leads with."""
    decided = ("diluted", "sparse", "frozen")
    moved = [FIGURES["phases"][f"{one} → {other}"] for one in decided for other in decided if one != other]
    assert sum(moved) == 0


def test_heads_without_a_test_are_not_counted_as_alike() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 4, 1, 8))
    second[:, 0, :4] += 100.0
    first[0, 0, 4], second[1, 0, 5] = np.nan, np.nan  # no number in one window
    first[:, 0, 6] = second[:, 0, 6] = 0.5  # the same in all windows of both
    found = compared(first, second)
    assert found["heads_that_differ"] == 0.8  # four of the five that can be tested
    assert all(np.isfinite(value) for value in found.values())
