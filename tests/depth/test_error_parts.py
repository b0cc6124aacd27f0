"""The error taken apart: parts that sum, a martingale, and ratios that training keeps bounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attnlim.core.checks import InputError
from attnlim.core.regression import slope
from attnlim.depth import (
    AdamW,
    LimitState,
    MomentLoss,
    ShadowHeads,
    StabilityMeter,
    TrainingState,
    block_bound,
    error_stack,
    forward,
    gauss_nodes,
    initial_parameters,
    limit_flow,
    limit_particles,
    limit_training,
    training,
)

LOSS = MomentLoss(torch.linspace(-1, 1, 3, dtype=torch.float64))
X = torch.from_numpy(np.random.default_rng(2).normal(size=(2, 4, 3)))


def optimiser(params: Any, n_layers: int, n_heads: int, weight_decay: float = 0.1) -> AdamW:
    return AdamW(params, n_layers, n_heads, lr=0.1, eps=0.05, weight_decay=weight_decay)


def decaying(params: Any, n_layers: int, n_heads: int) -> AdamW:
    """Forgets within five steps, so that twenty-four are many."""
    return optimiser(params, n_layers, n_heads, 2.0)


def trained(
    n_layers: int, n_heads: int, n_replicas: int, n_steps: int, shared: bool = True, n_particles: int = 512
) -> tuple[TrainingState, torch.Tensor, LimitState]:
    theta = initial_parameters(n_layers, n_heads, 2, 3, n_replicas=n_replicas)
    shadows = ShadowHeads(theta, optimiser)
    limit = limit_training(limit_particles(n_particles, 3, 2, 3, shared=shared), X, LOSS, optimiser, n_steps)
    for run, state in zip(training(theta, X[None], LOSS, optimiser, n_steps), limit, strict=True):
        if run.step < n_steps:
            shadows.follow(state.flow)
    return run, shadows.theta, state


@pytest.mark.parametrize("shared", [True, False])
def test_parts_sum_to_the_error(shared: bool) -> None:
    run, shadows, limit = trained(6, 2, 3, 3, shared)
    stack = error_stack(run.theta, shadows, run.tokens, limit.flow)
    error = limit.flow.tokens(np.arange(7) / 6)[:, None] - run.tokens
    np.testing.assert_allclose(stack.total, error, atol=1e-13)
    assert min(float(part[-1].abs().max()) for part in vars(stack).values()) > 1e-5


def test_martingale_has_mean_zero_increments() -> None:
    run, shadows, limit = trained(3, 1, 600, 2, n_particles=4096)
    stack = error_stack(run.theta, shadows, run.tokens, limit.flow)

    def scores(part: torch.Tensor) -> torch.Tensor:
        increments = part.diff(dim=0)
        return (increments.mean(dim=1) / increments.std(dim=1) * len(run.theta) ** 0.5).flatten()

    # 72 correlated standard normal scores, beside the particles' own noise of 1/√(4096·3/600) of one
    assert float(scores(stack.martingale).square().mean()) < 2
    # what is left of the error is no martingale: shadow heads and heads differ in the mean
    assert float(scores(stack.propagated).square().mean()) > 2


def test_martingale_scatters_by_heads_alone() -> None:
    ends, sizes = [], ((4, 1), (16, 1), (4, 4), (16, 4))
    for n_layers, n_heads in sizes:
        run, shadows, limit = trained(n_layers, n_heads, 32, 2, n_particles=1024)
        part = error_stack(run.theta, shadows, run.tokens, limit.flow).martingale
        largest = part.square().sum(dim=-1).amax(dim=0).mean(dim=0)
        # Doob's inequality for each sequence and token
        assert (largest <= 4 * part[-1].square().sum(dim=-1).mean(dim=0)).all()
        ends.append(float(part[-1].square().sum(dim=-1).mean().sqrt()))
    products = [n_layers * n_heads for n_layers, n_heads in sizes]
    assert float(slope(np.log(products), np.log(ends))) == pytest.approx(-0.5, abs=0.08)
    assert ends[1] == pytest.approx(ends[2], rel=0.25)  # equal LH


def test_time_shift_is_the_change_of_the_measure_inside_layers() -> None:
    heads = 0.8 * initial_parameters(1, 4, 2, 3)[0]
    nodes = gauss_nodes(6)
    particles = heads.expand(6, *heads.shape).clone()
    particles[:, :, 2] *= torch.from_numpy(1 + nodes.t)[:, None, None, None]  # Γ(x, ν_t) = (1 + t) Γ(x, ν_0)
    flow = limit_flow(particles, X, tolerance=1e-12)
    n_layers = 5
    theta = initial_parameters(n_layers, 1, 2, 3, n_replicas=1)
    found = error_stack(theta, theta, forward(theta, X[None]), flow).time_shift[-1, 0]
    fine = (np.arange(1000) + 0.5) / 1000
    begins = np.floor(fine * n_layers) / n_layers
    speed = flow.nodes.interpolation(fine) @ flow.drift.flatten(1)
    exact = torch.from_numpy((fine - begins) / (1 + fine)) @ speed / 1000
    # the midpoint rule with 200 points a layer, and a two-point Gauss rule of order 4
    np.testing.assert_allclose(found.flatten(), exact, rtol=1e-3, atol=1e-7)
    assert found.abs().max() > 1e-3


def test_block_bound_has_the_proofs_rate() -> None:
    sizes = (10**2, 10**4, 10**6)
    best = [block_bound(n, 4).best for n in sizes]
    assert float(slope(np.log(sizes), np.log(best))) == pytest.approx(-1 / 3, abs=0.01)
    assert block_bound(100, 16).best == pytest.approx(block_bound(100, 4).best / 2)


def test_ratios_stay_bounded() -> None:
    theta = initial_parameters(8, 2, 2, 3, n_replicas=4)
    shadows, meter, n_steps = ShadowHeads(theta, decaying), StabilityMeter(), 24
    limit = limit_training(limit_particles(256, 3, 2, 3, shared=True), X, LOSS, decaying, n_steps)
    found: list[Any] = []
    past = torch.empty(0)
    for run, state in zip(training(theta, X[None], LOSS, decaying, n_steps), limit, strict=True):
        times = np.arange(9) / 8
        error = (run.tokens - state.flow.tokens(times)[:, None]).norm(dim=-1).amax(dim=(0, 2, 3))
        error = error + (run.adjoint - state.flow.adjoint(times)[:, None]).norm(dim=-1).amax(dim=(0, 2, 3))
        found.append(meter.measure(run.theta, shadows.theta, run.gradient, state.flow, error))
        if run.step < 3:
            apart = (run.theta - shadows.theta).flatten(-3).norm(dim=-1)
            if run.step:
                assert found[-1].parameters == pytest.approx(float((apart / past).max()), rel=1e-9)
            of_shadows = torch.stack([state.flow.gradient(one, np.arange(8) / 8) for one in shadows.theta])
            difference = (of_shadows - run.gradient).flatten(-3).norm(dim=-1)
            past = difference if run.step == 0 else past + difference
        if run.step < n_steps:
            shadows.follow(state.flow)
    assert np.isnan(found[0].parameters) and found[0].depth == 0 and found[0].gradients > 0
    for name in ("parameters", "depth", "gradients"):
        ratios = [getattr(one, name) for one in found[1:]]
        assert np.isfinite(ratios).all()
        # neither grows from the first half of training to the second by more than a half
        assert max(ratios[12:]) < 1.5 * max(ratios[:12]), (name, ratios)


def test_independent_particles_say_nothing_of_depth() -> None:
    theta, meter = initial_parameters(2, 1, 2, 3, n_replicas=1), StabilityMeter()
    [state] = limit_training(limit_particles(8, 2, 2, 3), X, LOSS, optimiser, 0)
    [run] = training(theta, X[None], LOSS, optimiser, 0)
    assert np.isnan(meter.measure(theta, theta, run.gradient, state.flow, torch.ones(1)).depth)
    with pytest.raises(InputError, match="must have the shape of theta"):
        meter.measure(theta, theta[:, :1], run.gradient, state.flow, torch.ones(1))
    with pytest.raises(InputError, match="theta and shadows must have shape"):
        error_stack(theta[0], theta[0], run.tokens, state.flow)
