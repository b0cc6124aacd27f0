"""Many layers of a simplex: tokens themselves, many digits, schedules, and that only supercritical ones last."""

import math

import mpmath
import numpy as np
import pytest

from attnlim.context.simplex import simplex_step
from attnlim.context.simplex_layers import simplex_cascade
from attnlim.context.simplex_limits import critical_gamma
from attnlim.core.checks import InputError


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.8])
@pytest.mark.parametrize("rho", [-0.08, 0.0, 0.4])
def test_tokens_themselves(normalise: bool, alpha: float, rho: float) -> None:
    n, q, betas = 9, 1.7, [4.0, 0.5, 7.0, 2.0]
    x = np.linalg.cholesky(q * ((1 - rho) * np.eye(n) + rho))
    cascade = simplex_cascade(n, 4, rho, beta=betas, q=q, alpha=alpha, normalise=normalise)
    for layer, beta in enumerate(betas):
        y = x / np.linalg.norm(x, axis=1, keepdims=True)
        weights = np.exp(beta * y @ y.T)
        weights /= weights.sum(axis=1, keepdims=True)
        x = weights @ y + alpha * x
        if normalise:
            x *= math.sqrt(q) / np.linalg.norm(x, axis=1, keepdims=True)
        # a few hundred roundings of numbers of order 1, 9 by 9
        assert cascade.self_weight[layer] == pytest.approx(weights[3, 3], rel=1e-12)
        assert cascade.q[layer + 1] == pytest.approx(x[2] @ x[2], rel=1e-12)
        assert cascade.rho[layer + 1] == pytest.approx(x[2] @ x[5] / (x[2] @ x[2]), abs=1e-12)
        assert cascade.one_minus_rho[layer + 1] == pytest.approx(1 - x[2] @ x[5] / (x[2] @ x[2]), abs=1e-12)


@pytest.mark.parametrize("n", [48, 10**6, 10**300], ids=lambda n: f"{math.log10(n):.3g}")
@pytest.mark.parametrize("scale", [0.9, 1.0, 1.2, 2.0])
@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_many_digits(n: int, scale: float, alpha: float) -> None:
    rho, layers = 0.5, 4
    beta = 2 * scale * math.log(n)
    found = simplex_cascade(n, layers, rho, beta=beta, alpha=alpha)
    growth = 1.0
    with mpmath.workdps(1400 if n > 10**6 else 200):
        apart, q = mpmath.mpf("0.5"), mpmath.mpf(1)
        for layer in range(layers):
            a, cosine = alpha * mpmath.sqrt(q), 1 - apart
            p = 1 / (1 + (n - 1) * mpmath.exp(-apart * beta))
            b = (1 - p) / (n - 1)
            c, s = p - b + a, 1 + (n - 1) * cosine
            # the error of p is that of its exponent; each layer multiplies what it is given
            slack = 8 * (beta * float(apart) + math.log(n) + 4) * 2.0**-52
            growth *= 3 + 2 * beta * float(apart)
            q = c**2 + 2 * c * b * s + b**2 * n * s
            apart = c**2 * apart / q
            assert found.one_minus_rho[layer + 1] == pytest.approx(float(apart), rel=slack * growth, abs=1e-290)
            assert found.q[layer + 1] == pytest.approx(float(q), rel=slack * growth)


def test_digits_survive_where_the_cosine_rounds_to_one() -> None:
    """Restarting from 1-ρ gives the same as going on; restarting from ρ = 1 is impossible."""
    whole = simplex_cascade(1000, 5, 0.5, gamma=1.5, alpha=0.1)
    half = simplex_cascade(
        1000, 2, one_minus_rho=float(whole.one_minus_rho[3]), gamma=1.5, q=float(whole.q[3]), alpha=0.1
    )
    # ρ is rebuilt as 1 - (1-ρ): one rounding
    assert half.one_minus_rho == pytest.approx(whole.one_minus_rho[3:], rel=1e-13)
    assert half.q == pytest.approx(whole.q[3:], rel=1e-13)
    step = simplex_step(1000, one_minus_rho=1e-40, beta=2.0)
    # p = 1/n to 40 digits, so 1-ρ' = (2p·1e-40)²·1e-40 n/(n-1)²·... with q' = 1
    assert step.rho == 1 and step.one_minus_rho == pytest.approx((2e-40 / 1000) ** 2 * 1e-40, rel=1e-12)
    assert simplex_step(1000, one_minus_rho=0.0, beta=2.0).one_minus_rho == 0


