"""The sweep engine: where and in which order cells are computed leaves no trace, and what is finished is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.lab.stand_in import broken, cells, work

from attnlim.core.cells import Arrays, Cell
from attnlim.core.checks import InputError
from attnlim.lab.sweeping import CellError, Sweep, sweep


def same(first: Sweep, second: Sweep) -> bool:
    """Same keys in the same order, same arrays to the last bit."""

    def bits(found: Sweep) -> list[tuple[str, str, str, bytes]]:
        return [
            (key, name, f"{values.dtype} {values.shape}", values.tobytes())
            for key, arrays in found.results.items()
            for name, values in arrays.items()
        ]

    return bits(first) == bits(second)


def test_only_missing_cells_are_computed(tmp_path: Path) -> None:
    told: list[tuple[str, bool]] = []
    sweep(cells(2), work, tmp_path)
    found = sweep(cells(4), work, tmp_path, progress=lambda cell, was_stored: told.append((cell.key, was_stored)))
    assert told == [("cell-0", True), ("cell-1", True), ("cell-2", False), ("cell-3", False)]
    assert list(found.results) == [f"cell-{i}" for i in range(4)] and found.retried == 0
    assert same(found, sweep(cells(4), work))


def test_a_failing_cell_is_named_and_the_finished_ones_are_kept(tmp_path: Path) -> None:
    with pytest.raises(CellError, match=r"^cell cell-2: ZeroDivisionError: two is not allowed$") as caught:
        sweep(cells(4), broken, tmp_path)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cell-0.npz", "cell-1.npz"]


def test_the_line_of_bad_input_names_the_cell_but_no_class() -> None:
    def refuse(i: int) -> Arrays:
        raise InputError("rho must be below 1, got 2")

    with pytest.raises(CellError, match=r"^cell cell-0: rho must be below 1, got 2$"):
        sweep(cells(1), refuse)


def test_threads_are_those_asked_for_inside_a_cell_and_the_old_ones_after() -> None:
    before = torch.get_num_threads()
    seen = sweep(cells(1), lambda i: {"threads": np.array(torch.get_num_threads())}, threads=before + 1)
    assert int(seen.results["cell-0"]["threads"]) == before + 1
    assert torch.get_num_threads() == before


def test_an_interrupt_passes_as_it_is(tmp_path: Path) -> None:
    def interrupted(i: int) -> Arrays:
        if i == 1:
            raise KeyboardInterrupt
        return work(i)

    with pytest.raises(KeyboardInterrupt):
        sweep(cells(3), interrupted, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cell-0.npz"]


def test_nothing_to_do_starts_no_cluster(tmp_path: Path) -> None:
    """Everything is stored, so that an address where nothing listens is not even tried."""
    first = sweep(cells(2), work, tmp_path)
    assert same(first, sweep(cells(2), work, tmp_path, cluster="tcp://127.0.0.1:1"))
    assert sweep([Cell("none")][:0], work).results == {}


def test_bad_numbers() -> None:
    with pytest.raises(InputError, match="--threads must be a whole number of at least 1, got 0"):
        sweep(cells(1), work, threads=0)
