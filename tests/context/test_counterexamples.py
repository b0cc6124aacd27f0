"""The counterexamples against a brute-force layer, and the statement that does hold: the smallest cosine rises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attnlim.context.counterexamples import Counterexample, counterexample_pair, counterexample_smallest
from attnlim.context.samplers import gaussian_tokens
from attnlim.context.token_geometry import geometry
from attnlim.core.checks import InputError


def after_a_layer(x: np.ndarray, beta: float, alpha: float = 0.0, causal: bool = False) -> np.ndarray:
    """(n, n): the cosines of x_i' = Σ_j A_ij y_j + α x_i, by the formula."""
    y = x / np.linalg.norm(x, axis=1, keepdims=True)
    weights = np.exp(beta * (y @ y.T - 1))
    weights = np.tril(weights) if causal else weights
    moved = weights / weights.sum(axis=1, keepdims=True) @ y + alpha * x
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    return np.asarray(moved @ moved.T)


def smallest(cosines: np.ndarray) -> float:
    return float(cosines[np.triu_indices(len(cosines), 1)].min())


EXAMPLES = {"pair": counterexample_pair, "smallest": counterexample_smallest}


@pytest.mark.parametrize("which", EXAMPLES)
@pytest.mark.parametrize("n", [6, 100])
@pytest.mark.parametrize("gamma", [0.0, 0.67, 3.0])
def test_the_closed_form_is_the_layer(which: str, n: int, gamma: float) -> None:
    example = EXAMPLES[which](n, gamma)
    tokens = example.tokens()
    assert tokens.shape == (n, n + 2)
    shape = geometry(tokens)
    # the directions come from eigenvalues, right to a few eps
    for found, wanted in (
        (shape.rho_1, example.rho_1), (shape.rho_2, example.rho_2), (shape.q_1, 1.0), (shape.q_2, 1.0),
    ):  # fmt: skip
        assert found == pytest.approx(wanted, abs=1e-14)
    i, j = example.pair
    assert float(tokens[i] @ tokens[j]) == pytest.approx(example.before, abs=1e-14)
    assert after_a_layer(tokens.numpy(), gamma * math.log(n))[i, j] == pytest.approx(example.after, abs=1e-13)


def test_one_pair_comes_apart_below_the_threshold() -> None:
    example = counterexample_pair()
    cosines = after_a_layer(example.tokens().numpy(), example.gamma * math.log(2000))
    assert (example.rho_1, example.rho_2, example.before) == (0.1, 0.95, 0.95)
    assert example.gamma < example.gamma_low
    assert round(float(cosines[example.pair]), 2) == 0.69
    # the smallest cosine rose, as it must, and no pair within or between the clusters came apart
    assert smallest(cosines) > example.rho_1
    x = example.tokens().numpy()
    first, _ = np.nonzero(np.triu(cosines < x @ x.T, 1))
    assert set(first) == set(example.pair)


def test_the_smallest_cosine_falls_where_it_is_negative() -> None:
    example = counterexample_smallest()
    cosines = after_a_layer(example.tokens().numpy(), example.gamma * math.log(2000))
    assert example.rho_1 == example.before == -0.2
    assert example.gamma < example.gamma_low
    assert round(smallest(cosines), 2) == -0.33
    assert smallest(cosines) == pytest.approx(example.after, abs=1e-13)


def test_both_stay_false_as_n_grows() -> None:
    """Not a matter of finite n: each tends to the cosine of the two clusters' directions, like a power of n."""
    cases = ((counterexample_pair, 0.1 / 0.95, (20, 30, 40)), (counterexample_smallest, -0.2 / 0.54, (8, 10, 12)))
    for build, limit, powers in cases:
        sizes = [10**k for k in powers]
        errors = [abs(build(n).after - limit) for n in sizes]
        # the weight of the other cluster over that of the own is n^{-γ·(difference of the two scores)}
        scores = build(6).cosines[0, 2:]
        rates = np.diff(np.log(errors)) / np.diff(np.log([float(n) for n in sizes]))
        assert rates == pytest.approx(-0.67 * (scores[0] - scores[1]), rel=1e-2)
        # also where the number of tokens is no float any more
        for n in (10**300, 10**400, 10**4000):
            assert build(n).after == pytest.approx(limit, rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(2, 30),
    st.integers(1, 40),
    st.floats(0.0, 0.99),
    st.floats(0, 30),
    st.floats(0, 3),
    st.booleans(),
)
def test_the_smallest_cosine_rises_where_it_is_not_negative(
    seed: int, n: int, d: int, rho: float, beta: float, alpha: float, causal: bool
) -> None:
    """For every near-simplex with ρ_1 ≥ 0, at any n, β and α, causal or not."""
    x = gaussian_tokens(n, d, rho, seed).numpy()
    rho_1 = geometry(x).rho_1
    assume(rho_1 >= 0)
    # near 1 both round to the same
    assert smallest(after_a_layer(x, beta, alpha, causal)) >= rho_1 - 1e-14
    if rho_1 < 0.99 and alpha < 1 and beta < 3:
        assert smallest(after_a_layer(x, beta, alpha, causal)) > rho_1


def test_tokens_of_the_positive_orthant() -> None:
    """The same where nothing is near a simplex: cosines from 0 to 1."""
    for seed in range(20):
        x = np.random.default_rng(seed).exponential(size=(40, 3)) ** 3
        for beta in (0.0, 2.0, 20.0):
            assert smallest(after_a_layer(x, beta)) > geometry(x).rho_1


def test_the_examples_are_what_the_statement_needs_its_assumption_for() -> None:
    """The negative control: with ρ_1 < 0 the same layer lowers the smallest cosine."""
    example = counterexample_smallest(200)
    tokens = example.tokens().numpy()
    assert smallest(after_a_layer(tokens, example.gamma * math.log(200))) < example.rho_1 - 0.03
    above = Counterexample(**{**vars(example), "cosines": np.abs(example.cosines), "rho_1": 0.2})
    assert smallest(after_a_layer(above.tokens().numpy(), example.gamma * math.log(200))) > 0.2


def test_bad_input_is_refused() -> None:
    for build in EXAMPLES.values():
        with pytest.raises(InputError, match="n_tokens must be even for two clusters of one size, got 7; take 8"):
            build(7)
        with pytest.raises(InputError, match="n_tokens must be a whole number of at least 6, got 4"):
            build(4)
        for gamma in (-1.0, math.nan):
            with pytest.raises(InputError, match="gamma must be"):
                build(10, gamma)
        with pytest.raises(InputError, match="beta = gamma ln n must be a finite number, got inf"):
            build(10**400, 1e306)
    with pytest.raises(InputError, match=r"rho_1 must be a number in \(0, 1\), got -0.1"):
        counterexample_pair(rho_1=-0.1)
    with pytest.raises(InputError, match=r"rho_2 must be a number in \(0.5, 1\), got 0.4"):
        counterexample_pair(rho_1=0.5, rho_2=0.4)
    with pytest.raises(InputError, match=r"rho_2 = 0.6 does not fit .* rho_1 = 0.5; raise rho_2"):
        counterexample_pair(rho_1=0.5, rho_2=0.6)
    with pytest.raises(InputError, match=r"rho_1 must be a number in \(-1, 0\), got 0.1"):
        counterexample_smallest(rho_1=0.1)
    with pytest.raises(
        InputError, match=r"rho_2 must be a number in \(0.2, 1\), got 0.1; rho_1/rho_2 has to be a cosine"
    ):
        counterexample_smallest(rho_2=0.1)
