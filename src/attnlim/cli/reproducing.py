"""The course of every reproduction: from a plan to a kept run, its table of claims and its exit code."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer

from attnlim.cli.sweep_words import place, say, tell, would_run
from attnlim.core.checks import installed

if TYPE_CHECKING:
    import xarray as xr

    from attnlim.core.cells import Cell

CHECK_FAILED = 1
# a row of the table that needs no explanation
PLAIN = "confirmed"


class Plan(Protocol):
    """What would run, checked."""

    @property
    def seed(self) -> int: ...
    @property
    def threads(self) -> int: ...
    def cells(self) -> list[Cell]: ...
    def bytes_on_disk(self) -> int: ...
    def identity(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Asked:
    """The options that all reproductions share."""

    full: bool
    seed: int
    out: Path | None
    overwrite: bool
    dry_run: bool
    as_json: bool
    cluster: str | None
    workers: int | None
    threads: int | None


@dataclass(frozen=True)
class Paper:
    """How one paper is reproduced.

    Attributes:
        make: checks size, seed and threads, and makes a plan.
        headline: what a plan is, a line each.
        estimate: seconds and bytes of a plan, for that many cells side by side.
        run: the judged dataset, a line for each verdict that is not as recorded, and how many cells were begun again.
        group: the stage that a cell belongs to.
    """

    make: Callable[[str, int, Any], Any]
    headline: Callable[[Any], list[str]]
    estimate: Callable[[Any, int], Any]
    run: Callable[..., tuple[xr.Dataset, list[str], int]]
    group: Callable[[Cell], str]


def reproduce(paper: Callable[[], Paper], name: str, asked: Asked) -> None:
    """Run a reproduction as it was asked for, or say what would run; exit code 1 where a verdict is not as recorded.

    Args:
        paper: gives the paper; called only once it is known that a run can be kept.
        name: of the paper, in the folder's name.
        asked: the options.
    """
    for module, group in (("plotly", "report"), ("matplotlib", "report")):
        installed(module, group)
    from attnlim.core.runs import refuse_finished
    from attnlim.lab.dask_tasks import check_cluster

    folder = asked.out or Path("runs") / f"reproduce-{name}{'-full' if asked.full else ''}"
    if not asked.dry_run:
        refuse_finished(folder, asked.overwrite)
    check_cluster(asked.cluster, asked.workers)
    found = paper()
    size = "full" if asked.full else "laptop"
    plan = found.make(size, asked.seed, 1 if asked.threads is None and asked.cluster is not None else asked.threads)
    where = place(len(plan.cells()), plan.threads, asked.cluster, asked.workers)
    say("\n".join([*found.headline(plan), where]), asked.as_json)
    if asked.dry_run:
        would_run(
            plan.cells(),
            folder,
            partial(found.estimate, plan),
            plan.threads,
            asked.cluster,
            asked.workers,
            asked.as_json,
        )
        return
    dataset, unlike, retried = _run(found, plan, folder, size, asked)
    _show(dataset, unlike, folder, retried, asked.as_json)
    if unlike:
        raise typer.Exit(CHECK_FAILED)


def _run(paper: Paper, plan: Plan, folder: Path, size: str, asked: Asked) -> tuple[xr.Dataset, list[str], int]:
    from attnlim.cli.keeping import begin, keep, on_cluster
    from attnlim.cli.progress import progress
    from attnlim.lab.claim_table import claims_table

    arguments = {
        "size": size, "seed": asked.seed, "out": str(folder), "threads": plan.threads, "cluster": asked.cluster,
        "workers": asked.workers,
    }  # fmt: skip
    run = begin(folder, arguments, plan, {"everything": plan.seed}, asked.overwrite)
    with progress(plan.cells(), paper.group, unit="") as told:
        dataset, unlike, retried = paper.run(
            plan, run.cells, cluster=asked.cluster, workers=asked.workers, progress=told
        )
    facts = {"not_as_recorded": unlike}
    keep(run, dataset, claims_table, "claims.csv", on_cluster(asked.cluster, retried), facts)
    return dataset, unlike, retried


def _show(dataset: xr.Dataset, unlike: list[str], folder: Path, retried: int, as_json: bool) -> None:
    from attnlim.lab.claim_table import claims_table

    table = claims_table(dataset)
    paragraphs = dataset.attrs["verdict"].split("\n")
    if as_json:
        rows = json.loads(table.to_json(orient="records"))
        print(json.dumps({
            "run": str(folder), "verdict": paragraphs, "claims": rows, "not_as_recorded": unlike,
            "cells_begun_again": retried,
        }))  # fmt: skip
        return
    width = tell(paragraphs, retried)
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
