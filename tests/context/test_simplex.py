"""One layer on a simplex: reference values, brute force from a Gram matrix, 60 digits, causal rows."""

import json
import math
import re
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlim.context.theory import causal_simplex_pair, simplex_focus, simplex_step
from attnlim.core.checks import InputError

REFERENCE = json.loads((Path(__file__).parent.parent / "reference" / "values.json").read_text())["simplex"]


def gram_after_layer(n: int, rho: float, beta: float, a: float, causal: bool = False) -> np.ndarray:
    """The slow twin: with Y Y^T = G, the layer makes (A + a I) G (A + a I)^T of it."""
    gram = np.full((n, n), rho)
    np.fill_diagonal(gram, 1.0)
    scores = beta * gram
    if causal:
        scores[np.triu_indices(n, 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    update = weights + a * np.eye(n)
    return np.asarray(update @ gram @ update.T)


def exact_step(n: int, rho: float, beta: float, q: float, alpha: float) -> tuple[mpmath.mpf, ...]:
    """The formulas as printed, with as many digits as it takes."""
    rho, beta, a = mpmath.mpf(rho), mpmath.mpf(beta), mpmath.mpf(alpha) * mpmath.sqrt(q)
    p = 1 / (1 + (n - 1) * mpmath.exp(-(1 - rho) * beta))
    b = (1 - p) / (n - 1)
    c, s = p - b + a, 1 + (n - 1) * rho
    inner = c**2 * rho + 2 * c * b * s + b**2 * n * s
    q_next = inner + c**2 * (1 - rho)
    return inner / q_next, c**2 * (1 - rho) / q_next, q_next, p


@pytest.mark.parametrize("case", REFERENCE)
def test_reference_values(case: dict[str, float]) -> None:
    step = simplex_step(int(case["n"]), case["rho"], gamma=case["gamma"], q=case["q"], alpha=case["alpha"])
    # the reference is a double-precision loop over at most 64 tokens
    assert step.rho == pytest.approx(case["rho_next"], abs=1e-10)
    assert step.q == pytest.approx(case["q_next"], abs=1e-10)


@given(st.integers(2, 60), st.floats(0.001, 0.999), st.floats(0, 12), st.floats(0.1, 4), st.floats(0, 2))
def test_brute_force_on_the_gram_matrix(n: int, place: float, beta: float, q: float, alpha: float) -> None:
    rho = -1 / (n - 1) + place * (1 + 1 / (n - 1))
    gram = gram_after_layer(n, rho, beta, alpha * math.sqrt(q))
    step = simplex_step(n, rho, beta=beta, q=q, alpha=alpha)
    # twice n² terms of rounding eps (2e-16), on norms that may be as small as q' itself
    slack = 1e-13 * (1 + 1 / step.q) * (1 + alpha * math.sqrt(q)) ** 2
    assert np.allclose(np.diag(gram), step.q, rtol=0, atol=slack)
    assert gram[0, 1] / gram[0, 0] == pytest.approx(step.rho, abs=slack)
    assert step.rho + step.one_minus_rho == pytest.approx(1, abs=slack)


@pytest.mark.parametrize("n", [2, 10**6, 10**160, 10**300, 10**400])
@pytest.mark.parametrize("one_minus_rho", [1e-12, 0.5])
@pytest.mark.parametrize("scale", [0.0, 0.9, 1.0, 1.1])
@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_sixty_digits(n: int, one_minus_rho: float, scale: float, alpha: float) -> None:
    rho = 1 - one_minus_rho
    beta = scale * math.log(n) / (1 - rho)
    # b² loses 2·log10(n) digits beside 1, so the printed formulas need them on top of the 60
    with mpmath.workdps(60 + 2 * len(str(n))):
        exact = [float(value) for value in exact_step(n, rho, beta, 2.0, alpha)]
    step = simplex_step(n, rho, beta=beta, q=2.0, alpha=alpha)
    # relative error of p: that of its exponent, (1-ρ)β and ln n rounded; it enters 1-ρ' squared
    slack = 4 * ((1 - rho) * beta + math.log(n) + 4) * 2.0**-52
    for came, wanted in zip((step.rho, step.one_minus_rho, step.q, step.self_weight), exact, strict=True):
        assert came == pytest.approx(wanted, rel=slack, abs=1e-300)


@pytest.mark.parametrize("n", [2, 3, 10, 1000, 10**6, 10**30])
@pytest.mark.parametrize("above", [0.5, 1e-3, 1e-6, 1e-9, 1e-12, 1e-15])
@pytest.mark.parametrize("alpha", [0.0, 1e-3, 0.7])
def test_down_to_the_least_cosine(n: int, above: float, alpha: float) -> None:
    """ρ → -1/(n-1), where 1 + (n-1)ρ is all that a uniform row leaves, and cancels."""
    rho = -(1 - above) / (n - 1)
    for beta in (0.0, 1e-3, 1.0, 40.0):
        with mpmath.workdps(120):
            exact = exact_step(n, rho, beta, 1.0, alpha)
        step = simplex_step(n, rho, beta=beta, alpha=alpha)
        slack = 4 * ((1 - rho) * beta + math.log(n) + 4) * 2.0**-52
        # at β = 0 the printed p - b leaves 1e-118 of 0
        for came, wanted in zip((step.one_minus_rho, step.q, step.self_weight), exact[1:], strict=True):
            assert came == pytest.approx(float(wanted), rel=slack, abs=1e-80)
        assert step.rho == pytest.approx(float(exact[0]), abs=slack)


def test_large_residuals_leave_the_tokens_as_they_are() -> None:
    step, pair = simplex_step(10, 0.3, gamma=1.0, alpha=1e100), causal_simplex_pair(3, 7, 0.3, beta=1.0, alpha=1e100)
    assert (step.rho, step.one_minus_rho, step.q) == pytest.approx((0.3, 0.7, 1e200), rel=1e-15)
    assert (pair.rho, pair.one_minus_rho, pair.q_i, pair.q_j) == pytest.approx((0.3, 0.7, 1e200, 1e200), rel=1e-15)


@pytest.mark.parametrize("rho", [-(2.0**-5), 0.0, 0.25, 1 - 2.0**-40])
def test_one_minus_rho_may_stand_for_rho(rho: float) -> None:
    # 1-ρ is exact for these, so nothing differs
    assert simplex_step(10, one_minus_rho=1 - rho, gamma=1.3, alpha=0.2) == simplex_step(10, rho, 1.3, alpha=0.2)


def test_beta_zero_without_residual_collapses_at_once() -> None:
    step = simplex_step(50, 0.3, beta=0.0)
    assert (step.rho, step.one_minus_rho) == (1.0, 0.0)
    assert step.q == pytest.approx(0.3 + 0.7 / 50, rel=1e-14)


def test_iterating_the_step_is_the_law_of_many_layers() -> None:
    n, rho, q, alpha, beta = 12, 0.2, 1.5, 0.6, 3.0
    gram = np.full((n, n), rho * q)
    np.fill_diagonal(gram, q)
    for _ in range(5):
        norms = np.sqrt(np.diag(gram))
        cosines = gram / np.outer(norms, norms)
        weights = np.exp(beta * cosines)
        weights /= weights.sum(axis=1, keepdims=True)
        update = weights / norms + alpha * np.eye(n)
        gram = update @ gram @ update.T
        step = simplex_step(n, rho, beta=beta, q=q, alpha=alpha)
        rho, q = step.rho, step.q
    # five layers of 12 × 12 products
    assert gram[0, 0] == pytest.approx(q, rel=1e-13)
    assert gram[0, 1] / gram[0, 0] == pytest.approx(rho, rel=1e-13)


@pytest.mark.parametrize("rho", [-0.15, 0.0, 0.4, 0.9])
@pytest.mark.parametrize("beta", [0.0, 2.0, 9.0])
@pytest.mark.parametrize("alpha", [0.0, 0.8])
def test_causal_rows_by_brute_force(rho: float, beta: float, alpha: float) -> None:
    n, q = 7, 1.7
    gram = gram_after_layer(n, rho, beta, alpha * math.sqrt(q), causal=True)
    for j in range(2, n + 1):
        for i in range(1, j):
            pair = causal_simplex_pair(i, j, rho, beta, q=q, alpha=alpha)
            norms = gram[i - 1, i - 1], gram[j - 1, j - 1]
            cosine = gram[i - 1, j - 1] / math.sqrt(norms[0] * norms[1])
            # 7 × 7 products on norms of at least 0.01
            assert (pair.q_i, pair.q_j) == pytest.approx(norms, rel=1e-12)
            assert pair.rho == pytest.approx(cosine, abs=1e-12)
            assert pair.one_minus_rho == pytest.approx(1 - cosine, abs=1e-12)


def test_a_causal_row_alone_has_the_law_of_a_shorter_simplex() -> None:
    pair = causal_simplex_pair(20, 50, 0.3, beta=4.0, q=2.0, alpha=0.5)
    for row, q_next, weight in ((20, pair.q_i, pair.self_weight_i), (50, pair.q_j, pair.self_weight_j)):
        step = simplex_step(row, 0.3, beta=4.0, q=2.0, alpha=0.5)
        assert q_next == pytest.approx(step.q, rel=1e-14)
        assert weight == step.self_weight


@pytest.mark.parametrize(("i", "j", "beta"), [(10**150, 10**300, 300.0), (1000, 1001, 3.0), (3, 10**12, 5.0)])
def test_one_minus_the_causal_cosine_keeps_its_digits(i: int, j: int, beta: float) -> None:
    rho = 0.75
    with mpmath.workdps(700):
        weights = [1 / (1 + (k - 1) * mpmath.exp(-mpmath.mpf(beta) / 4)) for k in (i, j)]
        b_i, b_j = ((1 - p) / (k - 1) for p, k in zip(weights, (i, j), strict=True))
        c_i, c_j = weights[0] - b_i, weights[1] - b_j
        s_i, s_j = 1 + (i - 1) * mpmath.mpf(rho), 1 + (j - 1) * mpmath.mpf(rho)
        product = c_i * c_j * rho + c_i * b_j * s_j + b_i * c_j * i * rho + b_i * b_j * i * s_j
        q_i = c_i**2 + 2 * c_i * b_i * s_i + b_i**2 * i * s_i
        q_j = c_j**2 + 2 * c_j * b_j * s_j + b_j**2 * j * s_j
        exact = float(1 - product / mpmath.sqrt(q_i * q_j))
    # differences of neighbouring rows (b_i - b_j) lose up to a factor i of the last digit only where they are
    # negligible beside (p + a - b)²; what is left is the rounding of the exponents
    slack = 8 * (beta + math.log(j)) * 2.0**-52
    assert causal_simplex_pair(i, j, rho, beta).one_minus_rho == pytest.approx(exact, rel=slack)


@pytest.mark.parametrize("call", [simplex_step, simplex_focus])
def test_bad_input_is_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises(InputError, match="n_tokens must be a whole number of at least 2, got 1"):
        call(1, 0.5, gamma=1.0)
    with pytest.raises(InputError, match="n_tokens must be a whole number"):
        call(10.5, 0.5, gamma=1.0)
    with pytest.raises(InputError, match=r"rho must be a number in \(-0.11.*, 1\), got -0.2"):
        call(10, -0.2, gamma=1.0)
    with pytest.raises(InputError, match=r"rho must be .*got 1"):
        call(10, 1.0, gamma=1.0)
    with pytest.raises(InputError, match="got both"):
        call(10, 0.5, gamma=1.0, beta=1.0)
    with pytest.raises(InputError, match="got neither"):
        call(10, 0.5)
    with pytest.raises(InputError, match="gamma must be a finite number of at least 0, got nan"):
        call(10, 0.5, gamma=math.nan)
    with pytest.raises(InputError, match="gamma must be a finite number of at least 0, got -1"):
        call(10, 0.5, gamma=-1)
    with pytest.raises(InputError, match="beta = gamma ln n must be a finite number, got inf"):
        call(10, 0.5, gamma=1e308)


def test_bad_norm_residual_and_rows_are_refused() -> None:
    with pytest.raises(InputError, match="the layer's output must have a norm in the float range, got 0"):
        simplex_step(10**400, one_minus_rho=1.0, gamma=0.5)
    with pytest.raises(InputError, match="q must be a finite number above 0, got 0"):
        simplex_step(10, 0.5, gamma=1.0, q=0)
    for alpha in (-0.1, 1e200, math.nan):
        with pytest.raises(InputError, match=rf"alpha must be a number in \[0, 1e\+100\], got {re.escape(str(alpha))}"):
            simplex_step(10, 0.5, gamma=1.0, alpha=alpha)
    for call in (
        lambda: simplex_step(10, 0.5, gamma=1.0, q=1e200, alpha=1e60),
        lambda: causal_simplex_pair(2, 10, 0.5, beta=1.0, q=1e200, alpha=1e60),
    ):
        with pytest.raises(InputError, match="the squared norm after the layer must be a finite number, got inf; take"):
            call()
    with pytest.raises(InputError, match="row_j must be a whole number of at least 6, got 5; row_j must come after"):
        causal_simplex_pair(5, 5, 0.5, beta=1.0)
    with pytest.raises(InputError, match="row_i must be a whole number of at least 1, got 0"):
        causal_simplex_pair(0, 5, 0.5, beta=1.0)
