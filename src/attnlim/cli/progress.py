"""Progress with time left: a live line a context on a terminal, a plain line a context elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from attnlim.core.cells import Cell


@contextmanager
def progress(cells: Sequence[Cell]) -> Iterator[Callable[[Cell, bool], None]]:
    """Show the cells of a run as they finish; yields what to tell of each (the cell, and whether it was stored).

    Time left is the time so far per unit of expected cost, times the cost left; stored cells count as no work.
    """
    if not cells:
        yield lambda cell, was_stored: None
        return
    time_left = _TimeLeft(cells)
    if sys.stderr.isatty():
        with _bars(cells, time_left) as tell:
            yield tell
    else:
        yield _lines(cells, time_left)


class _TimeLeft:
    def __init__(self, cells: Sequence[Cell]) -> None:
        self.left = sum(cell.cost for cell in cells)
        self.spent = 0.0
        self.start = time.monotonic()

    def finished(self, cell: Cell, was_stored: bool) -> float | None:
        """Seconds left after ``cell``, None before any was computed."""
        self.left -= cell.cost
        if not was_stored:
            self.spent += cell.cost
        return self.left / self.spent * (time.monotonic() - self.start) if self.spent else None


def _group(cell: Cell) -> str:
    return str(cell.arguments["n_tokens"])


@contextmanager
def _bars(cells: Sequence[Cell], time_left: _TimeLeft) -> Iterator[Callable[[Cell, bool], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:>9}"),
        BarColumn(30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as shown:
        tasks: dict[str, TaskID] = {}
        for group in dict.fromkeys(map(_group, cells)):
            total = sum(_group(cell) == group for cell in cells)
            tasks[group] = shown.add_task(group, total=total, start=not tasks, left="")

        def tell(cell: Cell, was_stored: bool) -> None:
            left = time_left.finished(cell, was_stored)
            task = tasks[_group(cell)]
            shown.start_task(task)
            shown.update(task, advance=1, left="" if left is None else f"{clock_time(left)} left in all")
            if shown.tasks[task].finished:
                shown.update(task, left="")
                waiting = [name for name in tasks.values() if not shown.tasks[name].finished]
                if waiting:
                    shown.start_task(waiting[0])

        yield tell


def _lines(cells: Sequence[Cell], time_left: _TimeLeft) -> Callable[[Cell, bool], None]:
    waiting = {group: sum(_group(cell) == group for cell in cells) for group in map(_group, cells)}

    def tell(cell: Cell, was_stored: bool) -> None:
        left = time_left.finished(cell, was_stored)
        group = _group(cell)
        waiting[group] -= 1
        if waiting[group] == 0:
            rest = f", about {clock_time(left)} left" if left and any(waiting.values()) else ""
            print(
                f"{group} tokens: done at {clock_time(time.monotonic() - time_left.start)}{rest}",
                file=sys.stderr,
                flush=True,
            )

    return tell


def clock_time(seconds: float) -> str:
    """h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
