"""The figures and the tables of docs/depth-limit.md, from small networks: under a minute on one core.

Run ``python examples/depth_figures.py FOLDER [NAME ...]``. It writes FOLDER/depth-NAME.svg, all of them or those that are
named. With ``--tables`` in the place of a folder it prints the tables of the page. What is drawn and what the page says in
numbers comes from the functions ``..._numbers``, which the tests call.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnlim.depth import (
    AdamW,
    ContinuousTime,
    ShadowHeads,
    adam_bound_at,
    adam_bound_limit,
    adjoint,
    block_bound,
    error_stack,
    forward,
    gradient_growth,
    initial_parameters,
    law_over_depth,
    limit_flow,
    limit_particles,
    limit_training,
    path_distance,
    split_coupling,
    training,
)
from attnlim.lab.meanfield_system import System
from attnlim.report.figures import INK, MUTED, SEQUENTIAL, line_axes

Floats = NDArray[np.float64]
Numbers = dict[Any, Any]

BLUE, ORANGE, GREEN, PURPLE = "#0b5fa5", "#d55e00", "#009e73", "#8a4b9f"
DASHED, DOTTED = (0, (4, 3)), (0, (1, 2))
RAMP = LinearSegmentedColormap.from_list("depth", SEQUENTIAL)
# tokens, widths, law and optimiser of everything on the page: N = 8, d = k = 4, β = 1, Xavier, AdamW
SYSTEM = System(n_fresh=4)
K, D = SYSTEM.head_dim, SYSTEM.width
BETAS = ((0.9, 0.999), (0.9, 0.99), (0.9, 0.95))
WALKS = (8, 64, 512)
SIZES = tuple((n_layers, n_heads) for n_heads in (1, 4, 16) for n_layers in (4, 16, 64, 256))
INITS = 24
LAYOUT_DEPTHS = (4, 8, 16, 32, 64, 128)
TRAINED, STEPS = (4, 16, 64), 10
SPLIT_DEPTHS, SPLIT_STEPS = (4, 8, 16, 32), (0, 1, 4)
LAW_DEPTHS = (4, 16, 64)
SHIFT_DEPTHS = (4, 8, 16, 32, 64, 128)
NOISE_DEPTHS = (8, 16, 32, 64, 128, 256)


def off_centre(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """A law whose heads have a mean, so that its limit moves."""
    return rng.uniform(-0.3, 0.7, shape)


@cache
def identity_numbers() -> Numbers:
    """Root mean square of X_1 - x at the start: ``one`` token and ``many``, and ``moved`` of a law that has a mean.

    Returns:
        Each by (L, H); ``one`` and ``many`` divided by that of the tokens, ``exact`` the closed form of ``one``,
        ``limit`` what the limit of the law with a mean does.
    """
    x = SYSTEM.fresh_inputs()
    found: Numbers = {"one": {}, "many": {}, "moved": {}, "exact": {}}
    for n_layers, n_heads in SIZES:
        theta = initial_parameters(
            n_layers, n_heads, K, D, n_replicas=INITS, seed=heads_of_their_own(n_layers, n_heads)
        )
        size = root_mean(x)
        found["many"][n_layers, n_heads] = root_mean(forward(theta, x[None])[-1] - x) / size
        alone = x.flatten(0, 1)[:, None]  # every token a sequence of its own
        found["one"][n_layers, n_heads] = root_mean(forward(theta, alone[None])[-1] - alone) / size
        found["exact"][n_layers, n_heads] = one_token(n_layers, n_heads)
        if n_heads == 1:
            other = initial_parameters(n_layers, n_heads, K, D, law=off_centre, n_replicas=INITS, seed=n_layers)
            found["moved"][n_layers, n_heads] = root_mean(forward(other, x[None])[-1] - x) / size
    flow = limit_flow(limit_particles(4096, 4, K, D, law=off_centre), x)
    return {**found, "limit": root_mean(flow.tokens(1.0)[0] - x) / root_mean(x)}


def heads_of_their_own(n_layers: int, n_heads: int) -> int:
    """A seed for each size, so that networks of equal LH do not share their heads."""
    return SIZES.index((n_layers, n_heads))


def one_token(n_layers: int, n_heads: int) -> float:
    """Root mean square of X_1 - x over |x| for one token and Xavier's law, exact at every L and H."""
    variance = 2 / (SYSTEM.head_dim + SYSTEM.width)
    each = SYSTEM.head_dim * SYSTEM.width * variance**2 / (n_layers**2 * n_heads)
    return math.sqrt(math.expm1(n_layers * math.log1p(each)))


