"""Closed forms of β_c against the score laws themselves, by routes that share nothing with them."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize, special

from attnlim.context.criticality import beta_c_iid, beta_c_simplex, beta_c_sphere
from attnlim.context.theory import critical_gamma
from attnlim.core.checks import InputError


def test_simplex_is_the_threshold_of_the_theorem() -> None:
    assert beta_c_simplex(777, 0.37) == pytest.approx(critical_gamma(0.37) * math.log(777), rel=1e-15)


@pytest.mark.parametrize("width", [2, 3, 8, 64, 1000])
def test_sphere_is_the_slope_of_the_rate_where_the_rate_is_log_n(width: int) -> None:
    """I(s) = -(d-1)/2 ln(1-s²); I(s*) = ln n by root finding, I'(s*) by a central difference."""
    n = 100

    def rate(s: float) -> float:
        return -(width - 1) / 2 * math.log1p(-s * s)

    top = optimize.brentq(lambda s: rate(s) - math.log(n), 0, 1 - 1e-15, xtol=1e-15)
    step = 1e-5 * (1 - top)
    slope = (rate(top + step) - rate(top - step)) / (2 * step)
    # truncation (step/(1-s*))² = 1e-10; rounding eps·ln n/(step·I') = 1e-10 over the distance to 1
    assert beta_c_sphere(n, width) == pytest.approx(slope, rel=1e-7)


@pytest.mark.parametrize("width", [3, 8, 64])
def test_the_rate_with_d_minus_one_is_the_exponent_of_the_tail(width: int) -> None:
    """The density of a cosine is ∝ (1-s²)^{(d-3)/2}; its tail, integrated, falls with (d-1)/2 and not (d-3)/2."""

    def tail(height: float) -> float:
        # s = 1 - h u, so that the integrand is smooth near s = 1
        value, _ = integrate.quad(lambda u: (height * u * (2 - height * u)) ** ((width - 3) / 2), 0, 1)
        return float(height * value)

    heights = 1e-6, 1e-5
    x = [math.log(h * (2 - h)) for h in heights]
    exponent = (math.log(tail(heights[1])) - math.log(tail(heights[0]))) / (x[1] - x[0])
    # the tail is a power of 1-s² up to a relative correction of order 1-s² = 2e-5
    assert exponent == pytest.approx((width - 1) / 2, abs=1e-4)


def test_sphere_is_the_hazard_rate_up_to_the_dropped_constant() -> None:
    """At d = 3 a cosine is uniform: P(S > s) = (1-s)/2, so the constant is known in full."""
    for n in (10**3, 10**5):
        top = 1 - 2 / n
        hazard = 1 / (1 - top)
        # the closed form drops P's factor 1/2·2/(1+s) → 1/2: it is 2 n √(1-1/n) where the hazard is n/2
        assert beta_c_sphere(n, 3) / hazard == pytest.approx(4, rel=2 / n)


def test_sphere_at_d_8_is_off_by_its_constant() -> None:
    """n = 8192: with the constant in front of the tail β_c is 51, not 88."""
    half = 3.5
    below = special.betaincinv(half, half, 1 / 8192)
    density = (below * (1 - below)) ** (half - 1) / special.beta(half, half) / 2
    assert density * 8192 == pytest.approx(51, abs=0.5)
    assert beta_c_sphere(8192, 8) == pytest.approx(88, abs=0.5)


def test_sphere_tends_to_normal_scores_of_variance_one_over_d() -> None:
    n = 8192
    widths = np.array([10**4, 10**5, 10**6, 10**7])
    errors = [beta_c_sphere(n, int(d)) / beta_c_iid(n, 1 / math.sqrt(d)) - 1 for d in widths]
    # (d-1) z √(1-1/z) = √(2 d ln n) (1 + (3/2 ln n - 1/2)/d + ...)
    assert errors[1] * 10**5 == pytest.approx(1.5 * math.log(n) - 0.5, rel=1e-3)
    assert np.polyfit(np.log(widths), np.log(errors), 1)[0] == pytest.approx(-1, abs=1e-2)


def test_normal_scores_scale_and_their_rate() -> None:
    n = 8192
    top = math.sqrt(2 * math.log(n)) * 0.3
    assert top**2 / (2 * 0.3**2) == pytest.approx(math.log(n), rel=1e-14)
    assert beta_c_iid(n, 0.3) == pytest.approx(top / 0.3**2, rel=1e-14)


def test_above_beta_c_the_participation_of_normal_scores_freezes() -> None:
    """E ΣA² → 1 - β_c/β, here 1/2 at β = 2β_c: approached from above and slowly, as 1/ln n."""
    generator = np.random.default_rng(2)
    excess, errors = [], []
    for n in (32, 4096):
        scores = 2 * beta_c_iid(n, 1.0) * generator.standard_normal((3000, n))
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        squares = (weights**2).sum(axis=1) / weights.sum(axis=1) ** 2
        excess.append(float(squares.mean()) - 0.5)
        errors.append(float(squares.std(ddof=1)) / math.sqrt(3000))
    assert excess[1] > 4 * errors[1]
    assert excess[0] - excess[1] > 4 * math.hypot(*errors)
    # an error of order 1/ln n: the coefficients at the two sizes are the same up to the next order
    assert excess[1] * math.log(4096) == pytest.approx(excess[0] * math.log(32), rel=0.5)


def test_printed_values_and_the_range_of_floats() -> None:
    assert beta_c_iid(8192, 1.0) == pytest.approx(4.25, abs=0.005)
    assert [round(beta_c_sphere(8192, width)) for width in (8, 64, 128)] == [88, 42, 53]
    assert beta_c_sphere(10**300, 2) == math.inf
    assert math.isfinite(beta_c_sphere(10**300, 100))


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="width must be a whole number of at least 2, got 1"):
        beta_c_sphere(100, 1)
    with pytest.raises(InputError, match="sigma must be a finite number above 0, got 0"):
        beta_c_iid(100, 0)
    with pytest.raises(InputError, match="n_tokens must be a whole number of at least 2, got 1"):
        beta_c_iid(1, 1.0)
    with pytest.raises(InputError, match="rho must be"):
        beta_c_simplex(100, 1.0)
