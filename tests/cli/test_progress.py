"""Progress in plain lines: a line a group, whatever the order in which its cells finish."""

from __future__ import annotations

import pytest

from attnlim.cli.progress import clock_time, progress
from attnlim.core.cells import Cell

CELLS = [Cell(f"{n}-{i}", {"n_tokens": n}, cost=float(n)) for n in (8, 16) for i in range(2)]


def test_a_line_for_each_group_when_its_last_cell_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(CELLS) as tell:
        for place in (3, 0, 2, 1):
            tell(CELLS[place], False)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("16 tokens: done at 0:00:00")
    assert second == "8 tokens: done at 0:00:00"  # nothing is left, so no time left


def test_groups_and_units_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(CELLS, lambda cell: f"n = {cell.arguments['n_tokens']}", unit="") as tell:
        for cell in CELLS:
            tell(cell, True)
    # stored cells say nothing of the speed
    assert capsys.readouterr().err.splitlines() == ["n = 8: done at 0:00:00", "n = 16: done at 0:00:00"]


def test_no_cells_no_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with progress([]) as tell:
        tell(CELLS[0], False)
    assert capsys.readouterr() == ("", "")


def test_clock_time() -> None:
    assert [clock_time(seconds) for seconds in (0.4, 61, 36_610)] == ["0:00:00", "0:01:01", "10:10:10"]