def identity() -> Figure:
    """Paths of one coordinate at the start, and how far the last layer's tokens are from the first one's."""
    figure, (left, right) = sheet(2)
    x = SYSTEM.fresh_inputs()[:1]
    for index, n_layers in enumerate(WALKS):
        theta = initial_parameters(n_layers, 1, K, D, n_replicas=4, seed=1)
        walks = forward(theta, x[None])[:, :, 0, 0, 0] - x[0, 0, 0]
        t = np.arange(n_layers + 1) / n_layers
        for replica, walk in enumerate(walks.T):
            name = f"LH = {n_layers}" if replica == 0 else None
            left.plot(t, walk, color=RAMP(index / 2), lw=1.1, drawstyle="steps-post", label=name)
    left.axhline(0, color=ORANGE, lw=2, label="the limit")
    line_axes(left, "Four initialisations of each depth, H = 1", "t = r/L", "a coordinate of a token, less its start")
    found = identity_numbers()
    for n_heads, marker in ((1, "o"), (4, "s"), (16, "^")):
        chosen = [size for size in SIZES if size[1] == n_heads]
        product = [math.prod(size) for size in chosen]
        right.plot(product, [found["one"][size] for size in chosen], marker, color=BLUE, ms=5, mfc="white")
        right.plot(
            product,
            [found["many"][size] for size in chosen],
            marker,
            color=BLUE,
            ms=5,
            label=f"8 tokens, H = {n_heads}",
        )
    right.plot([], [], "o", color=BLUE, ms=5, mfc="white", label="one token")
    products = np.geomspace(4, 4096, 50)
    right.plot(products, products**-0.5, color=MUTED, lw=1.2, ls=DASHED, label="one token, exact: $(LH)^{-1/2}$")
    moved = found["moved"]
    right.plot(
        [n for n, _ in moved], list(moved.values()), "o-", color=ORANGE, ms=4, lw=1.2, label="8 tokens, law with a mean"
    )
    right.axhline(found["limit"], color=ORANGE, lw=1, ls=DOTTED)
    logarithmic(right)
    line_axes(right, "Distance from the identity", "LH", "RMS of X₁ − x, over that of x")
    left.legend(frameon=False, fontsize=9, loc="lower left")
    right.legend(frameon=False, fontsize=9, loc="lower left")
    return figure


@cache
def layout_numbers() -> Numbers:
    """Standard deviation of X_1 over initialisations with one head a layer: layout → depths."""
    x = SYSTEM.fresh_inputs()[None]
    return {
        layout: np.array([
            float(
                forward(initial_parameters(n, 1, K, D, layout=layout, n_replicas=48, seed=n), x)[-1]
                .var(dim=0).mean().sqrt()
            )
            for n in LAYOUT_DEPTHS
        ])
        for layout in ("iid", "shared", "smooth")
    }  # fmt: skip


def layouts() -> Figure:
    """Paths of one initialisation at two depths for each layout, and the spread over initialisations."""
    figure, panels = sheet(3)
    x = SYSTEM.fresh_inputs()[:1]
    for axes, layout, name in ((panels[0], "shared", "Shared heads"), (panels[1], "iid", "Independent heads")):
        for index, n_layers in enumerate((16, 256)):
            theta = initial_parameters(n_layers, 1, K, D, layout=layout, n_replicas=4, seed=3)
            walks = forward(theta, x[None])[:, :, 0, 0, 0] - x[0, 0, 0]
            for replica, walk in enumerate(walks.T):
                label = f"L = {n_layers}" if replica == 0 else None
                t = np.arange(n_layers + 1) / n_layers
                axes.plot(t, walk, color=(RAMP(0.0), RAMP(0.8))[index], lw=1.3, label=label)
        axes.set_ylim(-1.2, 1.2)
        line_axes(axes, name, "t = r/L", "a coordinate, less its start" if axes is panels[0] else "")
    panels[0].legend(frameon=False, fontsize=9, loc="upper left")
    for (layout, values), colour in zip(layout_numbers().items(), (BLUE, ORANGE, GREEN), strict=True):
        panels[2].plot(LAYOUT_DEPTHS, values, "o-", color=colour, ms=4, lw=1.4, label=layout)
    guide(panels[2], LAYOUT_DEPTHS, -0.5, layout_numbers()["iid"][0], "$L^{-1/2}$")
    logarithmic(panels[2], LAYOUT_DEPTHS)
    line_axes(panels[2], "Spread over initialisations", "L, H = 1", "standard deviation of X₁")
    panels[2].legend(frameon=False, fontsize=9, loc="lower left")
    return figure


