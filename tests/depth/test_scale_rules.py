"""What plain optimisers on plain gradients need so that training does not depend on depth and heads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.depth.test_network import drawn

from attnlim.core.regression import slope
from attnlim.depth import SGD, AdamW, MomentLoss, adjoint, forward, initial_parameters, training

X, TARGET = drawn(2, 6, 3), drawn(2, 3, seed=1)
LOSS = MomentLoss(TARGET)
N_STEPS = 6


def plain_loss(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, output: torch.Tensor, factor: float) -> Any:
    """½|mean token - target|², a mean over sequences, of x ← x + factor Σ_h O^T V g in plain torch."""
    now = X
    for r in range(len(query)):
        now = now + factor * sum(
            torch.softmax((now @ query[r, h].T) @ (now @ key[r, h].T).mT, dim=-1) @ now @ value[r, h].T @ output[r, h]
            for h in range(query.shape[1])
        )
    return (0.5 * (now.mean(dim=1) - TARGET).square().sum(dim=1)).mean()


def plain_training(
    theta: torch.Tensor, make: Callable[[list[dict[str, Any]]], torch.optim.Optimizer], output_share: float = 1.0
) -> torch.Tensor:
    """Train with automatic differentiation, O stored as O·output_share; groups are Q, K, V and O."""
    n_layers, n_heads = theta.shape[:2]
    stored = [torch.nn.Parameter(matrix.clone()) for matrix in theta.unbind(dim=2)]
    stored[3].data *= output_share
    optimiser = make([{"params": stored[:3]}, {"params": stored[3:]}])
    for _ in range(N_STEPS):
        optimiser.zero_grad()
        plain_loss(*stored, factor=1 / (n_layers * n_heads * output_share)).backward()
        optimiser.step()
    return torch.stack([*(matrix.detach() for matrix in stored[:3]), stored[3].detach() / output_share], dim=2)


def our_training(theta: torch.Tensor, make: Callable[..., Any]) -> torch.Tensor:
    last = theta
    for state in training(theta, X, LOSS, make, N_STEPS):
        last = state.theta
    return last


def close(one: torch.Tensor, other: torch.Tensor) -> bool:
    # six steps, each of which turns rounding of a gradient into at most 1/eps = 10³ as much of a step
    return bool(torch.allclose(one, other, rtol=1e-10, atol=1e-11))


@pytest.mark.parametrize(("n_layers", "n_heads"), [(1, 1), (3, 2), (8, 4)])
def test_sgd_needs_the_learning_rate_times_the_number_of_layers_and_heads(n_layers: int, n_heads: int) -> None:
    theta, lr, decay = initial_parameters(n_layers, n_heads, 2, 3), 0.2, 0.3
    ours = our_training(theta, lambda *args: SGD(*args, lr=lr, weight_decay=decay))
    assert float((ours - theta).abs().max()) > 0.05
    factor = n_layers * n_heads

    def plain(lr: float, decay: float) -> torch.Tensor:
        """torch's SGD adds decay to the gradient: decoupled decay is λ over the factor of the learning rate."""
        return plain_training(theta, lambda groups: torch.optim.SGD(groups, lr=lr, weight_decay=decay))

    assert close(ours, plain(lr * factor, decay / factor))
    for wrong in (plain(lr, decay), plain(lr * factor, decay), plain(lr * n_layers, decay / n_layers)):
        assert close(ours, wrong) == (factor == 1)


