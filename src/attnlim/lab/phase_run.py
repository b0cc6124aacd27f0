"""A phase diagram from its grid: the cells are swept, put together and said in words."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import xarray as xr

from attnlim.core.cells import Cell
from attnlim.lab.dask_tasks import LOCAL, check_cluster
from attnlim.lab.phase_cell import measure_cell
from attnlim.lab.phase_dataset import assemble
from attnlim.lab.phase_grid import PhaseGrid, make_grid
from attnlim.lab.phase_words import verdict
from attnlim.lab.sweeping import Progress, sweep


def phase(
    tokens: Any = "gaussian",
    n_tokens: Iterable[int] | None = None,
    width: Iterable[int] | None = None,
    rho: Iterable[float] | None = None,
    gamma: Iterable[float] | None = None,
    alpha: Iterable[float] | None = None,
    causal: Iterable[bool] | None = None,
    *,
    draws: int | None = None,
    seed: int = 0,
    measure: Iterable[str] | None = None,
    dtype: str = "float32",
    rows: int | None = None,
    probes: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    text: str | None = None,
    cluster: str | None = None,
    workers: int | None = None,
    progress: Progress = lambda cell, was_stored: None,
) -> xr.Dataset:
    r"""Phase diagrams of contraction λ, Jacobian energy η and focus over any grid of sizes, cosines and γ.

    .. math:: x_i' = \sum_j \operatorname{softmax}_j(\beta \langle y_i, y_j \rangle)\, y_j + \alpha x_i, \qquad
        \beta = \gamma \ln n

    Each token set and mask is one cell with a seed of its own, so that a larger grid holds the same cells.

    Source: figures 1 and 2 of "Critical attention scaling"; the closed forms beside the measurement are *derived*.

    Args:
        tokens: "gaussian" (the paper's near-simplex), "simplex", "half-sphere", "sphere"; a path of a .npy or
            .safetensors file; MODEL:LAYER, the hidden states that enter a layer; or an array (n, d).
        n_tokens: numbers of tokens, each at least 2; of a file or array the first so many. None: 512, or all there are.
        width: dimensions d, at least 1, for sampled tokens only. None: 2, 32 and 512; n for the simplex.
        rho: nominal cosines, dimensionless, for Gaussian tokens in [0, 1), for a simplex in (-1/(n-1), 1). None:
            0.1 to 0.9.
        gamma: β/ln n, dimensionless, each at least 0. None: 0 to 4 by 0.1.
        alpha: residual factors, dimensionless, each at least 0. None: 0.
        causal: masks to measure, of False and True. None: False.
        draws: token sets of each kind; windows of the text for a model. None: 4 of random tokens, else 1.
        seed: at least 0.
        measure: of "contraction", "eta" and "focus". None: all.
        dtype: of the layer, "float32" or "float64".
        rows: attention rows that are sampled where n is larger, at least 3; None takes all.
        probes: random probes for the costly part of η, at least 2; None takes it exactly.
        threads: threads of torch inside a cell; None takes torch's own number, on a cluster 1.
        device: where the layer runs; None takes cuda if there is one here, elsewhere the CPU.
        text: a UTF-8 file for a model to read; None is the language reference inside every CPython.
        cluster: None for this process, "local" for worker processes here, else the address of a Dask scheduler.
        workers: processes of a local cluster; None takes one for every ``threads`` cores.
        progress: told of each finished cell, and whether it was already stored.

    Returns:
        A dataset of kind ``attnlim.phase`` over n_tokens, width, rho, gamma, alpha, causal and draw; its attribute
        ``verdict`` says in words where the transition lies.

    Raises:
        InputError: a number outside its range, tokens that cannot be read, a cluster that cannot be reached, or a
            cell that failed.

    >>> found = phase("simplex", [16], rho=[0.5], gamma=[0.0, 2.0, 4.0], measure=["focus"], dtype="float64")
    >>> found["perplexity"].squeeze().round(6).values.tolist()[0]
    16.0
    """
    check_cluster(cluster, workers)
    grid = make_grid(
        tokens, n_tokens, width, rho, gamma, alpha, causal, draws=draws, seed=seed, measure=measure, dtype=dtype,
        rows=rows, probes=probes, threads=1 if threads is None and cluster else threads, device=device, text=text,
        elsewhere=cluster not in (None, LOCAL),
    )  # fmt: skip
    return run_grid(grid, cluster=cluster, workers=workers, progress=progress)[0]


def run_grid(
    grid: PhaseGrid,
    cells_folder: Path | None = None,
    *,
    cluster: str | None = None,
    workers: int | None = None,
    progress: Progress = lambda cell, was_stored: None,
) -> tuple[xr.Dataset, int]:
    """Sweep the cells of a grid that ``cells_folder`` does not hold yet, and put the result together.

    Returns:
        The dataset with its verdict, and how many cells were begun again after the death of their worker.
    """
    cells: list[Cell] = grid.cells()
    found = sweep(
        cells, measure_cell, cells_folder, cluster=cluster, workers=workers, threads=grid.threads, progress=progress
    )
    dataset = assemble(grid, found.results)
    return dataset.assign_attrs(verdict=verdict(dataset)), found.retried
