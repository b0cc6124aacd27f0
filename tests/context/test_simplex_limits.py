"""The limits, each with the rate at which finite n approaches it; the window; the partition function."""

import math

import numpy as np
import pytest

from attnlim.context.theory import (
    critical_gamma,
    log_partition,
    log_partition_limit,
    simplex_limit,
    simplex_step,
    window_coordinate,
    window_width,
)
from attnlim.core.checks import InputError

LARGE_SIZES = [10**k for k in (40, 60, 80)]
SMALL_SIZES = [10**k for k in (4, 5, 6)]


def exponent(sizes: list[int], errors: list[float]) -> float:
    return float(np.polyfit([math.log(n) for n in sizes], np.log(errors), 1)[0])


@pytest.mark.parametrize("rho", [0.01, 0.3, 0.9])
def test_theorem_without_residual(rho: float) -> None:
    # a handful of roundings
    assert simplex_limit(rho, phase="subcritical").rho == 1
    assert simplex_limit(rho, phase="critical").rho == pytest.approx(4 * rho / (1 + 3 * rho), rel=1e-15)
    assert simplex_limit(rho, phase="supercritical").rho == pytest.approx(rho, rel=1e-15)


def test_limits_with_residual() -> None:
    names = ("subcritical", "critical", "supercritical")
    limits = [simplex_limit(0.3, phase=name, q=2.0, alpha=0.7) for name in names]
    # printed to six places
    assert [limit.rho for limit in limits] == pytest.approx([0.633932, 0.433260, 0.3], abs=5e-7)
    assert [limit.self_weight for limit in limits] == [0.0, 0.5, 1.0]
    assert [limit.rho + limit.one_minus_rho for limit in limits] == pytest.approx([1, 1, 1], rel=1e-15)


@pytest.mark.parametrize("rho", np.linspace(0.001, 0.999, 97).tolist())
def test_the_threshold_is_met_at_its_own_gamma_and_missed_beside_it(rho: float) -> None:
    gamma = critical_gamma(rho)
    assert simplex_limit(rho, gamma).phase == "critical"
    assert simplex_limit(rho, gamma * (1 - 2e-15)).phase == "subcritical"
    assert simplex_limit(rho, gamma * (1 + 2e-15)).phase == "supercritical"


@pytest.mark.parametrize(("gamma", "rate"), [(1.0, -0.5), (1.6, -0.2), (2.6, -0.3), (3.0, -0.5)])
def test_self_weight_approaches_its_limit_as_a_power_of_n(gamma: float, rate: float) -> None:
    """Below: p ~ n^{γ(1-ρ)-1}; above: 1-p ~ n^{-(γ(1-ρ)-1)}."""
    limit = simplex_limit(0.5, gamma).self_weight
    # at most 1e9, so that 1 - p keeps 7 digits
    sizes = [10**k for k in (7, 8, 9)]
    errors = [abs(simplex_step(n, 0.5, gamma).self_weight - limit) for n in sizes]
    # the next order is the error itself, at most 10^{-1.4} of it at n = 10^7, and it shrinks along the fit
    slack = 1.1 * errors[0]
    assert exponent(sizes, errors) == pytest.approx(rate, abs=slack)


def test_at_the_threshold_the_error_falls_as_one_over_n() -> None:
    errors = [abs(simplex_step(n, 0.5, 2.0).self_weight - 0.5) for n in SMALL_SIZES]
    # p = n/(2n-1), so the error is 1/(4n-2); p carries the rounding of ln n, 1e-15 beside 2.5e-7
    assert errors == pytest.approx([1 / (4 * n - 2) for n in SMALL_SIZES], rel=1e-7)
    assert exponent(SMALL_SIZES, errors) == pytest.approx(-1, abs=1e-4)


