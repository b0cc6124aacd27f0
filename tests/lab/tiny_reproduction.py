"""A reproduction of a second, and its evidence: enough for the rules, too little for the physics."""

from __future__ import annotations

from functools import cache

import xarray as xr

from attnlim.core.cells import Arrays
from attnlim.lab.critical_dataset import assemble
from attnlim.lab.critical_size import LAPTOP, Size
from attnlim.lab.critical_tasks import cells, measure_part

TINY = Size(
    name="tiny",
    n_tokens=48,
    widths=(48, 8, 2),
    rho=(0.2, 0.5),
    gamma=tuple(0.25 * i for i in range(17)),
    draws=2,
    bounds_draws=2,
    window_n=(100, 300),
    window_width=64,
    window_rows=8,
    series_n=(32, 64, 128),
    pair_n=128,
    score_n=(64, 256),
    independent_log10_n=(4, 6, 10, 12),
    chain_n=64,
)
# a size that says it is recorded, so that its verdicts are compared
PRETENDER = LAPTOP.name


@cache
def results() -> dict[str, Arrays]:
    """The arrays of every cell, computed once in a process."""
    return {cell.key: measure_part(**cell.arguments) for cell in cells(TINY, 0)}


def evidence() -> xr.Dataset:
    """The dataset without claims, a copy of its own for each caller."""
    return assemble(TINY, 0, results()).copy(deep=True)
