"""One limit of a mean-field experiment: solved once, kept as arrays, put together again for every network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from attnlim.core.cells import Arrays
from attnlim.depth import LimitFlow, limit_flow, limit_particles, limit_training
from attnlim.lab.meanfield_system import System

# of the flow, in the unit of the tokens: a thousandth of what the best-resolved network is off by
TOLERANCE = 1e-6


def solve_limit(
    system: System, particle_seed: int, shared: bool = False, keep_particles: bool = False, device: str = "cpu"
) -> Arrays:
    """The flows of a limit along training, of the training inputs at every step and of fresh ones where asked.

    Args:
        system: what is trained.
        particle_seed: which set of particles.
        shared: whether all nodes begin with the same heads.
        keep_particles: keep ν_τ at the measured steps too.
        device: where the limit is solved.

    Returns:
        float64: ``training_NAME`` (n_steps+1, ...) and ``fresh_NAME`` (len(steps), ...) for NAME of drift, pull and
        terminal; ``loss`` (n_steps+1,); ``certificate`` (2,), the largest ratios to the bounds; ``matrix_rms``
        (len(steps), n_nodes, 4), of the entries of Q, K, V, O; ``particles``, if kept.
    """
    particles = limit_particles(
        system.n_particles, system.n_nodes, system.head_dim, system.width, system.law, shared=shared, seed=particle_seed
    ).to(device)
    loss, fresh_inputs = system.loss(), system.fresh_inputs().to(device)
    loss = replace(loss, target=loss.target.to(device))
    states = limit_training(
        particles, system.training_inputs().to(device), loss, system.make_optimiser(), system.n_steps, system.beta,
        tolerance=TOLERANCE,
    )  # fmt: skip
    found: dict[str, list[Any]] = {}
    largest = np.zeros(2)
    for state in states:
        _keep(found, "training", state.flow)
        found.setdefault("loss", []).append(state.loss)
        largest = np.fmax(largest, [state.certificate.update, state.certificate.parameter])
        if state.step in system.steps:
            flow = limit_flow(state.particles, fresh_inputs, system.beta, tolerance=TOLERANCE)
            _, terminal = loss(flow.tokens(1.0)[0], flow.log_weights.exp())
            _keep(found, "fresh", flow.with_adjoint(terminal))
            found.setdefault("matrix_rms", []).append(matrix_rms(state.particles[:, None]))
            if keep_particles:
                found.setdefault("particles", []).append(state.particles.cpu().numpy().copy())
    return {name: np.stack(values) for name, values in found.items()} | {"certificate": largest}


def matrix_rms(theta: torch.Tensor) -> np.ndarray:
    """(n_layers, 4), root mean square of the entries of Q, K, V, O; theta (n_layers, n_replicas, n_heads, 4, k, d)."""
    rms: np.ndarray = theta.square().mean(dim=(1, 2, 4, 5)).sqrt().cpu().numpy()
    return rms


def _keep(found: dict[str, list[Any]], inputs: str, flow: LimitFlow) -> None:
    for name in ("drift", "pull", "terminal"):
        found.setdefault(f"{inputs}_{name}", []).append(getattr(flow, name).cpu().numpy())


def stored_flow(
    system: System, arrays: Mapping[str, np.ndarray], inputs: str, index: int, device: str = "cpu"
) -> LimitFlow:
    """A flow with its adjoint as it was solved, but for its particles, of which only the number of nodes is known.

    Args:
        system: what was trained.
        arrays: what :func:`solve_limit` returned.
        inputs: "training" or "fresh".
        index: which step of training, or which of ``system.steps``.
        device: where the flow is wanted.
    """
    drift, pull, terminal = (
        torch.from_numpy(arrays[f"{inputs}_{name}"][index]).to(device) for name in ("drift", "pull", "terminal")
    )
    start = (system.training_inputs() if inputs == "training" else system.fresh_inputs()).to(device)
    log_weights = start.new_full(start.shape[:-1], -np.log(start.shape[-2]))
    nowhere = start.new_empty(len(drift), 0, 4, system.head_dim, system.width)
    return LimitFlow(nowhere, start, log_weights, drift, system.beta, TOLERANCE, terminal, pull)


def limits_apart(system: System, one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> Arrays:
    """The distance of two limits, in the measures by which networks are judged.

    Returns:
        ``tokens``, ``both``, ``rms`` and ``end``, each (len(steps), 2), of fresh and of training inputs: E of one against
        the other, not squared.
    """
    from attnlim.depth import path_distance

    times = np.arange(_GRID + 1) / _GRID
    found = np.full((4, len(system.steps), 2), np.nan)
    for at, step in enumerate(system.steps):
        for which, (inputs, index) in enumerate((("fresh", at), ("training", step))):
            first, second = (stored_flow(system, arrays, inputs, index) for arrays in (one, other))
            measured = path_distance(second.tokens(times)[:, None], first, second.adjoint(times)[:, None])
            found[:, at, which] = [
                float(value.sqrt())
                for value in (measured.sup_tokens, measured.sup_both, measured.rms_tokens, measured.end_tokens)
            ]
    return dict(zip(("tokens", "both", "rms", "end"), found, strict=True))


# depths at which two limits are compared
_GRID = 32
