"""The half-weight point: its equation, its reduction, drawn tokens, and what breaks it."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from attnlim.context.half_weight import half_weight_gamma
from attnlim.context.simplex_limits import critical_gamma
from attnlim.core.checks import InputError


@pytest.mark.parametrize("rho", [-0.3, 0.0, 0.5, 1 - 1e-12])
def test_without_scatter_it_is_the_threshold(rho: float) -> None:
    for n in (2, 1024, 10**300):
        assert half_weight_gamma(n, rho, 0.0) == critical_gamma(rho)


@given(st.integers(2, 10**300), st.floats(-0.9, 0.999), st.floats(0, 1))
def test_it_solves_its_equation_and_takes_the_smaller_root(n: int, rho: float, share: float) -> None:
    variance = share * (1 - rho) ** 2 / (2 * math.log(n))
    gamma = half_weight_gamma(n, rho, variance)
    if math.isnan(gamma):
        # the double root, up to rounding
        assert share == pytest.approx(1, abs=1e-12)
        return
    # a handful of roundings, of both sides
    assert gamma * (1 - rho) == pytest.approx(1 + gamma**2 * variance * math.log(n) / 2, rel=1e-14)
    # rounding of the discriminant moves the root by its square root, where the roots meet
    assert variance == 0 or gamma <= math.sqrt(2 / (variance * math.log(n))) * (1 + 1e-7)
    assert gamma >= critical_gamma(rho)


@pytest.mark.parametrize("variance", [1e-30, 1e-12, 1e-3])
def test_the_smaller_root_keeps_its_digits(variance: float) -> None:
    n, rho = 10**300, 0.25
    with mpmath.workdps(60):
        half = mpmath.mpf(variance) * mpmath.log(n) / 2
        gap = mpmath.mpf(3) / 4
        exact = (gap - mpmath.sqrt(gap**2 - 4 * half)) / (2 * half) if gap**2 > 4 * half else mpmath.nan
    assert half_weight_gamma(n, rho, variance) == pytest.approx(float(exact), rel=1e-14, nan_ok=True)


def paper_cosines(n: int, width: int, rho: float, seed: int) -> np.ndarray:
    """The other cosines of each row of the paper's tokens, (n, n-1)."""
    generator = np.random.default_rng(seed)
    x = math.sqrt(rho) * generator.standard_normal(width) + math.sqrt(1 - rho) * generator.standard_normal((n, width))
    y = x / np.linalg.norm(x, axis=1, keepdims=True)
    return np.asarray((y @ y.T)[~np.eye(n, dtype=bool)].reshape(n, n - 1))


def measured(others: np.ndarray) -> float:
    """The γ at which the mean self weight is 1/2."""
    log_n = math.log(len(others))

    def excess(gamma: float) -> float:
        return float((1 / (1 + np.exp(gamma * log_n * (others - 1)).sum(axis=1))).mean()) - 0.5

    return float(optimize.brentq(excess, 0.5, 10, xtol=1e-4))


@pytest.mark.parametrize(("width", "rho"), [(32, 0.2), (32, 0.5), (128, 0.5)])
def test_drawn_tokens_split_there(width: int, rho: float) -> None:
    ratios, pooled, plain = [], [], []
    for seed in range(2):
        others = paper_cosines(1024, width, rho, seed)
        at = measured(others)
        ratios.append(half_weight_gamma(1024, others.mean(), others.var(axis=1, ddof=1).mean()) / at)
        pooled.append(half_weight_gamma(1024, others.mean(), others.var()) / at)
        plain.append(critical_gamma(others.mean()) / at)
    # 6 %: cosines are skewed, so mean and variance are not all
    assert np.mean(ratios) == pytest.approx(1, abs=0.06)
    # the controls: without the scatter, or with that between rows, it misses by more
    assert abs(np.mean(plain) - 1) > 2 * abs(np.mean(ratios) - 1)
    assert abs(np.mean(pooled) - 1) > 2 * abs(np.mean(ratios) - 1)


def test_at_a_small_width_there_is_no_real_solution_though_tokens_split() -> None:
    others = paper_cosines(1024, 8, 0.5, 0)
    assert math.isnan(half_weight_gamma(1024, others.mean(), others.var(axis=1, ddof=1).mean()))
    assert measured(others) > critical_gamma(others.mean())


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="n_tokens must be"):
        half_weight_gamma(1, 0.5, 0.1)
    with pytest.raises(InputError, match="rho_hat must be"):
        half_weight_gamma(10, 1.0, 0.1)
    with pytest.raises(InputError, match="variance must be a finite number of at least 0, got nan"):
        half_weight_gamma(10, 0.5, math.nan)
