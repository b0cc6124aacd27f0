"""The pages of the depth limit: derivations and docstrings link to each other, every module is on the map."""

from __future__ import annotations

import re
from pathlib import Path

import attnlim.depth

SOURCES = Path(attnlim.depth.__file__).parent


def test_derivations_and_docstrings_link_to_each_other(root: Path) -> None:
    anchors = set(re.findall(r"^## .*\{ #([\w-]+) \}$", (root / "docs/depth-derivations.md").read_text(), re.M))
    linked = set()
    for path in SOURCES.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        linked |= set(re.findall(r"\]\(\.\./depth-derivations\.md#([\w-]+)\)", text))
    assert anchors and linked == anchors


def test_every_module_is_on_the_map() -> None:
    said = re.findall(r"``(\w+)``", str(attnlim.depth.__doc__))
    assert sorted(said) == sorted(path.stem for path in SOURCES.glob("*.py") if path.stem != "__init__")
