"""Many layers, simulated: how cosines, lengths and the Jacobian energy develop from layer to layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnlim.context.arguments import checked_tokens, directions, inverse_temperatures
from attnlim.context.attention_block import Weights, block
from attnlim.context.centred import CentredTokens
from attnlim.context.hutchinson import Layer, draw_probe
from attnlim.context.simplex_arguments import residual_factor
from attnlim.context.simplex_layers import Schedule, layer_betas
from attnlim.context.token_geometry import geometry
from attnlim.core.checks import InputError, real_number, whole_number
from attnlim.core.seeds import generator

Floats = NDArray[np.float64]

# n × n numbers that the probes carried together may hold of each kind: 32 MiB in float64 and one head
_ENTRIES = 2**22


@dataclass(frozen=True)
class Cascade:
    r"""What L layers make of n tokens; arrays of L + 1 entries begin with the tokens as given.

    Attributes:
        beta: (L,), inverse temperature of each layer, dimensionless.
        gamma: (L,), β/ln n.
        rho_hat: (L+1,), mean cosine over all pairs.
        one_minus_rho_hat: (L+1,), one minus it, without the cancellation.
        contraction_of_means: (L,), the ratio of one ``one_minus_rho_hat`` to the one before: λ on a simplex, else a
            ratio of means where λ is a mean of ratios. NaN after tokens that are all equal.
        q: (L+1,), mean of |x_i|²; q_1 and q_2 the smallest and the largest.
        rho_1: (L+1,), smallest cosine of a pair; rho_2 the largest. NaN unless asked for.
        eta: (L+1,), Jacobian energy |∂x^l/∂x^0|²/(nd) of all layers up to each, 1 before the first. NaN without
            probes.
        eta_standard_error: (L+1,), 0 before the first layer, NaN for fewer than two probes.
        tokens: (n, d), after the last layer.
    """

    beta: Floats
    gamma: Floats
    rho_hat: Floats
    one_minus_rho_hat: Floats
    contraction_of_means: Floats
    q: Floats
    q_1: Floats
    q_2: Floats
    rho_1: Floats
    rho_2: Floats
    eta: Floats
    eta_standard_error: Floats
    tokens: Tensor


def cascade(
    x: Tensor | np.ndarray,
    n_layers: int,
    gamma: Schedule | None = None,
    beta: Schedule | None = None,
    alpha: float = 0.0,
    normalise: bool = False,
    causal: bool = False,
    weights: Weights | Sequence[Weights] | None = None,
    *,
    extremes: bool = False,
    probes: int = 0,
    seed: int = 0,
) -> Cascade:
    r"""Tokens through many layers of :func:`~attnlim.context.attention_block.block`, measured after each.

    .. math::
        1 - \hat\rho = \frac{1}{n-1} \sum_i |y_i - \bar y|^2, \qquad
        \eta_l = \frac{1}{nd}\, E\,|J_l v|^2, \quad J_l = \partial x^l / \partial x^0, \quad E\, v v^T = I

    A simplex follows the exact recursion of :func:`attnlim.context.simplex_cascade`, which has the same arguments; other
    tokens do not.

    Source: the layer of "Critical attention scaling", section 2; the measures are
    [*derived*](../derivations.md#contraction). Probes go through the layers forwards, so that one passage serves all
    η_l.

    Args:
        x: (n, d), tokens, any unit, float32 or float64; n ≥ 2, d ≥ 1, finite, no zero norm.
        n_layers: L, at least 0.
        gamma: β/ln n, dimensionless, at least 0: a number for all layers, or a sequence of one a layer; give exactly one
            of ``gamma`` and ``beta``.
        beta: inverse temperature, dimensionless, at least 0, likewise.
        alpha: residual factor, dimensionless, at least 0.
        normalise: whether every layer's output is brought back to the norms at the start, each token to its own.
        causal: whether row i sees tokens 1..i alone.
        weights: the same for all layers, or L of them; None is the paper's layer, Q = K = V = O = I.
        extremes: whether to look for the smallest and the largest cosine.
        probes: random signs for η, 0 for none.
        seed: of the probes, at least 0.

    Returns:
        A :class:`Cascade`.

    Raises:
        InputError: an argument outside its range, not exactly one of ``gamma`` and ``beta``, a sequence of another
            length, or a layer after which tokens or their squared norms are not finite or are zero.

    Cost: L layers, and O(nd) a layer for the cosines; n²d a layer for ``extremes``; for a layer and probe
    about three layers without a fused kernel, which hold the n × n weights of each head. One estimate by
    :func:`~attnlim.context.hutchinson.jacobian_energy_estimate` of the whole stack is cheaper.
    Precision: layers in the dtype of ``x``, measures in float64; 1-ρ̂ does not fall below about its eps².

    >>> x = torch.eye(4, dtype=torch.float64) + 1     # a simplex with cosine 8/7 - 2/7 = 6/7
    >>> result = cascade(x, 2, beta=0.0)              # β = 0: one layer makes all tokens equal
    >>> result.rho_hat.round(9).tolist(), result.q.round(9).tolist()
    ([0.857142857, 1.0, 1.0], [7.0, 0.892857143, 1.0])
    """
    x = checked_tokens(x)
    n_layers = whole_number("n_layers", n_layers, 0)
    probes, seed = whole_number("probes", probes, 0), whole_number("seed", seed, 0)
    betas, alpha = layer_betas(len(x), n_layers, gamma, beta), residual_factor(alpha)
    if betas:
        inverse_temperatures(betas, x.dtype)
    per_layer = [weights] * n_layers if weights is None or isinstance(weights, Weights) else list(weights)
    if len(per_layer) != n_layers:
        raise InputError(f"weights must be for one layer or for all {n_layers}, got {len(per_layer)} of them")
    norms = directions(x)[1] if normalise else None
    layers = [
        partial(_layer, weights=own, beta=value, alpha=alpha, causal=causal, norms=norms)
        for own, value in zip(per_layer, betas, strict=True)
    ]
    start, measured = x, [_measure(x, extremes)]
    with torch.no_grad():
        for number, layer in enumerate(layers, start=1):
            try:
                x = layer(x)
                measured.append(_measure(x, extremes))
            except InputError as reason:
                raise InputError(f"layer {number} of {n_layers}: {reason}") from reason
    one_minus, q, q_1, q_2, rho_1, rho_2 = np.array(measured).T
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(one_minus[:-1] > 0, one_minus[1:] / one_minus[:-1], np.nan)
    eta, error = _energies(start, layers, probes, seed)
    gammas = np.array(betas) / math.log(len(x))
    return Cascade(np.array(betas), gammas, 1 - one_minus, one_minus, ratio, q, q_1, q_2, rho_1, rho_2, eta, error, x)


def _layer(x: Tensor, weights: Weights | None, beta: float, alpha: float, causal: bool, norms: Tensor | None) -> Tensor:
    """A block, and every token brought to its norm where one is given."""
    x = block(x, weights, beta, alpha, causal)
    if norms is None:
        return x
    checked_tokens(x)  # what it returns carries no gradient
    return directions(x)[0] * norms[:, None]


def _measure(x: Tensor, extremes: bool) -> tuple[float, float, float, float, float, float]:
    """1-ρ̂, mean, smallest and largest |x|², smallest and largest cosine."""
    tokens = CentredTokens.of(x)
    square = tokens.norm.square()
    lengths = (float(square.mean()), float(square.min()), float(square.max()))
    for length in lengths[1:]:
        real_number("the squared norm of a token", length, above=0.0, advice="scale the tokens, or normalise layers")
    found = geometry(x) if extremes else None
    cosines = (found.rho_1, found.rho_2) if found else (math.nan, math.nan)
    return (tokens.spread * len(x) / (len(x) - 1), *lengths, *cosines)


def _energies(x: Tensor, layers: Sequence[Layer], probes: int, seed: int) -> tuple[Floats, Floats]:
    """η up to each layer and its standard error, from probes of the input that all layers carry on."""
    energies = np.ones((probes, len(layers) + 1))
    draws = generator(seed, "probes", "rademacher")
    together = max(1, _ENTRIES // len(x) ** 2)
    # the fused kernels of attention know no forward mode
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        for first in range(0, probes, together):
            part = energies[first : first + together]
            image, changes = x, torch.stack([draw_probe(draws, "rademacher", x) for _ in part])
            for number, layer in enumerate(layers, start=1):
                changes = torch.func.vmap(partial(_carry, layer, image))(changes)
                image = layer(image)
                part[:, number] = changes.square().sum(dim=(1, 2)).cpu() / x.numel()
    unknown = np.full(len(layers) + 1, np.nan)
    eta = energies.mean(axis=0) if probes else unknown
    return eta, energies.std(axis=0, ddof=1) / math.sqrt(probes) if probes > 1 else unknown


def _carry(layer: Layer, image: Tensor, change: Tensor) -> Tensor:
    """J v of a layer at ``image``."""
    moved: Tensor = torch.func.jvp(layer, (image,), (change,))[1]
    return moved
