"""Rank correlation, with points missing."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


def rank_correlation(one: ArrayLike, other: ArrayLike) -> float:
    """Spearman's rank correlation of the places where both are finite.

    Args:
        one: any shape, any unit.
        other: the same shape.

    Returns:
        In [-1, 1]; NaN below three such places, or where either is the same in all of them.

    >>> round(rank_correlation([1.0, 2.0, 3.0, 9.0], [1.0, 4.0, 2.0, float("nan")]), 6), rank_correlation([1, 2], [1, 2])
    (0.5, nan)
    """
    x, y = np.ravel(np.asarray(one, dtype=np.float64)), np.ravel(np.asarray(other, dtype=np.float64))
    both = np.isfinite(x) & np.isfinite(y)
    x, y = x[both], y[both]
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    return float(stats.spearmanr(x, y).statistic)
