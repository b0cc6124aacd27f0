"""Numbers as plain lists for JSON, which has no NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def rounded(value: float, digits: int = 5) -> float | None:
    """``value`` to ``digits`` significant digits; None where it is not finite, since JSON has no NaN.

    >>> rounded(2 / 3), rounded(float("nan"))
    (0.66667, None)
    """
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def listed(values: np.ndarray[Any, Any]) -> Any:
    """Nested lists of the shape of ``values``, whole numbers as they are and the others :func:`rounded`.

    >>> listed(np.array([[1.0, np.nan], [2 / 3, 4.0]]))
    [[1.0, None], [0.66667, 4.0]]
    """
    if values.ndim > 1:
        return [listed(part) for part in values]
    if np.issubdtype(values.dtype, np.integer):
        return [int(value) for value in values]
    return [rounded(float(value)) for value in values]
