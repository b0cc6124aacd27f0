"""Training by the explicit equations against a loop of automatic differentiation and torch's AdamW."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.depth.test_network import CASES, drawn, reference_parameters, reference_tokens

from attnlim.core.checks import InputError
from attnlim.depth import SGD, AdamW, BlockwiseAdamW, MomentLoss, initial_parameters, training


def adamw(**options: Any) -> Any:
    return lambda params, n_layers, n_heads: AdamW(params, n_layers, n_heads, **options)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("name", "kind"), [("adamw", AdamW), ("blockwise_adamw_sum", BlockwiseAdamW)])
def test_reference_trajectories(case: dict[str, Any], name: str, kind: type[AdamW]) -> None:
    run = case[name]
    options = {
        "lr": run["lr"],
        "betas": tuple(run["betas"]),
        "eps": run["eps_mean_field"],
        "weight_decay": run["weight_decay"],
    }
    loss = MomentLoss(torch.linspace(-1, 1, case["d"], dtype=torch.float64), factor=0.025)
    states = training(
        reference_parameters(case),
        reference_tokens(case),
        loss,
        lambda params, n_layers, n_heads: kind(params, n_layers, n_heads, **options),
        run["steps"],
        case["beta"],
    )
    losses = []
    for state in states:
        losses.append(float(state.loss))
    np.testing.assert_allclose(state.theta[0, 0], run["theta_first"], rtol=1e-11, atol=1e-12)
    assert losses[0] == pytest.approx(case["loss_value"], rel=1e-12)
    assert losses[1:] == pytest.approx(run["losses"], rel=1e-12)


def by_autograd(theta: torch.Tensor, x: torch.Tensor, target: torch.Tensor, n_steps: int, eps: float) -> torch.Tensor:
    """One replica, a loop over layers and heads, torch's own AdamW."""
    theta = torch.nn.Parameter(theta.clone())
    n_layers, n_heads = theta.shape[:2]
    optimiser = torch.optim.AdamW([theta], lr=0.1, weight_decay=0.1, eps=eps / (n_layers * n_heads))
    for _ in range(n_steps):
        optimiser.zero_grad()
        now = x
        for r in range(n_layers):
            now = now + sum(
                torch.softmax((now @ q.T) @ (now @ k.T).mT, dim=-1) @ now @ v.T @ o for q, k, v, o in theta[r]
            ) / (n_layers * n_heads)
        (0.5 * (now.mean(dim=1) - target).square().sum(dim=1)).mean().backward()
        optimiser.step()
    return theta.detach()


def test_replicas_equal_a_loop_of_automatic_differentiation() -> None:
    theta, x, target = initial_parameters(5, 2, 3, 4, n_replicas=3), drawn(2, 6, 4), drawn(2, 4, seed=1)
    loss = MomentLoss(target)
    last = None
    for last in training(theta, x.expand(3, 2, 6, 4), loss, adamw(lr=0.1, weight_decay=0.1, eps=1e-3), 6):
        assert last.loss.shape == (3,) and not last.tokens.requires_grad and not last.gradient.requires_grad
    assert last is not None
    alone = torch.stack([by_autograd(theta[k], x, target, 6, 1e-3) for k in range(3)])
    # six steps of Adam, each of which may turn rounding of a gradient into 1/eps as much of a step
    torch.testing.assert_close(last.theta, alone, rtol=1e-10, atol=1e-11)
    assert float((alone - theta).abs().max()) > 0.3  # far from where they began


@pytest.mark.parametrize("kind", ["adamw", "sum", "mean"])
def test_no_step_leaves_the_certificate(kind: str) -> None:
    options: dict[str, Any] = {"lr": 0.5, "weight_decay": 0.5, "betas": (0.9, 0.95), "eps": 1e-8}

    def make(params: Any, n_layers: int, n_heads: int) -> Any:
        if kind == "adamw":
            return AdamW(params, n_layers, n_heads, **options)
        return BlockwiseAdamW(params, n_layers, n_heads, kind, **options)

    states = training(initial_parameters(3, 2, 2, 3), drawn(5, 3), MomentLoss(torch.ones(3).double()), make, 30)
    certificates = [state.certificate for state in states]
    assert math.isnan(certificates[0].update) and certificates[0].parameter <= 1
    assert all(0 < c.update <= 1 + 1e-12 and 0 < c.parameter <= 1 + 1e-12 for c in certificates[1:])
    # it is close to attained: the first step goes by the sign, so the ratio is 1 but for eps
    assert certificates[1].update == pytest.approx(1, abs=1e-3)


def test_without_decay_there_is_no_compact_set() -> None:
    run = training(initial_parameters(2, 1, 2, 3), drawn(4, 3), MomentLoss(torch.ones(3).double()), adamw(lr=0.1), 1)
    assert [math.isnan(state.certificate.parameter) for state in run] == [True, True]


def test_a_run_that_diverges_says_when() -> None:
    loss = MomentLoss(torch.zeros(3, dtype=torch.float64), factor=1.0)
    run = training(initial_parameters(4, 1, 3, 3), 3 * drawn(4, 3), loss, lambda *args: SGD(*args, lr=5.0), n_steps=50)
    with pytest.raises(InputError, match=r"(at step \d+: the run has diverged|the run has diverged)"):
        for _ in run:
            pass


def test_the_start_is_not_changed() -> None:
    theta = initial_parameters(2, 1, 2, 3)
    before = theta.clone()
    for _ in training(theta, drawn(4, 3), MomentLoss(torch.ones(3).double()), adamw(lr=0.1), 2):
        pass
    assert torch.equal(theta, before)
