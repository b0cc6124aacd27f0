"""Split coupling: the rate of discretisation with the Monte Carlo noise taken out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attnlim.core.checks import InputError
from attnlim.core.regression import slope
from attnlim.depth import AdamW, MomentLoss, forward, initial_parameters, merged_layers, split_coupling

X = torch.from_numpy(np.random.default_rng(5).normal(size=(3, 6, 4)))
LOSS = MomentLoss(torch.linspace(-1, 1, 4, dtype=torch.float64))
DEPTHS = (4, 8, 16, 32)


def optimiser(params: Any, n_layers: int, n_heads: int) -> AdamW:
    return AdamW(params, n_layers, n_heads, lr=0.1, eps=1e-3, weight_decay=0.1)


def off_centre(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.uniform(-0.3, 0.7, shape)


def rate(law: Any, n_steps: int) -> float:
    errors = []
    for depth in DEPTHS:
        theta = initial_parameters(2 * depth, 1, 4, 4, law=law, n_replicas=16)
        *_, last = split_coupling(theta, X, LOSS, optimiser, n_steps)
        errors.append(float(last.sup_tokens.mean().sqrt()))
    return float(slope(np.log(DEPTHS), np.log(errors)))


def test_centred_law_gains_a_half() -> None:
    # drift has mean zero, so the error is of second order in the noise: L^{-3/2}; 16 inits scatter slopes by about .05
    assert rate("xavier", 0) == pytest.approx(-1.5, abs=0.15)


def test_a_drift_leaves_first_order() -> None:
    assert rate(off_centre, 0) == pytest.approx(-1.0, abs=0.15)


def test_training_gives_a_drift() -> None:
    assert rate("xavier", 4) == pytest.approx(-1.2, abs=0.25)


def test_the_same_heads() -> None:
    theta = initial_parameters(6, 2, 2, 4, n_replicas=2)
    wide = merged_layers(theta)
    assert (wide[:, 1, 2:] == theta[:, 3]).all() and (wide[:, 1, :2] == theta[:, 2]).all()
    [state] = split_coupling(theta, X, LOSS, optimiser, 0)
    deep, shallow = forward(theta, X[None]), forward(wide, X[None])
    assert float(state.sup_tokens[1]) == pytest.approx(float((deep[::2] - shallow)[:, 1].norm(dim=-1).max()) ** 2)
    with pytest.raises(InputError, match="n_layers must be even"):
        merged_layers(theta[:, :3])
