"""Layers to collapse: counted one by one, the power of n, the leading constant, what residuals do."""

import math

import numpy as np
import pytest

from attnlim.context.simplex_layers import simplex_cascade
from attnlim.context.stability import N_EXACT, layers_to_collapse, stability_line
from attnlim.core.checks import InputError


def counted(n: int, rho: float, gamma: float, tolerance: float, alpha: float, normalise: bool, most: int) -> int:
    cascade = simplex_cascade(n, most, rho, gamma=gamma, alpha=alpha, normalise=normalise)
    fallen = cascade.one_minus_rho <= (1 - tolerance) * (1 - rho)
    return int(np.argmax(fallen)) if fallen.any() else most + 1


@pytest.mark.parametrize(
    ("n", "rho", "gamma", "tolerance", "alpha", "normalise"),
    [
        (10**4, 0.5, 4.6, 0.5, 0.0, False),
        (10**4, 0.5, 4.7, 0.1, 0.0, False),
        (10**4, 0.5, 4.5, 0.5, 0.5, False),
        (10**4, 0.3, 3.1, 0.9, 2.0, True),
        (100, -0.005, 2.9, 0.5, 0.0, False),
        (50, 0.2, 4.2, 0.1, 0.8, False),
    ],
)
def test_counted_one_by_one(n: int, rho: float, gamma: float, tolerance: float, alpha: float, normalise: bool) -> None:
    count = counted(n, rho, gamma, tolerance, alpha, normalise, 20000)
    found = layers_to_collapse(n, rho, gamma, tolerance=tolerance, alpha=alpha, normalise=normalise)
    # the last layer is counted in full, the integral ends inside it
    assert N_EXACT < count <= 20000
    assert found == pytest.approx(count, abs=1.01)


@pytest.mark.parametrize(("gamma", "expected"), [(1.0, 1.0), (2.0, 1.0), (3.0, None)])
def test_few_layers_are_counted(gamma: float, expected: float | None) -> None:
    n = 1000
    found = layers_to_collapse(n, 0.5, gamma, tolerance=0.5)
    assert found == (expected or counted(n, 0.5, gamma, 0.5, 0.0, False, 1000))


@pytest.mark.parametrize(("rho", "gamma", "alpha"), [(0.5, 2.6, 0.0), (0.2, 2.0, 0.0), (0.5, 2.6, 0.5)])
def test_power_of_n_and_its_constant(rho: float, gamma: float, alpha: float) -> None:
    """T → n^c (1+a)/(2βρ(1-ρ)) with a = α/(1-α): so T = n^{c'} layers are few enough exactly for c' < c."""
    c = stability_line(rho, gamma)
    sizes = [10**k for k in (60, 120, 240)]
    layers = [layers_to_collapse(n, rho, gamma, alpha=alpha) for n in sizes]
    logs = np.array([math.log(n) for n in sizes])
    slope = np.polyfit(logs, np.log(layers) + np.log(logs), 1)[0]
    # the next order is 1/(β(1-ρ)²) beside 1, at most 0.02, over a range of 400 in ln n
    assert slope == pytest.approx(c, abs=1e-4)
    constant = 1 / (1 - alpha) / (2 * gamma * logs * rho * (1 - rho))
    assert layers == pytest.approx((np.exp(c * logs) * constant).tolist(), rel=0.03)
    for other in (c - 0.05, c + 0.05):
        assert [math.exp(other * x) < layer for x, layer in zip(logs[-1:], layers[-1:], strict=True)] == [other < c]


def test_tolerance_hardly_matters_at_large_n() -> None:
    times = [layers_to_collapse(10**200, 0.5, 3.0, tolerance=tolerance) for tolerance in (0.05, 0.5, 0.95)]
    # the first 5 % already take all but e^{-β(1-ρ)/20} = 1e-15 of the layers
    assert times == pytest.approx([times[0]] * 3, rel=1e-8)


def test_growing_norms_outlast_every_power() -> None:
    """α = 1: the effect of layer l is divided by about l, so as many layers as collapse at α = 0 hardly matter."""
    n, gamma = 1000, 3.5
    alone = layers_to_collapse(n, 0.5, gamma)
    assert 10 < alone < 100
    with_residual = simplex_cascade(n, 100 * int(alone), 0.5, gamma=gamma, alpha=1.0)
    assert with_residual.one_minus_rho[-1] > 0.75 * 0.5


def test_beyond_the_float_range() -> None:
    assert layers_to_collapse(10**300, 0.5, 6.1) == math.inf
    assert math.isfinite(layers_to_collapse(10**300, 0.5, 4.0))
    # a start that a float rounds to ρ = 1, with c = γ(1-ρ) - 1 = 1
    n = 10**6
    near_one = layers_to_collapse(n, one_minus_rho=1e-20, gamma=2e20)
    assert near_one == pytest.approx(n / (2 * 2 * math.log(n)), rel=0.1)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="alpha must be below 1 where norms are not reset, got 1"):
        layers_to_collapse(100, 0.5, 3.0, alpha=1)
    with pytest.raises(InputError, match="tolerance must be a number in"):
        layers_to_collapse(100, 0.5, 3.0, tolerance=0.0)
    with pytest.raises(InputError, match="these tokens have collapsed already"):
        layers_to_collapse(100, one_minus_rho=0.0, gamma=3.0)
    with pytest.raises(InputError, match="rho must be"):
        stability_line(0.0, 3.0)
    with pytest.raises(InputError, match="gamma must be"):
        stability_line(0.5, math.nan)
