"""The reproduction of "Uniform scaling limits of AdamW-trained transformers": swept in two stages, judged."""

from __future__ import annotations

import importlib.metadata
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import xarray as xr

from attnlim.core.cells import Cell
from attnlim.core.checks import one_of, whole_number
from attnlim.lab.claim_table import not_as_recorded, with_claims
from attnlim.lab.dask_tasks import check_cluster
from attnlim.lab.meanfield_grid import MeanfieldGrid
from attnlim.lab.sweeping import Progress, sweep
from attnlim.lab.uniform_claims import all_claims, verdict
from attnlim.lab.uniform_dataset import KIND, assemble
from attnlim.lab.uniform_record import RECORDED
from attnlim.lab.uniform_size import SIZES, Size, grids
from attnlim.lab.uniform_tasks import first_cells, measure_first, measure_second, needed_by_second, second_cells

SCHEMA = 1
# two sheets, each inside the report and as two files beside it
REPORT_BYTES = 20 * 2**20


@dataclass(frozen=True)
class UniformReproduction:
    """Everything that decides the numbers of the reproduction, checked.

    Attributes:
        size: what is measured.
        seed: of everything random.
        threads: of torch, inside a cell.
    """

    size: Size
    seed: int
    threads: int

    def grids(self) -> dict[str, MeanfieldGrid]:
        """The mean-field experiments by name."""
        return grids(self.size, self.seed, self.threads)

    def first_cells(self) -> list[Cell]:
        """What needs nothing else."""
        return first_cells(self.size, self.seed, self.threads)

    def second_cells(self) -> list[Cell]:
        """What is measured against the first."""
        return second_cells(self.size, self.seed, self.threads)

    def cells(self) -> list[Cell]:
        """All of them."""
        return self.first_cells() + self.second_cells()

    def bytes_on_disk(self) -> int:
        """What the run folder and its cells take at most."""
        return sum(grid.bytes_on_disk() for grid in self.grids().values()) + 20000 * len(self.cells()) + REPORT_BYTES

    def identity(self) -> dict[str, Any]:
        """What a resumed run must share with the one that was interrupted."""
        return {
            "kind": KIND,
            "schema": SCHEMA,
            **{package: importlib.metadata.version(package) for package in ("attnlim", "torch", "numpy")},
            **asdict(self.size),
            "seed": self.seed,
            "threads": self.threads,
        }


def make_uniform(size: str | Size = "laptop", seed: int = 0, threads: int = 1) -> UniformReproduction:
    """Check what the reproduction needs; arguments and errors as for :func:`reproduce_uniform`."""
    chosen = size if isinstance(size, Size) else SIZES[one_of("size", size, SIZES)]
    return UniformReproduction(chosen, whole_number("--seed", seed, 0), whole_number("--threads", threads, 1))


def reproduce_uniform(
    size: str | Size = "laptop",
    seed: int = 0,
    *,
    threads: int = 1,
    cluster: str | None = None,
    workers: int | None = None,
    progress: Progress = lambda cell, was_stored: None,
) -> xr.Dataset:
    """Theorem 7 and every lemma of "Uniform scaling limits of AdamW-trained transformers", measured, with verdicts.

    The paper prints no experiment; these are *ours*, in the setting of its theorem.

    Source: "Uniform scaling limits of AdamW-trained transformers", Theorem 7, Lemmas 1, 6, 17, 26, 28-30, 36, 38, 40, 43.

    Args:
        size: "laptop" (minutes), "full", or a :class:`attnlim.lab.uniform_size.Size`.
        seed: at least 0.
        threads: threads of torch inside a cell; products are small, so that more than one gains little.
        cluster: None for this process, "local" for worker processes here, else the address of a Dask scheduler.
        workers: processes of a local cluster; None takes one for every ``threads`` cores.
        progress: told of each finished cell, and whether it was already stored.

    Returns:
        A dataset of kind ``attnlim.reproduce.uniform``: the grids, the evidence and the table of claims, whose words are the
        attribute ``verdict``.

    Raises:
        InputError: an unknown size, a number outside its range, a cluster that cannot be reached, a failed cell.
    """
    check_cluster(cluster, workers)
    plan = make_uniform(size, seed, threads)
    return run_uniform(plan, cluster=cluster, workers=workers, progress=progress)[0]


def run_uniform(
    plan: UniformReproduction,
    cells_folder: Path | None = None,
    *,
    cluster: str | None = None,
    workers: int | None = None,
    progress: Progress = lambda cell, was_stored: None,
) -> tuple[xr.Dataset, list[str], int]:
    """Sweep the cells that ``cells_folder`` does not hold yet, and judge the result.

    Returns:
        The dataset; a line for each verdict that is not the recorded one; how many cells were begun again after the
        death of their worker.
    """
    options: dict[str, Any] = {
        "cluster": cluster, "workers": workers, "threads": plan.threads, "progress": progress,
    }  # fmt: skip
    first = sweep(plan.first_cells(), measure_first, cells_folder, **options)
    needed = {key: first.results[key] for key in needed_by_second(plan.size, plan.seed, plan.threads)}
    second = sweep(plan.second_cells(), partial(measure_second, needed), cells_folder, **options)
    evidence = assemble(plan, first.results | second.results)
    claims = all_claims(evidence)
    judged = with_claims(evidence, claims, RECORDED, verdict(claims))
    return judged, not_as_recorded(plan.size.name, claims, RECORDED), first.retried + second.retried
