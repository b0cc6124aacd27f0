"""Auditing a real model: attention probed as it runs, per-head results, and the verdict in words."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "AuditResult": "measure",
    "audit": "measure",
    "make_plan": "measure",
    "run_plan": "measure",
    "anatomy": "probing",
    "probe": "probing",
    "row_statistics": "statistics",
    "verdict": "wording",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
