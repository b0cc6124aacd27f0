"""Auditing a real model: attention probed as it runs, per-head results, and the verdict in words."""

from __future__ import annotations

from attnlim.core.exports import lazily

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

__getattr__ = lazily(__name__, _HOME)
