"""How far claimed standard errors may lie from the spread of repetitions by chance alone."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

# left by chance by one test in a hundred; seeds are fixed, so that a test that passes once passes always
DOUBT = 0.01


def claim_over_spread(values: np.ndarray, errors: np.ndarray) -> float:
    """The root mean square of the claimed errors over the spread of the values: variances, not errors, are unbiased."""
    return math.sqrt(float(np.mean(np.square(errors)))) / float(np.std(values, ddof=1))


def range_by_chance(repetitions: int, degrees: int) -> tuple[float, float]:
    """The central 99 % of that ratio where the claim is true.

    For normal values the squared ratio is F-distributed, with ``repetitions`` times the degrees of freedom of one claim and
    with ``repetitions`` - 1.
    """
    low, high = stats.f.ppf([DOUBT / 2, 1 - DOUBT / 2], repetitions * degrees, repetitions - 1)
    return math.sqrt(low), math.sqrt(high)
