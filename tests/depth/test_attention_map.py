"""The attention map and its derivatives against loops, automatic differentiation and moved points."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth.test_network import drawn

from attnlim.core.checks import InputError
from attnlim.depth import naive
from attnlim.depth.attention_map import attended_covariance, attended_mean, lions_derivative

SIZES = [(1, 1), (1, 5), (4, 1), (3, 6), (5, 40)]  # d, n


def measure(width: int, n_points: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return drawn(width, seed=seed), drawn(n_points, width, seed=seed + 1), drawn(n_points, seed=seed + 2).exp()


@pytest.mark.parametrize(("width", "n_points"), SIZES)
def test_the_mean_is_what_a_head_attends_to(width: int, n_points: int) -> None:
    query, x, weights = drawn(2, 2, width), drawn(n_points, width, seed=1), drawn(n_points, seed=2).exp()
    _, z, g = naive.attend(query[0].numpy(), query[1].numpy(), x.numpy(), 1.3, weights.numpy(), False)
    found = attended_mean(torch.from_numpy(z), x, weights)
    np.testing.assert_allclose(found, g, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(("width", "n_points"), SIZES)
def test_the_derivative_in_z_is_the_covariance(width: int, n_points: int) -> None:
    z, points, weights = measure(width, n_points)
    by_autograd = torch.autograd.functional.jacobian(lambda z: attended_mean(z, points, weights), z)
    torch.testing.assert_close(attended_covariance(z, points, weights), by_autograd, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("width", "n_points"), SIZES)
def test_the_derivative_in_the_measure_moves_its_points(width: int, n_points: int) -> None:
    z, points, weights = measure(width, n_points)
    share = weights / weights.sum()
    by_autograd = torch.autograd.functional.jacobian(lambda points: attended_mean(z, points, weights), points)
    found = lions_derivative(z, points, weights)
    torch.testing.assert_close(share[:, None, None] * found, by_autograd.movedim(0, 1), rtol=1e-12, atol=1e-14)
    # and not without its density, nor without its lever
    eye = torch.eye(width, dtype=torch.float64)
    if n_points > 1:
        for wrong in (found / found.det().abs()[:, None, None], eye.expand_as(found)):
            assert not torch.allclose(share[:, None, None] * wrong, by_autograd.movedim(0, 1), rtol=1e-3)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_transported_measure_has_the_predicted_slope(seed: int) -> None:
    """Along y ↦ y + s b(y) for any field b, the slope is the integral of the derivative against b."""
    z, points, weights = measure(3, 7, seed)
    field = torch.sin(points @ drawn(3, 3, seed=seed + 3)) + 0.3
    predicted = torch.einsum("j,jab,jb->a", weights / weights.sum(), lions_derivative(z, points, weights), field)
    step = 1e-5
    ahead, behind = (attended_mean(z, points + sign * step * field, weights) for sign in (1, -1))
    # curvature gives step² times third derivatives (below a thousand here), rounding eps over step
    torch.testing.assert_close((ahead - behind) / (2 * step), predicted, rtol=1e-6, atol=1e-7)


def test_mass_that_is_added_moves_the_mean_by_the_integral_of_the_derivative() -> None:
    """∂_μ is the gradient in y of the change by a small mass at y, also where the measure has no point."""
    z, points, weights = measure(3, 6)
    share = weights / weights.sum()
    place = torch.tensor([0.4, -0.2, 0.7], dtype=torch.float64)

    def slope(y: torch.Tensor) -> torch.Tensor:
        """d/dε of γ at (1-ε)μ + εδ_y, in closed form w(y)(y - γ)."""
        density = (z @ y).exp() / (share * (points @ z).exp()).sum()
        return density * (y - attended_mean(z, points, weights))

    expected = torch.autograd.functional.jacobian(slope, place)
    torch.testing.assert_close(lions_derivative(z, points, weights, place[None])[0], expected, rtol=1e-12, atol=1e-13)
    # the closed form is the slope
    mass = 1e-6
    mixed = attended_mean(
        z, torch.cat([points, place[None]]), torch.cat([(1 - mass) * share, share.new_tensor([mass])])
    )
    torch.testing.assert_close((mixed - attended_mean(z, points, weights)) / mass, slope(place), rtol=1e-4, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), times=st.integers(2, 4))
def test_only_the_measure_matters(seed: int, times: int) -> None:
    z, points, weights = measure(3, 4, seed)
    order = torch.randperm(4 * times, generator=torch.Generator().manual_seed(seed))
    copies, shared = points.repeat(times, 1)[order], weights.repeat(times)[order]
    for function in (attended_mean, attended_covariance):
        torch.testing.assert_close(function(z, copies, shared), function(z, points, weights), rtol=1e-12, atol=1e-13)
    at = drawn(2, 3, seed=seed + 5)
    torch.testing.assert_close(
        lions_derivative(z, copies, shared, at), lions_derivative(z, points, weights, at), rtol=1e-12, atol=1e-13
    )
    # and its frame: γ turns with z and the points
    turn = torch.linalg.qr(drawn(3, 3, seed=seed + 6))[0]
    torch.testing.assert_close(
        lions_derivative(turn @ z, points @ turn.T, weights, at @ turn.T),
        turn @ lions_derivative(z, points, weights, at) @ turn.T,
        rtol=1e-11,
        atol=1e-12,
    )


def test_a_huge_z_takes_the_farthest_point() -> None:
    z, points, _ = measure(3, 6)
    first = points[(points @ z).argmax()]
    for size in (1e3, 1e6, 1e300):
        torch.testing.assert_close(attended_mean(size * z, points), first, rtol=0, atol=0)
        assert bool((attended_covariance(size * z, points) == 0).all())
    # there the density is n, elsewhere 0: γ moves with that point
    derivative = lions_derivative(1e6 * z, points)
    assert bool(torch.isfinite(derivative).all())
    eye = torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(derivative.mean(dim=0), eye, rtol=1e-9, atol=1e-9)


def test_leading_axes_broadcast() -> None:
    z, points = drawn(2, 5, 3), drawn(5, 7, 3, seed=1)
    at = drawn(2, 3, seed=2)
    derivative = lions_derivative(z, points, at=at)
    assert derivative.shape == (2, 5, 2, 3, 3)
    torch.testing.assert_close(derivative[1, 4], lions_derivative(z[1, 4], points[4], at=at))
    torch.testing.assert_close(attended_mean(z, points)[1, 4], attended_mean(z[1, 4], points[4]))


def test_bad_arguments() -> None:
    z, points, weights = measure(3, 4)
    for bad, message in (
        ((z[:2], points), "points must have shape"),
        ((z, points[0]), "points must have shape"),
        ((z, points[:0]), "points must have shape"),
        ((z * torch.nan, points), "z must be finite"),
        ((z, points.long()), "float32 or float64"),
        ((z, points, -weights), "above 0"),
        ((z, points, weights[:3]), "weights must have shape"),
    ):
        with pytest.raises(InputError, match=message):
            attended_mean(*bad)
    with pytest.raises(InputError, match="at must have shape"):
        lions_derivative(z, points, at=z)
