"""Progress with time left: a live line a group of cells on a terminal, a plain line a group elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from attnlim.core.cells import Cell

Tell = Callable[[Cell, bool], None]


def _by_tokens(cell: Cell) -> str:
    return str(cell.arguments["n_tokens"])


@contextmanager
def progress(cells: Sequence[Cell], group: Callable[[Cell], str] = _by_tokens, unit: str = " tokens") -> Iterator[Tell]:
    """Show the cells of a run as they finish; yields what to tell of each (the cell, and whether it was stored).

    Time left is the time so far per unit of expected cost, times the cost left; stored cells count as no work.
    Cells may finish in any order.

    Args:
        cells: all of them.
        group: the name of the line that a cell counts on.
        unit: follows that name in a plain line.
    """
    if not cells:
        yield lambda cell, was_stored: None
        return
    time_left = _TimeLeft(cells)
    groups = {cell.key: group(cell) for cell in cells}
    if sys.stderr.isatty():
        with _bars(groups, time_left) as tell:
            yield tell
    else:
        yield _lines(groups, time_left, unit)


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


@contextmanager
def _bars(groups: Mapping[str, str], time_left: _TimeLeft) -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    longest = max(9, *(len(name) for name in groups.values()))
    columns = (
        TextColumn(f"{{task.description:>{longest}}}"),
        BarColumn(30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as shown:
        tasks: dict[str, TaskID] = {}
        for name, total in Counter(groups.values()).items():
            tasks[name] = shown.add_task(name, total=total, start=not tasks, left="")

        def tell(cell: Cell, was_stored: bool) -> None:
            left = time_left.finished(cell, was_stored)
            task = tasks[groups[cell.key]]
            shown.start_task(task)
            shown.update(task, advance=1, left="" if left is None else f"{clock_time(left)} left in all")
            if shown.tasks[task].finished:
                shown.update(task, left="")
                waiting = [name for name in tasks.values() if not shown.tasks[name].finished]
                if waiting:
                    shown.start_task(waiting[0])

        yield tell


def _lines(groups: Mapping[str, str], time_left: _TimeLeft, unit: str) -> Tell:
    waiting = Counter(groups.values())

    def tell(cell: Cell, was_stored: bool) -> None:
        left = time_left.finished(cell, was_stored)
        name = groups[cell.key]
        waiting[name] -= 1
        if waiting[name] == 0:
            rest = f", about {clock_time(left)} left" if left and any(waiting.values()) else ""
            print(
                f"{name}{unit}: done at {clock_time(time.monotonic() - time_left.start)}{rest}",
                file=sys.stderr,
                flush=True,
            )

    return tell


def clock_time(seconds: float) -> str:
    """h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
