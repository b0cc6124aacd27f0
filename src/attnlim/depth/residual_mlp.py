"""A residual network of two-layer perceptrons with the same limit: a check of couplings and fits on published numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from attnlim.core.checks import InputError, real_number, whole_number
from attnlim.core.seeds import generator


@dataclass(frozen=True)
class ResidualMlpReference:
    """Outputs of the limit, with what they do not know themselves.

    Attributes:
        outputs: (n_steps+1, n_inputs, width).
        noise: (n_steps+1,), root mean square over outputs of their standard error over runs; NaN for one run.
        discretisation: (n_steps+1,), root mean square of the correction in 1/L that was applied; what is left of it is a
            power of 1/L smaller.
    """

    outputs: Tensor
    noise: Tensor
    discretisation: Tensor


def published_residual_mlp_error(n_layers: int, hidden: int, width: int) -> float:
    r"""The error after training that the literature reads off its experiment.

    .. math:: 0.22 \sqrt{D}/\sqrt{LM} + 0.15/L

    Source: arXiv 2509.10167 (Chizat), a fit by eye to one draw of the data, with a run of L = M = 1000 for the limit.

    Args:
        n_layers, hidden, width: L, M, D, at least 1.

    Returns:
        Root mean square over outputs, dimensionless.

    Raises:
        InputError: a size below 1.

    >>> round(published_residual_mlp_error(100, 100, 10), 5)
    0.00846
    """
    n_layers, hidden, width = _sizes(n_layers, hidden, width)
    return 0.22 * math.sqrt(width / (n_layers * hidden)) + 0.15 / n_layers


def residual_mlp_data(n_inputs: int = 10, width: int = 10, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Inputs and targets, both standard normal, (n_inputs, width), float64.

    Raises:
        InputError: a size below 1.

    >>> x, targets = residual_mlp_data(4, 3)
    >>> x.shape, bool((x == targets).any())
    (torch.Size([4, 3]), False)
    """
    n_inputs, width = whole_number("n_inputs", n_inputs, 1), whole_number("width", width, 1)
    rng = generator(seed, "residual MLP", "data")
    x, targets = torch.from_numpy(rng.standard_normal((2, n_inputs, width)))
    return x, targets


