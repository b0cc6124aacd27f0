"""Claims with a verdict each, and the rules by which numbers become verdicts: a rule never knows which claim it judges."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from numpy.typing import ArrayLike

from attnlim.core.intervals import jackknife_mean

CONFIRMED, QUALIFIED, CONTRADICTED, UNDECIDED = "confirmed", "qualified", "contradicted", "undecided"

# what counts as the same number: the 2 % within which the transitions are expected at d = 512
CLOSE = 0.02
# beyond CLOSE but within this a statement holds roughly, and the verdict names the limit
ROUGH = 0.25


class Measured(NamedTuple):
    """A number with its 95 % interval; a number that is known exactly has no width."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Claim:
    """One row of the table: what is claimed and where, which number that predicts, which was found, and the verdict."""

    key: str
    text: str
    source: str
    predicted: float
    measured: Measured
    verdict: str
    reason: str


def over_draws(values: ArrayLike) -> Measured:
    """The mean over token draws with its 95 % interval (jackknife, Student t); NaN bounds for a single draw.

    >>> over_draws([1.0, 1.0, 1.0])
    Measured(value=1.0, low=1.0, high=1.0)
    """
    found = jackknife_mean(values)
    return Measured(float(found.estimate), float(found.low), float(found.high))


def exact(value: float, error: float = 0.0) -> Measured:
    """A number from a closed form, or one that holds for every pair and set that was looked at."""
    return Measured(float(value), float(value - error), float(value + error))


def near(predicted: float, measured: Measured, close: float = CLOSE, rough: float | None = None) -> str:
    """Whether a number is the predicted one: by its whole interval.

    Confirmed inside ``predicted`` ± ``close``; outside of that, qualified while inside ± ``rough``, else contradicted;
    undecided where the interval lies across a border, or is not known.

    >>> near(1.0, Measured(1.01, 1.0, 1.015)), near(1.0, exact(1.1), rough=0.25), near(1.0, exact(1.1))
    ('confirmed', 'qualified', 'contradicted')
    """
    low, high = measured.low - predicted, measured.high - predicted
    if not math.isfinite(low + high):
        return UNDECIDED
    if max(-low, high) <= close:
        return CONFIRMED
    if low <= close and high >= -close:
        return UNDECIDED
    if rough is None:
        return CONTRADICTED
    if max(-low, high) <= rough:
        return QUALIFIED
    return CONTRADICTED if low > rough or high < -rough else UNDECIDED


def at_most(bound: float, measured: Measured) -> str:
    """Whether a number lies below a bound: by its whole interval.

    >>> at_most(1.0, exact(0.9)), at_most(1.0, exact(1.1)), at_most(1.0, Measured(1.0, 0.8, 1.2))
    ('confirmed', 'contradicted', 'undecided')
    """
    if measured.high <= bound:
        return CONFIRMED
    return CONTRADICTED if measured.low > bound else UNDECIDED


def at_least(bound: float, measured: Measured) -> str:
    """Whether a number lies above a bound: by its whole interval.

    >>> at_least(1.0, exact(0.9))
    'contradicted'
    """
    return at_most(-bound, Measured(-measured.value, -measured.high, -measured.low))


def signed(value: float, digits: int = 2) -> str:
    """A number for a sentence, with a minus sign in place of a hyphen.

    >>> signed(-0.1294, 3), signed(2.0)
    ('−0.129', '2.00')
    """
    return f"{value:.{digits}f}".replace("-", "−")
