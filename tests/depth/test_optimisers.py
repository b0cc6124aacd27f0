"""The optimisers against torch's own, and the bounds that the theory gives them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth.test_network import drawn

from attnlim.core.checks import InputError
from attnlim.depth import (
    SGD,
    AdamW,
    BlockwiseAdamW,
    adam_bound_at,
    adam_bound_limit,
    parameter_bound,
)


def steps_of(
    make: Callable[[torch.nn.Parameter], torch.optim.Optimizer], n_steps: int, shape: tuple[int, ...], seed: int = 0
) -> torch.Tensor:
    theta = torch.nn.Parameter(drawn(*shape, seed=seed))
    optimiser = make(theta)
    for step in range(n_steps):
        theta.grad = drawn(*shape, seed=100 + seed + step) * (theta.detach().sin() + 0.1)
        optimiser.step()
    return theta.detach()


def test_adamw_equals_torchs_with_eps_over_the_number_of_heads_and_layers() -> None:
    shape, lr, betas, decay = (6, 3, 4, 2, 5), 0.05, (0.9, 0.99), 0.2
    ours = steps_of(lambda theta: AdamW([theta], 6, 3, lr, betas, 1e-3, decay), 12, shape)
    theirs = steps_of(
        lambda theta: torch.optim.AdamW([theta], lr=lr, betas=betas, eps=1e-3 / 18, weight_decay=decay), 12, shape
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=1e-15)
    other = steps_of(
        lambda theta: torch.optim.AdamW([theta], lr=lr, betas=betas, eps=1e-3, weight_decay=decay), 12, shape
    )
    assert float((ours - other).abs().max()) > 1e-4


def test_sum_and_mean_of_squares_are_one_algorithm() -> None:
    shape, root = (3, 2, 4, 2, 5), math.sqrt(10)
    mean = steps_of(lambda p: BlockwiseAdamW([p], 3, 2, "mean", 0.02, (0.9, 0.99), 1e-3, 0.5), 12, shape)
    total = steps_of(
        lambda p: BlockwiseAdamW([p], 3, 2, "sum", 0.02 * root, (0.9, 0.99), 1e-3 * root, 0.5 / root), 12, shape
    )
    torch.testing.assert_close(total, mean, rtol=1e-13, atol=1e-14)


def test_blocks_of_one_entry_are_adamw() -> None:
    shape = (3, 2, 4, 1, 1)
    block = steps_of(lambda p: BlockwiseAdamW([p], 3, 2, lr=0.02, eps=1e-3, weight_decay=0.5), 5, shape)
    torch.testing.assert_close(block, steps_of(lambda p: AdamW([p], 3, 2, 0.02, eps=1e-3, weight_decay=0.5), 5, shape))


def test_sgd_wants_the_learning_rate_times_the_number_of_heads_and_layers() -> None:
    shape = (6, 3, 4, 2, 5)
    ours = steps_of(lambda theta: SGD([theta], 6, 3, 0.01), 5, shape)
    torch.testing.assert_close(ours, steps_of(lambda theta: torch.optim.SGD([theta], lr=0.18), 5, shape))


@pytest.mark.parametrize(("betas", "constant"), [((0.9, 0.999), 7.2703), ((0.9, 0.95), 1.1650), ((0.9, 0.99), 2.3452)])
def test_the_three_constants(betas: tuple[float, float], constant: float) -> None:
    assert adam_bound_limit(*betas) == pytest.approx(constant, abs=5e-5)
    steps = [adam_bound_at(t, *betas) for t in (1, 2, 10, 100, 10000)]
    assert steps == sorted(steps) and steps[0] == 1 and steps[-1] == pytest.approx(adam_bound_limit(*betas), rel=1e-4)


@pytest.mark.parametrize("n_steps", [1, 2, 7, 60])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.9, 0.95), (0.5, 0.3)])
def test_the_bound_is_attained_by_the_worst_gradients(n_steps: int, betas: tuple[float, float]) -> None:
    theta = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimiser = AdamW([theta], 1, 1, lr=1e-3, betas=betas, eps=1e-300)
    ratio = betas[0] / betas[1]
    for s in range(1, n_steps + 1):
        theta.grad = torch.tensor([ratio ** (n_steps - s)], dtype=torch.float64)
        optimiser.step()
    assert optimiser.largest_step == pytest.approx(adam_bound_at(n_steps, *betas), rel=1e-12)
    assert optimiser.bound() == adam_bound_at(n_steps, *betas)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    blockwise=st.booleans(),
    lr=st.floats(0.01, 1.0),
    decay=st.floats(0.1, 1.0),
    betas=st.sampled_from([(0.9, 0.999), (0.9, 0.95), (0.6, 0.4), (0.0, 0.5)]),
)
def test_no_step_leaves_the_bound_or_the_compact_set(
    seed: int, blockwise: bool, lr: float, decay: float, betas: tuple[float, float]
) -> None:
    theta = torch.nn.Parameter(drawn(2, 2, 4, 2, 3, seed=seed))
    kind = BlockwiseAdamW if blockwise else AdamW
    optimiser = kind([theta], 2, 2, lr=lr, betas=betas, eps=1e-12, weight_decay=decay)

    def size() -> float:
        return float(torch.linalg.matrix_norm(theta.detach()).max() if blockwise else theta.detach().abs().max())

    bound = parameter_bound(size(), *betas, lr, decay)
    rng = np.random.default_rng(seed)
    for _ in range(40):
        # sizes over many orders, signs that agree: what drives Adam farthest
        theta.grad = torch.full_like(theta, 10.0 ** rng.uniform(-4, 4))
        optimiser.step()
        assert optimiser.largest_step <= optimiser.bound() * (1 + 1e-12)
        assert size() <= bound * (1 + 1e-12)


def test_sgd_has_no_bound() -> None:
    theta = torch.nn.Parameter(torch.zeros(1))
    theta.grad = torch.tensor([1e6])
    optimiser = SGD([theta], 1, 1)
    optimiser.step()
    assert optimiser.largest_step == 1e6 and optimiser.bound() == math.inf


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"betas": (0.9, 0.81)}, "square below the second"),
        ({"betas": (0.9, 1.0)}, "below 1"),
        ({"betas": 0.9}, "two numbers"),
        ({"lr": 2.0, "weight_decay": 0.6}, "at most 1, got 1.2"),
        ({"lr": -1.0}, "lr must"),
        ({"eps": 0.0}, "eps must"),
        ({"weight_decay": math.nan}, "weight_decay must"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        AdamW([torch.nn.Parameter(torch.zeros(2))], 2, 2, **options)


def test_bad_sizes_blocks_and_gradients() -> None:
    theta = torch.nn.Parameter(torch.zeros(2))
    with pytest.raises(InputError, match="n_heads must"):
        AdamW([theta], 2, 0)
    with pytest.raises(InputError, match="two axes"):
        BlockwiseAdamW([theta], 2, 2)
    with pytest.raises(InputError, match="block_norm"):
        BlockwiseAdamW([torch.nn.Parameter(torch.zeros(2, 2))], 2, 2, "max")
    optimiser = AdamW([theta], 2, 2, weight_decay=0.5)
    theta.grad = torch.tensor([0.0, math.nan])
    with pytest.raises(InputError, match="diverged"):
        optimiser.step()
    assert theta.tolist() == [0.0, 0.0]
    optimiser.param_groups[0]["lr"] = 3.0
    with pytest.raises(InputError, match="at most 1"):
        optimiser.step()
