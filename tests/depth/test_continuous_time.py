"""The continuous-time extension: which layer a time belongs to, and what it pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnlim.core.checks import InputError
from attnlim.depth import ContinuousTime, MomentLoss, adjoint, forward, initial_parameters

L = 6


def network(n_layers: int = L) -> tuple[ContinuousTime, torch.Tensor]:
    theta = initial_parameters(n_layers, 2, 2, 3, law="uniform", seed=4)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 5, 3)))
    tokens = forward(theta, x)
    _, end = MomentLoss(torch.ones(3, dtype=torch.float64))(tokens[-1], torch.full((5,), 0.2, dtype=torch.float64))
    found = adjoint(theta, tokens, end)
    return ContinuousTime(theta, tokens, found.adjoint), found.gradient


@pytest.mark.parametrize("n_layers", [1, 3, 6, 7, 10, 49])
def test_sides_of_every_node(n_layers: int) -> None:
    made, _ = network(n_layers)
    for r in range(n_layers + 1):
        # r / L is rarely exact in binary
        assert (made.tokens_at([r / n_layers])[0] == made.tokens[r]).all()
        if r > 0:
            assert (made.adjoint_at([r / n_layers])[0] == made.adjoint[r]).all()
        if r < n_layers:
            assert (made.heads_at([r / n_layers])[0] == made.theta[r]).all()
            inside = (r + 0.4) / n_layers
            assert (made.tokens_at([inside])[0] == made.tokens[r]).all()
            assert (made.adjoint_at([inside])[0] == made.adjoint[r + 1]).all()
            assert (made.heads_at([inside])[0] == made.theta[r]).all()


def test_gradient_inside_a_layer_is_the_networks_own() -> None:
    made, gradient = network()
    inside = (np.arange(L) + 0.5) / L
    np.testing.assert_allclose(made.gradient_at(inside), gradient, rtol=1e-12, atol=1e-14)
    # at a node the same formula pairs x^r with a^r
    at_nodes = made.gradient_at(np.arange(1, L) / L)
    assert (at_nodes - gradient[1:]).abs().max() > 1e-3


def test_gradient_at_a_node_is_off_by_a_layer() -> None:
    off = []
    for n_layers in (16, 32):
        theta = torch.stack([initial_parameters(1, 2, 2, 3, law="uniform", seed=4)[0]] * n_layers)
        x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 5, 3)))
        tokens = forward(theta, x)
        _, end = MomentLoss(torch.ones(3, dtype=torch.float64))(tokens[-1], torch.full((5,), 0.2, dtype=torch.float64))
        found = adjoint(theta, tokens, end)
        at_node = ContinuousTime(theta, tokens, found.adjoint).gradient_at([0.5])
        off.append(float((at_node[0] - found.gradient[n_layers // 2]).abs().max()))
    # an error of O(1/L): half as large at twice the depth
    assert off[0] / off[1] == pytest.approx(2, rel=0.15)


def test_what_is_not_defined() -> None:
    made, _ = network()
    with pytest.raises(InputError, match=r"t must lie in \(0, 1\]"):
        made.adjoint_at([0.0])
    with pytest.raises(InputError, match=r"t must lie in \[0, 1\)"):
        made.heads_at([1.0])
    with pytest.raises(InputError, match=r"t must lie in \[0, 1\]"):
        made.tokens_at([np.nan])
    with pytest.raises(InputError, match="theta must have shape"):
        ContinuousTime(made.theta, made.tokens[:-1], made.adjoint)