@pytest.mark.parametrize(("n_layers", "n_heads"), [(2, 1), (3, 2), (4, 5)])
def test_an_output_matrix_stored_over_heads_needs_settings_of_its_own(n_layers: int, n_heads: int) -> None:
    """Ō = O/H has H times O's gradient: AdamW keeps O's path with lr/H, weight decay·H and eps/L for it."""
    theta, lr, decay, eps = initial_parameters(n_layers, n_heads, 2, 3), 0.1, 0.2, 1e-3
    ours = our_training(theta, lambda *args: AdamW(*args, lr=lr, weight_decay=decay, eps=eps))
    assert float((ours - theta).abs().max()) > 0.2

    def plain(lr_power: float, decay_power: float, eps_of_output: float, share: float = 1 / n_heads) -> torch.Tensor:
        def make(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
            groups[1] |= {
                "lr": lr * n_heads**lr_power,
                "weight_decay": decay * n_heads**decay_power,
                "eps": eps_of_output,
            }
            return torch.optim.AdamW(groups, lr=lr, weight_decay=decay, eps=eps / (n_layers * n_heads))

        return plain_training(theta, make, share)

    assert close(ours, plain(-1, 1, eps / n_layers))
    # as it is stored by default, nothing but eps changes
    assert close(ours, plain(0, 0, eps / (n_layers * n_heads), share=1.0))
    for wrong in (
        plain(0, 1, eps / n_layers),
        plain(-1, 0, eps / n_layers),
        plain(-1, 1, eps / (n_layers * n_heads)),
    ):
        assert close(ours, wrong) == (n_heads == 1)
    assert not close(ours, plain(-1, 1, eps))


SIZES = [(4, 8), (16, 4), (8, 16), (16, 16), (32, 16), (32, 32)]


def gradient_norms(n_layers: int, n_heads: int, n_replicas: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """|∇ℓ|_2 and |G|_2 of independent networks at the start."""
    theta = initial_parameters(n_layers, n_heads, 2, 3, n_replicas=n_replicas)
    tokens = forward(theta, X.expand(n_replicas, *X.shape))
    shares = torch.full(tokens.shape[1:-1], 1 / 6, dtype=torch.float64)
    found = adjoint(theta, tokens, LOSS(tokens[-1], shares)[1])
    rescaled = torch.linalg.vector_norm(found.gradient.flatten(1), dim=1).numpy()
    return rescaled / (n_layers * n_heads), rescaled


def test_the_adjoints_gradient_is_that_of_plain_torch() -> None:
    theta = initial_parameters(3, 2, 2, 3, n_replicas=1)
    parts = [matrix.clone().requires_grad_() for matrix in theta[0].unbind(dim=2)]
    plain_loss(*parts, factor=1 / 6).backward()
    plain, _ = gradient_norms(3, 2, 1)
    norm = torch.nn.utils.clip_grad_norm_(parts, 1e9)
    assert plain[0] == pytest.approx(float(norm), rel=1e-12)


def test_a_global_norm_clip_scales_by_the_root_of_the_number_of_layers_and_heads() -> None:
    """|∇ℓ| = |G|/(LH), and |G|² is a sum over LH heads of like size: |∇ℓ| goes as (LH)^{-1/2}."""
    plain, rescaled = (np.array(norms) for norms in zip(*(gradient_norms(*size) for size in SIZES), strict=True))
    log_size = np.log([n_layers * n_heads for n_layers, n_heads in SIZES])
    for norms, power in ((plain, -0.5), (rescaled, 0.5)):
        root_mean_square = np.log(np.sqrt((norms**2).mean(axis=1)))
        # 64 networks of 32 heads know |G| to 2 %, and |G|² is O(1/LH), here 5 %, above its limit: over ln 32 that is a
        # slope of at most 0.013
        assert float(slope(log_size, root_mean_square)) == pytest.approx(power, abs=0.02)
    # a threshold c/√(LH) cuts gradients to the same share at every size; a fixed one that cuts small networks to a fifth
    # leaves big ones alone
    typical = plain[-1].mean() * math.exp(log_size[-1] / 2)
    scaled = np.minimum(1, typical / 2 / np.exp(log_size / 2)[:, None] / plain).mean(axis=1)
    fixed = np.minimum(1, plain[0].mean() / 5 / plain).mean(axis=1)
    assert scaled == pytest.approx(0.5, abs=0.03)
    assert fixed[0] == pytest.approx(0.2, abs=0.03) and fixed[-1] > 0.99


def test_clipping_with_the_scaled_threshold_clips_rescaled_gradients_at_a_threshold_that_grows() -> None:
    """Clipping ∇ℓ at c(LH)^{-1/2} is clipping G at c(LH)^{1/2}: torch's clip, on either."""
    theta = initial_parameters(4, 3, 2, 3)
    parts = [matrix.clone().requires_grad_() for matrix in theta.unbind(dim=2)]
    plain_loss(*parts, factor=1 / 12).backward()
    rescaled = [torch.nn.Parameter(part.detach()) for part in parts]
    for part, other in zip(parts, rescaled, strict=True):
        other.grad = 12 * part.grad
    torch.nn.utils.clip_grad_norm_(parts, 0.01 / math.sqrt(12))
    torch.nn.utils.clip_grad_norm_(rescaled, 0.01 * math.sqrt(12))
    for part, other in zip(parts, rescaled, strict=True):
        # torch adds 1e-6 to the norm
        torch.testing.assert_close(12 * part.grad, other.grad, rtol=1e-4, atol=0)
