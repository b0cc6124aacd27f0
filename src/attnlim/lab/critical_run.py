"""The reproduction of "Critical attention scaling": its cells are swept, put together and judged."""

from __future__ import annotations

import importlib.metadata
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from attnlim.core.cells import Cell
from attnlim.core.checks import one_of, whole_number
from attnlim.lab.claim_table import not_as_recorded, with_claims
from attnlim.lab.critical_claims import all_claims, verdict
from attnlim.lab.critical_dataset import KIND, assemble
from attnlim.lab.critical_record import RECORDED
from attnlim.lab.critical_size import SIZES, Size
from attnlim.lab.critical_tasks import cells, measure_part
from attnlim.lab.dask_tasks import check_cluster
from attnlim.lab.sweeping import Progress, sweep

SCHEMA = 1
# two sheets, each inside the report and as two files beside it
REPORT_BYTES = 20 * 2**20


@dataclass(frozen=True)
class Reproduction:
    """Everything that decides the numbers of a reproduction, checked.

    Attributes:
        size: what is measured.
        seed: of everything random.
        threads: of torch, inside a cell.
    """

    size: Size
    seed: int
    threads: int

    def cells(self) -> list[Cell]:
        """One cell for each token set or control."""
        return cells(self.size, self.seed)

    def bytes_on_disk(self) -> int:
        """What the run folder and its cells take at most."""
        # an archive takes about 400 bytes for each of some 30 arrays, and Zarr a file for each variable
        per_cell = 30 * 400 + 3 * 8 * 30 * len(self.size.gamma)
        return len(self.cells()) * per_cell + REPORT_BYTES

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


def make_reproduction(size: str | Size = "laptop", seed: int = 0, threads: int | None = None) -> Reproduction:
    """Check what a reproduction needs; arguments and errors as for :func:`reproduce_critical`."""
    import torch

    chosen = size if isinstance(size, Size) else SIZES[one_of("size", size, SIZES)]
    n_threads = torch.get_num_threads() if threads is None else whole_number("--threads", threads, 1)
    return Reproduction(chosen, whole_number("--seed", seed, 0), n_threads)


def reproduce_critical(
    size: str | Size = "laptop",
    seed: int = 0,
    *,
    threads: int | None = None,
    cluster: str | None = None,
    workers: int | None = None,
    progress: Progress = lambda cell, was_stored: None,
) -> xr.Dataset:
    """Every figure and claim of "Critical attention scaling" that can be computed, with a verdict each.

    Closed forms are followed to n = 10^300, tokens are drawn as in the paper. Verdicts come from intervals over token
    draws and from fixed margins (:mod:`attnlim.lab.critical_verdicts`); which of them are expected is recorded.

    Source: "Critical attention scaling", Theorems 2.1 to 2.5 and C.2, figures 1 and 2, table of methods; rows that are
    *derived* or *ours* say so.

    Args:
        size: "laptop" (minutes), "full" (the paper's n = 2048), or a :class:`attnlim.lab.critical_size.Size`.
        seed: at least 0.
        threads: threads of torch inside a cell; None takes torch's own number, on a cluster 1.
        cluster: None for this process, "local" for worker processes here, else the address of a Dask scheduler.
        workers: processes of a local cluster; None takes one for every ``threads`` cores.
        progress: told of each finished cell, and whether it was already stored.

    Returns:
        A dataset of kind ``attnlim.reproduce.critical``, see :mod:`attnlim.report.critical_reading`: the figures, the
        evidence and the table of claims, whose words are the attribute ``verdict``.

    Raises:
        InputError: an unknown size, a number outside its range, a cluster that cannot be reached, a failed cell.
    """
    check_cluster(cluster, workers)
    plan = make_reproduction(size, seed, 1 if threads is None and cluster else threads)
    return run_reproduction(plan, cluster=cluster, workers=workers, progress=progress)[0]


def run_reproduction(
    plan: Reproduction,
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
    found = sweep(
        plan.cells(),
        measure_part,
        cells_folder,
        cluster=cluster,
        workers=workers,
        threads=plan.threads,
        progress=progress,
    )
    evidence = assemble(plan.size, plan.seed, found.results)
    claims = all_claims(evidence)
    judged = with_claims(evidence, claims, RECORDED, verdict(claims))
    return judged, not_as_recorded(plan.size.name, claims, RECORDED), found.retried