def trained_system() -> System:
    """With a target that the tokens have to move to."""
    return replace(SYSTEM, target=1.0)


@cache
def training_numbers() -> Numbers:
    """Losses and root mean squares of X_1 - x over steps: ``limit`` (2 sets of particles, steps, 2), and L → (steps, 2,
    inits) with the losses first; ``certificate``, the largest ratios to the bounds of step and parameters."""
    system = trained_system()
    x, loss, optimiser = system.training_inputs(), system.loss(), system.make_optimiser()
    limits = []
    for seed in (0, 1):
        particles = limit_particles(512, 4, K, D, seed=seed)
        states = limit_training(particles, x, loss, optimiser, STEPS, tolerance=1e-6)
        limits.append([[state.loss, root_mean(state.flow.tokens(1.0)[0] - x)] for state in states])
    found: Numbers = {"limit": np.array(limits), "certificate": np.zeros(2)}
    for n_layers in TRAINED:
        theta = initial_parameters(n_layers, 1, K, D, n_replicas=12, seed=n_layers)
        curves = []
        for state in training(theta, x[None], loss, optimiser, STEPS):
            moved = (state.tokens[-1] - x).square().sum(dim=-1).mean(dim=(1, 2)).sqrt()
            curves.append([state.loss.numpy(), moved.numpy()])
            ratios = [state.certificate.update, state.certificate.parameter]
            found["certificate"] = np.fmax(found["certificate"], ratios)
        found[n_layers] = np.array(curves)
    return found


def trained() -> Figure:
    """Losses of networks beside that of the limit, and how far their tokens move."""
    figure, panels = sheet(2)
    found = training_numbers()
    steps = np.arange(STEPS + 1)
    for which, axes in enumerate(panels):
        for index, n_layers in enumerate(TRAINED):
            colour = RAMP(index / 2)
            axes.plot(steps, found[n_layers][:, which], color=colour, lw=0.8, alpha=0.55)
            axes.plot([], [], color=colour, lw=1.5, label=f"L = {n_layers}, H = 1")
        one, other = found["limit"][..., which]
        own = np.abs(one - other) / math.sqrt(2)
        axes.fill_between(steps, np.maximum(one - 2 * own, 1e-4), one + 2 * own, color=ORANGE, alpha=0.3, lw=0)
        axes.plot(steps, one, color=ORANGE, lw=2.2, label="the limit, ± 2 of its own errors")
    panels[0].set_yscale("log")
    line_axes(panels[0], "Loss, 12 initialisations of each depth", "steps τ", "½ |mean token − target|²")
    line_axes(panels[1], "How far tokens move", "steps τ", "RMS of X₁ − x")
    panels[0].legend(frameon=False, fontsize=9, loc="lower left")
    return figure


