"""The tables of docs/length.md put anew from the kept results: ``python -m benchmarks.length.page``.

A table stands below a comment that names it. Sentences stay as they are; tests/docs compares them with the results.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.length.results import Results
from benchmarks.length.tables import every_table
from benchmarks.machine import RESULTS
from benchmarks.pages import filled

PAGE = Path(__file__).parents[2] / "docs" / "length.md"


def main() -> None:
    tables = every_table(Results.load(RESULTS / "length.json"))
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), "benchmarks.length.page", tables), encoding="utf-8")


if __name__ == "__main__":
    main()
