"""Figures and the HTML report, drawn from stored datasets alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlim.core.exports import lazily

if TYPE_CHECKING:
    from attnlim.report.drawing import draw
    from attnlim.report.figures import audit_figure, save_figure
    from attnlim.report.page import write_report

_HOME = {
    "draw": "drawing",
    "audit_figure": "figures",
    "save_figure": "figures",
    "write_report": "page",
}

__all__ = ["audit_figure", "draw", "save_figure", "write_report"]

__getattr__ = lazily(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
