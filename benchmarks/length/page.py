"""The tables of docs/length.md put anew from the kept results: ``python -m benchmarks.length.page``.

A table stands below a comment that names it. Sentences stay as they are; tests/docs compares them with the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.length.results import Results
from benchmarks.length.tables import every_table
from benchmarks.machine import RESULTS

PAGE = Path(__file__).parents[2] / "docs" / "length.md"


def marker(name: str) -> str:
    """What stands above a table."""
    return f"<!-- printed by: python -m benchmarks.length.page · {name} -->\n\n"


def filled(text: str, tables: Mapping[str, str]) -> str:
    """The page with every table that it names replaced."""
    for name, table in tables.items():
        head, mark, rest = text.partition(marker(name))
        if mark:
            _, gap, after = rest.partition("\n\n")
            text = head + mark + table + (gap or "\n") + after
    return text


def main() -> None:
    tables = every_table(Results.load(RESULTS / "length.json"))
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")


if __name__ == "__main__":
    main()