@cache
def error_numbers() -> Numbers:
    """E, sup over nodes, sequences and tokens, RMS over initialisations: ``noise`` by (L, H) at the start, where the limit
    is exact, and ``split`` by τ or "mean" → depths, of the same heads in 2L layers and in L."""
    x = SYSTEM.fresh_inputs()
    flow = limit_flow(limit_particles(2, 1, K, D), x)
    noise = {}
    for n_layers, n_heads in SIZES:
        theta = initial_parameters(
            n_layers, n_heads, K, D, n_replicas=INITS, seed=heads_of_their_own(n_layers, n_heads)
        )
        noise[n_layers, n_heads] = float(path_distance(forward(theta, x[None]), flow).sup_tokens.mean().sqrt())
    split: Numbers = {}
    loss, optimiser, inputs = SYSTEM.loss(), SYSTEM.make_optimiser(), SYSTEM.training_inputs()
    for n_layers in SPLIT_DEPTHS:
        for law, last in (("xavier", SPLIT_STEPS[-1]), (off_centre, 0)):
            theta = initial_parameters(2 * n_layers, 1, K, D, law=law, n_replicas=INITS, seed=n_layers)
            for state in split_coupling(theta, inputs, loss, optimiser, last, fresh=x):
                if state.step in SPLIT_STEPS:
                    key = state.step if law == "xavier" else "mean"
                    split.setdefault(key, []).append(float(state.sup_tokens.mean().sqrt()))
    return {"noise": noise, "split": {key: np.array(values) for key, values in split.items()}}


def errors() -> Figure:
    """The Monte Carlo error over LH and that of the discretisation over L."""
    figure, (left, right) = sheet(2)
    found = error_numbers()
    for n_heads, marker in ((1, "o"), (4, "s"), (16, "^")):
        chosen = [size for size in SIZES if size[1] == n_heads]
        values = [found["noise"][size] for size in chosen]
        left.plot([math.prod(size) for size in chosen], values, marker, color=BLUE, ms=5, label=f"H = {n_heads}")
    products = [math.prod(size) for size in SIZES]
    left.plot(sorted(products), [noise_constant() * n**-0.5 for n in sorted(products)], color=MUTED, lw=1.2, ls=DASHED)
    logarithmic(left)
    line_axes(left, "Monte Carlo: E at τ = 0", "LH", "sup |X − X̄|, RMS over 24 inits")
    left.legend(frameon=False, fontsize=9, loc="lower left")
    for index, (key, values) in enumerate(found["split"].items()):
        name = "law with a mean, τ = 0" if key == "mean" else f"τ = {key}"
        colour = ORANGE if key == "mean" else RAMP(index / 3)
        right.plot(SPLIT_DEPTHS, values, "o-", color=colour, ms=4, lw=1.4, label=f"{name}: {minus(slope(values))}")
    guide(right, SPLIT_DEPTHS, -1.5, 0.7 * found["split"][0][0], "$L^{-3/2}$")
    guide(right, SPLIT_DEPTHS, -1.0, 1.5 * found["split"][4][0], "$L^{-1}$")
    logarithmic(right, SPLIT_DEPTHS)
    line_axes(right, "Discretisation: 2L layers against L", "L", "sup over nodes, same heads")
    right.legend(frameon=False, fontsize=9, loc="lower left", title="fitted power of L", alignment="left")
    return figure


def noise_constant() -> float:
    """The geometric mean of E √(LH)."""
    values = error_numbers()["noise"].items()
    return float(np.exp(np.mean([math.log(error * math.sqrt(math.prod(size))) for size, error in values])))


def slope(values: Floats, depths: tuple[int, ...] = SPLIT_DEPTHS) -> float:
    """A fitted power of L."""
    return float(np.polyfit(np.log(depths), np.log(values), 1)[0])


@cache
def adam_numbers() -> Numbers:
    """Steps of AdamW on the worst gradients: (β_1, β_2) → |m̂|/(√v̂ + ε) at every step, for ε next to 0."""
    found = {}
    for beta_1, beta_2 in BETAS:
        # the bound of step t is met by gradients in proportion to (β_1/β_2)^{t-s}, another sequence for each t
        found[beta_1, beta_2] = np.array([worst_step(t, beta_1, beta_2) for t in worst_lengths()])
    return found


def worst_lengths() -> list[int]:
    return [4**power for power in range(6)]


def worst_step(length: int, beta_1: float, beta_2: float) -> float:
    """The last step of AdamW on the gradients that Cauchy-Schwarz says are worst."""
    theta = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimiser = AdamW([theta], 1, 1, lr=1.0, betas=(beta_1, beta_2), eps=1e-300)
    for step in range(1, length + 1):
        theta.grad = torch.full_like(theta, (beta_2 / beta_1) ** (step - length))
        optimiser.step()
    return optimiser.largest_step


