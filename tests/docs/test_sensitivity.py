"""What the audit's page says of sensitivities: its table against a real dataset."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.docs.test_pages import _Letters

from attnlim.audit import audit


def test_variables_of_a_run_with_sensitivity(root: Path, tiny: Any, one_thread: Any) -> None:
    text = (root / "docs" / "audit.md").read_text(encoding="utf-8")
    section = text[text.index("## Which way each head would rather go") : text.index("## What is measured, and how")]
    said: dict[str, tuple[tuple[str, ...], str]] = {}
    for name, dims, unit, meaning in re.findall(r"^\| `(\w+)` \| ([\w, ]+) \| (\w+) \| (.*) \|$", section, re.M):
        ends = ("", "_se", "_low", "_high") if "`_se`, `_low`, `_high`" in meaning else ("",)
        said |= {name + end: (tuple(dims.split(", ")), unit) for end in ends}
    settings: dict[str, Any] = {"contexts": (16, 48), "n_windows": 2, "n_rows": 8}
    text = "to be or not to be " * 20
    plain = audit(tiny("llama"), _Letters(), text, **settings).dataset
    data = audit(tiny("llama"), _Letters(), text, **settings, sensitivity=True).dataset
    assert set(said) == set(map(str, data.data_vars)) - set(map(str, plain.data_vars))
    for name, (dims, unit) in said.items():
        assert data[name].dims == dims, name
        assert data[name].attrs.get("units", unit) == unit, name
