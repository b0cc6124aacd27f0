"""Growth with the parameters: powers with their rate, bounds that hold and where they are met."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth.test_network import drawn

from attnlim.core.checks import InputError
from attnlim.depth import FunctionLoss, MomentLoss, adjoint, forward, initial_parameters
from attnlim.depth.growth import gradient_growth, state_growth

LOSS = MomentLoss(torch.tensor([0.5, -1.0, 0.2], dtype=torch.float64), factor=0.1)


def test_gradients_grow_by_the_cube_and_by_the_first_power_with_an_error_of_second_order() -> None:
    theta, x = initial_parameters(4, 2, 2, 3, n_replicas=3), drawn(3, 2, 5, 3)
    scales = [0.005, 0.01, 0.02]
    found = gradient_growth(theta, x, LOSS, scales)
    assert found.norms.shape == found.bound.shape == (3, 3, 4) and found.slopes.shape == (2, 3, 4)
    off = (found.slopes - torch.tensor([3.0, 3.0, 1.0, 1.0])).abs()
    assert float(off[0].max()) < 0.01
    # G is an odd function of s: doubling s quadruples the deviation of its slope, up to 1 % at these s
    size = torch.linalg.vector_norm(off, dim=1)
    np.testing.assert_allclose(size[1] / size[0], 4, rtol=0.03)
    # the powers of the other pair are far off
    assert bool(((found.slopes - torch.tensor([1.0, 1.0, 3.0, 3.0])).abs() > 1.9).all())


def test_the_gradients_are_those_of_the_scaled_network() -> None:
    theta, x = initial_parameters(3, 2, 2, 3, n_replicas=2), drawn(2, 4, 5, 3)
    weights = drawn(5, seed=2).exp()
    found = gradient_growth(theta, x, LOSS, [0.5, 1.5], 0.7, weights)
    share = weights / weights.sum()
    for s, norms in zip((0.5, 1.5), found.norms, strict=True):
        tokens = forward(s * theta, x, 0.7, weights)
        gradient = adjoint(s * theta, tokens, LOSS(tokens[-1], share)[1], 0.7, weights).gradient
        torch.testing.assert_close(norms, torch.linalg.vector_norm(gradient, dim=(1, 2, 4, 5)), rtol=1e-13, atol=0)
    torch.testing.assert_close(found.slopes[0], (found.norms[1] / found.norms[0]).log() / math.log(3))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.floats(0.1, 3.0), beta=st.floats(0.0, 4.0), equal=st.booleans())
def test_no_gradient_exceeds_its_bound(seed: int, size: float, beta: float, equal: bool) -> None:
    theta, x = drawn(3, 2, 2, 4, 2, 3, seed=seed, size=size), drawn(3, 2, 5, 3, seed=seed + 1)
    weights = None if equal else drawn(5, seed=seed + 2).exp()
    found = gradient_growth(theta, x, LOSS, [0.2, 1.0], beta, weights)
    assert bool((found.norms <= found.bound * (1 + 1e-12)).all())


def test_the_bounds_are_met() -> None:
    """One entry: two tokens ±R with costates ±A for query and key, equal tokens for value and output."""
    theta = torch.tensor([0.5, 2.0, 3.0, 0.7], dtype=torch.float64).view(1, 1, 4, 1, 1)
    apart, together = torch.tensor([[1.5], [-1.5]], dtype=torch.float64), torch.full((3, 1), 1.5, dtype=torch.float64)
    loss = FunctionLoss(lambda x: x.abs().sum(dim=(-2, -1)))
    for x, matrices in ((apart, [0, 1]), (together, [2, 3])):
        found = gradient_growth(theta, x, loss, [1e-4], 1.3)
        # logits of order s² from uniform attention
        torch.testing.assert_close(found.norms[0, matrices], found.bound[0, matrices], rtol=1e-6, atol=0)


def test_a_square_would_be_no_bound() -> None:
    """Negative control: with R² for R³ the first bound fails for tokens longer than 1."""
    theta = torch.ones(1, 1, 4, 1, 1, dtype=torch.float64)
    x = torch.tensor([[4.0], [-4.0]], dtype=torch.float64)
    found = gradient_growth(theta, x, FunctionLoss(lambda x: x.abs().sum(dim=(-2, -1))), [1e-3])
    assert bool((found.norms[0, :2] > found.bound[0, :2] / 4 * 3).all())


def test_no_gradient_no_slope() -> None:
    found = gradient_growth(drawn(2, 1, 4, 2, 3), drawn(1, 3), LOSS, [0.1, 0.2])  # one token: its attention is fixed
    assert bool(found.slopes[0, :2].isnan().all()) and bool(found.slopes[0, 2:].isfinite().all())
    assert found.norms[:, :2].abs().max() == 0


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    beta=st.floats(0.0, 5.0),
    causal=st.booleans(),
    residual=st.sampled_from([None, 0.3, 2.0]),
)
def test_tokens_never_leave_their_bound(seed: int, beta: float, causal: bool, residual: float | None) -> None:
    theta, x = drawn(2, 5, 2, 4, 2, 3, seed=seed), drawn(2, 3, 4, 3, seed=seed + 1)
    options: dict[str, Any] = {"causal": causal, "residual": residual}
    found = state_growth(theta, x, [0.1, 1.0, 3.0], beta, **options)
    assert found.largest.shape == found.bound.shape == (3, 6, 2, 3)
    assert bool((found.largest <= found.bound * (1 + 1e-12)).all())
    torch.testing.assert_close(found.largest[:, 0], found.bound[:, 0])
    # with post-norm no token is longer than √d behind any layer, whatever the scale
    torch.testing.assert_close(found.post_norm[:, 1:], torch.full_like(found.post_norm[:, 1:], math.sqrt(3)))
    # Grönwall's exponential is a bound of the product
    spectral = torch.linalg.matrix_norm(theta[:, :, :, 3].mT @ theta[:, :, :, 2], ord=2).sum(dim=(1, 2))
    factor = residual or 1 / 10
    exponent = factor * spectral[:, None] * torch.tensor([0.01, 1.0, 9.0]).view(3, 1, 1)
    assert bool((found.bound[:, -1] <= found.bound[:, 0] * exponent.exp() * (1 + 1e-12)).all())


@pytest.mark.parametrize("n_layers", [1, 4, 64])
def test_equal_tokens_along_a_common_direction_meet_the_bound(n_layers: int) -> None:
    theta = drawn(1, 1, 4, 2, 3).repeat(n_layers, 2, 1, 1, 1)
    output = torch.linalg.qr(drawn(3, 3, seed=1))[0][:2]
    theta[..., 2, :, :], theta[..., 3, :, :] = output, 1.5 * output
    x = 2 * output[:1].repeat(4, 1)
    found = state_growth(theta, x, [1.0, 2.0])
    torch.testing.assert_close(found.largest, found.bound, rtol=1e-13, atol=0)
    torch.testing.assert_close(found.bound[1, -1].item(), 2 * (1 + 6 / n_layers) ** n_layers, rtol=1e-12, atol=0)


def test_growth_is_exponential_in_the_square_of_the_scale_and_stops_under_post_norm() -> None:
    theta, x = torch.zeros(64, 1, 4, 2, 2, dtype=torch.float64), drawn(3, 2)
    theta[:, :, 2:] = torch.eye(2, dtype=torch.float64)
    found = state_growth(theta, x, [1.0, 2.0, 3.0])
    # ln of the growth at scale s is s² up to the discretisation's s⁴/(2L)
    rise = (found.largest[:, -1] / found.largest[:, 0]).log().numpy()
    mean = float((torch.linalg.vector_norm(x.mean(0)) / torch.linalg.vector_norm(x, dim=1).max()).log())
    assert rise[2] == pytest.approx(64 * math.log1p(9 / 64) + mean, abs=0.05)
    assert float(found.post_norm[:, -1].max()) == pytest.approx(math.sqrt(2))


def test_a_larger_residual_leaves_the_bound_of_a_smaller_one() -> None:
    """Negative control: the diffusive factor against the bound that belongs to 1/(LH)."""
    theta = torch.zeros(16, 1, 4, 2, 2, dtype=torch.float64)
    theta[:, :, 2:] = torch.eye(2, dtype=torch.float64)
    x = torch.ones(3, 2, dtype=torch.float64)
    bound = state_growth(theta, x, [1.0]).bound
    assert bool((state_growth(theta, x, [1.0], residual=0.25).largest[:, 1:] > bound[:, 1:]).all())


def test_what_leaves_the_float_range_is_no_number() -> None:
    theta = torch.full((64, 1, 4, 2, 2), 1.0, dtype=torch.float64)
    found = state_growth(theta, torch.ones(3, 2).double(), [1.0, 1e8])
    assert math.isfinite(found.largest[0, -1]) and not math.isfinite(found.largest[1, -1])
    assert found.bound[1, -1].item() == math.inf and math.isfinite(found.post_norm[1, -1])


def test_bad_scales() -> None:
    theta, x = drawn(2, 1, 4, 2, 3), drawn(4, 3)
    for scales in ([], [1.0, 1.0], [2.0, 1.0], [0.0], [math.nan]):
        with pytest.raises(InputError, match="scales must"):
            state_growth(theta, x, scales)
        with pytest.raises(InputError, match="scales must"):
            gradient_growth(theta, x, LOSS, scales)
