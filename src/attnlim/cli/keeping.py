"""The end of a command that computes: its data, table, record and drawings, and the run folder in its place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import xarray as xr

from attnlim import report
from attnlim.core.runs import RunFolder, write_text


class Planned(Protocol):
    """What is known of a run before it begins."""

    def identity(self) -> dict[str, Any]:
        """What decides its numbers."""

    def bytes_on_disk(self) -> int:
        """What it takes at most."""


def begin(
    folder: Path, arguments: Mapping[str, Any], plan: Planned, seeds: Mapping[str, int], overwrite: bool
) -> RunFolder:
    """Open the run folder of the command that was given; arguments and errors as for :meth:`RunFolder.begin`."""
    command = " ".join(["attnlim", *sys.argv[1:]])
    return RunFolder.begin(folder, command, arguments, plan.identity(), seeds, overwrite, plan.bytes_on_disk())


def keep(
    run: RunFolder,
    dataset: xr.Dataset,
    table: Callable[[xr.Dataset], pd.DataFrame],
    table_name: str,
    environment: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write everything that a finished run holds, and move it into place.

    Args:
        run: the run, all of whose cells are there.
        dataset: what they come to.
        table: makes the run's table of it.
        table_name: the file of the table, such as cells.csv.
        environment: for run.json, what is to be known of where it ran.
        facts: for run.json, what else is to be known of it.
    """
    run.store(dataset)
    write_text(run.partial / table_name, table(dataset).to_csv(index=False))
    run.record["environment"].update(environment or {})
    run.record.update(facts or {})
    record = run.close_record()
    report.draw(dataset, record, run.partial)
    run.finish()


def on_cluster(cluster: str | None, retried: int) -> dict[str, Any]:
    """What a run's environment says of its cluster; nothing for a run in one process.

    >>> on_cluster("local", 1), on_cluster(None, 0)
    ({'cluster': 'local', 'cells_begun_again': 1}, {})
    """
    return {} if cluster is None else {"cluster": cluster, "cells_begun_again": retried}