def adam() -> Figure:
    """The bound of Adam's step, and the cube by which gradients of Q and K grow."""
    figure, (left, right) = sheet(2)
    steps = np.unique(np.geomspace(1, 10_000, 200).astype(int))
    for (beta_1, beta_2), colour in zip(BETAS, (BLUE, GREEN, PURPLE), strict=True):
        bounds = [adam_bound_at(int(t), beta_1, beta_2) for t in steps]
        left.plot(steps, bounds, color=colour, lw=1.4, label=f"β₁ = {beta_1}, β₂ = {beta_2}")
        left.axhline(adam_bound_limit(beta_1, beta_2), color=colour, lw=1, ls=DOTTED)
        left.plot(worst_lengths(), adam_numbers()[beta_1, beta_2], "o", color=colour, ms=4)
    left.plot([], [], "o", color=MUTED, ms=4, label="AdamW on the worst gradients")
    left.set_xscale("log")
    left.set_ylim(0, None)
    line_axes(left, "One step of Adam", "steps t", "largest $|\\hat m|/\\sqrt{\\hat v}$, in learning rates")
    scales = np.geomspace(0.02, 1.5, 24)
    grown = gradient_growth(initial_parameters(16, 2, K, D), SYSTEM.training_inputs(), trained_system().loss(), scales)
    colours, names = (BLUE, GREEN, PURPLE, ORANGE), ("$G_Q$", "$G_K$", "$G_V$", "$G_O$")
    for index, (colour, name) in enumerate(zip(colours, names, strict=True)):
        style = "-" if index % 2 == 0 else DASHED  # the two of a pair all but coincide
        right.plot(scales, grown.norms[:, index], color=colour, lw=2, ls=style, label=name)
    guide(right, (0.02, 0.2), 3, 3 * float(grown.norms[0, 0]), "$s^3$")
    guide(right, (0.02, 0.2), 1, 3 * float(grown.norms[0, 2]), "s")
    logarithmic(right)
    line_axes(right, "Gradients at parameters sθ, L = 16, H = 2", "s", "norm over all layers and heads")
    left.legend(frameon=False, fontsize=9, loc="center left")
    right.legend(frameon=False, fontsize=9, loc="lower right")
    return figure


@cache
def shift_numbers() -> Numbers:
    """How far gradients of eq. 20 are from a network's own: inside layers, at nodes, and with shifted adjoint; each over
    ``SHIFT_DEPTHS``, relative, with a law that has a mean."""
    x, loss = SYSTEM.training_inputs(), trained_system().loss()
    shares = torch.full(x.shape[:-1], 1 / SYSTEM.n_tokens, dtype=torch.float64)
    found: Numbers = {"inside": [], "node": []}
    for n_layers in SHIFT_DEPTHS:
        theta = initial_parameters(n_layers, 4, K, D, law=off_centre, seed=1)
        tokens = forward(theta, x)
        back = adjoint(theta, tokens, loss(tokens[-1], shares)[1])
        network = ContinuousTime(theta, tokens, back.adjoint)
        own = back.gradient
        for name, place in (("inside", 0.5), ("node", 0.0)):
            # at t = 0 the adjoint is not defined
            times = (np.arange(1, n_layers) + place) / n_layers
            off = network.gradient_at(times) - own[1:]
            found[name].append(float(off.norm() / own[1:].norm()))
    return {name: np.array(values) for name, values in found.items()}


