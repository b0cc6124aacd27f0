"""The table of claims of a reproduction, as Markdown.

Run with `python examples/reproduction_table.py RUN/claims.csv`.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path


def number(text: str) -> str:
    return f"{float(text):.4g}".replace("-", "−") if text else ""


def table(claims: Path) -> str:
    """A row for every claim: what it predicts, what was measured with its interval, and the verdict."""
    lines = ["| claim | source | predicted | measured | interval | verdict |", "|---|---|---:|---:|---:|---|"]
    with claims.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            interval = f"{number(row['low'])} … {number(row['high'])}" if row["low"] or row["high"] else ""
            text = row["text"].replace("|", "\\|")
            cells = [text, row["source"], number(row["predicted"]), number(row["measured"]), interval, row["verdict"]]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