def residual_mlp_units(
    n_layers: int, hidden: int, width: int, n_replicas: int = 1, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """U and V before training: independent normal entries of variance D.

    Source: arXiv 2509.10167.

    Args:
        n_layers, hidden, width: L, M, D, at least 1.
        n_replicas: independent networks; the first are the same for any number.
        seed: of the draw.

    Returns:
        U and V, each (n_replicas, n_layers, width, hidden), float64.

    Raises:
        InputError: a size below 1.

    >>> residual_mlp_units(3, 4, 2)[0].shape
    torch.Size([1, 3, 2, 4])
    """
    n_layers, hidden, width = _sizes(n_layers, hidden, width)
    draws = [
        generator(seed, "residual MLP", n_layers, hidden, replica).standard_normal((2, n_layers, width, hidden))
        for replica in range(whole_number("n_replicas", n_replicas, 1))
    ]
    u, v = math.sqrt(width) * torch.from_numpy(np.stack(draws, axis=1))
    return u, v


def residual_mlp_training(
    u: Tensor, v: Tensor, x: Tensor, targets: Tensor, n_steps: int = 100, lr: float | None = None
) -> Tensor:
    r"""Outputs of networks while plain gradient descent trains them, by explicit equations.

    .. math::
        x_{l+1} = x_l + \frac{1}{LM} V_l \tanh(U_l^T x_l / D), \qquad \ell = \frac{1}{2ND} \sum_i |x_L^i - y^i|^2

    With a the tanh of a layer and p = ∂ℓ/∂x_{l+1}, gradients times LM are p aᵀ for V and x gᵀ/D for U, where
    g = (1 - a²) Vᵀp, and p of the layer below is p + U g/(LMD).

    Source: arXiv 2509.10167; the gradient is [*derived*](../depth-derivations.md#residual-mlp).

    Args:
        u, v: (n_replicas, n_layers, width, hidden); not changed.
        x, targets: (n_inputs, width), finite.
        n_steps: at least 0.
        lr: step on gradients times LM, above 0; None is D.

    Returns:
        x_L of every step, (n_steps+1, n_replicas, n_inputs, width), in the dtype of ``u``.

    Raises:
        InputError: shapes or dtypes that do not fit, numbers that are not finite, a run that diverged, with its step.

    Cost: 6 N·D multiply-adds and N tanh a unit and step, no graph; memory two copies of the units (the caller's and the
    one that trains) and N numbers a unit.

    Precision: float64 as the data and units here are made; sums over units in the dtype given.

    >>> x, targets = residual_mlp_data(4, 3)
    >>> outputs = residual_mlp_training(*residual_mlp_units(5, 6, 3), x, targets, n_steps=50)
    >>> bool((outputs[-1] - targets).norm() < (outputs[0] - targets).norm() / 2)
    True
    """
    u, v, x, targets = _fitting(u, v, x, targets)
    n_replicas, n_layers, width, hidden = u.shape
    n_steps = whole_number("n_steps", n_steps, 0)
    lr = float(width) if lr is None else real_number("lr", lr, above=0.0)
    share = 1 / (n_layers * hidden)
    states = u.new_empty(n_layers + 1, n_replicas, *x.shape)
    states[0] = x
    hiddens = u.new_empty(n_layers, n_replicas, len(x), hidden)
    slope = torch.empty_like(hiddens[0])
    outputs = u.new_empty(n_steps + 1, n_replicas, *x.shape)
    for step in range(n_steps + 1):
        for layer in range(n_layers):
            now = torch.matmul(states[layer] / width, u[:, layer], out=hiddens[layer]).tanh_()
            torch.baddbmm(states[layer], now, v[:, layer].mT, alpha=share, out=states[layer + 1])
        outputs[step] = states[-1]
        if not bool(torch.isfinite(states[-1]).all()):
            raise InputError(f"outputs must stay finite, got NaN or inf at step {step}: the run has diverged; lower lr")
        if step == n_steps:
            break
        costate = (states[-1] - targets) / x.numel()
        for layer in reversed(range(n_layers)):
            now, own_u, own_v = hiddens[layer], u[:, layer], v[:, layer]
            torch.matmul(costate, own_v, out=slope)
            own_v.baddbmm_(costate.mT, now, alpha=-lr)
            slope.mul_(now.square_().neg_().add_(1))
            costate = torch.baddbmm(costate, slope, own_u.mT, alpha=share / width)
            own_u.baddbmm_(states[layer].mT, slope, alpha=-lr / width)
    return outputs


def residual_mlp_reference(
    n_layers: int,
    hidden: int,
    x: Tensor,
    targets: Tensor,
    n_steps: int = 100,
    lr: float | None = None,
    n_runs: int = 4,
    seed: int = 0,
) -> ResidualMlpReference:
    r"""The limit's outputs by wide runs without most of their own errors.

    .. math:: x_\infty \approx \frac{1}{R} \sum_r \big( 2\, x^{(r)}_{L,M} - x^{(r)}_{L/2,\,2M} \big)

    Units are scrambled Sobol points: less noise than independent units (a third at the start, 0.6 after training, at
    M = 1024). Each run's units are read twice, the second time with pairs of layers as one: noise is common to both, so
    that the difference is the error in 1/L, which this takes out.

    Source: *ours*, [*derived*](../depth-derivations.md#residual-mlp).

    Args:
        n_layers: L, even.
        hidden: M, a power of two, at least 2.
        x, targets, n_steps, lr: as for :func:`residual_mlp_training`.
        n_runs: R, at least 1; 2 for an error.
        seed: of the scrambling.

    Returns:
        :class:`ResidualMlpReference`.

    Raises:
        InputError: as for :func:`residual_mlp_training`, an odd L, an M that is no power of two.

    Cost: twice R runs of :func:`residual_mlp_training`. With N = D = 10 and 100 steps, 8 runs at L = 256, M = 1024 know the
    limit to about an eighth of the smallest error at sizes up to 316 (minutes on one core, cells included); 6 runs at
    L = 64, M = 512 to about a tenth at sizes up to 64, in a tenth of the time. It varies with the data: compare ``noise``.

    >>> x, targets = residual_mlp_data(4, 3)
    >>> reference = residual_mlp_reference(4, 64, x, targets, n_steps=3, n_runs=3)
    >>> reference.outputs.shape, bool((reference.noise < 0.1).all())
    (torch.Size([4, 4, 3]), True)
    """
    x, targets = _tensor("x", x), _tensor("targets", targets)
    n_layers, hidden, width = _sizes(n_layers, hidden, x.shape[-1])
    n_runs = whole_number("n_runs", n_runs, 1)
    if n_layers % 2:
        raise InputError(f"n_layers of a reference must be even, got {n_layers}; pairs of layers are read as one")
    if hidden < 2 or hidden & (hidden - 1):
        raise InputError(f"hidden of a reference must be a power of two from 2, got {hidden}; Sobol points need it")
    runs, steps = [], []
    for run in range(n_runs):
        u, v = (units.to(x.dtype) for units in _sobol_units(n_layers, hidden, width, seed, run))
        fine, coarse = (
            residual_mlp_training(*units, x, targets, n_steps, lr)[:, 0] for units in ((u, v), (_paired(u), _paired(v)))
        )
        runs.append(2 * fine - coarse)
        steps.append(fine - coarse)
    all_runs = torch.stack(runs)
    noise = all_runs.new_full((len(all_runs[0]),), math.nan)
    if n_runs > 1:
        noise = (all_runs.var(dim=0) / n_runs).mean(dim=(-2, -1)).sqrt()
    step = torch.stack(steps).mean(dim=0).square().mean(dim=(-2, -1)).sqrt()
    return ResidualMlpReference(all_runs.mean(dim=0), noise, step)


def residual_mlp_errors(
    n_layers: int,
    hidden: int,
    x: Tensor,
    targets: Tensor,
    reference: Tensor,
    lr: float | None = None,
    n_replicas: int = 5,
    seed: int = 0,
) -> Tensor:
    r"""How far networks of one size are from given outputs while they train.

    .. math:: \Big( \frac{1}{ND} \sum_i |x_L^i - x_\infty^i|^2 \Big)^{1/2}

    Source: arXiv 2509.10167.

    Args:
        n_layers, hidden: L, M, at least 1.
        x, targets, lr: as for :func:`residual_mlp_training`.
        reference: (n_steps+1, n_inputs, width), outputs of the limit; its length says how many steps to train.
        n_replicas: repetitions, at least 1.
        seed: of the draw; cells of different sizes are independent.

    Returns:
        (n_steps+1, n_replicas), dimensionless.

    Raises:
        InputError: as there, or a reference of another shape.

    Cost: see :func:`residual_mlp_training`, for all replicas together.

    >>> x, targets = residual_mlp_data(4, 3)
    >>> reference = residual_mlp_reference(8, 256, x, targets, n_steps=3).outputs
    >>> residual_mlp_errors(2, 5, x, targets, reference).shape
    torch.Size([4, 5])
    """
    x, targets, reference = _tensor("x", x), _tensor("targets", targets), _tensor("reference", reference)
    if reference.ndim != 3 or reference.shape[1:] != x.shape or not len(reference):
        raise InputError(
            f"reference must have shape (n_steps+1, {', '.join(map(str, x.shape))}), got {tuple(reference.shape)}"
        )
    u, v = (units.to(x) for units in residual_mlp_units(n_layers, hidden, x.shape[-1], n_replicas, seed))
    outputs = residual_mlp_training(u, v, x, targets, len(reference) - 1, lr)
    errors: Tensor = (outputs - reference[:, None]).square().mean(dim=(-2, -1)).sqrt()
    return errors


def _sobol_units(n_layers: int, hidden: int, width: int, seed: int, run: int) -> tuple[Tensor, Tensor]:
    """U and V, (1, n_layers, width, hidden), every layer by its own scrambling."""
    layers = []
    for layer in range(n_layers):
        rng = generator(seed, "residual MLP", "Sobol", n_layers, hidden, run, layer)
        points = stats.qmc.Sobol(2 * width, rng=rng, bits=30).random(hidden)
        layers.append(stats.norm.ppf(points + 0.5**31).T)  # points lie on a grid of 2^-30 with 0, which has no quantile
    both = math.sqrt(width) * torch.from_numpy(np.stack(layers)[None])
    return both[:, :, :width].contiguous(), both[:, :, width:].contiguous()


def _paired(units: Tensor) -> Tensor:
    """(1, L/2, D, 2M): the units of layers 2l and 2l+1 in one."""
    return torch.cat([units[:, ::2], units[:, 1::2]], dim=-1)


def _sizes(n_layers: Any, hidden: Any, width: Any) -> tuple[int, int, int]:
    return whole_number("n_layers", n_layers, 1), whole_number("hidden", hidden, 1), whole_number("width", width, 1)


def _tensor(name: str, values: Any) -> Tensor:
    if not isinstance(values, Tensor) or values.dtype not in (torch.float32, torch.float64):
        raise InputError(f"{name} must be a float32 or float64 tensor, got {type(values).__name__}")
    detached: Tensor = values.detach()
    if not bool(torch.isfinite(detached).all()):
        raise InputError(f"{name} must be finite, got NaN or inf; look for where it was made")
    return detached


def _fitting(u: Any, v: Any, x: Any, targets: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The four checked; u and v as copies that training may change."""
    u, v, x, targets = (_tensor(name, values) for name, values in (("u", u), ("v", v), ("x", x), ("targets", targets)))
    if u.ndim != 4 or u.shape != v.shape or 0 in u.shape:
        raise InputError(
            "u and v must be (n_replicas, n_layers, width, hidden) alike with no empty axis, "
            f"got {tuple(u.shape)} and {tuple(v.shape)}"
        )
    if x.ndim != 2 or not len(x) or x.shape[1] != u.shape[2] or targets.shape != x.shape:
        raise InputError(
            f"x and targets must be (n_inputs, {u.shape[2]}) to fit u, got {tuple(x.shape)} and {tuple(targets.shape)}"
        )
    if len({(one.dtype, one.device) for one in (u, v, x, targets)}) > 1:
        raise InputError("u, v, x and targets must share a dtype and a device; convert them with .to")
    return u.clone(), v.clone(), x, targets
