"""Figures and the HTML report, drawn from stored datasets alone."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlim.report.drawing import draw
    from attnlim.report.figures import audit_figure, save_figure
    from attnlim.report.page import write_report

_HOMES = {
    "draw": "attnlim.report.drawing",
    "audit_figure": "attnlim.report.figures",
    "save_figure": "attnlim.report.figures",
    "write_report": "attnlim.report.page",
}

__all__ = ["audit_figure", "draw", "save_figure", "write_report"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
