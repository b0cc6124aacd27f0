"""Intervals: known values, slow twin, measured coverage, missing units, bad input."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attnlim.core.checks import InputError
from attnlim.core.intervals import bootstrap, bootstrap_many, jackknife, jackknife_mean


def test_jackknife_of_a_mean_is_the_classical_t_interval() -> None:
    units = np.array([3.1, 2.7, 4.4, 3.9, 2.2])
    interval = jackknife(np.mean, units, level=0.9)
    low, high = stats.t.interval(0.9, 4, loc=units.mean(), scale=stats.sem(units))
    assert interval.estimate == units.mean()
    # a dozen sums of five numbers of size 4
    assert interval.low == pytest.approx(low, rel=1e-13)
    assert interval.high == pytest.approx(high, rel=1e-13)
    assert (interval.n_units, interval.level, interval.seed) == (5, 0.9, None)


def test_jackknife_of_a_ratio_matches_the_textbook_formula() -> None:
    units = np.array([[1.0, 2.0], [2.0, 3.0], [4.0, 5.0], [3.0, 7.0]])

    def ratio(data: np.ndarray) -> float:
        return float(data[:, 0].sum() / data[:, 1].sum())

    left_out = np.array([9 / 15, 8 / 14, 6 / 12, 7 / 10])
    error = math.sqrt(3 / 4 * np.sum((left_out - left_out.mean()) ** 2))
    assert jackknife(ratio, units).standard_error == pytest.approx(error, rel=1e-13)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9), st.floats(0.5, 0.99))
def test_vectorised_mean_equals_the_leave_one_out_twin(units: list[float], level: float) -> None:
    fast, slow = jackknife_mean(units, level=level), jackknife(np.mean, units, level=level)
    # sums of up to 9 numbers up to 1e3; the bounds multiply that by a t quantile of at most 64
    assert fast.estimate == pytest.approx(slow.estimate, abs=1e-12)
    assert fast.standard_error == pytest.approx(slow.standard_error, abs=1e-11)
    assert fast.low == pytest.approx(slow.low, abs=1e-9)


def test_missing_units_are_left_out_per_element() -> None:
    values = np.array([[1.0, 5.0, np.nan, 1.0], [2.0, np.nan, np.nan, np.inf], [6.0, np.nan, np.nan, 2.0]])
    result = jackknife_mean(np.stack([values, values[::-1]]), axis=1)
    np.testing.assert_array_equal(result.n_units, [[3, 1, 0, 3]] * 2)
    np.testing.assert_array_equal(result.estimate, [[3.0, 5.0, np.nan, np.inf]] * 2)
    assert np.isfinite(result.low[:, 0]).all()
    assert np.isnan([result.low[:, 1:], result.high[:, 1:], result.standard_error[:, 1:]]).all()


def test_one_unit_has_no_interval() -> None:
    many = bootstrap_many(lambda sets: sets.mean(axis=1), [2.0], seed=0)
    for interval in (jackknife(np.mean, [2.0]), bootstrap(np.mean, [2.0], seed=0), many):
        assert interval.estimate == 2.0
        assert np.isnan([interval.low, interval.high, interval.standard_error]).all()
        assert interval.n_units == 1


def test_a_statistic_without_a_value_has_no_interval() -> None:
    def slope_or_nothing(units: np.ndarray) -> float:
        return float(units.mean()) if len(np.unique(units)) > 1 else math.nan

    for interval in (jackknife(slope_or_nothing, [1.0, 2.0]), bootstrap(slope_or_nothing, [1.0, 2.0], seed=0)):
        assert interval.estimate == 1.5
        assert math.isnan(interval.low)


def test_bootstrap_is_reproducible_and_near_the_plug_in_error() -> None:
    units = np.random.default_rng(5).standard_normal(200)
    first, second = (bootstrap(np.mean, units, seed=7, n_resamples=4000) for _ in range(2))
    assert first == second
    assert first.seed == 7
    assert bootstrap(np.mean, units, seed=8).low != first.low
    # the spread of 4000 resampled means is known to 1/sqrt(8000) of itself; four of those
    assert first.standard_error == pytest.approx(units.std() / math.sqrt(200), rel=4 / math.sqrt(8000))


def test_many_statistics_equal_one_after_the_other() -> None:
    units = np.random.default_rng(3).lognormal(size=(9, 4))

    def median_or_nothing(data: np.ndarray) -> float:
        return float(np.median(data[:, 2])) if data[:, 3].max() == units[:, 3].max() else math.nan

    single = [lambda data: float(data[:, 0].mean()), lambda data: float(data[:, 1].max()), median_or_nothing]
    many = bootstrap_many(lambda sets: np.array([[one(data) for one in single] for data in sets]), units, 4, 300, 0.9)
    for at, one in enumerate(single):
        slow = bootstrap(one, units, seed=4, n_resamples=300, level=0.9)
        fast = (many.estimate[at], many.low[at], many.high[at], many.standard_error[at])
        # the same resamples in the same order, summed in another order
        np.testing.assert_allclose(
            fast, (slow.estimate, slow.low, slow.high, slow.standard_error), rtol=1e-12, atol=1e-15
        )
    assert np.isnan(many.low).tolist() == [False, False, True]
    assert (many.n_units.tolist(), many.seed, many.level) == ([9, 9, 9], 4, 0.9)


def test_coverage_with_four_normal_units() -> None:
    """95 % for the jackknife; the percentile bootstrap of four units covers far too rarely."""
    generator = np.random.default_rng(11)
    draws = generator.standard_normal((4, 20_000))
    result = jackknife_mean(draws, axis=0)
    covered = float(((result.low < 0) & (result.high > 0)).mean())
    assert covered == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 20_000))

    hits = []
    for seed, units in enumerate(draws.T[:600]):
        interval = bootstrap(lambda data: float(data.sum()) / 4, units, seed=seed, n_resamples=200)
        hits.append(interval.low < 0 < interval.high)
    error = math.sqrt(0.8 * 0.2 / 600)
    assert np.mean(hits) < 0.95 - 4 * error
    assert np.mean(hits) == pytest.approx(0.80, abs=4 * error)


def test_widened_quantiles_cover_with_eight_normal_units() -> None:
    draws = np.random.default_rng(12).standard_normal((8, 1500))
    plain, wide = (
        bootstrap_many(lambda sets: sets.mean(axis=1), draws, seed=2, n_resamples=2000, widened=widened)
        for widened in (False, True)
    )
    covered = [float(((found.low < 0) & (found.high > 0)).mean()) for found in (plain, wide)]
    error = math.sqrt(0.95 * 0.05 / 1500)
    assert covered[0] < 0.95 - 4 * error  # the control
    # resampled means have lighter tails than Student's t, which is 1 % of the covering at eight units
    assert covered[1] == pytest.approx(0.95, abs=4 * error + 0.01)
    assert (plain.method, wide.method) == ("percentile bootstrap", "percentile bootstrap, widened")


def test_bad_input_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="at least one unit"):
        jackknife(np.mean, [])
    with pytest.raises(InputError, match="units must be finite, got NaN"):
        bootstrap(np.mean, [1.0, math.nan], seed=0)
    with pytest.raises(InputError, match=r"level must be a number in \(0, 1\), got 95"):
        jackknife(np.mean, [1.0, 2.0], level=95)
    with pytest.raises(InputError, match="seed must be a whole number"):
        bootstrap(np.mean, [1.0, 2.0], seed=-1)
    with pytest.raises(InputError, match="n_resamples must be a whole number of at least 2, got 1"):
        bootstrap(np.mean, [1.0, 2.0], seed=0, n_resamples=1)
    with pytest.raises(InputError, match="axis must name one of the 1 axes"):
        jackknife_mean([1.0, 2.0], axis=1)
