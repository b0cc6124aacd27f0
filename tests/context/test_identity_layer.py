"""The streamed layer against its twin, at odd sizes and any tile."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlim.context import layer, naive, simplex_step, simplex_tokens
from attnlim.context.attending import STACKED, WIDE, boltzmann
from attnlim.core.checks import InputError


def normal_tokens(n: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    shifted = torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.3
    return shifted.to(dtype)


@pytest.mark.parametrize(("n", "d"), [(2, 1), (7, 1), (63, 5), (100, 32), (33, 63)])
@pytest.mark.parametrize(("alpha", "causal"), [(0.0, False), (0.6, True)])
def test_equals_its_twin(n: int, d: int, alpha: float, causal: bool) -> None:
    x, betas = normal_tokens(n, d), [0.0, 1.5, 3.0, 4.5, 40.0]
    found = layer(x, betas, alpha, causal, tile=(13, 17))
    for k, beta in enumerate(betas):
        # double precision on outputs of size about 1; the exponents of β = 40 lose 40 eps
        np.testing.assert_allclose(found[k], naive.layer(x.numpy(), beta, alpha, causal), rtol=0, atol=1e-13)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("betas", [[1.5 * k for k in range(20)], [0.0, 1.0, 7.0, 9.0]])
def test_wide_tokens_equal_the_twin(betas: list[float], causal: bool) -> None:
    """Weights of many β make one product there: an even grid longer than the stack, and one that is not even."""
    assert STACKED < 20 and WIDE <= 300
    x = normal_tokens(19, 300)
    found = layer(x, betas, 0.6, causal, tile=(8, 7))
    for k, beta in enumerate(betas):
        np.testing.assert_allclose(found[k], naive.layer(x.numpy(), beta, 0.6, causal), rtol=0, atol=1e-13)


@pytest.mark.parametrize("tile", [(1, 1), (1, 63), (7, 5), (63, 63), (1000, 1000)])
def test_the_tile_changes_nothing_but_rounding(tile: tuple[int, int]) -> None:
    x = normal_tokens(63, 5)
    for causal in (False, True):
        torch.testing.assert_close(layer(x, [2.0, 9.0], 0.5, causal, tile=tile), layer(x, [2.0, 9.0], 0.5, causal))


def test_one_beta_and_a_sequence() -> None:
    x = normal_tokens(20, 4)
    assert layer(x, 3.0).shape == (20, 4) and layer(x, [3.0]).shape == (1, 20, 4)
    torch.testing.assert_close(layer(x, [1.0, 3.0])[1], layer(x, 3.0))
    assert layer(x.float(), 3.0).dtype == torch.float32


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    start=st.floats(0, 20),
    steps=st.lists(st.sampled_from([0.25, 3.0]), min_size=1, max_size=8) | st.just([0.25] * 12),
)
def test_any_grid_of_betas(seed: int, start: float, steps: list[float]) -> None:
    """Equal steps take products, others exponentials: the weights are the same."""
    rising = [start, *(start + np.cumsum(steps)).tolist()]
    tile = torch.rand(5, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for betas in (rising, rising[::-1]):
        found = [weights.clone() for weights in boltzmann(tile, betas, torch.empty(2, 5, 7, dtype=tile.dtype))]
        for beta, weights in zip(betas, found, strict=True):
            torch.testing.assert_close(weights, torch.exp(-beta * tile), rtol=1e-13, atol=0)


@pytest.mark.parametrize("gamma", [0.5, 1.4, 2.0, 3.0])
def test_a_simplex_stays_a_simplex(gamma: float) -> None:
    n, rho = 50, 0.5
    after = layer(simplex_tokens(n, rho, q=2.0), gamma * math.log(n), alpha=0.7)
    step = simplex_step(n, rho, gamma=gamma, q=2.0, alpha=0.7)
    gram = after @ after.T / step.q
    target = torch.full((n, n), step.rho, dtype=torch.float64).fill_diagonal_(1.0)
    torch.testing.assert_close(gram, target, rtol=0, atol=1e-13)


def test_tokens_that_nearly_coincide_keep_their_digits() -> None:
    """At 1 - ρ = 1e-12 a Gram matrix has four digits left; half distances have all of them."""
    n, one_minus_rho = 20, 1e-12
    x = simplex_tokens(n, 1 - one_minus_rho)
    rho = 1 - one_minus_rho
    gamma = 1.0 / (1 - rho)
    after = layer(x, gamma * math.log(n))
    step = simplex_step(n, rho, gamma=gamma)
    half_distance = float((after[3] - after[7]).square().sum() / 2 / step.q)
    # the tokens' own coordinates hold their differences of 1e-6 to 1e-10
    assert half_distance == pytest.approx(step.one_minus_rho, rel=1e-6)


def test_float32_is_within_a_few_eps_of_float64() -> None:
    x = normal_tokens(200, 16, dtype=torch.float32)
    for beta in (1.0, 10.0, 60.0):
        difference = (layer(x, beta).double() - layer(x.double(), beta)).abs().max()
        assert float(difference) < 8 * torch.finfo(torch.float32).eps


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 40), d=st.integers(1, 6), beta=st.floats(0, 50))
def test_permuting_and_rotating_tokens(seed: int, n: int, d: int, beta: float) -> None:
    x = normal_tokens(n, d, seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    rotation, _ = torch.linalg.qr(normal_tokens(d, d, seed + 1))
    torch.testing.assert_close(layer(x[order] @ rotation, beta, 0.3), layer(x, beta, 0.3)[order] @ rotation)


def test_the_causal_layer_depends_on_the_order() -> None:
    """Negative control of the test above."""
    x = normal_tokens(30, 4)
    assert not torch.allclose(layer(x.flip(0), 3.0, causal=True), layer(x, 3.0, causal=True).flip(0))


@pytest.mark.parametrize(
    ("beta", "alpha", "message"),
    [(-1.0, 0.0, "beta must be"), (1.0, -0.1, "alpha must be"), (math.nan, 0.0, "beta must be"), (1.0, math.nan, "alpha must be")],
)  # fmt: skip
def test_bad_numbers(beta: float, alpha: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        layer(normal_tokens(5, 2), beta, alpha)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(3, 2), "zero norm at token 0"),
        (torch.tensor([[1.0, math.nan], [1.0, 1.0]]), "finite"),
        (torch.ones(1, 2), "n >= 2"),
        (torch.ones(3, 2, dtype=torch.int64), "float32 or float64"),
    ],
)
def test_bad_tokens(x: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        layer(x, 1.0)
