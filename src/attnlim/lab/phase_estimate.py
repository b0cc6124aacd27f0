"""What a phase diagram will take: measured on small cells, extended by the two ways in which a cell grows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from attnlim.core.memory import peak_bytes
from attnlim.lab.phase_cell import measure_cell
from attnlim.lab.phase_grid import PhaseGrid

SHORT, LONG = 128, 512
# γ of a timed cell: with more of them time grows in proportion, beside what a cell takes without any
FEW, MORE = 2, 6
# tiles of weights and cosines that the kernels hold at a time, on every thread
WORKING_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Estimate:
    """Of a whole phase diagram.

    Attributes:
        seconds: wall time, from timed cells of at most 512 tokens; right to about a factor of two.
        memory: bytes at the peak, of all processes together.
    """

    seconds: float
    memory: int


def estimate(grid: PhaseGrid, side_by_side: int = 1) -> Estimate:
    """Time small cells of every width of ``grid`` and extend them as a·n + b·n² to all its cells.

    Args:
        grid: what would run.
        side_by_side: cells that run at a time.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(grid.threads)
    try:
        per_size = {(n, d): 0.0 for n in grid.n_tokens for d in grid.width}
        for d in grid.width:
            for n, seconds in _seconds(grid, d).items():
                per_size[n, d] = seconds
    finally:
        torch.set_num_threads(before)
    repeats = len(grid.rho) * len(grid.alpha) * len(grid.causal) * grid.draws
    seconds = repeats * sum(per_size.values()) / side_by_side
    return Estimate(seconds, side_by_side * _memory(grid))


def _seconds(grid: PhaseGrid, width: int) -> dict[int, float]:
    """Of a cell of each number of tokens at one width."""
    longest = grid.n_tokens[-1]
    sizes = sorted({min(SHORT, longest), min(LONG, longest)})
    _time(grid, sizes[0], width, FEW)  # the first cell also pays for memory and kernels that later ones find ready
    times = []
    for n in sizes:
        few, more = _time(grid, n, width, FEW), _time(grid, n, width, MORE)
        each = max(0.0, more - few) / (MORE - FEW)
        times.append(max(0.0, few - FEW * each) + len(grid.gamma) * each)
    linear, square = times[0] / sizes[0], 0.0
    if len(sizes) == 2:
        square = max(0.0, (times[1] / sizes[1] - times[0] / sizes[0]) / (sizes[1] - sizes[0]))
        linear = max(0.0, times[1] / sizes[1] - square * sizes[1])
    return {n: _visible(grid, n) * (linear + square * n) for n in grid.n_tokens}


def _visible(grid: PhaseGrid, n_tokens: int) -> float:
    """Rows of a cell, all of them or the sample."""
    return float(min(n_tokens, grid.rows) if grid.rows else n_tokens)


def _time(grid: PhaseGrid, n_tokens: int, width: int, n_gamma: int) -> float:
    """Seconds of a small cell; the faster of two, since what else runs on the machine only ever adds."""
    arguments: Mapping[str, Any] = {
        "tokens": "sphere", "n_tokens": n_tokens, "width": width, "rho": float("nan"), "draw": 0,
        "gamma": tuple(0.5 + 0.1 * i for i in range(n_gamma)), "alpha": grid.alpha[-1], "causal": grid.causal[0],
        "seed": grid.seed, "measure": grid.measure, "dtype": grid.dtype, "rows": 0, "probes": grid.probes,
        "device": grid.device,
    }  # fmt: skip
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        measure_cell(**arguments)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _memory(grid: PhaseGrid) -> int:
    """Of one process: what stands, the tokens in float64, and for each γ what the layer makes of them, twice."""
    size = torch.finfo(getattr(torch, grid.dtype)).bits // 8
    n, d = grid.n_tokens[-1], grid.width[-1]
    moved = 2 * size * int(_visible(grid, n)) * d * len(grid.gamma)
    working = WORKING_BYTES * grid.threads
    tokens = 3 * 8 * n * d
    on_device = moved + tokens + working
    return int(on_device + ((peak_bytes() or 0) if grid.device == "cpu" else 0))
