"""The work of a reproduction of "Uniform scaling limits of AdamW-trained transformers", cut into cells."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attnlim.core.cells import Arrays, Cell
from attnlim.lab import uniform_parts, uniform_validation
from attnlim.lab.meanfield_grid import MeanfieldGrid, limit_key
from attnlim.lab.meanfield_limit import solve_limit
from attnlim.lab.meanfield_network import measure_network
from attnlim.lab.meanfield_system import System
from attnlim.lab.uniform_size import Size, grids

DEPTHS = (4, 8, 16, 32, 64)
STACK_STEPS = 4
# draws of the perceptrons' data
DRAWS = (0, 1, 2)

_PARTS: dict[str, Callable[..., Arrays]] = {
    "split": uniform_parts.split,
    "stack": uniform_parts.stack,
    "stability": uniform_parts.stability,
    "bound": uniform_parts.bound,
    "maps": uniform_parts.maps,
    "growth": uniform_parts.growth,
    "diffusive": uniform_parts.diffusive,
    "layouts": uniform_parts.layouts,
    "focus": uniform_parts.focus,
    "reference": uniform_validation.reference,
}


def first_cells(size: Size, seed: int, threads: int) -> list[Cell]:
    """What needs nothing else: the limits, the parts, and the reference of the validation."""
    found = [
        replace(cell, key=f"{name}.{cell.key}", arguments={"part": "limit", **cell.arguments})
        for name, grid in grids(size, seed, threads).items()
        for cell in grid.limit_cells()
    ]
    return [*found, *_parts(size, seed)]


def second_cells(size: Size, seed: int, threads: int) -> list[Cell]:
    """What is measured against the first: networks, and the perceptrons of the validation."""
    found = [
        replace(cell, key=f"{name}.{cell.key}", arguments={"grid": name, **cell.arguments})
        for name, grid in grids(size, seed, threads).items()
        for cell in grid.network_cells()
    ]
    for draw, n_layers, hidden in itertools.product(DRAWS, size.validation_layers, size.validation_layers):
        if n_layers * hidden > size.validation_product:
            continue
        arguments = {"seed": seed + draw, "draw": draw, "n_layers": n_layers, "hidden": hidden}
        found.append(Cell(f"validation.draw{draw}-L{n_layers}-M{hidden}", arguments, 2e4 * n_layers * max(hidden, 32)))
    return found


def _parts(size: Size, seed: int) -> list[Cell]:
    found = [Cell("checks.bound", {"part": "bound"}, 1e8), Cell("checks.maps", {"part": "maps", "seed": seed}, 1e10)]
    found.append(Cell("checks.growth", {"part": "growth", "seed": seed}, 1e8))
    for law, n_layers in [(law, n) for law in ("xavier", "off-centre") for n in size.split_layers]:
        arguments = {"part": "split", "seed": seed, "law": law, "n_layers": n_layers, "n_inits": size.inits}
        found.append(Cell(f"split.{law}-L{n_layers}", arguments, 1.5e8 * n_layers))
    for n_layers, n_heads in [(n, h) for h in size.stack_heads for n in size.stack_layers]:
        arguments = {
            "part": "stack", "seed": seed, "n_layers": n_layers, "n_heads": n_heads, "n_inits": size.inits,
            "n_particles": 8 * size.fewer_particles, "n_steps": STACK_STEPS,
        }  # fmt: skip
        found.append(Cell(f"stack.L{n_layers}-H{n_heads}", arguments, 3e10 + 1e8 * n_layers * n_heads))
    for decay in uniform_parts.DECAYS:
        arguments = {
            "part": "stability", "seed": seed, "weight_decay": decay, "n_layers": 16, "n_heads": 4, "n_inits": 4,
            "n_particles": 2 * size.fewer_particles,
        }  # fmt: skip
        found.append(Cell(f"stability.decay{decay:g}", arguments, 4e10))
    for regime in ("diffusive", "mean-field"):
        arguments = {
            "part": "diffusive", "seed": seed, "regime": regime, "n_replicas": size.replicas, "depths": DEPTHS,
        }  # fmt: skip
        found.append(Cell(f"checks.{regime}", arguments, 1e8 * size.replicas / 100))
    found.append(Cell("checks.layouts", {"part": "layouts", "seed": seed, "n_inits": size.replicas}, 1e10))
    for gamma, n in [(gamma, n) for gamma in size.gammas for n in size.growing_tokens]:
        arguments = {"part": "focus", "seed": seed, "gamma": gamma, "n_tokens": n, "n_inits": 8}
        found.append(Cell(f"focus.gamma{gamma:g}-N{n}", arguments, 4e6 * n * (n + 8)))
    n_layers, hidden, n_runs = size.validation_reference
    for draw in DRAWS:
        arguments = {"part": "reference", "seed": seed + draw, "n_layers": n_layers, "hidden": hidden, "n_runs": n_runs}
        found.append(Cell(reference_key(draw), arguments, 8e3 * n_layers * hidden * n_runs))
    return found


def measure_first(part: str, **arguments: Any) -> Arrays:
    """The arrays of a cell that needs nothing else."""
    return solve_limit(**arguments) if part == "limit" else _PARTS[part](**arguments)


def reference_key(draw: int) -> str:
    """The key of the perceptrons' reference.

    >>> reference_key(0)
    'validation.draw0-reference'
    """
    return f"validation.draw{draw}-reference"


def measure_second(
    first: Mapping[str, Mapping[str, np.ndarray]], grid: str | None = None, draw: int | None = None, **arguments: Any
) -> Arrays:
    """The arrays of a cell that is measured against limits, or against the validation's reference."""
    if draw is not None:
        return uniform_validation.errors(reference=first[reference_key(draw)], **arguments)
    system: System = arguments["system"]
    return measure_network(limit=first[f"{grid}.{limit_key(system, 'a')}"], **arguments)


def needed_by_second(size: Size, seed: int, threads: int) -> list[str]:
    """The keys of the first cells that second ones are measured against."""
    found = [
        f"{name}.{limit_key(system, 'a')}"
        for name, grid in grids(size, seed, threads).items()
        for system in grid.systems()
    ]
    return [*found, *map(reference_key, DRAWS)]


def results_of(grid_name: str, grid: MeanfieldGrid, results: Mapping[str, Arrays]) -> dict[str, Arrays]:
    """The arrays of a grid's own cells, under the keys that it gave them."""
    return {cell.key: results[f"{grid_name}.{cell.key}"] for cell in grid.cells()}
