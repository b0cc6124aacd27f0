"""Confidence intervals from few units: text windows, token draws, probes.

A *unit* is what was drawn independently. The jackknife with Student's t is the default, because there are
often only 4 to 16 units, where the percentile bootstrap covers too rarely (4 normal units: about 80 % for 95 %).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from attnlim.core.checks import InputError, real_number, whole_number

JACKKNIFE = "jackknife, Student t"
BOOTSTRAP = "percentile bootstrap"

Statistic = Callable[[NDArray[Any]], float]
ManyStatistic = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Interval:
    """One estimate with its confidence interval; NaN bounds mean that the units were too few to say."""

    estimate: float
    low: float
    high: float
    standard_error: float
    level: float
    method: str
    n_units: int
    seed: int | None


@dataclass(frozen=True)
class IntervalArray:
    """Many estimates with their confidence intervals; every array has the shape of ``estimate``."""

    estimate: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    level: float
    method: str
    n_units: NDArray[np.int64]
    seed: int | None


def jackknife(statistic: Statistic, units: ArrayLike, level: float = 0.95) -> Interval:
    r"""The delete-one jackknife interval of a smooth statistic.

    .. math::
        s^2 = \frac{m-1}{m} \sum_i (\theta_{(i)} - \bar\theta_{(\cdot)})^2, \qquad \hat\theta \pm t_{m-1} s

    Source: Tukey's jackknife (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 11).

    Assumes: independent units, a statistic that is smooth in them (a mean, a slope, a ratio; not a quantile).

    Args:
        statistic: maps an array of units (units on axis 0) to a float.
        units: (m, ...), any unit, finite.
        level: coverage, dimensionless, in (0, 1).

    Returns:
        An :class:`Interval`; bounds and standard error are NaN for one unit or a statistic that is not finite.

    Raises:
        InputError: no units, units that are not finite, a level outside (0, 1).

    >>> round(jackknife(np.mean, [1.0, 2.0, 3.0, 6.0]).standard_error ** 2, 9)    # the variance 14/3 over 4
    1.166666667
    """
    level, data = _level(level), _units(units)
    n_units = len(data)
    estimate = float(statistic(data))
    if n_units < 2:
        return Interval(estimate, math.nan, math.nan, math.nan, level, JACKKNIFE, n_units, None)
    left_out = np.array([float(statistic(np.delete(data, i, axis=0))) for i in range(n_units)])
    if np.isfinite(left_out).all():
        spread = np.sum((left_out - left_out.mean()) ** 2)
        error = math.sqrt((n_units - 1) / n_units * float(spread))
    else:
        error = math.nan
    half = float(stats.t.ppf((1 + level) / 2, n_units - 1)) * error
    return Interval(estimate, estimate - half, estimate + half, error, level, JACKKNIFE, n_units, None)


def jackknife_mean(values: ArrayLike, axis: int = 0, level: float = 0.95) -> IntervalArray:
    r"""The jackknife interval of the mean along an axis, for a whole array at once.

    .. math:: \bar v \pm t_{m-1} \sqrt{\sum_i (v_i - \bar v)^2 / (m(m-1))}

    For a mean the jackknife is the classical interval, so nothing is left out one by one.

    Source: as :func:`jackknife`, which is the slow twin.

    Assumes: independent units along ``axis``.

    Args:
        values: any shape, any unit; a unit that is NaN is left out, so m may differ between elements.
        axis: the axis of the units.
        level: coverage, dimensionless, in (0, 1).

    Returns:
        An :class:`IntervalArray` without that axis: NaN throughout for no units, NaN bounds for one; an
        infinite unit makes the estimate infinite (NaN if both signs occur) and the bounds NaN.

    Raises:
        InputError: no such axis, or a level outside (0, 1).

    >>> result = jackknife_mean([[1.0, 5.0], [2.0, np.nan], [3.0, np.nan]])
    >>> result.estimate.tolist(), result.n_units.tolist(), result.standard_error.round(6).tolist()
    ([2.0, 5.0], [3, 1], [0.57735, nan])
    """
    level = _level(level)
    data = np.asarray(values, dtype=np.float64)
    if not -data.ndim <= axis < data.ndim:
        raise InputError(f"axis must name one of the {data.ndim} axes of values, got {axis}; units lie along it")
    there = ~np.isnan(data)
    n_units = there.sum(axis=axis, dtype=np.int64)
    with np.errstate(invalid="ignore", divide="ignore"):
        estimate = np.where(there, data, 0.0).sum(axis=axis) / n_units
        deviation = np.where(there, data - np.expand_dims(estimate, axis), 0.0)
        variance = (deviation**2).sum(axis=axis) / (n_units * (n_units - 1.0))
    error = np.where(n_units >= 2, np.sqrt(variance), np.nan)
    half = stats.t.ppf((1 + level) / 2, np.maximum(n_units - 1, 1)) * error
    return IntervalArray(np.asarray(estimate), estimate - half, estimate + half, error, level, JACKKNIFE, n_units, None)


def bootstrap(
    statistic: Statistic, units: ArrayLike, seed: int, n_resamples: int = 2000, level: float = 0.95
) -> Interval:
    """The percentile bootstrap interval of any statistic; it covers too rarely below about 20 units.

    The bounds are the (1 ± level)/2 quantiles of the statistic over resamples of the units with replacement.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13.

    Assumes: independent units.

    Args:
        statistic: maps an array of units (units on axis 0) to a float.
        units: (m, ...), any unit, finite.
        seed: at least 0; the same seed gives the same interval.
        n_resamples: at least 2.
        level: coverage, dimensionless, in (0, 1).

    Returns:
        An :class:`Interval` that records the seed; bounds and standard error are NaN for one unit, or where
        the statistic of a resample is not finite.

    Raises:
        InputError: no units, units that are not finite, a bad seed, number of resamples or level.

    >>> interval = bootstrap(np.median, [1.0, 2.0, 3.0, 4.0, 9.0], seed=1)
    >>> interval.estimate, interval.low <= 3 <= interval.high, interval.seed
    (3.0, True, 1)
    """
    level, data = _level(level), _units(units)
    seed = whole_number("seed", seed, 0)
    n_resamples = whole_number("n_resamples", n_resamples, 2)
    n_units = len(data)
    estimate = float(statistic(data))
    draws = np.array([math.nan])
    if n_units >= 2:
        draws = np.array([float(statistic(data[pick])) for pick in _picks(n_units, seed, n_resamples)])
    if not np.isfinite(draws).all():
        return Interval(estimate, math.nan, math.nan, math.nan, level, BOOTSTRAP, n_units, seed)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    error = float(draws.std(ddof=1))
    return Interval(estimate, float(low), float(high), error, level, BOOTSTRAP, n_units, seed)


def bootstrap_many(
    statistic: ManyStatistic,
    units: ArrayLike,
    seed: int,
    n_resamples: int = 2000,
    level: float = 0.95,
    widened: bool = False,
) -> IntervalArray:
    r"""The percentile bootstrap of many statistics at once, from the same resamples.

    .. math:: \text{widened: quantiles at}\; \Phi\big(\pm\sqrt{m/(m-1)}\; t_{m-1}\big)

    which for a mean gives Student's interval with the sample's own variance: too rare covering by few units is made good.

    Source: as :func:`bootstrap`, which is the slow twin: the same seed draws the same resamples. Widened: Hesterberg, What
    Teachers Should Know About the Bootstrap (2015), the expanded percentile interval.

    Assumes: independent units.

    Args:
        statistic: maps resamples (r, m, ...) with their units on axis 1 to an array of floats with r on axis 0.
        units: (m, ...), any unit, finite.
        seed: at least 0.
        n_resamples: r, at least 2.
        level: coverage, dimensionless, in (0, 1).
        widened: whether the quantiles are moved outwards for the number of units.

    Returns:
        An :class:`IntervalArray` of the shape of one statistic; bounds and standard error are NaN for one unit, or where
        the statistic of a resample is not finite.

    Raises:
        InputError: as :func:`bootstrap`.

    Cost: r times the memory of the units.

    >>> both = bootstrap_many(lambda x: np.stack([x.mean(1), x.max(1)], 1), [1.0, 2.0, 4.0, 9.0], seed=1)
    >>> both.estimate.tolist(), bool(both.high[1] == 9)
    ([4.0, 9.0], True)
    """
    level, data = _level(level), _units(units)
    seed = whole_number("seed", seed, 0)
    n_resamples = whole_number("n_resamples", n_resamples, 2)
    n_units = len(data)
    estimate = np.asarray(statistic(data[None]), dtype=np.float64)[0]
    low, high, error = (np.full(estimate.shape, np.nan) for _ in range(3))
    if n_units >= 2:
        draws = np.asarray(statistic(data[_picks(n_units, seed, n_resamples)]), dtype=np.float64)
        known = np.isfinite(draws).all(axis=0)
        tail = (1 - level) / 2
        if widened:
            tail = float(stats.norm.cdf(math.sqrt(n_units / (n_units - 1)) * stats.t.ppf(tail, n_units - 1)))
        low[known], high[known] = np.quantile(draws[:, known], [tail, 1 - tail], axis=0)
        error[known] = draws[:, known].std(axis=0, ddof=1)
    method = f"{BOOTSTRAP}, widened" if widened else BOOTSTRAP
    return IntervalArray(
        estimate, low, high, error, level, method, np.full(estimate.shape, n_units, dtype=np.int64), seed
    )


def _picks(n_units: int, seed: int, n_resamples: int) -> NDArray[np.int64]:
    """(n_resamples, n_units): which units a resample is made of."""
    return np.random.default_rng(seed).integers(n_units, size=(n_resamples, n_units))


def _level(level: float) -> float:
    return real_number("level", level, above=0.0, below=1.0, advice="0.95 is usual")


def _units(units: ArrayLike) -> NDArray[Any]:
    data = np.asarray(units, dtype=np.float64)
    if data.ndim == 0 or len(data) == 0:
        raise InputError(f"units must hold at least one unit on axis 0, got an array of shape {data.shape}")
    if not np.isfinite(data).all():
        raise InputError("units must be finite, got NaN or inf; leave out units without a value")
    return data
