"""What the reproduction of "Uniform scaling limits of AdamW-trained transformers" will take."""

from __future__ import annotations

import time
from dataclasses import replace

import torch

from attnlim.lab.meanfield_estimate import estimate as estimate_grid
from attnlim.lab.phase_estimate import Estimate
from attnlim.lab.uniform_run import UniformReproduction
from attnlim.lab.uniform_size import LAPTOP, Size
from attnlim.lab.uniform_tasks import first_cells, measure_first, second_cells

# parts that are timed, small, to know what a unit of cost takes
_TIMED = ("split.xavier", "checks.growth", "validation.draw0-reference")


def estimate(plan: UniformReproduction, side_by_side: int = 1) -> Estimate:
    """Estimate every grid by a small limit and network, and the other parts by small cells.

    Args:
        plan: what would run.
        side_by_side: cells that run at a time.
    """
    grids = [estimate_grid(grid, side_by_side) for grid in plan.grids().values()]
    small = rehearsal(plan.size)
    before = torch.get_num_threads()
    torch.set_num_threads(plan.threads)
    try:
        start, cost = time.perf_counter(), 0.0
        for cell in first_cells(small, plan.seed, plan.threads):
            if cell.key.startswith(_TIMED):
                measure_first(**cell.arguments)
                cost += cell.cost
        rate = (time.perf_counter() - start) / cost
    finally:
        torch.set_num_threads(before)
    others = sum(
        cell.cost
        for cell in first_cells(plan.size, plan.seed, plan.threads) + second_cells(plan.size, plan.seed, plan.threads)
        if cell.arguments.get("part") != "limit" and "grid" not in cell.arguments
    )
    seconds = sum(grid.seconds for grid in grids) + rate * others / side_by_side
    return Estimate(seconds, max(grid.memory for grid in grids))


def rehearsal(size: Size) -> Size:
    """A size of seconds with the same kinds of cells."""
    return replace(
        LAPTOP, name="rehearsal", inits=size.inits, split_layers=size.split_layers[:2], validation_reference=(8, 64, 2)
    )