@pytest.mark.parametrize(
    ("gamma", "alpha", "rate", "sizes"),
    [
        (1.0, 0.0, -1.0, LARGE_SIZES),  # 1-ρ' is p²: twice the rate of p
        (1.0, 0.7, -0.5, SMALL_SIZES),
        (2.0, 0.0, -1.0, SMALL_SIZES),  # at the threshold p is off by 1/(4n)
        (2.0, 0.7, -1.0, SMALL_SIZES),
        (3.0, 0.0, -0.5, SMALL_SIZES),
        (3.0, 0.7, -0.5, SMALL_SIZES),
    ],
)
def test_cosine_approaches_its_limit(gamma: float, alpha: float, rate: float, sizes: list[int]) -> None:
    limit = simplex_limit(0.5, gamma, alpha=alpha).one_minus_rho
    errors = [abs(simplex_step(n, 0.5, gamma, alpha=alpha).one_minus_rho - limit) for n in sizes]
    # corrections to the power are of relative order n^{-1/2}
    assert exponent(sizes, errors) == pytest.approx(rate, abs=max(1e-9, sizes[0] ** -0.5))


def test_curves_of_different_n_collapse_in_the_window() -> None:
    rho = 0.3
    for n in (10**2, 10**4, 10**8, 10**300):
        worst = 0.0
        for t in np.linspace(-6, 6, 25):
            gamma = (1 + t / math.log(n)) / (1 - rho)
            if gamma >= 0:
                # gamma and t are inverse up to rounding of ln n (690 at most) times eps
                assert window_coordinate(n, rho, gamma) == pytest.approx(t, abs=1e-12)
                weight = simplex_step(n, rho, gamma).self_weight
                worst = max(worst, abs(weight - 1 / (1 + math.exp(-t))))
        # ln n - ln(n-1) shifts t by about 1/n, and the slope of the logistic is at most 1/4
        assert worst <= 0.25 / (n - 1) + 1e-12


@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_cosines_after_the_layer_collapse_in_the_window(alpha: float) -> None:
    """1-ρ' at a fixed t falls on one curve too: its limit with p = logistic(t)."""
    rho = 0.3
    for n in (10**2, 10**4, 10**8, 10**300):
        worst = 0.0
        for t in np.linspace(-6, 6, 25):
            gamma = (1 + t / math.log(n)) / (1 - rho)
            if gamma >= 0:
                own = (1 - rho) * (1 / (1 + math.exp(-t)) + alpha) ** 2
                limit = own / (rho * (1 + alpha) ** 2 + own)
                step = simplex_step(n, rho, gamma, alpha=alpha)
                worst = max(worst, abs(step.one_minus_rho - limit))
                assert step.rho == pytest.approx(1 - limit, abs=6.5 * (1 - rho) / rho / (n - 1) + 1e-11)
        # c = p + a - (1-p)/(n-1) and q' = (1-1/n) c²(1-ρ) + (ρ + (1-ρ)/n)(1+a)² differ from p + a and the limit's
        # denominator by at most 1/(n-1) and 4(1-ρ)(1+a)²/(n-1), p from logistic(t) by 1/4(n-1): relative to a
        # denominator of at least ρ(1+a)², 6.5 (1-ρ)/ρ of 1/(n-1) together; ln n rounds as above
        assert worst <= 6.5 * (1 - rho) / rho / (n - 1) + 1e-11
    # the control: at one γ beside the threshold, not at one t, the curves of different n lie apart
    few, many = (simplex_step(n, rho, 1.1 * critical_gamma(rho), alpha=alpha).one_minus_rho for n in (10**2, 10**8))
    assert many - few > 0.05


def test_residuals_up_to_the_largest() -> None:
    for name in ("subcritical", "critical", "supercritical"):
        limit = simplex_limit(0.3, phase=name, alpha=1e100)
        assert (limit.rho, limit.one_minus_rho, limit.q) == pytest.approx((0.3, 0.7, 1e200), rel=1e-15)


