"""The reproduction as a whole: its cells, what a resumed run shares, and that where a cell is computed leaves no trace."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import xarray as xr
from tests.lab.tiny_reproduction import TINY, results

from attnlim.core.cells import Cell, write_cell
from attnlim.core.checks import InputError
from attnlim.lab.critical_estimate import estimate
from attnlim.lab.critical_run import make_reproduction, reproduce_critical, run_reproduction
from attnlim.lab.critical_size import FULL, LAPTOP, SIZES, rehearsal
from attnlim.lab.critical_tasks import cells
from attnlim.report.critical_reading import checked


def test_cells_are_named_apart_and_fit_for_a_cluster() -> None:
    for size in (TINY, *SIZES.values(), rehearsal(FULL)):
        found = cells(size, 0)
        assert len({cell.key for cell in found}) == len(found)
        assert all(cell.cost > 0 and "/" not in cell.key for cell in found)
        assert [pickle.loads(pickle.dumps(cell)).key for cell in found] == [cell.key for cell in found]


def test_a_rehearsal_has_every_kind_of_cell() -> None:
    for size in SIZES.values():
        kinds = {
            name: {(cell.arguments["part"], cell.arguments.get("width")) for cell in cells(one, 0)}
            for name, one in (("whole", size), ("rehearsal", rehearsal(size)))
        }
        assert kinds["whole"] == kinds["rehearsal"]


def test_a_resumed_run_computes_only_what_is_missing(tmp_path: Path) -> None:
    plan = make_reproduction(TINY, 0, 1)
    kept = [cell for i, cell in enumerate(plan.cells()) if i % 3]
    for cell in kept:
        write_cell_into(tmp_path, cell)
    told: list[bool] = []
    dataset, unlike, retried = run_reproduction(
        plan, tmp_path, progress=lambda cell, was_stored: told.append(was_stored)
    )
    assert told.count(True) == len(kept) and len(told) == len(plan.cells())
    assert (unlike, retried) == ([], 0)
    whole = reproduce_critical(TINY, threads=1)
    xr.testing.assert_identical(dataset, whole)
    assert checked(whole).attrs["size"] == "tiny"


def write_cell_into(folder: Path, cell: Cell) -> None:
    write_cell(folder, cell, results()[cell.key])


def test_identity_holds_all_that_decides_the_numbers() -> None:
    first = make_reproduction(TINY, 0, 1).identity()
    json.dumps(first)
    for other in (
        make_reproduction(TINY, 1, 1),
        make_reproduction(TINY, 0, 2),
        make_reproduction(replace(TINY, draws=3), 0, 1),
    ):
        assert other.identity() != first


def test_another_seed_draws_other_tokens() -> None:
    one, other = (cells(TINY, seed) for seed in (0, 1))
    assert [cell.key for cell in one] == [cell.key for cell in other]
    random = [cell.arguments["part"] for cell, twin in zip(one, other, strict=True) if cell.arguments != twin.arguments]
    assert set(random) == {"planes", "window", "frozen", "plateau", "focus", "bounds", "scores", "content"}


def test_bad_arguments() -> None:
    with pytest.raises(InputError, match=r"size must be one of laptop, full, got 'huge'"):
        make_reproduction("huge")
    with pytest.raises(InputError, match="--seed must be a whole number of at least 0, got -1"):
        make_reproduction(LAPTOP, -1)
    with pytest.raises(InputError, match="--threads must be a whole number of at least 1, got 0"):
        make_reproduction(LAPTOP, 0, 0)


def test_an_estimate_counts_every_cell() -> None:
    """Twice as many draws take longer, cells side by side less; no clock is compared with another."""
    found = estimate(make_reproduction(TINY, 0, 1))
    assert found.seconds > 0 and found.memory > 0
