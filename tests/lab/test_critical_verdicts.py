"""The rules that turn numbers into verdicts, and the extrapolation of closed forms; every rule with what it must refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlim.lab.critical_verdicts import exponent, extrapolated, in_the_end, limit_verdict
from attnlim.lab.verdicts import (
    CONFIRMED,
    CONTRADICTED,
    QUALIFIED,
    UNDECIDED,
    Measured,
    at_least,
    at_most,
    exact,
    near,
    over_draws,
)

VERDICTS = (CONFIRMED, QUALIFIED, CONTRADICTED, UNDECIDED)


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((0.99, 1.01), CONFIRMED),
        ((0.98, 1.02), CONFIRMED),  # the borders belong to it
        ((1.01, 1.03), UNDECIDED),  # across the border of what is close
        ((1.03, 1.2), QUALIFIED),
        ((0.8, 0.9), QUALIFIED),
        ((1.2, 1.3), UNDECIDED),  # across the border of what is rough
        ((1.3, 1.4), CONTRADICTED),
        ((0.1, 0.2), CONTRADICTED),
        ((0.0, 2.0), UNDECIDED),  # an interval that says nothing
        ((math.nan, math.nan), UNDECIDED),
    ],
)
def test_near_judges_the_whole_interval(interval: tuple[float, float], verdict: str) -> None:
    low, high = interval
    # the borders are decimal numbers that floats do not hold
    assert near(1.0, Measured((low + high) / 2, low, high), close=0.02 + 1e-12, rough=0.25) == verdict


def test_without_a_rough_range_what_is_not_close_is_contradicted() -> None:
    assert near(1.0, exact(1.03)) == CONTRADICTED
    assert near(1.0, exact(1.03), rough=0.25) == QUALIFIED


@given(st.floats(-2, 2), st.floats(0, 2), st.floats(-2, 2))
def test_one_sided_rules_mirror_each_other(value: float, half: float, bound: float) -> None:
    measured = Measured(value, value - half, value + half)
    verdicts = at_most(bound, measured), at_least(bound, measured)
    assert set(verdicts) <= set(VERDICTS)
    if value + half < bound:
        assert verdicts == (CONFIRMED, CONTRADICTED)
    if value - half > bound:
        assert verdicts == (CONTRADICTED, CONFIRMED)


def test_unknown_bounds_decide_nothing() -> None:
    assert at_most(1.0, over_draws([0.5])) == UNDECIDED
    assert at_least(1.0, Measured(2.0, math.nan, math.nan)) == UNDECIDED


def test_a_limit_out_of_sight_is_qualified_and_a_wrong_one_stays_wrong() -> None:
    assert in_the_end(CONFIRMED, True) == CONFIRMED
    assert in_the_end(CONFIRMED, False) == QUALIFIED
    assert in_the_end(CONTRADICTED, False) == CONTRADICTED


@pytest.mark.parametrize(("rate", "log_power"), [(0.5, 0), (1.0, 2), (0.0, -1)])
def test_extrapolation_finds_limit_and_rate(rate: float, log_power: int) -> None:
    def value(n: int) -> float:
        return 3.0 - 2.0 * n**-rate * math.log(n) ** log_power

    found = extrapolated(value, 3.0, rate, log_power)
    # Richardson removes the one term that there is, up to the rounding of 3
    assert found.limit.value == pytest.approx(3.0, abs=1e-12)
    assert found.exponent == pytest.approx(rate, abs=1e-3)  # the distance at 10^12 is 1e-12 of 3: three digits are left
    assert limit_verdict(3.0, found, rate) in (CONFIRMED, QUALIFIED)


def test_a_wrong_limit_or_a_wrong_rate_is_contradicted() -> None:
    def value(n: int) -> float:
        return 1 + n**-0.5

    assert limit_verdict(1.0, extrapolated(value, 1.0, 0.5), 0.5) == CONFIRMED
    assert limit_verdict(1.01, extrapolated(value, 1.01, 0.5), 0.5) == CONTRADICTED
    assert limit_verdict(1.0, extrapolated(value, 1.0, 0.6), 0.6) == CONTRADICTED


def test_exponents_are_of_the_last_axis() -> None:
    values = np.array([[1.0, 2.0, 4.0], [9.0, 9.0, 9.0]])
    np.testing.assert_allclose(exponent([10, 20, 40], values), [1.0, 0.0], atol=1e-12)
