"""Figures and the HTML report, drawn from stored datasets alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlim.core.exports import lazily

if TYPE_CHECKING:
    from attnlim.report.audit_sheet import audit_figure
    from attnlim.report.critical_sheet import critical_figure
    from attnlim.report.drawing import draw, save_figure
    from attnlim.report.finite_sheet import finite_figure
    from attnlim.report.meanfield_sheet import meanfield_figure
    from attnlim.report.page import write_report
    from attnlim.report.phase_sheet import phase_figure
    from attnlim.report.rescale_sheet import rescale_figure
    from attnlim.report.uniform_proof_sheet import proof_figure
    from attnlim.report.uniform_sheet import uniform_figure

_HOME = {
    "audit_figure": "audit_sheet",
    "critical_figure": "critical_sheet",
    "draw": "drawing",
    "finite_figure": "finite_sheet",
    "meanfield_figure": "meanfield_sheet",
    "phase_figure": "phase_sheet",
    "proof_figure": "uniform_proof_sheet",
    "rescale_figure": "rescale_sheet",
    "save_figure": "drawing",
    "uniform_figure": "uniform_sheet",
    "write_report": "page",
}

__all__ = [
    "audit_figure",
    "critical_figure",
    "draw",
    "finite_figure",
    "meanfield_figure",
    "phase_figure",
    "proof_figure",
    "rescale_figure",
    "save_figure",
    "uniform_figure",
    "write_report",
]

__getattr__ = lazily(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
