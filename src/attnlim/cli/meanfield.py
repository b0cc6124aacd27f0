"""`attnlim meanfield`: how fast trained networks come to their limit, from a grid to a sentence, a figure and a table."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlim.cli.number_lists import whole_numbers
from attnlim.cli.sweep_words import place, say, tell, would_run
from attnlim.core.checks import InputError, installed, real_number

if TYPE_CHECKING:
    import xarray as xr

    from attnlim.core.cells import Cell
    from attnlim.lab.meanfield_grid import MeanfieldGrid

# what --quick takes where an option does not say otherwise
QUICK: dict[str, Any] = {"layers": "4,8,16,32,64", "heads": "1,4", "steps": "0,2", "particles": 2048}


def command(
    layers: Annotated[str | None, typer.Option(help="Depths L, such as 4,16,64. Default: 4,16,64.")] = None,
    heads: Annotated[str | None, typer.Option(help="Numbers of heads H, likewise. Default: 1,4.")] = None,
    n: Annotated[str, typer.Option("--n", help="Numbers of tokens N.")] = "8",
    d: Annotated[str, typer.Option("--d", help="Widths d.")] = "4",
    k: Annotated[int, typer.Option("--k", help="Head dimension.")] = 4,
    steps: Annotated[str | None, typer.Option(help="Optimiser steps τ to measure after. Default: 0,1,4.")] = None,
    inits: Annotated[int, typer.Option(help="Initialisations: the units of every interval.")] = 16,
    max_product: Annotated[int | None, typer.Option(help="Leave networks of a larger L·H out.")] = None,
    seeds: Annotated[str, typer.Option(help="Of inputs, parameters and particles: one experiment each.")] = "0",
    beta: Annotated[float | None, typer.Option(help="Inverse temperature. Default: 1.")] = None,
    gamma: Annotated[float | None, typer.Option(help="β/ln N instead, so that β follows N.")] = None,
    inputs: Annotated[str, typer.Option(help="gaussian, sphere or clustered tokens.")] = "gaussian",
    law: Annotated[str, typer.Option(help="Of the parameters: xavier or uniform.")] = "xavier",
    optimiser: Annotated[str, typer.Option(help="adamw, blockwise or sgd.")] = "adamw",
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 0.1,
    weight_decay: Annotated[float, typer.Option(help="Decoupled weight decay.")] = 0.1,
    betas: Annotated[str, typer.Option(help="Decay rates of Adam's two moments.")] = "0.9,0.999",
    eps: Annotated[float, typer.Option(help="Of Adam, in mean-field units: LH times torch's.")] = 1e-3,
    target: Annotated[float, typer.Option(help="Norm of the target of the mean token, in units of √d.")] = 0.0,
    sequences: Annotated[int, typer.Option(help="Sequences to train on.")] = 4,
    fresh: Annotated[int, typer.Option(help="Sequences to measure on that are not trained on.")] = 16,
    particles: Annotated[int | None, typer.Option(help="Of the limit, at each node. Default: 4096.")] = None,
    nodes: Annotated[int, typer.Option(help="Of the limit, over depth.")] = 4,
    adversarial: Annotated[bool, typer.Option(help="Look for the worst inputs too.")] = False,
    out: Annotated[Path | None, typer.Option(help="The run's folder. Default: runs/meanfield.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a finished run.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Print what would run, with time and memory.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
    quick: Annotated[bool, typer.Option(help="A first rate in seconds; other options still hold.")] = False,
    cluster: Annotated[
        str | None, typer.Option(help="local (processes here) or a Dask scheduler such as tcp://10.0.0.1:8786.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes of --cluster local. Default: cores/threads.")] = None,
    threads: Annotated[
        int, typer.Option(help="Threads inside a cell; more than one gains little, --cluster local uses more cores.")
    ] = 1,
    device: Annotated[
        str | None, typer.Option(help="Such as cpu or cuda:1. Default: cuda if there is one here.")
    ] = None,
) -> None:
    """Train networks of many depths and numbers of heads, and fit how fast they come to their common limit."""
    chosen = {"layers": layers, "heads": heads, "steps": steps, "particles": particles}
    if quick:
        chosen = {name: QUICK[name] if value is None else value for name, value in chosen.items()}
    for module, group in (("plotly", "report"), ("matplotlib", "report")):
        installed(module, group)
    asked: dict[str, Any] = {
        "n_layers": _listed("--layers", chosen["layers"]),
        "n_heads": _listed("--heads", chosen["heads"]),
        "n_tokens": whole_numbers("--n", n),
        "width": whole_numbers("--d", d),
        "steps": _listed("--steps", chosen["steps"]),
        "seeds": whole_numbers("--seeds", seeds),
    }
    system: dict[str, Any] = {
        "head_dim": k, "inputs": inputs, "law": law, "optimiser": optimiser, "lr": lr, "weight_decay": weight_decay,
        "betas": _pair(betas), "eps": eps, "target": target, "n_sequences": sequences, "n_fresh": fresh,
        "n_particles": 4096 if chosen["particles"] is None else chosen["particles"], "n_nodes": nodes,
        **({} if beta is None else {"beta": beta}),
    }  # fmt: skip
    from attnlim.core.runs import refuse_finished
    from attnlim.lab.dask_tasks import LOCAL, check_cluster
    from attnlim.lab.meanfield_grid import make_grid

    folder = out or Path("runs") / ("meanfield-quick" if quick else "meanfield")
    if not dry_run:
        refuse_finished(folder, overwrite)
    check_cluster(cluster, workers)
    grid = make_grid(
        **asked, gamma=gamma, n_inits=inits, max_product=max_product, adversarial=adversarial,
        threads=threads, device=device,
        elsewhere=cluster not in (None, LOCAL), **system,
    )  # fmt: skip
    say(_headline(grid, cluster, workers), as_json)
    if dry_run:
        from attnlim.lab.meanfield_estimate import estimate

        would_run(grid.cells(), folder, partial(estimate, grid), grid.threads, cluster, workers, as_json)
        return
    arguments = {
        **{name: value for name, value in grid.identity().items() if name not in ("kind", "schema")},
        "out": str(folder), "quick": quick, "cluster": cluster, "workers": workers,
    }  # fmt: skip
    dataset, retried = _run(grid, folder, arguments, overwrite, cluster, workers)
    _show(dataset, folder, retried, quick, as_json)


def _listed(name: str, text: Any) -> list[int] | None:
    return None if text is None else whole_numbers(name, text)


def _pair(text: str) -> tuple[float, ...]:
    values = tuple(real_number("--betas", part) for part in text.split(","))
    if len(values) != 2:
        raise InputError(f"--betas must be two numbers such as 0.9,0.999, got {text!r}")
    return values


def _headline(grid: MeanfieldGrid, cluster: str | None, workers: int | None) -> str:
    system = grid.system
    beta = f"{system.beta:g}" if grid.gamma is None else f"{grid.gamma:g} ln N"
    lines = [
        f"L = {_values(grid.n_layers)} · H = {_values(grid.n_heads)} · N = {_values(grid.n_tokens)} · "
        f"d = {_values(grid.width)} · k = {system.head_dim} · β = {beta}",
        f"{system.optimiser} lr {system.lr:g} weight decay {system.weight_decay:g} · steps {_values(system.steps)} · "
        f"{grid.n_inits} inits · seed {_values(grid.seeds)}",
        f"limit: {system.n_particles:,} particles at {system.n_nodes} nodes · "
        f"{place(len(grid.cells()), grid.threads, cluster, workers)}",
    ]
    return "\n".join(lines)


def _values(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values)) if len(values) <= 8 else f"{values[0]} … {values[-1]} ({len(values)})"


def _run(
    grid: MeanfieldGrid,
    folder: Path,
    arguments: dict[str, Any],
    overwrite: bool,
    cluster: str | None,
    workers: int | None,
) -> tuple[xr.Dataset, int]:
    from attnlim.cli.keeping import begin, keep, on_cluster
    from attnlim.cli.progress import progress
    from attnlim.lab.meanfield_dataset import cells_table
    from attnlim.lab.meanfield_run import run_grid

    seeds = {f"experiment {i}": seed for i, seed in enumerate(grid.seeds)}
    run = begin(folder, arguments, grid, seeds if len(seeds) > 1 else {"everything": grid.seeds[0]}, overwrite)
    with progress(grid.cells(), _group, unit="") as told:
        dataset, retried = run_grid(grid, run.cells, cluster=cluster, workers=workers, progress=told)
    keep(run, dataset, cells_table, "cells.csv", on_cluster(cluster, retried))
    return dataset, retried


def _group(cell: Cell) -> str:
    return "limits" if cell.key.startswith("limit") else f"L = {cell.arguments['n_layers']}"


def _show(dataset: xr.Dataset, folder: Path, retried: int, quick: bool, as_json: bool) -> None:
    from attnlim.lab.meanfield_dataset import rates_table

    table = rates_table(dataset)
    paragraphs = dataset.attrs["verdict"].split("\n")
    if as_json:
        rows = json.loads(table.to_json(orient="records"))
        print(json.dumps(
            {"run": str(folder), "verdict": paragraphs, "rates": rows, "cells_begun_again": retried}
        ))  # fmt: skip
        return
    width = tell(paragraphs, retried)
    if quick:
        print(f"figure: {folder / 'figures' / 'meanfield.png'} · report: {folder / 'report.html'}")
        return
    _print_table(table, width)
    print(f"in {folder}: report.html, figures, data.zarr, cells.csv, run.json")


def _print_table(table: Any, width: int) -> None:
    """The exponents, a row for each limit, step and inputs."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    heads = {
        "seed": "seed", "n_tokens": "N", "width": "d", "step": "τ", "inputs": "inputs", "p": "power of L",
        "q": "power of H", "smallest": "least E", "reference": "limit's", "best": "best rate 1/L +",
    }  # fmt: skip
    varied = [name for name in heads if name not in ("seed", "n_tokens", "width") or table[name].nunique() > 1]
    sheet = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in varied:
        sheet.add_column(heads[name], justify="left" if name in ("inputs", "best") else "right", no_wrap=True)
    for row in table.to_dict("records"):
        sheet.add_row(*(str(row[name]) if not isinstance(row[name], float) else f"{row[name]:.3g}" for name in varied))
    print()
    Console(width=width, highlight=False, markup=False).print(sheet)
