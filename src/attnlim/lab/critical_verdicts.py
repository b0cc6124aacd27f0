"""Claims with a verdict each, and the rules by which numbers become verdicts: a rule never knows which claim it judges."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnlim.core.intervals import jackknife_mean
from attnlim.core.regression import slope

CONFIRMED, QUALIFIED, CONTRADICTED, UNDECIDED = "confirmed", "qualified", "contradicted", "undecided"

# what counts as the same number: the 2 % within which the transitions are expected at d = 512
CLOSE = 0.02
# beyond CLOSE but within this a statement holds roughly, and the verdict names the limit
ROUGH = 0.25
# a closed form that is extrapolated to its limit has to meet it to this
LIMIT = 1e-3
# a fitted exponent has to meet the derived one to this: what the rate leaves out is smaller by up to 1/ln n alone
EXPONENT = 0.05
# numbers of tokens from which limits are extrapolated, and the one at which a limit should be in sight
EXTRAPOLATED_FROM = (10**6, 10**9, 10**12)
REAL_N = 10**6


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


def in_the_end(limit: str, here: bool) -> str:
    """A limit that is confirmed but out of sight at a real number of tokens is qualified.

    >>> in_the_end("confirmed", False), in_the_end("contradicted", True)
    ('qualified', 'contradicted')
    """
    return QUALIFIED if limit == CONFIRMED and not here else limit


def exponent(n_tokens: ArrayLike, values: ArrayLike) -> np.ndarray:
    """The power of n that values follow along their last axis.

    >>> exponent([10, 100], [1.0, 0.1]).round(9).tolist()
    -1.0
    """
    with np.errstate(divide="ignore"):
        return slope(np.log(np.asarray(n_tokens, dtype=np.float64)), np.log(np.asarray(values, dtype=np.float64)))


def signed(value: float, digits: int = 2) -> str:
    """A number for a sentence, with a minus sign in place of a hyphen.

    >>> signed(-0.1294, 3), signed(2.0)
    ('−0.129', '2.00')
    """
    return f"{value:.{digits}f}".replace("-", "−")


@dataclass(frozen=True)
class Extrapolated:
    """A closed form followed to n → ∞.

    Attributes:
        limit: with the change from one extrapolation to the next as its error.
        exponent: e of n^-e (ln n)^k, fitted to the distance from the limit that is claimed.
        here: the value at n = 10^6.
    """

    limit: Measured
    exponent: float
    here: float


def extrapolated(
    value: Callable[[int], float],
    claimed: float,
    rate: float,
    log_power: int = 0,
    n_tokens: tuple[int, int, int] = EXTRAPOLATED_FROM,
) -> Extrapolated:
    r"""A closed form at n → ∞ by Richardson's extrapolation along its derived rate.

    .. math:: v(n) \approx v_\infty + C\, n^{-e} (\ln n)^k

    Args:
        value: v, of a number of tokens.
        claimed: v_∞ as it is claimed.
        rate: e, as derived.
        log_power: k, as derived.
        n_tokens: three sizes, ascending; two neighbours give a limit.

    >>> found = extrapolated(lambda n: 2 + 3 / n**0.5, 2.0, 0.5)
    >>> round(found.limit.value, 9), round(found.exponent, 6)
    (2.0, 0.5)
    """
    logs = np.log(np.array(n_tokens, dtype=np.float64))
    values = np.array([value(n) for n in n_tokens])
    scale = np.exp(-rate * logs) * logs**log_power
    limits = (values[1:] * scale[:-1] - values[:-1] * scale[1:]) / (scale[:-1] - scale[1:])
    with np.errstate(divide="ignore"):
        fitted = -slope(logs, np.log(np.abs(values - claimed)) - log_power * np.log(logs))
    return Extrapolated(exact(limits[1], abs(limits[1] - limits[0])), float(fitted), value(REAL_N))


def limit_verdict(claimed: float, found: Extrapolated, rate: float) -> str:
    """Limit and rate have to be those that are claimed; confirmed if the limit is also in sight at n = 10^6."""
    verdict = near(claimed, found.limit, LIMIT)
    if verdict == CONFIRMED and not abs(found.exponent - rate) <= EXPONENT:
        verdict = CONTRADICTED
    return in_the_end(verdict, abs(found.here - claimed) <= CLOSE)
