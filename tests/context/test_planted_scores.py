"""The bridge: its ends and its turn, the score law from matrices, the half-weight point of drawn rows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from attnlim.context.criticality import beta_c_iid, beta_c_simplex
from attnlim.context.half_weight import half_weight_gamma
from attnlim.context.independent_rows import independent_row
from attnlim.context.planted_scores import bridge_beta_c, bridge_power, bridge_scores, bridge_turn
from attnlim.core.checks import InputError


def test_the_ends_are_the_two_laws() -> None:
    for n in (100, 10**300):
        assert bridge_beta_c(n, 0.3, 64, 0.0) == pytest.approx(beta_c_simplex(n, 0.3), rel=1e-14)
        assert bridge_beta_c(n, 0.3, 64, 1.0) == pytest.approx(beta_c_iid(n, math.sqrt(0.7 / 64)), rel=1e-14)


@given(st.integers(2, 10**300), st.floats(-0.9, 0.99), st.integers(1, 10**6), st.floats(0, 1))
def test_it_is_the_half_weight_point_before_the_turn(n: int, rho: float, width: int, epsilon: float) -> None:
    scores = bridge_scores(rho, width, epsilon)
    gamma = half_weight_gamma(n, 1 - scores.gap, scores.variance) if 0 < scores.gap < 2 else math.nan
    beta = bridge_beta_c(n, rho, width, epsilon)
    if math.log(n) < bridge_turn(rho, width, epsilon) * (1 - 1e-9) and scores.gap > 1e-6:
        # 1 - gap is rounded on the way: eps/gap, amplified where the roots meet
        assert beta == pytest.approx(gamma * math.log(n), rel=1e-4)
    if math.log(n) > bridge_turn(rho, width, epsilon) * (1 + 1e-9):
        assert beta == pytest.approx(beta_c_iid(n, math.sqrt(scores.variance)), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 0.7])
def test_both_forms_meet_at_the_turn(epsilon: float) -> None:
    turn = bridge_turn(0.5, 512, epsilon)
    before, after = (
        bridge_beta_c(round(math.exp(turn * factor)), 0.5, 512, epsilon) for factor in (1 - 1e-6, 1 + 1e-6)
    )
    # the first form ends with an infinite slope, as √(1-x): 1e-3 at 1e-6 from the turn
    assert before == pytest.approx(after, rel=2e-3)
    assert bridge_power(round(math.exp(turn * 0.999)), 0.5, 512, epsilon) > 5
    assert bridge_power(round(math.exp(turn * 1.001)), 0.5, 512, epsilon) == 0.5


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.45, 1.0])
def test_exponent_is_the_slope_of_beta_c(epsilon: float) -> None:
    n, step = 10**6, 10
    logs = [math.log(math.log(size)) for size in (n - step, n + step)]
    betas = [math.log(bridge_beta_c(size, 0.5, 64, epsilon)) for size in (n - step, n + step)]
    slope = (betas[1] - betas[0]) / (logs[1] - logs[0])
    # a difference of 1.4e-6 in ln ln n, with rounding of 4e-16 in ln β_c
    assert bridge_power(n, 0.5, 64, epsilon) == pytest.approx(slope, rel=1e-8)
    assert (bridge_power(n, 0.5, 64, epsilon) > 1) == (0 < epsilon < 1)


def test_score_law_from_matrices_on_a_simplex() -> None:
    """G drawn, y a simplex: gap and within-row variance of (1-ε) y_i·y_j + ε y_j·G y_i, within 4 standard errors."""
    n, rho, epsilon, draws = 24, 0.4, 0.7, 600
    y = np.linalg.cholesky((1 - rho) * np.eye(n) + rho)
    generator = np.random.default_rng(11)
    gaps, variances = [], []
    for _ in range(draws):
        noise = generator.standard_normal((n, n)) / math.sqrt(n)
        scores = y @ ((1 - epsilon) * np.eye(n) + epsilon * noise).T @ y.T
        others = scores[~np.eye(n, dtype=bool)].reshape(n, n - 1)
        gaps.append((np.diag(scores) - others.mean(axis=1)).mean())
        variances.append(others.var(axis=1, ddof=1).mean())
    law = bridge_scores(rho, n, epsilon)
    for values, wanted in ((gaps, law.gap), (variances, law.variance)):
        error = np.std(values, ddof=1) / math.sqrt(draws)
        assert np.mean(values) == pytest.approx(wanted, abs=4 * error)
    # the shared part is real: without removing it the variance would be larger by ρ/(1-ρ)
    assert law.variance == pytest.approx(epsilon**2 * 0.6 / n, rel=1e-14)


@pytest.mark.parametrize("epsilon", [0.4, 0.5, 0.65])
def test_drawn_rows_split_there(epsilon: float) -> None:
    """The median self weight is 1/2 at β_c while x = 2v ln n/gap² is well below 1."""
    n, width, rho = 4096, 256, 0.5
    law = bridge_scores(rho, width, epsilon)
    scores = math.sqrt(law.variance) * np.random.default_rng(12).standard_normal((200, n))
    scores[:, 0] += law.gap

    def excess(beta: float) -> float:
        ratios = np.exp(beta * (scores[:, 1:] - scores[:, :1])).sum(axis=1)
        return float(np.median(1 / (1 + ratios))) - 0.5

    half = optimize.brentq(excess, 1, 300, xtol=1e-6)
    # the token's own noise ξ moves a row to β gap + β√v ξ = ln n + β²v/2; a median has 1.25 times the error of a
    # mean; 1 % for the scatter of the sum over the others
    predicted = bridge_beta_c(n, rho, width, epsilon)
    noise = 4 * 1.25 * math.sqrt(law.variance / 200) * predicted / (law.gap - predicted * law.variance)
    assert half == pytest.approx(predicted, abs=noise + 0.01 * predicted)
    # the control: without the noise it is another point
    assert abs(half / (math.log(n) / law.gap) - 1) > 0.01


def test_beyond_the_turn_rows_freeze_as_independent_ones() -> None:
    """ε = .9: the self score stands out from n random ones by less than their largest, and ΣA² is that of those."""
    n, width, rho, epsilon = 4096, 64, 0.5, 0.9
    law = bridge_scores(rho, width, epsilon)
    assert math.log(n) > bridge_turn(rho, width, epsilon)
    beta = 2 * bridge_beta_c(n, rho, width, epsilon)
    scores = math.sqrt(law.variance) * np.random.default_rng(13).standard_normal((3000, n))
    scores[:, 0] += law.gap
    weights = np.exp(beta * (scores - scores.max(axis=1, keepdims=True)))
    squares = (weights**2).sum(axis=1) / weights.sum(axis=1) ** 2
    error = squares.std(ddof=1) / math.sqrt(3000)
    # the leading score is one of 4096 and still leads in a few rows
    share = float((weights.argmax(axis=1) == 0).mean())
    exact = independent_row(n - 1, beta, sigma=math.sqrt(law.variance)).concentration
    assert squares.mean() == pytest.approx(exact, abs=4 * error + share)
    assert share < 0.02


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match=r"epsilon must be a number in \[0, 1\], got 1.5"):
        bridge_beta_c(100, 0.5, 64, 1.5)
    with pytest.raises(InputError, match="width must be"):
        bridge_turn(0.5, 0, 0.5)
    with pytest.raises(InputError, match="cosine_variance must be"):
        bridge_power(100, 0.5, 64, 0.5, -1.0)
    with pytest.raises(InputError, match="n_tokens must be"):
        bridge_beta_c(1, 0.5, 64, 0.5)
