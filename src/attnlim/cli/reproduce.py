"""`attnlim reproduce`: every figure and claim of a paper, recomputed, with a verdict each."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlim.core.checks import installed

if TYPE_CHECKING:
    import xarray as xr

    from attnlim.core.cells import Cell
    from attnlim.lab.critical_run import Reproduction

CHECK_FAILED = 1
# a row of the table that needs no explanation
PLAIN = "confirmed"

app = typer.Typer(help="Recompute every figure and claim of a paper, with a verdict each.", no_args_is_help=True)


@app.callback()
def _papers() -> None:
    """Recompute every figure and claim of a paper, with a verdict each."""


@app.command("critical")
def critical(
    full: Annotated[bool, typer.Option("--full", help="The paper's size, n = 2048; else a laptop's minutes.")] = False,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    out: Annotated[Path | None, typer.Option(help="The run's folder. Default: runs/reproduce-critical.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a finished run.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Print what would run, with time and memory.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
    cluster: Annotated[
        str | None, typer.Option(help="local (processes here) or a Dask scheduler such as tcp://10.0.0.1:8786.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes of --cluster local. Default: cores/threads.")] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads inside a cell. Default: all cores, with --cluster one.")
    ] = None,
) -> None:
    """Recompute "Critical attention scaling": figures 1 and 2, finite n, and a table with a verdict for every claim.

    Exit code 1 where a verdict is another than the one that this repository records.
    """
    for module, group in (("plotly", "report"), ("matplotlib", "report")):
        installed(module, group)
    from attnlim.core.runs import refuse_finished
    from attnlim.lab.critical_run import make_reproduction
    from attnlim.lab.dask_tasks import check_cluster

    name = size_name(full)
    folder = out or Path("runs") / f"reproduce-critical{'-full' if full else ''}"
    if not dry_run:
        refuse_finished(folder, overwrite)
    check_cluster(cluster, workers)
    plan = make_reproduction(name, seed, 1 if threads is None and cluster is not None else threads)
    _say(_headline(plan, cluster, workers), as_json)
    if dry_run:
        _dry_run(plan, folder, cluster, workers, as_json)
        return
    arguments = {
        "size": plan.size.name, "seed": seed, "out": str(folder), "threads": plan.threads, "cluster": cluster,
        "workers": workers,
    }  # fmt: skip
    dataset, unlike, retried = _run(plan, folder, arguments, overwrite, cluster, workers)
    _show(dataset, unlike, folder, retried, as_json)
    if unlike:
        raise typer.Exit(CHECK_FAILED)


def size_name(full: bool) -> str:
    """The size that is asked for."""
    return "full" if full else "laptop"


def _headline(plan: Reproduction, cluster: str | None, workers: int | None) -> str:
    from attnlim.lab.dask_tasks import LOCAL, worker_count

    size = plan.size
    where = "in this process" if cluster is None else f"on {cluster}"
    if cluster == LOCAL:
        count = worker_count(workers, plan.threads)
        where = f"on {count} worker process{'es' if count > 1 else ''}"
    threads = f"{plan.threads} thread{'s' if plan.threads > 1 else ''} each"
    lines = [
        f"Critical attention scaling · {size.name} size · n = {size.n_tokens}, d = {', '.join(map(str, size.widths))} and the simplex",
        f"{len(size.rho)} ρ × {len(size.gamma)} γ · {size.draws} draws · drawn tokens up to {max(size.window_n):,} · seed {plan.seed}",
        f"{len(plan.cells())} cells {where}, {threads}",
    ]
    return "\n".join(lines)


def _say(line: str, as_json: bool) -> None:
    """Print for a person; with --json standard output is for the machine alone."""
    print(line, file=sys.stderr if as_json else sys.stdout, flush=True)


def _dry_run(plan: Reproduction, folder: Path, cluster: str | None, workers: int | None, as_json: bool) -> None:
    from attnlim.cli.progress import clock_time
    from attnlim.lab.critical_estimate import estimate
    from attnlim.lab.dask_tasks import LOCAL, worker_count

    expected = estimate(plan, worker_count(workers, plan.threads) if cluster == LOCAL else 1)
    keys = [cell.key for cell in plan.cells()]
    if as_json:
        print(json.dumps({
            "cells": keys, "out": str(folder), "seconds": round(expected.seconds, 1), "memory_bytes": expected.memory,
        }))  # fmt: skip
        return
    print(
        f"would run {len(keys)} cells into {folder}: about {clock_time(expected.seconds)} and "
        f"{expected.memory / 1e9:.1f} GB on this machine"
    )


def _run(
    plan: Reproduction,
    folder: Path,
    arguments: dict[str, Any],
    overwrite: bool,
    cluster: str | None,
    workers: int | None,
) -> tuple[xr.Dataset, list[str], int]:
    from attnlim.cli.keeping import keep, on_cluster
    from attnlim.cli.progress import progress
    from attnlim.core.runs import RunFolder
    from attnlim.lab.critical_claims import claims_table
    from attnlim.lab.critical_run import run_reproduction

    run = RunFolder.begin(
        folder,
        " ".join(["attnlim", *sys.argv[1:]]),
        arguments,
        plan.identity(),
        {"everything": plan.seed},
        overwrite,
        plan.bytes_on_disk(),
    )
    with progress(plan.cells(), _group, unit="") as tell:
        dataset, unlike, retried = run_reproduction(plan, run.cells, cluster=cluster, workers=workers, progress=tell)
    keep(run, dataset, claims_table, "claims.csv", on_cluster(cluster, retried), {"not_as_recorded": unlike})
    return dataset, unlike, retried


def _group(cell: Cell) -> str:
    part, arguments = cell.arguments["part"], cell.arguments
    if part == "planes":
        return f"figures 1 and 2, d = {arguments['width']}"
    if part == "window":
        return f"the window, n = {arguments['n_tokens']}"
    return "the other claims"


def _show(dataset: xr.Dataset, unlike: list[str], folder: Path, retried: int, as_json: bool) -> None:
    from attnlim.lab.critical_claims import claims_table

    table = claims_table(dataset)
    paragraphs = dataset.attrs["verdict"].split("\n")
    if as_json:
        rows = json.loads(table.to_json(orient="records"))
        print(json.dumps({
            "run": str(folder), "verdict": paragraphs, "claims": rows, "not_as_recorded": unlike,
            "cells_begun_again": retried,
        }))  # fmt: skip
        return
    import textwrap

    from rich.console import Console

    width = min(100, Console().width) if sys.stdout.isatty() else 100
    print()
    for paragraph in paragraphs:
        print(textwrap.fill(paragraph, width, subsequent_indent="  "))
    if retried:
        print(f"{retried} cell{'s were' if retried > 1 else ' was'} begun again because a worker died.")
    rows = [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
    _print_table(rows, width)
    for row in rows:
        if row["verdict"] != PLAIN:
            told = f"{row['verdict']}: {row['text']} — {row['reason']}."
            print(textwrap.fill(told, width, subsequent_indent="  "))
    print(f"\nin {folder}: report.html, figures, data.zarr, claims.csv, run.json")
    for line in unlike:
        print(f"not as recorded: {line}")


def _print_table(rows: list[dict[str, Any]], width: int) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    sheet = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    sheet.add_column("claim", ratio=1)
    for head in ("predicted", "measured", "interval"):
        sheet.add_column(head, justify="right", no_wrap=True)
    sheet.add_column("verdict", no_wrap=True)
    for row in rows:
        low, high = _number(row["low"]), _number(row["high"])
        interval = "" if low == high else f"{low} … {high}"
        sheet.add_row(row["text"], _number(row["predicted"]), _number(row["measured"]), interval, row["verdict"])
    print()
    Console(width=width, highlight=False, markup=False).print(sheet)


def _number(value: float) -> str:
    """Four digits; a dash where there is no number.

    >>> _number(0.80000001), _number(-2.2e-16), _number(math.nan)
    ('0.8', '−2.2e-16', '–')
    """
    return "–" if math.isnan(value) else f"{value:.4g}".replace("-", "−", 1) if value < 0 else f"{value:.4g}"
