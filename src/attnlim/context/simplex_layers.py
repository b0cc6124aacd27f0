"""The simplex through many layers: the exact recursion of its cosine and norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlim.context.simplex import next_simplex
from attnlim.context.simplex_arguments import cosine_and_rest, inverse_temperature, residual_factor, squared_norm
from attnlim.core.checks import InputError, whole_number

Schedule = float | Sequence[float] | NDArray[np.float64]


@dataclass(frozen=True)
class SimplexCascade:
    """The simplex before the first layer and after each (n_layers+1), and the self weights inside (n_layers)."""

    rho: NDArray[np.float64]
    one_minus_rho: NDArray[np.float64]
    q: NDArray[np.float64]
    self_weight: NDArray[np.float64]
    beta: NDArray[np.float64]


def simplex_cascade(
    n_tokens: int,
    n_layers: int,
    rho: float | None = None,
    gamma: Schedule | None = None,
    beta: Schedule | None = None,
    q: float = 1.0,
    alpha: float = 0.0,
    normalise: bool = False,
    one_minus_rho: float | None = None,
) -> SimplexCascade:
    r"""The cosine and the norm of a simplex through a stack of layers, exactly.

    .. math:: (\rho_{l+1}, q_{l+1}) = \text{layer}_{\beta_l, \alpha}(\rho_l, q_l)

    A layer keeps the simplex, so nothing is approximated. A critical layer raises ρ, and with it γ_c = 1/(1-ρ), so
    it makes the next one subcritical; only a supercritical simplex lasts, see
    :func:`attnlim.context.layers_to_collapse`. :func:`attnlim.context.cascade` takes the same arguments for any tokens.

    Source: [*derived*](../derivations.md#one-layer-on-a-simplex), iterating :func:`attnlim.context.simplex_step`.

    Assumes: a simplex, as there.

    Args:
        n_tokens: tokens, at least 2; a Python int may exceed the float range.
        n_layers: layers, at least 0.
        rho: cosine at the start, dimensionless, in (-1/(n-1), 1); give exactly one of ``rho`` and ``one_minus_rho``.
        gamma: β/ln n, dimensionless, at least 0: a number for all layers, or a sequence of one a layer; give exactly one
            of ``gamma`` and ``beta``.
        beta: inverse temperature, dimensionless, at least 0, likewise.
        q: squared norm at the start, dimensionless, above 0.
        alpha: residual factor, dimensionless, at least 0.
        normalise: whether every layer's output is brought back to the squared norm ``q``.
        one_minus_rho: 1-ρ at the start, dimensionless, in [0, n/(n-1)).

    Returns:
        A :class:`SimplexCascade`; ``one_minus_rho`` keeps its digits where ``rho`` rounds to 1.

    Raises:
        InputError: an argument outside its range, not exactly one of a pair, a sequence of another length, or a layer
            after which a squared norm leaves the float range.

    Cost: O(n_layers).

    Precision: that of a step; a layer takes a relative error e of 1-ρ to at most (3 + 2β(1-ρ)) e, and to about e
    above γ_c. For ρ < 0 the rounding of ρ between layers changes S = 1 + (n-1)ρ by eps/S of itself, and q' by as much
    where a layer leaves nothing but the mean of the tokens.

    >>> cascade = simplex_cascade(1000, 3, 0.5, gamma=2.0)
    >>> cascade.rho.round(3).tolist()    # one critical layer, two subcritical ones
    [0.5, 0.8, 1.0, 1.0]
    """
    n_tokens = whole_number("n_tokens", n_tokens, 2)
    rho, apart = cosine_and_rest(n_tokens, rho, one_minus_rho)
    betas = layer_betas(n_tokens, n_layers, gamma, beta)
    q, alpha = squared_norm(q), residual_factor(alpha)
    states, weights = [(rho, apart, q)], []
    for layer_beta in betas:
        try:
            step = next_simplex(n_tokens, rho, apart, layer_beta, alpha * math.sqrt(q))
        except InputError as reason:
            raise InputError(f"layer {len(states)} of {len(betas)}: {reason}") from reason
        rho, apart, q = step.rho, step.one_minus_rho, q if normalise else step.q
        states.append((rho, apart, q))
        weights.append(step.self_weight)
    columns = np.array(states).T
    return SimplexCascade(columns[0], columns[1], columns[2], np.array(weights), np.array(betas))


def layer_betas(n_tokens: int, n_layers: int, gamma: Schedule | None, beta: Schedule | None) -> list[float]:
    """β of every layer from exactly one of γ and β, each a number for all layers or a sequence of one a layer.

    Raises:
        InputError: none or both given, a sequence of another length than ``n_layers``, or a value that is negative or
            not finite.

    >>> layer_betas(100, 2, None, [1.0, 3.0]), layer_betas(100, 2, None, 1.5)
    ([1.0, 3.0], [1.5, 1.5])
    """
    n_layers = whole_number("n_layers", n_layers, 0)
    if (gamma is None) == (beta is None):
        came = "neither" if gamma is None else "both"
        raise InputError(f"give exactly one of gamma and beta, got {came}; each may be a number or one number a layer")
    name, schedule = ("gamma", gamma) if beta is None else ("beta", beta)
    given: Any = schedule
    values = given.tolist() if hasattr(given, "tolist") else given

    def checked(value: Any) -> float:
        return inverse_temperature(n_tokens, *((value, None) if beta is None else (None, value)))

    if isinstance(values, str) or not isinstance(values, Sequence):
        return [checked(values)] * n_layers
    if len(values) != n_layers:
        raise InputError(f"{name} must be a number or one a layer, got {len(values)} for {n_layers} layers")
    return [checked(value) for value in values]
