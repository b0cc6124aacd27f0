"""Hutchinson's estimator of the Jacobian energy, for any function of tokens that torch can differentiate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlim.context.arguments import checked_tokens
from attnlim.core.checks import InputError, one_of, real_number, whole_number
from attnlim.core.seeds import generator

Layer = Callable[[Tensor], Tensor]

DISTRIBUTIONS = ("rademacher", "gaussian")
# with fewer, the standard error is itself too uncertain to stop on: 25 % off at 8 probes
_FIRST_PROBES = 8


@dataclass(frozen=True)
class Estimate:
    """The Jacobian energy with its standard error (NaN for one probe), and how it was come by.

    ``accuracy_reached`` is None where a number of probes was asked for, else whether the standard error fell to
    the accuracy asked for within ``max_probes``.
    """

    value: float
    standard_error: float
    n_probes: int
    accuracy_reached: bool | None
    distribution: str
    seed: int

    def __float__(self) -> float:
        return self.value


def jacobian_energy_estimate(
    function: Layer,
    x: Tensor | np.ndarray,
    probes: int | None = None,
    accuracy: float | None = None,
    seed: int = 0,
    max_probes: int = 1024,
    distribution: str = "rademacher",
) -> Estimate:
    r"""The Jacobian energy η of a function of tokens, by random probes through one backward pass each.

    .. math::
        \eta = \frac{|\nabla_X X'|_F^2}{nd} = \frac{1}{nd}\, E\,|J^T v|^2, \qquad E\, v v^T = I

    With B = J J^T one probe has the variance 2(|B|_F² - Σ_a B_aa²)/(nd)² for signs (``"rademacher"``) and
    2|B|_F²/(nd)² for normal entries (``"gaussian"``): signs never do worse, and are exact where B is diagonal.
    Normal probes make the law of the estimate independent of the basis of the output.

    Source: Hutchinson's trace estimator, which "Critical attention scaling" uses for Figure 2; variances
    [*derived*](../derivations.md#probes).

    Assumes: a function that is differentiable at ``x`` and gives the same result each time.

    Args:
        function: from (n, d) to (n, d), such as ``lambda x: block(x, weights, beta)`` or a stack of layers.
        x: (n, d), tokens, any unit, float32 or float64; n ≥ 2, d ≥ 1, finite, no zero norm.
        probes: number of probes, at least 1; 32 where neither this nor ``accuracy`` is given.
        accuracy: the relative standard error to reach, dimensionless, above 0: probes are added, at least 8, until
            it is reached. Stopping on an estimated error makes that error a little too small.
        seed: at least 0. The probes of a seed are one sequence: more of them continue it.
        max_probes: at least 2; where ``accuracy`` needs more, the result says that it was not reached.
        distribution: ``"rademacher"`` or ``"gaussian"``.

    Returns:
        An :class:`Estimate`; ``float`` of it is the value.

    Raises:
        InputError: both ``probes`` and ``accuracy``, an argument outside its range, bad tokens, a function that
            returns another shape, NaN or infinity, or nothing that torch can differentiate.

    Cost: one forward pass, whose graph is kept, and a backward pass a probe; memory that of the graph and 3nd.
    Precision: sums of squares in the dtype of ``x``. Twin: ``torch.func.jacrev``, which holds (nd)² numbers.

    >>> x = torch.ones(3, 2, dtype=torch.float64)
    >>> estimate = jacobian_energy_estimate(lambda x: 2 * x, x, probes=4)
    >>> estimate.value, estimate.standard_error    # J = 2I: signs are exact
    (4.0, 0.0)
    """
    if probes is not None and accuracy is not None:
        raise InputError(f"give at most one of probes and accuracy, got both: {probes!r} and {accuracy!r}")
    distribution = one_of("distribution", distribution, DISTRIBUTIONS)
    whole_number("seed", seed, 0)
    x = checked_tokens(x).clone().requires_grad_()
    with torch.enable_grad():
        image = _checked_image(function(x), x)
    draws = generator(seed, "probes", distribution)
    energies: list[float] = []

    def add(number: int) -> tuple[float, float]:
        energies.extend(_energy(image, x, draw_probe(draws, distribution, x)) for _ in range(number))
        return _mean(energies)

    if accuracy is None:
        value, error = add(32 if probes is None else whole_number("probes", probes, 1))
        return Estimate(value, error, len(energies), None, distribution, seed)
    accuracy = real_number("accuracy", accuracy, above=0.0, advice="0.01 asks for one percent")
    max_probes = whole_number("max_probes", max_probes, 2)
    value, error = add(min(_FIRST_PROBES, max_probes))
    while not error <= accuracy * value and len(energies) < max_probes:
        # as many as the present error calls for, at most doubling them, since that error is an estimate too
        ratio = min((error / (accuracy * value)) ** 2, 2.0)
        wanted = max(len(energies) + 1, math.ceil(ratio * len(energies)))
        value, error = add(min(wanted, max_probes) - len(energies))
    return Estimate(value, error, len(energies), error <= accuracy * value, distribution, seed)


def draw_probe(draws: np.random.Generator, distribution: str, x: Tensor) -> Tensor:
    """The next probe for tokens like ``x``, drawn on the CPU so that every device sees the same.

    Args:
        draws: the stream of probes.
        distribution: one of ``DISTRIBUTIONS``.
        x: (n, d).

    Returns:
        (n, d), independent entries of mean 0 and variance 1, in the dtype and on the device of ``x``.

    >>> draw_probe(generator(0, "probes"), "rademacher", torch.zeros(2, 3)).abs().tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    shape = tuple(x.shape)
    values = 2.0 * draws.integers(2, size=shape) - 1.0 if distribution == "rademacher" else draws.standard_normal(shape)
    return torch.from_numpy(values).to(x)


def _checked_image(image: Any, x: Tensor) -> Tensor:
    if not isinstance(image, Tensor) or image.shape != x.shape:
        came = str(tuple(image.shape)) if isinstance(image, Tensor) else type(image).__name__
        raise InputError(f"the function must return a tensor of the tokens' shape {tuple(x.shape)}, got {came}")
    if not bool(torch.isfinite(image).all()):
        raise InputError("the function must return finite numbers, got NaN or inf; look for an overflow inside it")
    if not image.requires_grad:
        raise InputError("the function's result must carry a gradient, got none; leave out detach() and no_grad()")
    return image


def _energy(image: Tensor, x: Tensor, probe: Tensor) -> float:
    (gradient,) = torch.autograd.grad(image, x, probe, retain_graph=True, materialize_grads=True)
    energy = float(gradient.square().sum()) / x.numel()
    if not math.isfinite(energy):
        raise InputError("the function's gradient must be finite, got NaN or inf; look for a kink or an overflow")
    return energy


def _mean(energies: list[float]) -> tuple[float, float]:
    """Mean and standard error, NaN for one probe."""
    count = len(energies)
    error = float(np.std(energies, ddof=1)) / math.sqrt(count) if count > 1 else math.nan
    return float(np.mean(energies)), error
