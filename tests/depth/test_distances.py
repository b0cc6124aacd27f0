"""Distances of tokens, adjoint and heads, and the worst inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attnlim.core.checks import InputError
from attnlim.depth import (
    SGD,
    AdamW,
    MomentLoss,
    ShadowHeads,
    adjoint,
    adversary,
    forward,
    head_distance,
    initial_parameters,
    limit_flow,
    limit_particles,
    limit_training,
    path_distance,
    training,
)

LOSS = MomentLoss(torch.linspace(-1, 1, 3, dtype=torch.float64))
X = torch.from_numpy(np.random.default_rng(2).normal(size=(2, 4, 3)))


def optimiser(params: Any, n_layers: int, n_heads: int) -> AdamW:
    return AdamW(params, n_layers, n_heads, lr=0.05, betas=(0.9, 0.99), eps=0.5, weight_decay=0.1)


def test_against_loops() -> None:
    theta = initial_parameters(5, 2, 2, 3, n_replicas=2)
    tokens = forward(theta, X[None])
    _, end = LOSS(tokens[-1], torch.full((4,), 0.25, dtype=torch.float64))
    costates = adjoint(theta, tokens, end).adjoint
    flow = limit_flow(limit_particles(6, 3, 2, 3, orbits=False), X)
    flow = flow.with_adjoint(LOSS(flow.tokens(1.0)[0], flow.log_weights.exp())[1])
    found = path_distance(tokens, flow, costates)
    for m in range(2):
        x_off, a_off, both = [], [], []
        for r in range(6):
            limit_x, limit_a = flow.tokens(r / 5)[0], flow.adjoint(r / 5)[0]
            for b in range(2):
                for i in range(4):
                    x_off.append(float((tokens[r, m, b, i] - limit_x[b, i]).square().sum()))
                    a_off.append(float((costates[r, m, b, i] - limit_a[b, i]).square().sum()))
                    both.append(x_off[-1] + a_off[-1])
        assert float(found.sup_tokens[m]) == pytest.approx(max(x_off), rel=1e-12)
        assert float(found.sup_adjoint[m]) == pytest.approx(max(a_off), rel=1e-12)
        assert float(found.sup_both[m]) == pytest.approx(max(both), rel=1e-12)
        by_node = np.reshape(x_off, (6, 8)).mean(axis=1)
        assert float(found.rms_tokens[m]) == pytest.approx(by_node.max(), rel=1e-12)
        assert float(found.end_tokens[m]) == pytest.approx(by_node[-1], rel=1e-12)
        dense = max(
            float((tokens[min(int(5 * t), 5), m] - flow.tokens(t)[0]).square().sum(dim=-1).max())
            for t in np.linspace(0, 1, 501)
        )
        # ends and middles of layers stand for all t: never above, and below by the curvature inside a half layer
        assert dense * 0.98 <= float(found.sup_continuous[m]) <= dense * 1.02
    assert bool(path_distance(tokens, flow).sup_both.isnan().all())


def test_staircase_adds_a_drift_over_depth() -> None:
    heads = 0.8 * initial_parameters(1, 4, 2, 3)[0]
    flow = limit_flow(heads.expand(8, *heads.shape).contiguous(), X)
    speed = float(flow.drift.norm(dim=-1).max())
    for depth in (16, 64):
        found = path_distance(forward(heads.expand(1, depth, *heads.shape), X[None]), flow)
        gap = float(found.sup_continuous.sqrt() - found.sup_tokens.sqrt())
        # a token moves by its speed over L while the staircase stands, against what it is off at the node anyhow
        assert 0.6 * speed / depth < gap < 1.1 * speed / depth


def test_worst_input_of_a_linear_network() -> None:
    # without queries attention is uniform, x' = x + W mean(x): the limit is the identity and the sup is |W| R
    theta = initial_parameters(1, 1, 3, 3, n_replicas=3)
    theta[:, :, :, 0] = 0
    largest = torch.linalg.matrix_norm(theta[:, 0, 0, 3].mT @ theta[:, 0, 0, 2], ord=2)
    found = adversary(theta, limit_particles(2, 1, 3, 3), n_tokens=4, radius=2.0, n_steps=60)
    assert (found.sup_tokens.sqrt() <= 2 * largest * (1 + 1e-12)).all()
    # steps end at a hundredth of their start, and the sup is flat where it is attained
    np.testing.assert_allclose(found.sup_tokens.sqrt(), 2 * largest, rtol=0.01)
    assert (found.random < found.sup_tokens).all()
    assert (found.inputs.norm(dim=-1) <= 2 + 1e-12).all()


def test_worst_input_against_a_trained_limit() -> None:
    *_, limit = limit_training(limit_particles(64, 3, 2, 3), X, LOSS, optimiser, 3)
    *_, run = training(initial_parameters(4, 2, 2, 3, n_replicas=2), X[None], LOSS, optimiser, 3)
    found = adversary(run.theta, limit.particles, 4, 3.0, n_starts=3, n_steps=20)
    many = adversary(run.theta, limit.particles, 4, 3.0, n_starts=200, n_steps=0, seed=1)
    assert (found.sup_tokens > many.sup_tokens).all()
    again = path_distance(
        forward(run.theta, found.inputs[:, None])[:, :1], limit_flow(limit.particles, found.inputs[:1])
    )
    assert float(again.sup_tokens[0]) == pytest.approx(float(found.sup_tokens[0]), rel=1e-6)


def test_shadow_heads_follow_the_limit() -> None:
    heads = 0.8 * initial_parameters(1, 4, 2, 3)[0]
    distances = []
    for n_layers in (8, 16, 32):
        theta = heads.expand(n_layers, *heads.shape).contiguous()
        shadows = ShadowHeads(theta, optimiser)
        limit = limit_training(heads.expand(6, *heads.shape).contiguous(), X, LOSS, optimiser, 3)
        for run, state in zip(training(theta, X, LOSS, optimiser, 3), limit, strict=True):
            found = head_distance(run.theta, shadows.theta)
            if run.step == 0:
                assert float(found.coupling) == 0
            if run.step < 3:
                shadows.follow(state.flow)
        distances.append(float(found.coupling.sqrt()))
        assert 0 < float(found.wasserstein) <= float(found.coupling) * (1 + 1e-12)
    # the same measure at every depth: gradients differ by O(1/L), and so do the heads
    assert distances[0] / distances[1] == pytest.approx(2, rel=0.1)
    assert distances[1] / distances[2] == pytest.approx(2, rel=0.05)


def test_every_layer_follows_at_its_own_depth() -> None:
    theta = initial_parameters(4, 2, 2, 3)
    [state] = limit_training(limit_particles(16, 3, 2, 3, orbits=False), X, LOSS, optimiser, 0)
    shadows = ShadowHeads(theta, lambda params, n_layers, n_heads: SGD(params, n_layers, n_heads, lr=0.5))
    shadows.follow(state.flow)
    for r in range(4):
        gradient = state.flow.gradient(theta[r][None], [r / 4])[0]
        np.testing.assert_allclose(shadows.theta[r], theta[r] - 0.5 * gradient, rtol=1e-12, atol=1e-14)


def test_shadows_of_replicas_are_those_of_each() -> None:
    theta = initial_parameters(3, 2, 2, 3, n_replicas=2)
    [state] = limit_training(limit_particles(16, 2, 2, 3), X, LOSS, optimiser, 0)
    together = ShadowHeads(theta, optimiser)
    together.follow(state.flow)
    for m in range(2):
        alone = ShadowHeads(theta[m], optimiser)
        alone.follow(state.flow)
        np.testing.assert_allclose(together.theta[m], alone.theta, rtol=1e-12)


def test_exact_distance_sees_through_an_exchange() -> None:
    theta = initial_parameters(2, 3, 2, 3)
    exchanged = theta.flip(dims=(1,))
    found = head_distance(theta, exchanged)
    assert float(found.wasserstein) < 1e-20 < 1 < float(found.coupling)


def test_bad_input() -> None:
    flow = limit_flow(limit_particles(2, 1, 2, 3), X)
    with pytest.raises(InputError, match="tokens must have shape"):
        path_distance(torch.zeros(3, 1, 2, 5, 3, dtype=torch.float64), flow)
    with pytest.raises(InputError, match="shadows must have the shape of theta"):
        head_distance(torch.zeros(1, 2, 4, 1, 1), torch.zeros(2, 2, 4, 1, 1))
    with pytest.raises(InputError, match="radius"):
        adversary(initial_parameters(1, 1, 2, 3, n_replicas=1), limit_particles(2, 1, 2, 3), 4, 0.0)
