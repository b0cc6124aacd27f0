"""The resumable cell runner: a run is a list of cells, each a pure function of its own arguments.

A finished cell is one file that appears in a single step, so that a process may be killed at any moment and
the same command goes on from the last finished cell, to the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attnlim.core.files import replacing

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Cell:
    """One independent piece of work.

    Attributes:
        key: its name, unique in the run and fit for a file name.
        arguments: what the work function needs to know.
        cost: relative expected time, for the time left.
    """

    key: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cost: float = 1.0


def run_cells(
    cells: Sequence[Cell],
    work: Callable[..., Arrays],
    folder: Path | None = None,
    done: Callable[[Cell, bool], None] = lambda cell, was_stored: None,
) -> Iterator[tuple[Cell, Arrays]]:
    """Yield each cell with its arrays, in order, computing only what ``folder`` does not hold yet.

    Args:
        cells: the work, in the order in which it is yielded.
        work: called with a cell's arguments; returns named arrays.
        folder: where finished cells are kept; None keeps nothing.
        done: told of each finished cell, and whether it was already stored.
    """
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    for cell in cells:
        stored = None if folder is None else read_cell(folder, cell)
        if stored is None:
            arrays = work(**cell.arguments)
            if folder is not None:
                write_cell(folder, cell, arrays)
        else:
            arrays = stored
        done(cell, stored is not None)
        yield cell, arrays


def read_cell(folder: Path, cell: Cell) -> Arrays | None:
    """The arrays of a finished cell, None where ``folder`` does not hold it."""
    path = _path(folder, cell)
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as stored:
        return dict(stored)


def write_cell(folder: Path, cell: Cell, arrays: Arrays) -> None:
    """Keep the arrays of a finished cell; the file is there whole or not at all."""
    with replacing(_path(folder, cell)) as unfinished:
        np.savez(unfinished, **arrays)  # type: ignore[arg-type]  # numpy's stub takes them for allow_pickle


def _path(folder: Path, cell: Cell) -> Path:
    return folder / f"{cell.key}.npz"
