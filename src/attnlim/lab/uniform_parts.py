"""Cells of a reproduction that are no grid: each measures one lemma or control, a pure function of its arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlim.core.cells import Arrays
from attnlim.core.seeds import generator
from attnlim.depth import (
    AdamW,
    ShadowHeads,
    StabilityMeter,
    adam_bound_at,
    adam_bound_limit,
    attended_mean,
    attended_mean_ratio,
    drift_ratios,
    error_stack,
    forward,
    gradient_growth,
    initial_parameters,
    law_over_depth,
    limit_flow,
    limit_particles,
    limit_training,
    lions_derivative,
    split_coupling,
    state_growth,
    training,
)
from attnlim.lab.meanfield_limit import TOLERANCE
from attnlim.lab.meanfield_system import System

# depths t at which the parts of the error are drawn
STACK_T = np.arange(17) / 16
PARTS = ("martingale", "time_shift", "propagated", "parameters", "total")
SPLIT_STEPS = (0, 1, 3, 6)
LAYOUTS = ("iid", "shared", "smooth")
LAYOUT_LAYERS = (4, 8, 16, 32, 64, 128)
MAP_REACH, MAP_POWER = (0.25, 0.5, 1.0, 2.0), (1.0, 2.0, math.inf)
DRIFT_SCALES = (0.05, 0.1, 0.2)
GROWTH_SCALES = (0.01, 0.02, 0.04)
STATE_SCALES = (1.0, 2.0, 4.0, 8.0, 16.0)
BETAS = ((0.9, 0.999), (0.9, 0.95), (0.9, 0.99))
BOUND_STEPS = 400
STABILITY_STEPS = 120
# weight decay of a run that forgets within 10 steps, and none; moments that forget within 20
DECAYS = (1.0, 0.0)
FORGETTING = (0.9, 0.95)
FOCUS_NETWORK, FOCUS_STEPS = (16, 4), (0, 4)


def off_centre(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """A law whose heads have a drift on average."""
    return rng.uniform(-0.3, 0.7, shape)


def split(seed: int, law: str, n_layers: int, n_inits: int) -> Arrays:
    """Split coupling: distance of (2L, 1) and (L, 2), ``error`` (steps, n_inits)."""
    system = System(seed=seed, target=1.0)
    drawn = off_centre if law == "off-centre" else law
    theta = initial_parameters(
        2 * n_layers, 1, system.head_dim, system.width, drawn, n_replicas=n_inits, seed=_stream(seed, "split", n_layers)
    )
    states = split_coupling(
        theta, system.training_inputs(), system.loss(), system.make_optimiser(),
        0 if law == "off-centre" else max(SPLIT_STEPS), fresh=system.fresh_inputs(),
    )  # fmt: skip
    errors = np.full((len(SPLIT_STEPS), n_inits), np.nan)
    for state in states:
        if state.step in SPLIT_STEPS:
            errors[SPLIT_STEPS.index(state.step)] = state.sup_tokens.sqrt().numpy()
    return {"error": errors}


def stack(seed: int, n_layers: int, n_heads: int, n_inits: int, n_particles: int, n_steps: int) -> Arrays:
    """Lemmas 38 and 40 at the start and after training.

    Returns:
        ``part`` (2, parts, t), root mean squares over initialisations, sequences and tokens; ``martingale`` (2, n_inits),
        sup over t, sequences and tokens of |M|; ``doob`` (2,), largest mean of max |M|² over that of |M_L|²;
        ``score`` (2,), mean square of the increments' scores; ``rest`` (2,), largest |sum - error|.
    """
    system = System(seed=seed, n_particles=n_particles)
    theta = initial_parameters(
        n_layers,
        n_heads,
        system.head_dim,
        system.width,
        n_replicas=n_inits,
        seed=_stream(seed, "stack", n_layers, n_heads),
    )
    fresh = system.fresh_inputs()[:4]
    optimiser = system.make_optimiser()
    shadows = ShadowHeads(theta, optimiser)
    particles = limit_particles(n_particles, system.n_nodes, system.head_dim, system.width, seed=seed, shared=True)
    x, loss = system.training_inputs(), system.loss()
    limit = limit_training(particles, x, loss, optimiser, n_steps, tolerance=TOLERANCE)
    found: dict[str, list[Any]] = {}
    for run, state in zip(training(theta, x[None], loss, optimiser, n_steps), limit, strict=True):
        if run.step in (0, n_steps):
            flow = limit_flow(state.particles, fresh, tolerance=TOLERANCE)
            tokens = forward(run.theta, fresh[None])
            _keep_stack(found, error_stack(run.theta, shadows.theta, tokens, flow), flow, tokens)
        if run.step < n_steps:
            shadows.follow(state.flow)
    return {name: np.stack(values) for name, values in found.items()}


def _keep_stack(found: dict[str, list[Any]], parts: Any, flow: Any, tokens: Tensor) -> None:
    n_layers = len(tokens) - 1
    depth = np.arange(n_layers + 1) / n_layers
    rms = [getattr(parts, name).square().sum(dim=-1).mean(dim=(1, 2, 3)).sqrt().numpy() for name in PARTS]
    found.setdefault("part", []).append(np.stack([np.interp(STACK_T, depth, values) for values in rms]))
    squares = parts.martingale.square().sum(dim=-1)
    found.setdefault("martingale", []).append(squares.amax(dim=(0, 2, 3)).sqrt().numpy())
    found.setdefault("doob", []).append(float((squares.amax(dim=0).mean(dim=0) / squares[-1].mean(dim=0)).max()))
    increments = parts.martingale.diff(dim=0)
    scores = increments.mean(dim=1) / increments.std(dim=1) * increments.shape[1] ** 0.5
    found.setdefault("score", []).append(float(scores.square().mean()))
    error = flow.tokens(depth)[:, None] - tokens
    found.setdefault("rest", []).append(float((parts.total - error).abs().max()))


def stability(seed: int, weight_decay: float, n_layers: int, n_heads: int, n_inits: int, n_particles: int) -> Arrays:
    """Lemmas 28 to 30 and Remark 27 along training: ``ratio`` (steps+1, 3), ``largest`` (steps+1,), of |θ|."""
    system = replace(System(seed=seed), weight_decay=weight_decay, betas=FORGETTING)
    theta = initial_parameters(
        n_layers, n_heads, system.head_dim, system.width, n_replicas=n_inits, seed=_stream(seed, "stability")
    )
    optimiser, x, loss = system.make_optimiser(), system.training_inputs(), system.loss()
    shadows, meter = ShadowHeads(theta, optimiser), StabilityMeter()
    particles = limit_particles(n_particles, system.n_nodes, system.head_dim, system.width, seed=seed, shared=True)
    limit = limit_training(particles, x, loss, optimiser, STABILITY_STEPS, tolerance=TOLERANCE)
    ratios, largest = [], []
    depth = np.arange(n_layers + 1) / n_layers
    for run, state in zip(training(theta, x[None], loss, optimiser, STABILITY_STEPS), limit, strict=True):
        error = (run.tokens - state.flow.tokens(depth)[:, None]).norm(dim=-1).amax(dim=(0, 2, 3))
        error = error + (run.adjoint - state.flow.adjoint(depth)[:, None]).norm(dim=-1).amax(dim=(0, 2, 3))
        measured = meter.measure(run.theta, shadows.theta, run.gradient, state.flow, error)
        ratios.append([measured.parameters, measured.depth, measured.gradients])
        largest.append(float(run.theta.abs().max()))
        if run.step < STABILITY_STEPS:
            shadows.follow(state.flow)
    return {"ratio": np.array(ratios), "largest": np.array(largest)}


def bound() -> Arrays:
    """Lemma 43: ``attained`` (betas,), the last step of AdamW on the worst sequence over C; ``limit`` (betas,), C."""
    attained, limits = [], []
    for beta_1, beta_2 in BETAS:
        theta = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
        optimiser = AdamW([theta], 1, 1, lr=1.0, betas=(beta_1, beta_2), eps=1e-300)
        for step in range(1, BOUND_STEPS + 1):
            # scaled so that neither end overflows
            theta.grad = torch.full_like(theta, math.exp((BOUND_STEPS / 2 - step) * math.log(beta_1 / beta_2)))
            optimiser.step()
        attained.append(optimiser.largest_step / adam_bound_at(BOUND_STEPS, beta_1, beta_2))
        limits.append(adam_bound_limit(beta_1, beta_2))
    return {"attained": np.array(attained), "limit": np.array(limits)}


def maps(seed: int) -> Arrays:
    """Lemmas 1 and 17: derivatives against differences, and Lipschitz ratios.

    Returns:
        ``difference`` (), largest relative error of the Lions derivative; ``ratio`` and ``bound`` (reach, power);
        ``drift`` (scales, 5).
    """
    rng = generator(seed, "uniform", "maps")
    worst = 0.0
    for _ in range(20):
        points, z = torch.from_numpy(rng.normal(size=(6, 3))), torch.from_numpy(rng.normal(size=3))
        exact = lions_derivative(z, points)
        for j in range(6):
            shift = torch.zeros_like(points)
            direction = torch.from_numpy(rng.normal(size=3))
            shift[j] = 1e-5 * direction
            numeric = (attended_mean(z, points + shift) - attended_mean(z, points - shift)) / 2e-5
            # a point's share of the measure is 1/6
            worst = max(worst, float((numeric * 6 - exact[j] @ direction).norm() / exact[j].norm()))
    found = [[attended_mean_ratio(1.0, reach, p, n_points=64, seed=seed) for p in MAP_POWER] for reach in MAP_REACH]
    theta = initial_parameters(1, 4, 4, 4, seed=seed)[0]
    drift = [list(vars(drift_ratios(scale * theta, 2.0, seed=seed)).values()) for scale in DRIFT_SCALES]
    return {
        "difference": np.array(worst),
        "ratio": np.array([[max(one.searched, one.at_random) for one in row] for row in found]),
        "bound": np.array([[one.bound for one in row] for row in found]),
        "drift": np.array(drift),
    }


def growth(seed: int) -> Arrays:
    """Growth with the scale of the parameters: ``slope`` (4,) of the gradients of Q, K, V, O at small scale; ``plain``,
    ``normed`` and ``ceiling`` (scales,), the largest token with and without post-norm and its bound."""
    system = System(seed=seed)
    theta = initial_parameters(16, 2, system.head_dim, system.width, seed=seed)
    x = system.training_inputs()
    gradients = gradient_growth(theta, x, replace(system, target=1.0).loss(), GROWTH_SCALES)
    states = state_growth(theta, x, STATE_SCALES)
    return {
        "slope": np.asarray(gradients.slopes, dtype=float)[0],
        **{
            name: np.asarray(values, dtype=float).reshape(len(STATE_SCALES), -1).max(axis=1)
            for name, values in (("plain", states.largest), ("normed", states.post_norm), ("ceiling", states.bound))
        },
    }


def diffusive(seed: int, regime: str, n_replicas: int, depths: Sequence[int]) -> Arrays:
    """The law of X_1 over depth: ``deviation``, ``deviation_error``, ``mean_score`` (depths,), ``apart`` (depths,)."""
    x = System(seed=seed).training_inputs()[0]
    found = law_over_depth(x, depths, 2, 4, regime, n_replicas=n_replicas, seed=seed)
    means, errors = np.asarray(found.mean), np.asarray(found.mean_error)
    last = means[-1:], errors[-1:]
    scores = (means - last[0]) / np.sqrt(errors**2 + last[1] ** 2 + np.finfo(float).tiny)
    axes = tuple(range(1, means.ndim))
    deviation, error = np.asarray(found.deviation), np.asarray(found.deviation_error)
    return {
        "deviation": np.sqrt((deviation**2).mean(axis=axes)),
        "deviation_error": np.sqrt((error**2).mean(axis=axes)),
        "mean_score": np.sqrt((scores**2).mean(axis=axes)),
        "apart": np.asarray(found.same_factor, dtype=float),
    }


def layouts(seed: int, n_inits: int) -> Arrays:
    """What a single head a layer does over depth: ``deviation`` (layouts, layers), of X_1 over initialisations."""
    system = System(seed=seed)
    x = system.fresh_inputs()[None]
    found = np.empty((len(LAYOUTS), len(LAYOUT_LAYERS)))
    for i, layout in enumerate(LAYOUTS):
        for j, n_layers in enumerate(LAYOUT_LAYERS):
            theta = initial_parameters(
                n_layers, 1, system.head_dim, system.width, layout=layout, n_replicas=n_inits,
                seed=_stream(seed, "layouts", layout, n_layers),
            )  # fmt: skip
            found[i, j] = float(forward(theta, x)[-1].var(dim=0).mean().sqrt())
    return {"deviation": found}


def focus(seed: int, gamma: float, n_tokens: int, n_inits: int) -> Arrays:
    """How cosines and attention move along depth and training under β = γ ln N.

    Returns:
        ``rho_hat`` (steps, layers+1), mean cosine of two tokens; ``entropy`` (steps, layers), of attention rows in nats,
        mean over heads, rows, fresh sequences and initialisations.
    """
    from attnlim.context import geometry

    n_layers, n_heads = FOCUS_NETWORK
    system = System(seed=seed, n_tokens=n_tokens, beta=gamma * math.log(n_tokens), n_fresh=4)
    theta = initial_parameters(
        n_layers, n_heads, system.head_dim, system.width, n_replicas=n_inits, seed=_stream(seed, "focus")
    )
    fresh = system.fresh_inputs()
    cosines, entropies = [], []
    for run in training(
        theta, system.training_inputs()[None], system.loss(), system.make_optimiser(), max(FOCUS_STEPS), system.beta
    ):
        if run.step in FOCUS_STEPS:
            tokens = forward(run.theta, fresh[None], system.beta)
            sets = tokens.flatten(1, 2)
            cosines.append([np.mean([geometry(x).rho_hat for x in layer]) for layer in sets])
            entropies.append([_entropy(run.theta[:, r], tokens[r], system.beta) for r in range(n_layers)])
    return {"rho_hat": np.array(cosines, dtype=float), "entropy": np.array(entropies, dtype=float)}


def _entropy(heads: Tensor, x: Tensor, beta: float) -> float:
    """Mean over everything of the entropy of attention rows; heads (replicas, H, 4, k, d), x (replicas, S, N, d)."""
    query, key = heads[:, None, :, 0], heads[:, None, :, 1]
    logits = beta * (x[:, :, None] @ query.mT) @ (x[:, :, None] @ key.mT).mT
    weights = torch.log_softmax(logits, dim=-1)
    return float(-(weights.exp() * weights).sum(dim=-1).mean())


def _stream(seed: int, *path: str | int) -> int:
    return int(generator(seed, "uniform", *path).integers(2**63))
