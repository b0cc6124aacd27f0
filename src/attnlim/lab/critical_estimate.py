"""What a reproduction will take: the figures as a phase diagram, and a small cell of every other kind."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch

from attnlim.core.cells import Cell
from attnlim.lab.critical_run import Reproduction
from attnlim.lab.critical_size import Size, rehearsal
from attnlim.lab.critical_tasks import PLANES, cells, measure_part
from attnlim.lab.phase_estimate import Estimate
from attnlim.lab.phase_estimate import estimate as estimate_grid
from attnlim.lab.phase_grid import PhaseGrid, make_grid


def estimate(plan: Reproduction, side_by_side: int = 1) -> Estimate:
    """Time small cells of every kind and width, and extend them to all.

    Args:
        plan: what would run.
        side_by_side: cells that run at a time.
    """
    seconds: dict[tuple[str, int], float] = defaultdict(float)
    costs: dict[tuple[str, int], float] = defaultdict(float)
    before = torch.get_num_threads()
    torch.set_num_threads(plan.threads)
    try:
        for cell in _others(rehearsal(plan.size), plan.seed):
            start = time.perf_counter()
            measure_part(**cell.arguments)
            seconds[_kind(cell.arguments)] += time.perf_counter() - start
            costs[_kind(cell.arguments)] += cell.cost
    finally:
        torch.set_num_threads(before)
    rest = sum(
        cell.cost * seconds[_kind(cell.arguments)] / costs[_kind(cell.arguments)]
        for cell in _others(plan.size, plan.seed)
    )
    figures = estimate_grid(_figures(plan), side_by_side)
    return Estimate(figures.seconds + rest / side_by_side, figures.memory)


def _others(size: Size, seed: int) -> list[Cell]:
    return [cell for cell in cells(size, seed) if cell.arguments["part"] != PLANES]


def _figures(plan: Reproduction) -> PhaseGrid:
    size = plan.size
    return make_grid(
        "gaussian", [size.n_tokens], size.widths, size.rho, size.gamma, draws=size.draws, seed=plan.seed,
        measure=["contraction", "eta"], threads=plan.threads, device="cpu",
    )  # fmt: skip


def _kind(arguments: Mapping[str, Any]) -> tuple[str, int]:
    return arguments["part"], arguments.get("width", 0)
