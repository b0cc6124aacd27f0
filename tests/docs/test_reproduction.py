"""The full-size reproduction on the docs' page is the stored one, and the stored one is as recorded."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path

from attnlim.lab.critical_record import ORDER, RECORDED

CLAIMS = "docs/data/critical-full.csv"


def test_verdicts_are_the_recorded_ones(root: Path) -> None:
    with (root / CLAIMS).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["key"] for row in rows] == list(ORDER)
    assert {row["key"]: row["verdict"] for row in rows} == dict(RECORDED["full"])


def test_the_page_shows_the_stored_table_and_counts_it_right(root: Path) -> None:
    text = (root / "docs/reproduce.md").read_text(encoding="utf-8")
    script = [sys.executable, root / "examples" / "reproduction_table.py", root / CLAIMS]
    assert subprocess.run(script, capture_output=True, text=True, check=True).stdout in text
    with (root / CLAIMS).open(encoding="utf-8", newline="") as file:
        rows = {row["key"]: row for row in csv.DictReader(file)}
    counts = Counter(row["verdict"] for row in rows.values())
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("confirmed", "qualified", "contradicted"))
    said = " ".join(text.split())
    assert f"{len(rows)} claims: {words}" in said

    def above(key: str) -> str:
        return f"{100 * (float(rows[key]['measured']) - 1):.2g} %"

    assert f"forward transition lies {above('forward-wide')} above" in said
    assert f"backward one {above('backward-wide')}" in said
    assert f"they lie {above('forward-middle')} and {above('backward-middle')} above" in said
