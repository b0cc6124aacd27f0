"""One cell of a mean-field experiment: networks of one (L, H), trained from independent initialisations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from attnlim.core.cells import Arrays
from attnlim.core.seeds import generator
from attnlim.depth import ShadowHeads, adjoint, forward, head_distance, initial_parameters, path_distance, training
from attnlim.lab.meanfield_limit import matrix_rms, stored_flow
from attnlim.lab.meanfield_system import System

DISTANCES = ("sup_tokens", "sup_adjoint", "sup_both", "sup_continuous", "rms_tokens", "end_tokens")
# the worst inputs are looked for inside the ball of this radius in units of √d
ADVERSARY_RADIUS = 1.5


def measure_network(
    system: System,
    n_layers: int,
    n_heads: int,
    n_inits: int,
    limit: Mapping[str, np.ndarray],
    adversarial: bool = False,
    device: str = "cpu",
) -> Arrays:
    """How far trained networks are from the limit.

    Args:
        system: what is trained.
        n_layers, n_heads: L and H.
        n_inits: independent initialisations.
        limit: what :func:`attnlim.lab.meanfield_limit.solve_limit` returned for this system.
        adversarial: look for the worst inputs too; needs the limit's particles.
        device: where the networks run.

    Returns:
        float64, squares of distances: those of ``DISTANCES``, each (len(steps), 2, n_inits), of fresh and of training
        inputs; ``worst`` and ``worst_start`` (len(steps), n_inits), if asked; ``coupling``, ``coupling_average`` and ``wasserstein`` (len(steps), n_inits);
        ``loss`` (n_steps+1, n_inits); ``end_variance`` (len(steps),), of X_1 over initialisations, mean over fresh inputs;
        ``matrix_rms`` (len(steps), n_layers, 4), of the entries of Q, K, V, O over heads and initialisations;
        ``certificate`` (2,), the largest ratios to the bounds.
    """
    # heads of their own for each size: cells of equal L·H are to be independent
    seed = int(generator(system.seed, "meanfield", "network", n_layers, n_heads).integers(2**63))
    theta = initial_parameters(
        n_layers, n_heads, system.head_dim, system.width, system.law, n_replicas=n_inits, seed=seed
    ).to(device)
    optimiser, loss = system.make_optimiser(), system.loss()
    loss = replace(loss, target=loss.target.to(device))
    fresh = system.fresh_inputs()[None].to(device)
    shadows = ShadowHeads(theta, optimiser)
    found: dict[str, list[Any]] = {}
    largest = np.zeros(2)
    states = training(
        theta, system.training_inputs()[None].to(device), loss, optimiser, system.n_steps, system.beta
    )  # fmt: skip
    shares = torch.full(fresh.shape[1:-1], 1 / system.n_tokens, dtype=torch.float64, device=device)
    for state in states:
        found.setdefault("loss", []).append(state.loss.cpu().numpy())
        largest = np.fmax(largest, [state.certificate.update, state.certificate.parameter])
        flow = stored_flow(system, limit, "training", state.step, device)
        if state.step in system.steps:
            at = system.steps.index(state.step)
            tokens = forward(state.theta, fresh, system.beta)
            _, terminal = loss(tokens[-1], shares)
            costates = adjoint(state.theta, tokens, terminal, system.beta).adjoint
            of_fresh = path_distance(tokens, stored_flow(system, limit, "fresh", at, device), costates)
            of_training = path_distance(state.tokens, flow, state.adjoint)
            for name in DISTANCES:
                found.setdefault(name, []).append(
                    torch.stack([getattr(of_fresh, name), getattr(of_training, name)]).cpu().numpy()
                )
            heads = head_distance(state.theta.cpu(), shadows.theta.cpu())
            found.setdefault("coupling", []).append(heads.coupling.numpy())
            found.setdefault("coupling_average", []).append(heads.average.numpy())
            found.setdefault("wasserstein", []).append(heads.wasserstein.numpy())
            spread = tokens[-1].var(dim=0).mean() if n_inits > 1 else torch.tensor(torch.nan)
            found.setdefault("end_variance", []).append(float(spread))
            found.setdefault("matrix_rms", []).append(matrix_rms(state.theta.transpose(0, 1)))
            if adversarial:
                _look_for_worst(found, system, state.theta, torch.from_numpy(limit["particles"][at]).to(device))
        if state.step < system.n_steps:
            shadows.follow(flow)
    return {name: np.asarray(np.stack(values), dtype=np.float64) for name, values in found.items()} | {
        "certificate": largest
    }


def _look_for_worst(found: dict[str, list[Any]], system: System, theta: torch.Tensor, particles: torch.Tensor) -> None:
    from attnlim.depth import adversary

    worst = adversary(
        theta, particles, system.n_tokens, ADVERSARY_RADIUS * system.width**0.5, system.beta, n_starts=2, n_steps=12,
        seed=system.seed, tolerance=1e-5,
    )  # fmt: skip
    found.setdefault("worst", []).append(worst.sup_tokens.cpu().numpy())
    found.setdefault("worst_start", []).append(worst.random.cpu().numpy())
