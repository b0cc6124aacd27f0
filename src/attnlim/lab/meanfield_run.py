"""A mean-field experiment from its grid: limits first, then the networks, put together and said in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from attnlim.core.cells import Arrays
from attnlim.lab.dask_tasks import LOCAL, check_cluster
from attnlim.lab.meanfield_dataset import assemble
from attnlim.lab.meanfield_grid import MeanfieldGrid, limit_key, make_grid
from attnlim.lab.meanfield_limit import solve_limit
from attnlim.lab.meanfield_network import measure_network
from attnlim.lab.meanfield_system import System
from attnlim.lab.meanfield_words import verdict
from attnlim.lab.sweeping import Progress, sweep


def meanfield(
    n_layers: Iterable[int] | None = None,
    n_heads: Iterable[int] | None = None,
    n_tokens: Iterable[int] | None = None,
    width: Iterable[int] | None = None,
    steps: Iterable[int] | None = None,
    seeds: Iterable[int] | None = None,
    *,
    gamma: float | None = None,
    n_inits: int = 16,
    max_product: int | None = None,
    adversarial: bool = False,
    threads: int = 1,
    device: str | None = None,
    cluster: str | None = None,
    workers: int | None = None,
    progress: Progress = lambda cell, was_stored: None,
    **system: Any,
) -> xr.Dataset:
    r"""How fast trained transformers come to their limit of infinite depth and heads, over a grid of sizes.

    .. math:: E_\tau(L, H) = \Big(\mathbb{E} \sup_t \sup_y \max_i |X^i_t - \bar X^i_t|^2\Big)^{1/2}

    Each limit is solved twice with independent particles, and with two numbers of nodes: its own error stands beside
    every rate.

    Source: "Uniform scaling limits of AdamW-trained transformers", Theorem 7.

    Args:
        n_layers, n_heads: L and H, each at least 1. None: 4, 16, 64 and 1, 4.
        n_tokens: N, each at least 1. None: 8.
        width: d, each at least 1. None: 4.
        steps: optimiser steps τ after which the distance is measured, each at least 0. None: 0, 1, 4.
        seeds: of inputs, parameters and particles: one experiment each. None: 0.
        gamma: β/ln N, at least 0; None: β as given.
        n_inits: independent initialisations of each network, at least 2: the units of every interval.
        max_product: networks of a larger L·H are left out; None: none.
        adversarial: look for the worst inputs too, by projected gradient ascent.
        threads: of torch inside a cell; products are small, so that more than one gains little.
        device: where networks run; None takes cuda if there is one here, elsewhere the CPU.
        cluster: None for this process, "local" for worker processes here, else the address of a Dask scheduler.
        workers: processes of a local cluster; None takes one for every ``threads`` cores.
        progress: told of each finished cell, and whether it was already stored.
        system: fields of :class:`attnlim.lab.meanfield_system.System`: head_dim, beta, inputs, law, optimiser, lr,
            weight_decay, betas, eps, target, n_sequences, n_fresh, n_particles, n_nodes.

    Returns:
        A dataset of kind ``attnlim.meanfield`` over seed, n_tokens, width, n_layers, n_heads, step, inputs and init; its
        attribute ``verdict`` says in words how fast the distance falls.

    Raises:
        InputError: a number outside its range, a run that diverged, a cluster that cannot be reached.

    >>> found = meanfield([2, 4], [1], steps=[0], n_inits=4, n_particles=8, n_fresh=2)
    >>> bool(found["sup_tokens"].sel(n_layers=4).mean() < found["sup_tokens"].sel(n_layers=2).mean())
    True
    """
    check_cluster(cluster, workers)
    grid = make_grid(
        n_layers, n_heads, n_tokens, width, steps, seeds, gamma=gamma, n_inits=n_inits, max_product=max_product, adversarial=adversarial,
        threads=threads, device=device, elsewhere=cluster not in (None, LOCAL),
        **system,
    )  # fmt: skip
    return run_grid(grid, cluster=cluster, workers=workers, progress=progress)[0]


def run_grid(
    grid: MeanfieldGrid,
    cells_folder: Path | None = None,
    *,
    cluster: str | None = None,
    workers: int | None = None,
    progress: Progress = lambda cell, was_stored: None,
) -> tuple[xr.Dataset, int]:
    """Solve the limits and train the networks that ``cells_folder`` does not hold yet, and put the result together.

    Returns:
        The dataset with its verdict, and how many cells were begun again after the death of their worker.
    """
    options: dict[str, Any] = {
        "cluster": cluster, "workers": workers, "threads": grid.threads, "progress": progress,
    }  # fmt: skip
    limits = sweep(grid.limit_cells(), solve_limit, cells_folder, **options)
    references = {limit_key(system, "a"): limits.results[limit_key(system, "a")] for system in grid.systems()}
    networks = sweep(grid.network_cells(), partial(_against, references), cells_folder, **options)
    dataset = assemble(grid, limits.results | networks.results)
    return dataset.assign_attrs(verdict=verdict(dataset)), limits.retried + networks.retried


def _against(limits: Mapping[str, Mapping[str, np.ndarray]], system: System, **arguments: Any) -> Arrays:
    """A network against the limit of its system."""
    return measure_network(system, limit=limits[limit_key(system, "a")], **arguments)
