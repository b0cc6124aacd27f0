"""The cell runner: what is finished is not done again, and what is half-written does not count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attnlim.core.cells import Cell, read_cell, run_cells, write_cell

CELLS = [Cell(f"cell-{i}", {"i": i}) for i in range(4)]


def work(i: int) -> dict[str, np.ndarray]:
    return {"square": np.array([i * i, np.nan]), "count": np.array(i)}


def test_yields_in_order_and_stores(tmp_path: Path) -> None:
    found = [(cell.key, arrays["square"][0]) for cell, arrays in run_cells(CELLS, work, tmp_path)]
    assert found == [("cell-0", 0), ("cell-1", 1), ("cell-2", 4), ("cell-3", 9)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"cell-{i}.npz" for i in range(4)]


def test_resumes_after_a_failure(tmp_path: Path) -> None:
    calls = []

    def fragile(i: int) -> dict[str, np.ndarray]:
        calls.append(i)
        if i == 2 and calls.count(2) == 1:
            raise KeyboardInterrupt
        return work(i)

    with pytest.raises(KeyboardInterrupt):
        list(run_cells(CELLS, fragile, tmp_path))
    told = []
    arrays = [a for _, a in run_cells(CELLS, fragile, tmp_path, lambda cell, stored: told.append(stored))]
    assert calls == [0, 1, 2, 2, 3]
    assert told == [True, True, False, False]
    np.testing.assert_array_equal(arrays[1]["square"], [1, np.nan])


def test_an_unfinished_file_does_not_count(tmp_path: Path) -> None:
    (tmp_path / ".cell-0-x.npz").write_bytes(b"half")
    assert len(list(run_cells(CELLS[:1], work, tmp_path))) == 1
    assert (tmp_path / "cell-0.npz").exists()


def test_without_a_folder_nothing_is_written() -> None:
    assert [arrays["count"] for _, arrays in run_cells(CELLS, work)] == [0, 1, 2, 3]


def test_a_cell_is_read_as_it_was_written(tmp_path: Path) -> None:
    """To the bit, and as the runner itself keeps it."""
    assert read_cell(tmp_path, CELLS[3]) is None
    write_cell(tmp_path / "new", CELLS[3], work(3))
    found = read_cell(tmp_path / "new", CELLS[3])
    assert found is not None
    assert {name: (a.dtype, a.tobytes()) for name, a in found.items()} == {
        name: (a.dtype, a.tobytes()) for name, a in work(3).items()
    }
    list(run_cells(CELLS, work, tmp_path))
    assert (tmp_path / "cell-3.npz").read_bytes() == (tmp_path / "new" / "cell-3.npz").read_bytes()
