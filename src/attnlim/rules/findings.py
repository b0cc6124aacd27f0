"""What is to be known of a configuration's scaling, each thing as a kind, a weight and a sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One thing to know of a configuration.

    Attributes:
        kind: a slug such as "not-honoured"; the manual lists them.
        severity: "error": what is declared is not what is applied, or cannot be; "warning": engines may differ here, or it
            looks like a mistake; "note": so it is meant.
        sentence: it in words, with the size of the error where one can be computed.
        applied: the factor on logits that transformers applies, dimensionless; NaN where the finding is about no factor.
        meant: the factor that the config, or another reading of it, asks for; NaN likewise.
        position: where both hold; None for every position.
    """

    kind: str
    severity: Severity
    sentence: str
    applied: float = math.nan
    meant: float = math.nan
    position: int | None = None


def size(applied: float, meant: float, position: int | None = None) -> str:
    """The size of an error in words.

    >>> size(1.0, 1.2968), size(1.0, 1.2079, 131072)
    ('logits × 1.000 instead of 1.297', 'logits × 1.000 instead of 1.208 at 131072')
    """
    where = "" if position is None else f" at {position}"
    return f"logits × {applied:.3f} instead of {meant:.3f}{where}"


def by_severity(findings: list[Finding]) -> tuple[Finding, ...]:
    """Errors first, then warnings, then notes, each as they came; the same sentence once."""
    once = list({finding.sentence: finding for finding in findings}.values())
    return tuple(sorted(once, key=lambda finding: SEVERITIES.index(finding.severity)))
