"""Tables of a page put anew from kept results: each stands below a comment that names it, sentences stay as they are."""

from __future__ import annotations

from collections.abc import Mapping


def marker(command: str, name: str) -> str:
    """What stands above a table."""
    return f"<!-- printed by: python -m {command} · {name} -->\n\n"


def filled(text: str, command: str, tables: Mapping[str, str]) -> str:
    """The page with every table that it names replaced.

    >>> filled(marker("x", "one") + "old\\n\\nafter", "x", {"one": "new", "other": "unused"}).splitlines()[2:]
    ['new', '', 'after']
    """
    for name, table in tables.items():
        head, mark, rest = text.partition(marker(command, name))
        if mark:
            _, gap, after = rest.partition("\n\n")
            text = head + mark + table + (gap or "\n") + after
    return text
