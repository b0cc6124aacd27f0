"""Figures 1 and 2 as variables: the simplex in closed form, and drawn tokens of each width, with their crossings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq

from attnlim.context.half_weight import half_weight_gamma
from attnlim.context.simplex import simplex_step
from attnlim.context.simplex_energy import simplex_jacobian
from attnlim.context.simplex_limits import critical_gamma
from attnlim.core.cells import Arrays
from attnlim.lab.critical_size import Size
from attnlim.lab.critical_tasks import PLANES, key

Floats = NDArray[np.float64]

PLANE = ("panel", "rho", "gamma", "draw")
SETS = ("panel", "rho", "draw")
# λ from this level to that: what a transition's width is measured between, as γ at the one over γ at the other
LOW, HIGH = 0.25, 0.75
_OF_GAMMA = {
    "grid_contraction": "contraction",
    "grid_eta_attention": "eta_attention",
    "grid_eta": "eta",
    "grid_fraction_contracted": "fraction_contracted",
    "grid_min_cosine": "min_cosine",
}
_OF_SETS = {
    "grid_rho_hat": "rho_hat",
    "grid_rho_1": "rho_1",
    "grid_rho_2": "rho_2",
    "grid_min_cosine_before": "min_cosine_before",
    "grid_score_variance": "score_variance",
}
_DERIVED = (
    "grid_gamma_c", "grid_gamma_half", "grid_eta_limit", "grid_forward", "grid_backward", "grid_spread",
    "grid_spread_simplex",
)  # fmt: skip


def panel_titles(size: Size) -> list[str]:
    """The simplex first, then the widths."""
    return ["simplex (d = n)", *(f"d = {width}" for width in size.widths)]


def plane_variables(size: Size, results: Mapping[str, Arrays]) -> dict[str, Any]:
    """The variables ``grid_*`` of a reproduction.

    Beside those that the report draws: η, the share of pairs that contract, the smallest cosine after and before, ρ_1,
    ρ_2, the variance of a row's cosines; grid_forward and grid_backward, where λ rises through 1/(1+3ρ̂) and the
    attention part of η through a quarter of its limit; grid_spread and grid_spread_simplex, by which factor γ grows
    while λ rises from a quarter to three quarters, measured and in closed form at ρ̂.

    Args:
        size: what was measured.
        results: the arrays of every cell by its key.
    """
    shape = (1 + len(size.widths), len(size.rho), len(size.gamma), size.draws)
    planes = {name: np.full(shape, np.nan) for name in _OF_GAMMA}
    sets = {name: np.full((*shape[:2], shape[3]), np.nan) for name in (*_OF_SETS, *_DERIVED)}
    for i, rho in enumerate(size.rho):
        for panel, width in enumerate((size.n_tokens, *size.widths)):
            for k in range(size.draws):
                if panel == 0:
                    found = _simplex(size, rho)
                else:
                    found = results[key(PLANES, n_tokens=size.n_tokens, width=width, rho=rho, draw=k)]
                for name, source in _OF_GAMMA.items():
                    planes[name][panel, i, :, k] = found.get(source, np.nan)
                for name, source in _OF_SETS.items():
                    sets[name][panel, i, k] = found.get(source, np.nan)
                for name, value in _derived(size, width, found).items():
                    sets[name][panel, i, k] = value
    return {name: (PLANE, values) for name, values in planes.items()} | {name: (SETS, v) for name, v in sets.items()}


def first_rise(gamma: Floats, values: Floats, level: float) -> float:
    """Where a curve first rises through a level: the root of the cubic spline through the points, between the two of them.

    On a grid of an eighth of the critical window a straight line would misplace it by up to a few percent.

    Args:
        gamma: (m,), ascending, at least four.
        values: (m,).
        level: one number.

    Returns:
        NaN where the curve does not rise through the level.

    >>> gamma = np.linspace(0, 4, 9)
    >>> round(first_rise(gamma, gamma**3, 5.0) / 5 ** (1 / 3), 12)
    1.0
    """
    excess = values - level
    rises = np.flatnonzero((excess[:-1] < 0) & (excess[1:] >= 0))
    if not rises.size or not np.isfinite(excess).all():
        return float("nan")
    curve: Callable[[float], float] = CubicSpline(gamma, excess)
    return float(brentq(curve, gamma[rises[0]], gamma[rises[0] + 1]))


def _simplex(size: Size, rho: float) -> Arrays:
    n = size.n_tokens
    energies = [simplex_jacobian(n, n, rho, gamma) for gamma in size.gamma]
    return {
        "contraction": _contraction(n, rho, size.gamma),
        "eta_attention": np.array([energy.attention for energy in energies]),
        "eta": np.array([energy.total for energy in energies]),
        "min_cosine": np.array([simplex_step(n, rho, gamma).rho for gamma in size.gamma]),
        **{name: np.array(rho) for name in ("rho_hat", "rho_1", "rho_2", "min_cosine_before")},
        "score_variance": np.array(0.0),
        "inverse_q_mean": np.array(1.0),
    }


def _contraction(n_tokens: int, rho: float, gamma: tuple[float, ...]) -> Floats:
    return np.array([simplex_step(n_tokens, rho, value).one_minus_rho / (1 - rho) for value in gamma])


def _derived(size: Size, width: int, found: Arrays) -> dict[str, float]:
    """What follows from a token set: thresholds of the theory at its ρ̂, and the crossings of its curves."""
    gamma, rho_hat = np.array(size.gamma), float(found["rho_hat"])
    limit = (width - 1) / width * float(found["inverse_q_mean"])
    simplex = np.full(len(gamma), np.nan)
    if -1 / (size.n_tokens - 1) < rho_hat < 1:
        simplex = _contraction(size.n_tokens, rho_hat, size.gamma)
    return {
        "grid_gamma_c": critical_gamma(rho_hat),
        "grid_gamma_half": half_weight_gamma(size.n_tokens, rho_hat, float(found["score_variance"])),
        "grid_eta_limit": limit,
        "grid_forward": first_rise(gamma, found["contraction"], 1 / (1 + 3 * rho_hat)),
        "grid_backward": first_rise(gamma, found["eta_attention"], limit / 4),
        "grid_spread": _spread(gamma, found["contraction"]),
        "grid_spread_simplex": _spread(gamma, simplex),
    }


def _spread(gamma: Floats, contraction: Floats) -> float:
    return first_rise(gamma, contraction, HIGH) / first_rise(gamma, contraction, LOW)
