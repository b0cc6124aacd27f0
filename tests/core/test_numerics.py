"""Scalar numerics against mpmath at 60 digits."""

import math

import mpmath
import pytest

from attnlim.core.numerics import exp_or_inf, log_add_exp, log_logistic, logistic

POINTS = [0.0, 1e-20, 0.3, -0.3, 5.0, -5.0, 36.0, -36.0, 300.0, -300.0, 700.0, -700.0]
# exp and log1p are right to one unit in the last place, the few operations around them add as many
TOLERANCE = 4 * 2.0**-52


@pytest.mark.parametrize("t", POINTS)
def test_logistic_and_its_logarithm_keep_all_digits(t: float) -> None:
    with mpmath.workdps(60):
        exact = 1 / (1 + mpmath.exp(-mpmath.mpf(t)))
        assert logistic(t) == pytest.approx(float(exact), rel=TOLERANCE)
        # log1p, not log: ln of 1 - 1e-304 needs more than the 60 digits
        exact_log = min(mpmath.mpf(t), 0) - mpmath.log1p(mpmath.exp(-abs(mpmath.mpf(t))))
        assert log_logistic(t) == pytest.approx(float(exact_log), rel=TOLERANCE)


@pytest.mark.parametrize("t", [1e4, 1e300, math.inf])
def test_logistic_saturates_without_overflow(t: float) -> None:
    assert logistic(t) == 1.0
    assert logistic(-t) == 0.0


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (1e5, 1e5 - 3), (-1e5, -1e5), (800.0, -800.0), (3.0, 40.0)])
def test_log_add_exp(a: float, b: float) -> None:
    with mpmath.workdps(60):
        exact = mpmath.log(mpmath.exp(mpmath.mpf(a)) + mpmath.exp(mpmath.mpf(b)))
    assert log_add_exp(a, b) == pytest.approx(float(exact), rel=TOLERANCE)
    assert log_add_exp(a, b) == log_add_exp(b, a)


def test_exp_or_inf_reaches_to_the_largest_float() -> None:
    assert exp_or_inf(709.78) == math.exp(709.78)
    assert exp_or_inf(709.79) == math.inf
