"""How many tokens a simplex row attends to: 60 digits, the split row, the exponent at finite n."""

import math

import mpmath
import pytest

from attnlim.context.theory import simplex_focus, simplex_kappa
from attnlim.core.checks import InputError

OCTAVES = [512, 1024, 2048, 4096, 8192]


@pytest.mark.parametrize("n", [2, 3, 10**3, 10**160, 10**300, 10**400])
@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0, 1.3])
def test_sixty_digits(n: int, scale: float) -> None:
    rho = 0.25
    beta = scale * math.log(n) / 0.75
    with mpmath.workdps(60 + 2 * len(str(n))):
        p = 1 / (1 + (n - 1) * mpmath.exp(-mpmath.mpf(beta) * 3 / 4))
        rest = 1 - p
        entropy = -p * mpmath.log(p) - rest * mpmath.log(rest / (n - 1))
        counts = [float(mpmath.exp(entropy)), float(1 / (p**2 + rest**2 / (n - 1)))]
        entropy = float(entropy)
    focus = simplex_focus(n, rho, beta=beta)
    # rounding of the exponent (1-ρ)β - ln n moves p relatively by that much; H multiplies it by ln n
    slack = 4 * (beta + math.log(n) + 4) * 2.0**-52
    assert focus.entropy == pytest.approx(entropy, rel=slack * (1 + math.log(n)))
    for came, wanted in zip((focus.perplexity, focus.participation), counts, strict=True):
        assert came == pytest.approx(wanted, rel=slack * (1 + math.log(n)) ** 2)


def test_a_split_row_is_counted_differently() -> None:
    n = 10**6 + 1
    focus = simplex_focus(n, 0.5, beta=2 * math.log(n - 1))
    # p = 1/2 up to rounding of the exponent, about 28 eps
    assert focus.perplexity == pytest.approx(2 * math.sqrt(n - 1), rel=1e-12)
    assert focus.participation == pytest.approx(4 / (1 + 1 / (n - 1)), rel=1e-12)


def test_beyond_the_float_range_the_entropy_stays() -> None:
    focus = simplex_focus(10**400, 0.5, beta=0.0)
    assert focus.entropy == pytest.approx(400 * math.log(10), rel=1e-15)
    assert (focus.perplexity, focus.participation) == (math.inf, math.inf)


@pytest.mark.parametrize("sizes", [OCTAVES, [512, 2048, 8192], [512, 8192]])
def test_exponent_at_finite_n_leaves_the_unit_interval(sizes: list[int]) -> None:
    """ρ = .5, n = 512..8192: the printed values come out for octaves, for every other one, for the ends alone."""
    came = [simplex_kappa(sizes, 0.5, gamma) for gamma in (1.0, 2.0, 2.5)]
    # printed to two places
    assert came == pytest.approx([1.02, 0.50, -0.13], abs=0.005)


@pytest.mark.parametrize(("gamma", "limit"), [(1.0, 1.0), (2.0, 0.5), (2.5, 0.0)])
def test_exponent_tends_to_one_a_half_and_zero(gamma: float, limit: float) -> None:
    # deviations fall as n^{-1/4} ln n, below 1e-20 at n = 10^100; what is left is rounding of H, 1e-13 · 230
    assert simplex_kappa([10**100, 10**110, 10**120], 0.5, gamma) == pytest.approx(limit, abs=1e-11)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="at least two different sizes"):
        simplex_kappa([512, 512], 0.5, 1.0)
    with pytest.raises(InputError, match="n_tokens must be a whole number"):
        simplex_kappa([1, 512], 0.5, 1.0)
