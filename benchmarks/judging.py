"""A prediction against what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Word = Literal["confirmed", "contradicted", "undecided"]


def verdict(range_low: float, range_high: float, low: float, high: float) -> Word:
    """Confirmed where the interval lies in the range, contradicted where it lies outside, else undecided, also for NaN.

    >>> verdict(0.2, 0.8, 0.3, 0.5), verdict(0.2, 0.8, 0.9, 1.1), verdict(0.2, 0.8, 0.7, 0.9)
    ('confirmed', 'contradicted', 'undecided')
    """
    if low >= range_low and high <= range_high:
        return "confirmed"
    if high < range_low or low > range_high:
        return "contradicted"
    return "undecided"


class Part(NamedTuple):
    """One number that a prediction is about, with its interval and the range where it was expected."""

    where: str
    estimate: float
    low: float
    high: float
    range_low: float = -math.inf
    range_high: float = math.inf

    @property
    def word(self) -> Word:
        """What this part says."""
        return verdict(self.range_low, self.range_high, self.low, self.high)


def together(parts: Iterable[Part]) -> Word:
    """A prediction of several numbers holds if all do, and fails if one does.

    >>> together([Part("a", 0.5, 0.4, 0.6, 0, 1), Part("b", 2.0, 1.5, 2.5, 0, 1)])
    'contradicted'
    """
    words = {part.word for part in parts}
    if "contradicted" in words:
        return "contradicted"
    return "confirmed" if words == {"confirmed"} else "undecided"


def rank_interval(rank: float, n_units: int) -> tuple[float, float]:
    """The 95 % interval of a rank correlation over independent units: normal in artanh, with variance 1.06/(n - 3) (Fieller et al. 1957).

    >>> low, high = rank_interval(-0.163, 270)
    >>> round(low, 3), round(high, 3)
    (-0.28, -0.041)
    """
    half = 1.96 * math.sqrt(1.06 / (n_units - 3))
    return math.tanh(math.atanh(rank) - half), math.tanh(math.atanh(rank) + half)


def vertex(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
    """Place and value of the least y: the vertex of the parabola through the least point and its neighbours, or the end itself.

    >>> place, value = vertex(np.array([0.0, 1.0, 2.0, 3.0]), (np.array([0.0, 1.0, 2.0, 3.0]) - 1.25) ** 2 + 3)
    >>> round(place, 9), round(value, 9)
    (1.25, 3.0)
    """
    least = int(np.argmin(y))
    if least in (0, len(x) - 1):
        return float(x[least]), float(y[least])
    around = slice(least - 1, least + 2)
    curve = np.polynomial.Polynomial.fit(x[around], y[around], 2)
    place = float(curve.deriv().roots()[0].real)
    return place, float(curve(place))