def time() -> Figure:
    """The network as functions of t, and what pairing tokens with the adjoint at nodes would cost."""
    figure, panels = sheet(3)
    x, loss, n_layers = SYSTEM.training_inputs()[:1], trained_system().loss(), 6
    flow = limit_flow(limit_particles(4096, 4, K, D, law=off_centre), x)
    flow = flow.with_adjoint(loss(flow.tokens(1.0)[0], flow.log_weights.exp())[1])
    theta = initial_parameters(n_layers, 64, K, D, law=off_centre)
    tokens = forward(theta, x)
    costates = adjoint(theta, tokens, loss(tokens[-1], flow.log_weights.exp())[1]).adjoint
    t, edges = np.linspace(0, 1, 101), np.arange(n_layers + 1) / n_layers
    for axes, of_limit, of_network, shift, colour in (
        (panels[0], flow.tokens(t), tokens, 0, BLUE),
        (panels[1], flow.adjoint(t), costates, 1, PURPLE),
    ):
        axes.plot(t, of_limit[:, 0, 0, 0], color=ORANGE, lw=1.6, label="the limit")
        values = of_network[:, 0, 0, 0].numpy()
        for r in range(n_layers):
            axes.plot(edges[r : r + 2], 2 * [values[r + shift]], color=colour, lw=2)
            # full where the value at the jump is taken from
            ends = [colour, "white"] if shift == 0 else ["white", colour]
            for edge, face in zip(edges[r : r + 2], ends, strict=True):
                axes.plot([edge], [values[r + shift]], "o", color=colour, mfc=face, ms=5, zorder=4)
        if shift == 0:
            axes.plot([1], [values[-1]], "o", color=colour, ms=5, zorder=4)
    line_axes(panels[0], "Tokens, $\\bar X_t = x^{\\lfloor Lt \\rfloor}$", "t", "a coordinate, L = 6")
    line_axes(panels[1], "Adjoint, $\\bar a_t = a^{\\lceil Lt \\rceil}$", "t", "")
    panels[0].legend(frameon=False, fontsize=9, loc="best")
    found = shift_numbers()
    panels[2].plot(SHIFT_DEPTHS, found["node"], "o-", color=ORANGE, ms=4, lw=1.4, label="$x^r$ with $a^r$, at nodes")
    guide(panels[2], SHIFT_DEPTHS, -1.0, found["node"][0], "$L^{-1}$")
    logarithmic(panels[2], SHIFT_DEPTHS)
    line_axes(panels[2], "Eq. 20 against the gradient", "L", "relative distance")
    panels[2].legend(frameon=False, fontsize=9, loc="lower left")
    return figure


@cache
def stack_numbers() -> Numbers:
    """Lemma 40's parts along the error: τ → part → (layers+1,), root mean squares ``total``, and the projections of the
    parts on the error, which sum to it."""
    n_layers, last = 32, 4
    theta = initial_parameters(n_layers, 1, K, D, n_replicas=INITS, seed=2)
    x, loss, optimiser, fresh = SYSTEM.training_inputs(), SYSTEM.loss(), SYSTEM.make_optimiser(), SYSTEM.fresh_inputs()
    shadows, found = ShadowHeads(theta, optimiser), {}
    particles = limit_particles(512, 4, K, D, shared=True)
    limit = limit_training(particles, x, loss, optimiser, last, tolerance=1e-6)
    for run, state in zip(training(theta, x[None], loss, optimiser, last), limit, strict=True):
        if run.step in (0, last):
            flow = limit_flow(state.particles, fresh, tolerance=1e-6)
            parts = error_stack(run.theta, shadows.theta, forward(run.theta, fresh[None]), flow)
            total = mean_square(parts.total, parts.total) ** 0.5
            shares = {name: getattr(parts, name) for name in PARTS}
            safe = np.where(total > 0, total, 1.0)
            found[run.step] = {"total": total} | {
                name: mean_square(part, parts.total) / safe for name, part in shares.items()
            }
        if run.step < last:
            shadows.follow(state.flow)
    return found


PARTS = ("martingale", "time_shift", "propagated", "parameters")


def mean_square(one: torch.Tensor, other: torch.Tensor) -> Floats:
    """Mean scalar product over replicas, sequences and tokens, for every layer."""
    product: Floats = (one * other).sum(dim=-1).mean(dim=(1, 2, 3)).numpy()
    return product


def stack() -> Figure:
    """Lemma 40 before and after training."""
    figure, panels = sheet(2)
    names = ("martingale M", "ν at the layer's beginning", "propagated", "parameters")
    for axes, (step, found) in zip(panels, stack_numbers().items(), strict=True):
        t = np.linspace(0, 1, len(found["total"]))
        for part, name, colour in zip(PARTS, names, (BLUE, GREEN, PURPLE, ORANGE), strict=True):
            axes.plot(t, found[part], color=colour, lw=1.6, label=name)
        axes.plot(t, found["total"], color=INK, lw=2.2, label="the error, their sum")
        line_axes(axes, f"After {step} steps" if step else "At the start", "t = r/L", "RMS, along the error")
    top = max(axes.get_ylim()[1] for axes in panels)
    low = min(axes.get_ylim()[0] for axes in panels)
    for axes in panels:
        axes.set_ylim(low, top)
    panels[0].legend(frameon=False, fontsize=9, loc="upper left")
    return figure


