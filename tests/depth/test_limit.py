"""The limit: against networks that must converge to it at a known rate, and against finite differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnlim.core.checks import InputError
from attnlim.depth import (
    AdamW,
    BlockwiseAdamW,
    MomentLoss,
    adjoint,
    forward,
    initial_parameters,
    limit_flow,
    limit_particles,
    limit_training,
    training,
)

LOSS = MomentLoss(torch.linspace(-1, 1, 3, dtype=torch.float64), factor=0.02)


def drawn_tokens(n_sequences: int = 2, n_tokens: int = 5, width: int = 3, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n_sequences, n_tokens, width)))


def few_heads(n_heads: int = 4, seed: int = 0, scale: float = 0.8) -> Tensor:
    """(n_heads, 4, 2, 3), a measure of few atoms whose drift is far from zero."""
    return scale * initial_parameters(1, n_heads, 2, 3, seed=seed)[0]


def everywhere(heads: Tensor, n: int) -> Tensor:
    return heads.expand(n, *heads.shape).contiguous()


def test_centred_parameters_are_the_identity() -> None:
    x = drawn_tokens(width=4)
    flow = limit_flow(limit_particles(256, 3, 4, 4), x, beta=2.0)
    # 256 terms of opposite sign in pairs, each rounded alike
    assert (flow.tokens(np.linspace(0, 1, 5)) - x).abs().max() < 1e-14
    alone = limit_flow(limit_particles(256, 3, 4, 4, orbits=False), x, beta=2.0)
    assert (alone.tokens(1.0) - x).abs().max() > 1e-2


@pytest.mark.parametrize("weighted", [False, True])
def test_networks_of_one_measure_converge_at_first_order(weighted: bool) -> None:
    heads, x = few_heads(), drawn_tokens()
    weights = torch.tensor([0.1, 0.3, 0.2, 0.1, 0.3], dtype=torch.float64) if weighted else None
    flow = limit_flow(everywhere(heads, 8), x, beta=1.3, weights=weights, tolerance=1e-13)
    _, terminal = LOSS(flow.tokens(1.0)[0], flow.log_weights.exp())
    flow = flow.with_adjoint(terminal)
    found = []
    for n_layers in (64, 128, 256):
        theta = everywhere(heads, n_layers)
        tokens = forward(theta, x, 1.3, weights)
        _, end = LOSS(tokens[-1], flow.log_weights.exp())
        costates = adjoint(theta, tokens, end, 1.3, weights)
        half = n_layers // 2
        middle = flow.gradient(everywhere(heads, 1), [0.5])[0]
        found.append(
            [
                (tokens[-1] - flow.tokens(1.0)[0]).abs().max(),
                (tokens[half] - flow.tokens(0.5)[0]).abs().max(),
                (costates.adjoint[half] - flow.adjoint(0.5)[0]).abs().max(),
                (costates.adjoint[0] - flow.adjoint(0.0)[0]).abs().max(),
                (costates.gradient[half] - middle).abs().max(),
            ]
        )
    rates = np.log2(np.array(found)[:-1] / np.array(found)[1:])
    # first order with a remainder of second order, 1/64 of the difference at the coarsest
    np.testing.assert_allclose(rates[1], 1.0, atol=0.06)
    # and what is left after one extrapolation is of second order: the limit is the same, not another one nearby
    coarse, fine = (forward(everywhere(heads, n), x, 1.3, weights)[-1] for n in (128, 256))
    assert (2 * fine - coarse - flow.tokens(1.0)[0]).abs().max() < 4 / 128**2


def test_more_nodes_settle_spectrally() -> None:
    heads, x = few_heads(), drawn_tokens()
    exact = limit_flow(everywhere(heads, 12), x, tolerance=1e-14).tokens(1.0)
    errors = [
        float((limit_flow(everywhere(heads, n), x, tolerance=1e-14).tokens(1.0) - exact).abs().max())
        for n in (1, 2, 3, 4)
    ]
    assert errors[0] > 30 * errors[1] > 900 * errors[2], errors
    assert errors[3] < 1e-6


def test_gradients_are_derivatives_of_the_loss() -> None:
    particles = everywhere(few_heads(), 7).clone()
    x = drawn_tokens()

    def loss_of(particles: Tensor) -> tuple[float, Any]:
        flow = limit_flow(particles, x, tolerance=1e-14)
        value, terminal = LOSS(flow.tokens(1.0)[0], flow.log_weights.exp())
        return float(value.mean()), flow.with_adjoint(terminal)

    _, flow = loss_of(particles)
    weights = np.polynomial.legendre.leggauss(7)[1] / 2
    rng, h = np.random.default_rng(1), 1e-5
    for node in (0, 3, 6):
        direction = torch.zeros_like(particles)
        direction[node] = torch.from_numpy(rng.normal(size=particles.shape[1:]))
        numeric = (loss_of(particles + h * direction)[0] - loss_of(particles - h * direction)[0]) / (2 * h)
        # a particle's share of the measure is its node's weight over the number of particles
        predicted = float((flow.gradients * direction).sum()) * weights[node] / particles.shape[1]
        # moving one node alone makes ν rough in t: collocation is exact in the weights, not in the bump
        assert numeric == pytest.approx(predicted, rel=0.02)
    everywhere_alike = torch.from_numpy(rng.normal(size=particles.shape[1:])).expand_as(particles)
    numeric = (loss_of(particles + h * everywhere_alike)[0] - loss_of(particles - h * everywhere_alike)[0]) / (2 * h)
    of_node = (flow.gradients * everywhere_alike).sum(dim=(1, 2, 3, 4)).numpy() / particles.shape[1]
    # smooth in t: spectral accuracy of 7 nodes against differences' h² and rounding 1e-16/h
    assert numeric == pytest.approx(float(weights @ of_node), rel=1e-7)


@pytest.mark.parametrize("kind", [AdamW, BlockwiseAdamW])
def test_training_of_one_measure_converges_at_first_order(kind: type[AdamW]) -> None:
    heads, x = few_heads(), drawn_tokens()

    # a large eps keeps Adam's step smooth in the gradient
    def optimiser(params: Any, n_layers: int, n_heads: int) -> AdamW:
        return kind(params, n_layers, n_heads, lr=0.05, betas=(0.9, 0.99), eps=1.0, weight_decay=0.1)

    *_, limit = limit_training(everywhere(heads, 6), x, LOSS, optimiser, 4, tolerance=1e-12)
    errors = []
    for n_layers in (16, 32, 64):
        *_, run = training(everywhere(heads, n_layers), x, LOSS, optimiser, 4)
        errors.append(abs(float(run.loss.mean()) - limit.loss))
    assert limit.step == 4
    # first order, with a remainder of 1/L of it
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(2, rel=0.05)
    assert limit.certificate.update <= 1 and limit.certificate.parameter <= 1


def test_independent_heads_converge_to_the_trained_limit() -> None:
    x = drawn_tokens()

    def optimiser(params: Any, n_layers: int, n_heads: int) -> AdamW:
        return AdamW(params, n_layers, n_heads, lr=0.1, eps=1e-2, weight_decay=0.1)

    limits = [
        limit_training(limit_particles(2048, 3, 2, 3, seed=seed), x, LOSS, optimiser, 2, tolerance=1e-8)
        for seed in (0, 1)
    ]
    *_, limit = limits[0]
    *_, other = limits[1]
    errors = []
    for size in (4, 16):
        theta = initial_parameters(size, size, 2, 3, n_replicas=24)
        *_, run = training(theta, x[None], LOSS, optimiser, 2)
        errors.append((run.tokens[-1] - limit.flow.tokens(1.0)).square().mean(dim=(1, 2, 3)))
    ratio = float((errors[0].mean() / errors[1].mean()).sqrt())
    # LH grows 16-fold, so the error falls 4-fold; the mean of 24 squares scatters by √(2/24)/2 or so on each side
    assert ratio == pytest.approx(4, rel=0.6)
    # two sets of particles differ by √2 of what one is off by
    own = (limit.flow.tokens(1.0) - other.flow.tokens(1.0)).square().mean().div(2).sqrt()
    assert own < float(errors[1].mean().sqrt()) / 5


def test_replicating_tokens_changes_nothing() -> None:
    x = drawn_tokens()
    particles = limit_particles(16, 3, 2, 3, orbits=False)
    once, twice = limit_flow(particles, x), limit_flow(particles, torch.cat([x, x], dim=1))
    np.testing.assert_allclose(twice.tokens(1.0)[:, :, :5], once.tokens(1.0), rtol=1e-12, atol=1e-13)


def test_orbits_keep_the_law() -> None:
    particles = limit_particles(2000, 1, 3, 2, seed=3)[0]
    bound = math.sqrt(6 / 5)
    assert float(particles.abs().max()) <= bound
    # variance of a uniform law, known to √(4/5/2000)/2 or so
    assert float(particles.square().mean()) == pytest.approx(bound**2 / 3, rel=0.03)
    assert (particles[1000:, :3] == particles[:1000, :3]).all() and (particles[1000:, 3] == -particles[:1000, 3]).all()
    assert (limit_particles(4, 2, 2, 2, shared=True)[0] == limit_particles(4, 2, 2, 2, shared=True)[1]).all()
    assert (limit_particles(4, 2, 2, 2)[0] != limit_particles(4, 2, 2, 2)[1]).any()


def test_bad_input() -> None:
    x = drawn_tokens()
    with pytest.raises(InputError, match="n_particles must be even"):
        limit_particles(3, 2, 2, 3)
    with pytest.raises(InputError, match="particles must have shape"):
        limit_flow(initial_parameters(1, 1, 2, 3, n_replicas=2), x)
    with pytest.raises(InputError, match="must settle within 200 iterations"):
        limit_flow(1e3 * limit_particles(2, 2, 2, 3, orbits=False), x, tolerance=1e-12)
    flow = limit_flow(limit_particles(2, 2, 2, 3), x)
    with pytest.raises(InputError, match=r"call with_adjoint\(terminal\) first"):
        flow.adjoint(0.5)
    with pytest.raises(InputError, match="terminal must be finite of shape"):
        flow.with_adjoint(torch.full_like(x, torch.nan))
    with pytest.raises(InputError, match="parameters or tokens are too large at step 0: the run has diverged"):
        list(
            limit_training(
                limit_particles(2, 2, 2, 3), 1e200 * x, MomentLoss(LOSS.target), lambda p, n, h: AdamW(p, n, h), 1
            )
        )
