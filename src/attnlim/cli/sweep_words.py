"""What all commands that sweep cells say: where the cells run, and what a run would take."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlim.core.cells import Cell


def say(line: str, as_json: bool) -> None:
    """Print for a person; with --json standard output is for the machine alone."""
    print(line, file=sys.stderr if as_json else sys.stdout, flush=True)


def place(count: int, threads: int, cluster: str | None, workers: int | None) -> str:
    """How many cells run, and where.

    >>> place(4, 1, None, None)
    '4 cells in this process, 1 thread each'
    """
    from attnlim.lab.dask_tasks import LOCAL, worker_count

    where = "in this process" if cluster is None else f"on {cluster}"
    if cluster == LOCAL:
        n_workers = worker_count(workers, threads)
        where = f"on {n_workers} worker process{'es' if n_workers > 1 else ''}"
    return f"{count} cells {where}, {threads} thread{'s' if threads > 1 else ''} each"


def would_run(
    cells: Sequence[Cell],
    folder: Path,
    estimate: Callable[[int], Any],
    threads: int,
    cluster: str | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Print what would run, with time and memory.

    Args:
        cells: all of them.
        folder: of the run.
        estimate: of time and memory, for that many cells side by side.
        threads, cluster, workers: as the run would have them.
        as_json: one object for a machine.
    """
    from attnlim.cli.progress import clock_time
    from attnlim.lab.dask_tasks import LOCAL, worker_count

    expected = estimate(worker_count(workers, threads) if cluster == LOCAL else 1)
    keys = [cell.key for cell in cells]
    if as_json:
        print(json.dumps({
            "cells": keys, "out": str(folder), "seconds": round(expected.seconds, 1), "memory_bytes": expected.memory,
        }))  # fmt: skip
        return
    where = "on this machine"
    if cluster is not None and cluster != LOCAL:
        where = "on one worker like this machine, less with more of them"
    print(
        f"would run {len(keys)} cells into {folder}: about {clock_time(expected.seconds)} and "
        f"{expected.memory / 1e9:.1f} GB {where}"
    )


def tell(paragraphs: Sequence[str], retried: int) -> int:
    """Print what a run came to, and that cells were begun again if so.

    Returns:
        The width for what is printed below: the terminal's up to 100 columns, 100 where there is none.
    """
    from rich.console import Console

    width = min(100, Console().width) if sys.stdout.isatty() else 100
    print()
    for paragraph in paragraphs:
        print(textwrap.fill(paragraph, width, subsequent_indent="  "))
    if retried:
        print(f"{retried} cell{'s were' if retried > 1 else ' was'} begun again because a worker died.")
    return width
