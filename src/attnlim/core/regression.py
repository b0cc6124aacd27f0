"""Least-squares slopes along an axis, with points missing."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def slope(x: ArrayLike, y: ArrayLike, axis: int = -1, least_span: float = 0.0) -> NDArray[np.float64]:
    """Least-squares slope of ``y`` on ``x`` along ``axis``.

    Args:
        x: broadcastable to ``y``.
        y: any shape; a point is left out where ``x`` or ``y`` is not finite.
        axis: the axis of the points.
        least_span: the range of ``x`` that the points left must reach, in the unit of ``x``.

    Returns:
        The shape of ``y`` without ``axis``, in units of y over x; NaN where fewer than two points are left, or
        where they do not span ``least_span``.

    >>> slope([1.0, 2.0, 3.0], [[2.0, 4.0, 6.0], [1.0, np.nan, 2.0], [1.0, np.nan, np.nan]]).tolist()
    [2.0, 0.5, nan]
    """
    x, y = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    x, y = np.moveaxis(x, axis, -1), np.moveaxis(y, axis, -1)
    there = np.isfinite(x) & np.isfinite(y)
    count = there.sum(axis=-1)
    low = np.min(x, axis=-1, where=there, initial=np.inf)
    high = np.max(x, axis=-1, where=there, initial=-np.inf)
    known = (count >= 2) & (high > low) & (high - low >= least_span)
    center = np.where(there, x, 0.0).sum(axis=-1) / np.where(known, count, 1)
    offset = np.where(there, x - center[..., None], 0.0)
    spread = np.where(known, (offset**2).sum(axis=-1), 1.0)
    return np.where(known, (offset * np.where(there, y, 0.0)).sum(axis=-1) / spread, np.nan)
