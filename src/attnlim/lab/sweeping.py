"""Sweeps: independent cells, computed in this process or on a Dask cluster, kept as they finish and resumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from attnlim.core.cells import Arrays, Cell, read_cell, write_cell
from attnlim.core.checks import InputError, whole_number

Work = Callable[..., Arrays]
Progress = Callable[[Cell, bool], None]


class CellError(InputError):
    """The work of a cell failed; the message is one line that begins with the cell's name."""


@dataclass(frozen=True)
class Sweep:
    """What a sweep found.

    Attributes:
        results: the arrays of every cell by its key, in the order in which the cells were given.
        retried: how often a cell was begun again because the worker that computed it died.
    """

    results: dict[str, Arrays]
    retried: int = 0


def sweep(
    cells: Sequence[Cell],
    work: Work,
    folder: Path | None = None,
    *,
    cluster: str | None = None,
    workers: int | None = None,
    threads: int = 1,
    progress: Progress = lambda cell, was_stored: None,
) -> Sweep:
    """Compute every cell that ``folder`` does not hold yet, in this process or on a Dask cluster.

    A cell's numbers depend on its arguments and on ``threads`` alone, so neither the place nor the order in which
    cells finish changes the result: same cells, same bytes. Each is written by this process as it finishes.

    Args:
        cells: the work; keys are unique and fit for file names, arguments can be pickled.
        work: a function of a module (a cluster pickles it by name), pure in its arguments; called with a cell's.
        folder: where finished cells are kept; None keeps nothing.
        cluster: None for this process, ``"local"`` for worker processes on this machine, else the address of a
            Dask scheduler such as ``tcp://10.0.0.1:8786``.
        workers: processes of a local cluster; None takes one for every ``threads`` cores.
        threads: threads of torch inside a cell, at least 1.
        progress: told of each finished cell, and whether it was already stored.

    Returns:
        A :class:`Sweep`.

    Raises:
        CellError: the work of a cell raised, or the workers that computed it died, four times over. What was
            finished before is kept.
        InputError: the cluster cannot be reached or was lost, or the extra ``cluster`` is not installed.

    >>> import numpy as np
    >>> def square(i):
    ...     return {"square": np.array(i * i)}
    >>> found = sweep([Cell("two", {"i": 2}), Cell("three", {"i": 3})], square)
    >>> {key: int(arrays["square"]) for key, arrays in found.results.items()}
    {'two': 4, 'three': 9}
    """
    whole_number("--threads", threads, 1)
    results: dict[str, Arrays] = {}
    waiting = []
    for cell in cells:
        stored = None if folder is None else read_cell(folder, cell)
        if stored is None:
            waiting.append(cell)
        else:
            results[cell.key] = stored
            progress(cell, True)
    begun: Counter[str] = Counter()
    with closing(_computed(waiting, work, cluster, workers, threads, begun)) as computed:
        for cell, arrays in computed:
            if folder is not None:
                write_cell(folder, cell, arrays)
            results[cell.key] = arrays
            progress(cell, False)
    return Sweep({cell.key: results[cell.key] for cell in cells}, sum(count - 1 for count in begun.values()))


def _computed(
    cells: list[Cell], work: Work, cluster: str | None, workers: int | None, threads: int, begun: Counter[str]
) -> Generator[tuple[Cell, Arrays], None, None]:
    """Each cell with its arrays as it finishes."""
    if cluster is None or not cells:
        yield from _here(cells, work, threads)
        return
    from attnlim.lab.dask_tasks import connected, finished

    with connected(cluster, workers, threads) as client:
        yield from finished(client, cells, work, threads, begun)


def _here(cells: list[Cell], work: Work, threads: int) -> Iterator[tuple[Cell, Arrays]]:
    import torch

    before = torch.get_num_threads()
    for cell in cells:
        torch.set_num_threads(threads)
        try:
            arrays = work(**cell.arguments)
        except Exception as reason:
            raise failed(cell.key, reason) from reason
        finally:
            torch.set_num_threads(before)
        yield cell, arrays


def failed(key: str, reason: BaseException) -> CellError:
    """The line that says which cell failed, and why.

    >>> str(failed("n512-d2", ValueError("no such thing")))
    'cell n512-d2: ValueError: no such thing'
    """
    said = " ".join(str(reason).split())
    if isinstance(reason, InputError):
        return CellError(f"cell {key}: {said}")
    return CellError(f"cell {key}: {type(reason).__name__}{f': {said}' if said else ''}")
