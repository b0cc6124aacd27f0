"""Full-size reproductions on the docs' pages are the stored ones, and the stored ones are as recorded."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from attnlim.lab import critical_record, uniform_record

PAPERS = (("critical", "reproduce.md", critical_record), ("uniform", "uniform.md", uniform_record))


def stored(root: Path, paper: str) -> dict[str, dict[str, str]]:
    """The stored table by the claims' keys."""
    with (root / f"docs/data/{paper}-full.csv").open(encoding="utf-8", newline="") as file:
        return {row["key"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize(("paper", "page", "record"), PAPERS)
def test_verdicts_are_the_recorded_ones(root: Path, paper: str, page: str, record: Any) -> None:
    rows = stored(root, paper)
    assert tuple(rows) == record.ORDER
    assert {key: row["verdict"] for key, row in rows.items()} == dict(record.RECORDED["full"])


@pytest.mark.parametrize(("paper", "page", "record"), PAPERS)
def test_the_page_shows_the_stored_table_and_counts_it_right(root: Path, paper: str, page: str, record: Any) -> None:
    text = (root / "docs" / page).read_text(encoding="utf-8")
    script = [sys.executable, root / "examples" / "reproduction_table.py", root / f"docs/data/{paper}-full.csv"]
    assert subprocess.run(script, capture_output=True, text=True, check=True).stdout in text
    rows = stored(root, paper)
    counts = Counter(row["verdict"] for row in rows.values())
    found = [verdict for verdict in ("confirmed", "qualified", "contradicted", "undecided") if counts[verdict]]
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in found)
    assert f"{len(rows)} claims: {words}" in " ".join(text.split())
    # whatever is not confirmed is explained by its key
    for key, row in rows.items():
        assert row["verdict"] == "confirmed" or f"`{key}`" in text, key


def test_the_first_page_says_where_the_transitions_lie(root: Path) -> None:
    said = " ".join((root / "docs/reproduce.md").read_text(encoding="utf-8").split())
    rows = stored(root, "critical")

    def above(key: str) -> str:
        return f"{100 * (float(rows[key]['measured']) - 1):.2g} %"

    assert f"forward transition lies {above('forward-wide')} above" in said
    assert f"backward one {above('backward-wide')}" in said
    assert f"they lie {above('forward-middle')} and {above('backward-middle')} above" in said
