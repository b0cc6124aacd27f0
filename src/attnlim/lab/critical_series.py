"""What is measured over a series of numbers of tokens, so that exponents can be fitted: one cell a width and draw.

In a draw the tokens at a smaller n are the first of those at the largest, so that what they share, their z_0 above
all, is common to all n and leaves the exponent alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from attnlim.context.identity_layer import layer
from attnlim.context.jacobian import jacobian_energy
from attnlim.context.jacobian_limits import supercritical_jacobian_limit
from attnlim.context.row_focus import focus
from attnlim.context.samplers import gaussian_tokens, half_sphere_tokens
from attnlim.context.simplex_limits import critical_gamma
from attnlim.context.token_geometry import geometry
from attnlim.core.cells import Arrays
from attnlim.core.seeds import generator

# γ is this multiple of the upper threshold 1/(1-ρ_2) of each token set, and this share of its own γ_c
ABOVE, BELOW = 1.5, 0.5


def measure_frozen(width: int, rho: float, n_tokens: Sequence[int], draw: int, seed: int) -> Arrays:
    """How far the paper's tokens are from frozen at γ = 1.5/(1-ρ_2), with the ρ_2 of each set.

    Args:
        width: dimension d.
        rho: nominal cosine.
        n_tokens: (k,), ascending.
        draw: which token set, from 0.
        seed: at least 0.

    Returns:
        float64 (k,): deviation, the largest |m_i - y_i|; distance of the Jacobian from that of the normalisation; eta
        over its limit, eta_ratio; one_minus_rho_2.
    """
    whole = gaussian_tokens(n_tokens[-1], width, rho, seed=token_seed(seed, "frozen", width, draw))
    found: dict[str, list[float]] = {name: [] for name in ("deviation", "distance", "eta_ratio", "one_minus_rho_2")}
    for n in n_tokens:
        x = whole[:n]
        apart = geometry(x).one_minus_rho_2
        beta = ABOVE / apart * math.log(n)
        change = layer(x, beta) - x / torch.linalg.vector_norm(x, dim=1, keepdim=True)
        energy = jacobian_energy(x, beta)
        found["deviation"].append(float(torch.linalg.vector_norm(change, dim=1).max()))
        found["distance"].append(energy.distance)
        found["eta_ratio"].append(energy.total / supercritical_jacobian_limit(x.square().sum(dim=1).numpy(), width))
        found["one_minus_rho_2"].append(apart)
    return _arrays(found)


def measure_plateau(width: int, n_tokens: Sequence[int], draw: int, seed: int) -> Arrays:
    """η of half-sphere tokens, which all have norm 1, at half their own γ_c.

    Args:
        width: dimension d.
        n_tokens: (k,), ascending.
        draw: which token set, from 0.
        seed: at least 0.

    Returns:
        float64 (k,): eta and covariance, its part through the weights.
    """
    whole = half_sphere_tokens(n_tokens[-1], width, seed=token_seed(seed, "plateau", width, draw))
    found: dict[str, list[float]] = {"eta": [], "covariance": []}
    for n in n_tokens:
        x = whole[:n]
        energy = jacobian_energy(x, BELOW * critical_gamma(geometry(x).rho_hat) * math.log(n))
        found["eta"].append(energy.total)
        found["covariance"].append(energy.covariance)
    return _arrays(found)


def measure_focus(
    width: int, rho: float, reduced_gamma: Sequence[float], n_tokens: Sequence[int], draw: int, seed: int
) -> Arrays:
    """The mean entropy of a row of the paper's tokens over γ(1-ρ̂) and n, with the ρ̂ of the largest set.

    Args:
        width: dimension d.
        rho: nominal cosine.
        reduced_gamma: (m,), γ(1-ρ̂), at least 0; 1 is the threshold of a simplex.
        n_tokens: (k,), ascending.
        draw: which token set, from 0.
        seed: at least 0.

    Returns:
        float64: entropy (m, k), nats, and rho_hat ().
    """
    whole = gaussian_tokens(n_tokens[-1], width, rho, seed=token_seed(seed, "focus", width, draw)).float()
    rho_hat = geometry(whole).rho_hat
    entropy = [
        focus(whole[:n], [value / (1 - rho_hat) * math.log(n) for value in reduced_gamma]).entropy.double().mean(dim=1)
        for n in n_tokens
    ]
    return {"entropy": torch.stack(entropy, dim=1).numpy(), "rho_hat": np.array(rho_hat)}


def token_seed(seed: int, what: str, *path: str | int) -> int:
    """A seed for the tokens of one cell of a reproduction, which no other cell shares.

    >>> token_seed(0, "focus", 32, 0) == token_seed(0, "focus", 32, 1)
    False
    """
    return int(generator(seed, "reproduce critical", what, *path).integers(2**62))


def _arrays(found: dict[str, list[float]]) -> Arrays:
    return {name: np.array(values, dtype=np.float64) for name, values in found.items()}
