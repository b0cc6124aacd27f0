"""The network, its training and its limit on a CUDA device: the numbers of the CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from attnlim.depth import AdamW, MomentLoss, initial_parameters, limit_particles, limit_training, training
from attnlim.lab.meanfield_limit import solve_limit
from attnlim.lab.meanfield_network import measure_network
from attnlim.lab.meanfield_system import System

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
X = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 6, 4)))
LOSS = MomentLoss(torch.ones(4, dtype=torch.float64))


def optimiser(params: Any, n_layers: int, n_heads: int) -> AdamW:
    # a large eps: no gradient's sign hangs on rounding
    return AdamW(params, n_layers, n_heads, lr=0.1, eps=1.0, weight_decay=0.1)


@pytest.mark.parametrize("device", ["cuda"])
def test_training_and_limit_are_those_of_the_cpu(device: str) -> None:
    loss = replace(LOSS, target=LOSS.target.to(device))
    theta, particles = initial_parameters(6, 3, 4, 4, n_replicas=2), limit_particles(32, 3, 4, 4)
    *_, here = training(theta, X[None], LOSS, optimiser, 3)
    *_, there = training(theta.to(device), X[None].to(device), loss, optimiser, 3)
    for name in ("theta", "tokens", "adjoint", "gradient", "loss"):
        torch.testing.assert_close(getattr(there, name).cpu(), getattr(here, name), rtol=1e-9, atol=1e-11)
    *_, limit = limit_training(particles, X, LOSS, optimiser, 3)
    *_, moved = limit_training(particles.to(device), X.to(device), loss, optimiser, 3)
    torch.testing.assert_close(moved.particles.cpu(), limit.particles, rtol=1e-6, atol=1e-7)


def test_a_cell_is_that_of_the_cpu() -> None:
    system = System(steps=(0, 2), n_particles=32, n_nodes=3, n_fresh=3, eps=1.0)
    limits = [solve_limit(system, 0, keep_particles=True, device=device) for device in ("cpu", "cuda")]
    cells = [
        measure_network(system, 4, 2, 3, limit, True, device)
        for limit, device in zip(limits, ("cpu", "cuda"), strict=True)
    ]
    for name in cells[0]:
        np.testing.assert_allclose(cells[1][name], cells[0][name], rtol=1e-4, atol=1e-8, err_msg=name)
