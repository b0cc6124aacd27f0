"""Derivatives of the drift against automatic differentiation, and their Lipschitz ratios where they are known."""

from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
import pytest
import torch
from tests.depth.test_network import drawn

from attnlim.core.checks import InputError
from attnlim.depth import forward
from attnlim.depth.drift_derivatives import drift_gradient, drift_lions_derivative, drift_ratios


def drift(theta: torch.Tensor, x: torch.Tensor, points: torch.Tensor, beta: float) -> torch.Tensor:
    """Γ in a loop over heads."""
    total = torch.zeros_like(x)
    for query, key, value, output in theta:
        attention = torch.softmax(beta * points @ key.T @ query @ x, dim=0)
        total = total + output.T @ value @ (attention @ points)
    return total / len(theta)


@pytest.mark.parametrize(("n_heads", "head_dim", "width", "n_points"), [(1, 1, 1, 1), (3, 2, 4, 5), (2, 4, 3, 7)])
def test_derivatives_equal_automatic_differentiation(n_heads: int, head_dim: int, width: int, n_points: int) -> None:
    theta, x, points = drawn(n_heads, 4, head_dim, width), drawn(width, seed=1), drawn(n_points, width, seed=2)
    in_x = torch.autograd.functional.jacobian(lambda x: drift(theta, x, points, 1.3), x)
    torch.testing.assert_close(drift_gradient(theta, x, points, 1.3), in_x, rtol=1e-12, atol=1e-14)
    in_points = torch.autograd.functional.jacobian(lambda points: drift(theta, x, points, 1.3), points)
    found = drift_lions_derivative(theta, x, points, points, 1.3)
    torch.testing.assert_close(found / n_points, in_points.movedim(0, 1), rtol=1e-12, atol=1e-14)


def test_the_drift_is_the_networks() -> None:
    """A layer moves its tokens by Γ/L: so does its derivative when all tokens move."""
    theta, x = drawn(1, 3, 4, 2, 3), drawn(5, 3, seed=1)
    step = 1e-6 * drawn(5, 3, seed=2)
    moved = (forward(theta, x + step)[1] - forward(theta, x - step)[1]) / 2 - step
    predicted = (drift_gradient(theta[0], x, x) @ step[..., None])[..., 0] + torch.einsum(
        "ijab,jb->ia", drift_lions_derivative(theta[0], x, x, x), step
    ) / 5
    # second differences: step² of relative error, eps/step of rounding
    torch.testing.assert_close(moved, predicted, rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("reach", [0.5, 3.0])
def test_one_dimension_has_the_third_moment_as_its_constant(reach: float) -> None:
    """∇_xΓ = ov·βkq·Var(w_z), so its slope in x is ov (βkq)² κ_3, and |κ_3| ≤ (2R)³/(6√3) on [-R, R]."""
    theta = torch.tensor([reach, 1.0, 0.7, 0.9], dtype=torch.float64).view(1, 4, 1, 1)
    found = drift_ratios(theta, 1.0, n_points=2, n_pairs=2000)
    constant = 0.63 * reach**2 * 8 / (6 * math.sqrt(3))
    assert constant / 2 < found.gradient_in_token <= constant
    # a ball twice as large has a constant eight times as large, and breaks the one for this ball
    assert constant < drift_ratios(theta, 2.0, n_points=2, n_pairs=2000).gradient_in_token <= 8 * constant


def test_ratios_at_small_parameters_grow_by_their_powers() -> None:
    """z is of order s², O^T V too: Cov does not depend on x at first, which costs another s²."""
    theta = drawn(3, 4, 2, 3)
    small, double = (np.array(astuple(drift_ratios(s * theta, 1.0))) for s in (0.01, 0.02))
    # the next order is s² smaller
    assert np.log2(double / small) == pytest.approx([6, 4, 4, 4, 4], abs=5e-3)


def test_uniform_attention_has_constant_derivatives() -> None:
    theta = drawn(2, 4, 2, 3)
    assert astuple(drift_ratios(theta, 1.0, beta=0.0)) == (0.0,) * 5
    assert min(astuple(drift_ratios(theta, 1.0))) > 0


def test_ratios_are_those_of_an_orthogonal_frame_and_of_the_average_over_heads() -> None:
    theta = drawn(2, 4, 2, 3)
    found = drift_ratios(theta, 1.0)
    assert drift_ratios(theta.repeat(3, 1, 1, 1), 1.0).lions_in_token == pytest.approx(found.lions_in_token, rel=1e-12)
    flipped = theta.clone()
    flipped[:, 3] *= -1
    assert astuple(drift_ratios(flipped, 1.0)) == astuple(found)
    # more pairs see at least as much, other seeds other pairs
    assert astuple(drift_ratios(theta, 1.0, seed=1)) != astuple(found)
    # heads that cancel have no drift
    assert max(astuple(drift_ratios(torch.cat([theta, flipped]), 1.0))) < 1e-9


def test_bad_arguments() -> None:
    theta, x = drawn(2, 4, 2, 3), drawn(5, 3)
    with pytest.raises(InputError, match="theta must have shape"):
        drift_gradient(theta[None], x[0], x)
    with pytest.raises(InputError, match="theta must have shape"):
        drift_gradient(theta, x[0, :2], x)
    with pytest.raises(InputError, match="theta must be finite"):
        drift_ratios(theta * math.nan, 1.0)
    with pytest.raises(InputError, match="radius"):
        drift_ratios(theta, 0.0)
    with pytest.raises(InputError, match="beta"):
        drift_ratios(theta, 1.0, beta=-1.0)