@cache
def law_numbers() -> Numbers:
    """One token at H = 1 under both residuals: regime → ``deviation``, ``split``, and their exact values."""
    x = SYSTEM.fresh_inputs()[0, :1]
    length = float(x.norm())
    found = {}
    for regime in ("diffusive", "mean-field"):
        law = law_over_depth(x, LAW_DEPTHS, 1, SYSTEM.head_dim, regime, n_replicas=1024)
        found[regime] = {
            "deviation": np.sqrt((law.deviation**2).sum(axis=(1, 2))) / length,
            "split": law.split / length,
            "exact_deviation": np.array([exact_law(n, regime)[0] for n in LAW_DEPTHS]),
            "exact_split": np.array([exact_law(n, regime)[1] for n in LAW_DEPTHS]),
        }
    return found


def exact_law(n_layers: float, regime: str) -> tuple[float, float]:
    """Deviation of X_1 and distance of the same heads in half as many layers, over |x|; one token, H = 1, d k σ⁴ = 1."""
    squared, other = (1 / n_layers, 2**0.5) if regime == "diffusive" else (1 / n_layers**2, 1.0)
    deep, shallow, cross = (
        math.expm1(power * math.log1p(step))
        for power, step in (
            (n_layers, squared),
            (n_layers / 2, 2 * squared / other**2),
            (n_layers / 2, 2 * squared / other),
        )
    )
    return math.sqrt(deep), math.sqrt(max(deep + shallow - 2 * cross, 0.0))


def law() -> Figure:
    """What has a limit in depth at H = 1: the law of one residual, the paths of the other."""
    figure, panels = sheet(2)
    depths = np.geomspace(4, 1024, 60)
    for regime, colour, name in (("diffusive", ORANGE, "$L^{-1/2}$"), ("mean-field", BLUE, "1/L")):
        found = law_numbers()[regime]
        exact = np.array([exact_law(n, regime) for n in depths])
        for axes, which, quantity in zip(panels, (0, 1), ("deviation", "split"), strict=True):
            axes.plot(depths, exact[:, which], color=colour, lw=1.4, label=f"residual {name}")
            axes.plot(LAW_DEPTHS, found[quantity], "o", color=colour, ms=5)
    for axes in panels:
        logarithmic(axes)
    line_axes(panels[0], "Spread of $X_1$ over initialisations", "L, H = 1", "standard deviation, over |x|")
    line_axes(panels[1], "Same heads in L/2 layers of two", "L", "RMS distance of $X_1$, over |x|")
    panels[0].legend(frameon=False, fontsize=9, loc="lower left")
    return figure


@cache
def proof_numbers() -> Numbers:
    """``noise``: RMS over initialisations of sup |M| at H = 1 and the start, over ``NOISE_DEPTHS``."""
    x = SYSTEM.fresh_inputs()
    flow = limit_flow(limit_particles(2, 2, K, D), x)
    found = []
    for n_layers in NOISE_DEPTHS:
        theta = initial_parameters(n_layers, 1, K, D, n_replicas=INITS, seed=n_layers)
        noise = error_stack(theta, theta, forward(theta, x[None]), flow).martingale
        found.append(float(noise.square().sum(dim=-1).amax(dim=(0, 2, 3)).mean().sqrt()))
    return {"noise": np.array(found)}


