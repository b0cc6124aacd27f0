"""What a mean-field experiment will take: a small limit and a small network of each size of tokens, extended to all."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch

from attnlim.core.cells import Arrays, Cell
from attnlim.core.memory import peak_bytes
from attnlim.lab.meanfield_grid import MeanfieldGrid, limit_cost, network_cost
from attnlim.lab.meanfield_limit import solve_limit
from attnlim.lab.meanfield_network import measure_network
from attnlim.lab.meanfield_system import System
from attnlim.lab.phase_estimate import Estimate

# a rehearsal's particles, depth and steps
_PARTICLES, _LAYERS, _STEPS = 128, 8, (0, 2)


def estimate(grid: MeanfieldGrid, side_by_side: int = 1) -> Estimate:
    """Time a small limit and small networks of every N and d, and extend them by what their cells cost.

    Args:
        grid: what would run.
        side_by_side: cells that run at a time.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(grid.threads)
    try:
        rates = {(s.n_tokens, s.width): _rates(grid, s) for s in grid.systems()}
    finally:
        torch.set_num_threads(before)
    seconds = 0.0
    for kind, cells in (("limit", grid.limit_cells()), ("network", grid.network_cells())):
        for cell in cells:
            system = cell.arguments["system"]
            seconds += cell.cost * rates[system.n_tokens, system.width][kind]
    largest = max(_bytes(cell) for cell in grid.cells())
    return Estimate(seconds / side_by_side, side_by_side * ((peak_bytes() or 0) + largest))


def _rates(grid: MeanfieldGrid, system: System) -> dict[str, float]:
    """Seconds for a unit of cost."""
    small = replace(system, n_particles=_PARTICLES, steps=_STEPS, n_sequences=1, n_fresh=1)
    limit: Arrays = {}
    solve_limit(small, 0, device=grid.device)  # the first one also pays for what later ones find ready
    start = time.perf_counter()
    limit = solve_limit(small, 0, keep_particles=grid.adversarial, device=grid.device)
    middle = time.perf_counter()
    n_heads = grid.n_heads[len(grid.n_heads) // 2]
    measure_network(small, _LAYERS, n_heads, grid.n_inits, limit, grid.adversarial, grid.device)
    end = time.perf_counter()
    return {
        "limit": (middle - start) / limit_cost(small),
        "network": (end - middle) / network_cost(small, _LAYERS, n_heads, grid.n_inits),
    }


def _bytes(cell: Cell) -> int:
    """Of the largest arrays of a cell: particles and their moments, or trajectories and parameters."""
    given: dict[str, Any] = dict(cell.arguments)
    system: System = given["system"]
    token = 8 * system.n_tokens * system.width
    head = 8 * 4 * system.head_dim * system.width
    sequences = system.n_sequences + system.n_fresh
    if "n_layers" not in given:
        return int(system.n_nodes * (6 * system.n_particles * head + 16 * sequences * token)) + _WEIGHTS
    n_layers, n_heads, n_inits = given["n_layers"], given["n_heads"], given["n_inits"]
    return int(n_layers * n_inits * (8 * n_heads * head + 6 * sequences * token)) + _WEIGHTS


# what a layer holds at a time, of attention weights and what is made of them
_WEIGHTS = 64 * 2**20