def test_window_width_is_exact_and_shrinks_as_one_over_log_n() -> None:
    assert window_width(10**6, 0.5) == pytest.approx(0.64, abs=0.005)
    n, rho = 1000, 0.4
    centre = math.log(n - 1) / ((1 - rho) * math.log(n))
    half = window_width(n, rho) / 2
    weights = [simplex_step(n, rho, centre + side * half).self_weight for side in (-1, 1)]
    assert weights == pytest.approx([0.1, 0.9], rel=1e-13)
    assert window_width(10**6, 0.5) / window_width(10**300, 0.5) == pytest.approx(50, rel=1e-14)


@pytest.mark.parametrize("gamma", [0.0, 0.7, 2.0, 3.5])
def test_partition_function(gamma: float) -> None:
    rho, n = 0.5, 40
    beta = gamma * math.log(n)
    direct = math.log(math.exp(beta) + (n - 1) * math.exp(rho * beta))
    assert log_partition(n, rho, gamma) == pytest.approx(direct, rel=1e-14)
    limit = log_partition_limit(rho, gamma)
    for k in (2, 6, 300):
        size = 10**k
        # a sum of two powers lies between the larger and twice it; n-1 for n costs 1/(n-1), rounding 3 ln n eps
        slack = 1 / (size - 1) + 4 * limit * math.log(size) * 2.0**-52
        excess = log_partition(size, rho, gamma) - limit * math.log(size)
        assert -slack <= excess <= math.log(2) + slack


def test_partition_limit_has_its_kink_at_the_threshold() -> None:
    left, at, right = (log_partition_limit(0.3, critical_gamma(0.3) + step) for step in (-0.1, 0.0, 0.1))
    assert (at - left) / 0.1 == pytest.approx(0.3, abs=1e-12)
    assert (right - at) / 0.1 == pytest.approx(1.0, abs=1e-12)


def test_at_cosine_zero_the_threshold_is_another_one() -> None:
    """The negative control of the refusal: at ρ = 0 tokens collapse below γ = 1/2, not below 1."""
    n = 10**200
    assert simplex_step(n, 0.0, gamma=0.45).rho == pytest.approx(1, abs=1e-15)
    assert simplex_step(n, 0.0, gamma=0.55).rho == pytest.approx(0, abs=1e-15)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="another threshold, at gamma = 1/2"):
        simplex_limit(0.0, gamma=1.0)
    with pytest.raises(InputError, match=r"rho must be a number in \(0, 1\), got -0.1"):
        simplex_limit(-0.1, gamma=1.0)
    with pytest.raises(InputError, match=r"rho must be a number in \(0, 1\), got 1.0"):
        simplex_limit(1.0, gamma=1.0)
    with pytest.raises(InputError, match="give exactly one of gamma and phase"):
        simplex_limit(0.5)
    with pytest.raises(InputError, match="give exactly one of gamma and phase"):
        simplex_limit(0.5, gamma=1.0, phase="critical")
    with pytest.raises(InputError, match="phase must be one of subcritical, critical, supercritical, got 'cold'"):
        simplex_limit(0.5, phase="cold")
    with pytest.raises(InputError, match=r"gamma must be .* got nan"):
        simplex_limit(0.5, gamma=math.nan)
    with pytest.raises(InputError, match="q must be"):
        simplex_limit(0.5, gamma=1.0, q=-1.0)
    with pytest.raises(InputError, match=r"alpha must be a number in \[0, 1e\+100\], got 1e\+200"):
        simplex_limit(0.5, gamma=1.0, alpha=1e200)
    with pytest.raises(InputError, match="the squared norm after the layer must be a finite number, got inf"):
        simplex_limit(0.5, gamma=1.0, alpha=1e100, q=1e200)
    with pytest.raises(InputError, match="rho must be"):
        critical_gamma(1.0)
    with pytest.raises(InputError, match="gamma must be"):
        window_coordinate(10, 0.5, gamma=-1.0)
    with pytest.raises(InputError, match=r"high must be a number in \(0.9, 1\), got 0.1"):
        window_width(10, 0.5, low=0.9, high=0.1)
    with pytest.raises(InputError, match="got neither"):
        log_partition(10, 0.5)
    with pytest.raises(InputError, match="a negative cosine is impossible"):
        log_partition_limit(-0.1, 1.0)
