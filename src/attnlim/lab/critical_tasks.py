"""A reproduction cut into cells: each one token set or one control, a pure function of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attnlim.core.cells import Arrays, Cell
from attnlim.lab.critical_controls import (
    EXAMPLES,
    measure_bounds,
    measure_example,
    measure_independent,
    measure_layers,
    measure_scores,
    measure_windows,
)
from attnlim.lab.critical_series import measure_focus, measure_frozen, measure_plateau
from attnlim.lab.critical_size import Size
from attnlim.lab.critical_window import measure_self_weights
from attnlim.lab.phase_cell import measure_cell

# the cosine of everything that is no phase diagram: its threshold is γ = 2
RHO = 0.5
WINDOW_T = tuple(float(t) for t in range(-6, 7))
# γ(1-ρ̂), with the threshold of a simplex at 1
REDUCED_GAMMA = tuple(round(0.125 * i, 12) for i in range(25))
SAMPLERS = ("gaussian", "half-sphere")
CHAINS = ("chain", "gaussian")
CHAIN_BETA = (10.0, 20.0, 30.0)
SCORE_ROWS = 32
LAYERS = {"n_tokens": 64, "n_layers": 16, "gamma": 3.0}


def _measure_plane(n_tokens: int, width: int, rho: float, draw: int, gamma: tuple[float, ...], seed: int) -> Arrays:
    return measure_cell(
        "gaussian", n_tokens, width, rho, draw, gamma, 0.0, False, seed, ("contraction", "eta"), "float32", 0, 0, "cpu"
    )


PLANES = "planes"
_PARTS: dict[str, Callable[..., Arrays]] = {
    PLANES: _measure_plane,
    "window": measure_self_weights,
    "frozen": measure_frozen,
    "plateau": measure_plateau,
    "focus": measure_focus,
    "example": measure_example,
    "bounds": measure_bounds,
    "scores": measure_scores,
    "independent": measure_independent,
    "content": measure_windows,
    "layers": measure_layers,
}


def measure_part(part: str, **arguments: Any) -> Arrays:
    """One cell of a reproduction; a pure function of its arguments.

    Args:
        part: which of its parts.
        arguments: those of the part's own function.
    """
    return _PARTS[part](**arguments)


def cells(size: Size, seed: int) -> list[Cell]:
    """Every cell of a reproduction, the figures first."""
    wide, middle, narrow = size.widths
    n, draws = size.n_tokens, range(size.draws)
    pairs = sum(k * k for k in size.series_n)
    found = [
        _cell(PLANES, _plane_cost(n, d, len(size.gamma)), n_tokens=n, width=d, rho=rho, draw=k, gamma=size.gamma, seed=seed)
        for d in size.widths
        for rho in size.rho
        for k in draws
    ]  # fmt: skip
    found += [
        _cell(
            "window", n * size.window_width * (2 * size.window_rows + 200), n_tokens=n, width=size.window_width, rho=RHO,
            t=WINDOW_T, rows=size.window_rows, draw=k, seed=seed,
        )
        for n in size.window_n
        for k in draws
    ]  # fmt: skip
    found += [
        _cell(
            "frozen", pairs * (8 * d + min(d * d, 2 * n)), width=d, rho=RHO, n_tokens=size.series_n, draw=k, seed=seed
        )
        for d in (wide, middle)
        for k in draws
    ]
    found += [
        _cell("plateau", pairs * (10 * d + 100), width=d, n_tokens=size.series_n, draw=k, seed=seed)
        for d in (middle, narrow)
        for k in draws
    ]
    found += [
        _cell(
            "focus", pairs * (d + 10 * len(REDUCED_GAMMA)), width=d, rho=RHO, reduced_gamma=REDUCED_GAMMA,
            n_tokens=size.series_n, draw=k, seed=seed,
        )
        for d in (middle, narrow)
        for k in draws
    ]  # fmt: skip
    found += [_cell("example", 3 * size.pair_n**3, example=name, n_tokens=size.pair_n) for name in EXAMPLES]
    found += [
        _cell("bounds", pairs * (d + 20), tokens=name, width=d, rho=RHO, n_tokens=size.series_n, draw=k, seed=seed)
        for name in SAMPLERS
        for d in size.widths
        for k in range(size.bounds_draws)
    ]
    keys = 2 * size.draws * SCORE_ROWS * sum(size.score_n)
    found.append(
        _cell(
            "scores", keys * (4 * wide + 200), width=wide, rho=RHO, n_tokens=size.score_n, draws=2 * size.draws,
            rows=SCORE_ROWS, seed=seed,
        )
    )  # fmt: skip
    found += [_cell("independent", 10**7 * power, log10_n=power) for power in size.independent_log10_n]
    found += [
        _cell(
            "content", size.chain_n**2 * (6 * middle + 60) * len(CHAIN_BETA), tokens=name, n_tokens=size.chain_n,
            width=middle, rho=RHO, beta=CHAIN_BETA, draw=k, seed=seed,
        )
        for name in CHAINS
        for k in draws
    ]  # fmt: skip
    found.append(_cell("layers", 10**7, rho=RHO, **LAYERS))
    return found


def key(part: str, **names: Any) -> str:
    """The name of a cell from what tells it from the others of its part.

    >>> key("planes", n_tokens=512, width=2, rho=0.3, draw=4)
    'planes-512-2-0.3-4'
    """
    return "-".join([part, *(f"{value:.12g}" if isinstance(value, float) else str(value) for value in names.values())])


# what tells the cells of a part from one another, in the order of their names
_TOLD_BY = {
    PLANES: ("n_tokens", "width", "rho", "draw"),
    "window": ("n_tokens", "width", "draw"),
    "frozen": ("width", "draw"),
    "plateau": ("width", "draw"),
    "focus": ("width", "draw"),
    "example": ("example",),
    "bounds": ("tokens", "width", "draw"),
    "scores": (),
    "independent": ("log10_n",),
    "content": ("tokens", "draw"),
    "layers": (),
}


def _cell(part: str, cost: float, **arguments: Any) -> Cell:
    return Cell(
        key(part, **{name: arguments[name] for name in _TOLD_BY[part]}), {"part": part, **arguments}, float(cost)
    )


def _plane_cost(n_tokens: int, width: int, n_gamma: int) -> float:
    return n_tokens**2 * n_gamma * (9 * width + min(width**2, 2 * n_tokens) + 100)
