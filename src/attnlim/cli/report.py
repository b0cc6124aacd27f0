"""`attnlim report RUN`: draw a run's report again from its stored data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(run: Annotated[Path, typer.Argument(help="A run folder that a command of attnlim wrote.")]) -> None:
    """Draw the report of a finished run again, from its stored data alone."""
    from attnlim.core.runs import open_run
    from attnlim.report import draw

    dataset, record = open_run(run)
    typer.echo(f"report: {draw(dataset, record, run)}")