@pytest.mark.parametrize("n", [3, 10, 1000])
@pytest.mark.parametrize("above", [1e-2, 1e-5, 1e-8])
def test_near_the_least_cosine(n: int, above: float) -> None:
    """What the docstring says of ρ < 0: a rounded ρ is off by eps/S of S, and with it a q' that only the mean makes."""
    rho, betas = -(1 - above) / (n - 1), [4.0, 0.3, 0.0]
    found = simplex_cascade(n, 3, rho, beta=betas)
    with mpmath.workdps(60):
        cosine, q, least = mpmath.mpf(rho), mpmath.mpf(1), mpmath.mpf(1)
        for layer, beta in enumerate(betas):
            p = 1 / (1 + (n - 1) * mpmath.exp(-(1 - cosine) * beta))
            c, b, s = -p * mpmath.expm1(-(1 - cosine) * beta), (1 - p) / (n - 1), 1 + (n - 1) * cosine
            least = min(least, s)
            q = c**2 + 2 * c * b * s + b**2 * n * s
            cosine = 1 - c**2 * (1 - cosine) / q
            slack = 8 * (2 * beta + math.log(n) + 4) * 2.0**-52 * (layer + 1)
            assert found.q[layer + 1] == pytest.approx(float(q), rel=slack + 4 * 2.0**-52 / float(least) * (layer > 0))


def test_a_critical_layer_makes_the_next_one_subcritical() -> None:
    n = 10**60
    cascade = simplex_cascade(n, 3, 0.3, gamma=critical_gamma(0.3))
    assert cascade.self_weight[0] == pytest.approx(0.5, abs=1e-12)
    gamma_c = 1 / cascade.one_minus_rho
    assert gamma_c[1] > 1.5 * gamma_c[0]
    # 4ρ/(1+3ρ), then all tokens are one
    assert cascade.rho[1:] == pytest.approx([1.2 / 1.9, 1.0, 1.0], abs=1e-12)


def test_a_schedule_can_stay_critical_and_numbers_stand_for_constant_ones() -> None:
    n, rho, gammas = 10**40, 0.3, []
    for _ in range(4):
        gammas.append(critical_gamma(rho))
        rho = 4 * rho / (1 + 3 * rho)
    cascade = simplex_cascade(n, 4, 0.3, gamma=gammas)
    # the schedule is that of n → ∞; rounding of ρ is amplified by β(1-ρ) = ln n = 92 a layer
    assert cascade.self_weight == pytest.approx([0.5] * 4, abs=1e-7)
    same = simplex_cascade(n, 2, 0.3, gamma=np.array([2.0, 2.0])), simplex_cascade(n, 2, 0.3, gamma=2.0)
    assert np.array_equal(same[0].rho, same[1].rho)
    assert simplex_cascade(n, 0, 0.3, gamma=2.0).rho.tolist() == [0.3]


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="gamma must be a number or one a layer, got 2 for 3 layers"):
        simplex_cascade(10, 3, 0.5, gamma=[1.0, 2.0])
    with pytest.raises(InputError, match="got both"):
        simplex_cascade(10, 3, 0.5, gamma=1.0, beta=[1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="got neither"):
        simplex_cascade(10, 3, 0.5)
    with pytest.raises(InputError, match="gamma must be a finite number of at least 0, got nan"):
        simplex_cascade(10, 2, 0.5, gamma=[1.0, math.nan])
    with pytest.raises(InputError, match="give exactly one of rho and one_minus_rho"):
        simplex_cascade(10, 2, 0.5, gamma=1.0, one_minus_rho=0.5)
    with pytest.raises(InputError, match="one_minus_rho must be a finite number of at least 0"):
        simplex_cascade(10, 2, gamma=1.0, one_minus_rho=-1e-20)
    with pytest.raises(InputError, match="rho must be"):
        simplex_cascade(10, 2, gamma=1.0, one_minus_rho=1.2)
    with pytest.raises(InputError, match="layer 2 of 4: the squared norm after the layer must be .* got inf"):
        simplex_cascade(10, 4, 0.5, gamma=1.0, alpha=1e80)