def proof() -> Figure:
    """Where the third root comes from, and what the martingale does."""
    figure, (left, right) = sheet(2)
    found = block_bound(1024, 1)
    left.plot(found.size, found.noise, color=BLUE, lw=1.4, label="noise of a block, $(mH)^{-1/2}$")
    left.plot(found.size, found.remainder, color=PURPLE, lw=1.4, label="motion inside it, $(m/L)\\,H^{-1/2}$")
    left.plot(found.size, found.noise + found.remainder, color=INK, lw=2, label="their sum")
    left.axhline(1024**-0.5, color=ORANGE, lw=1.4, ls=DASHED, label="$(LH)^{-1/2}$")
    logarithmic(left)
    line_axes(left, "Lemma 36 at L = 1024, H = 1, without constants", "layers in a block, m", "")
    left.legend(frameon=False, fontsize=9, loc="lower right")
    values = proof_numbers()["noise"]
    right.plot(NOISE_DEPTHS, values, "o", color=BLUE, ms=5, label="sup |M|, measured, τ = 0, H = 1")
    guide(right, NOISE_DEPTHS, -1 / 2, values[0], "$L^{-1/2}$")
    guide(right, NOISE_DEPTHS, -1 / 3, values[0], "$L^{-1/3}$")
    logarithmic(right, NOISE_DEPTHS)
    right.set_yticks([0.2, 0.5, 1.0], ["0.2", "0.5", "1"])
    line_axes(right, "The martingale over depth", "L", "RMS over 24 inits")
    right.legend(frameon=False, fontsize=9, loc="lower left")
    return figure


def bounds_table() -> str:
    """C of common settings, what the worst gradients attain, and the compact set at weight decay 0.1."""
    lines = ["| β_1 | β_2 | C | attained, t = 1024 | compact set at λ = 0.1 |", "|---:|---:|---:|---:|---:|"]
    for beta_1, beta_2 in BETAS:
        limit = adam_bound_limit(beta_1, beta_2)
        share = worst_step(1024, beta_1, beta_2) / adam_bound_at(1024, beta_1, beta_2)
        lines.append(f"| {beta_1} | {beta_2} | {limit:.4f} | {100 * share:.1f} % | {limit / 0.1:.1f} |")
    return "\n".join(lines)


FIGURES: dict[str, Callable[[], Figure]] = {
    "identity": identity,
    "layouts": layouts,
    "training": trained,
    "errors": errors,
    "adam": adam,
    "time": time,
    "stack": stack,
    "law": law,
    "proof": proof,
}
TABLES: dict[str, Callable[[], str]] = {"bounds": bounds_table}


def write(folder: Path, names: Iterable[str]) -> Iterator[Path]:
    """Draw some of the figures into files; the same machine draws the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / f"depth-{name}.svg"
        with rc_context({"svg.hashsalt": "attnlim"}):
            FIGURES[name]().savefig(path, metadata={"Date": None})
        yield path


def root_mean(vectors: torch.Tensor) -> float:
    """Root mean square of the norms along the last axis."""
    return float(vectors.square().sum(dim=-1).mean().sqrt())


def sheet(columns: int) -> tuple[Figure, list[Axes]]:
    """A figure of ten inches with its panels beside each other."""
    figure = Figure(figsize=(10, 3.9), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08, wspace=0.03)  # type: ignore[union-attr, call-arg]
    return figure, list(figure.subplots(1, columns, squeeze=False).flat)


def logarithmic(axes: Axes, depths: tuple[int, ...] = ()) -> None:
    """Both axes, with ticks at the depths where they are few."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    if depths:
        axes.set_xticks(depths, [str(depth) for depth in depths])
        axes.minorticks_off()


def minus(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def guide(axes: Axes, ends: tuple[float, ...], power: float, start: float, name: str) -> None:
    """A line of a given slope through its first point, with its name at the end."""
    x = np.array([ends[0], ends[-1]], dtype=float)
    y = start * (x / x[0]) ** power
    axes.plot(x, y, color=MUTED, lw=1.1, ls=DASHED)
    axes.annotate(name, (x[1], y[1]), xytext=(3, 0), textcoords="offset points", color=MUTED, fontsize=9, va="center")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="where to write the figures")
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(FIGURES)}; all without")
    parser.add_argument("--tables", action="store_true", help="print the tables of the page")
    given = parser.parse_args()
    unknown = set(given.names) - FIGURES.keys()
    if unknown:
        parser.error(f"no figure {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    if given.folder is None and not given.tables:
        parser.error("give a folder for the figures, or --tables")
    if given.tables:
        for name, table in TABLES.items():
            print(f"{name}\n\n{table()}\n")
    if given.folder is not None:
        for path in write(given.folder, given.names or list(FIGURES)):
            print(path, flush=True)


if __name__ == "__main__":
    main()
