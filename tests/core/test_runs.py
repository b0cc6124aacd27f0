"""The run store: whole or not there, resumed by the same work only, refused when it is of another version."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from attnlim.core.checks import InputError
from attnlim.core.runs import STORE_VERSION, RunFolder, open_run

DATASET = xr.Dataset({"kappa": ("head", [0.5, np.nan])}, attrs={"kind": "test", "model": "m"})


def begin(out: Path, overwrite: bool = False, seed: int = 0) -> RunFolder:
    return RunFolder.begin(
        out, "attnlim test", {"seed": seed}, {"seed": seed, "sizes": (1, 2)}, {"rows": seed}, overwrite
    )


def finished(out: Path, **settings: int) -> Path:
    run = begin(out, **settings)
    run.store(DATASET)
    run.close_record()
    return run.finish()


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    dataset, record = open_run(finished(tmp_path / "run"))
    xr.testing.assert_identical(dataset, DATASET)
    assert record["status"] == "finished"
    assert record["seeds"] == {"rows": 0}
    assert record["arguments"] == {"seed": 0}
    assert record["environment"]["python"]
    assert not (tmp_path / "run.partial").exists()


def test_data_are_the_same_bytes_every_time(tmp_path: Path) -> None:
    first, second = finished(tmp_path / "a"), finished(tmp_path / "b")
    files = sorted(path.relative_to(first) for path in (first / "data.zarr").rglob("*") if path.is_file())
    assert files
    for path in files:
        assert (first / path).read_bytes() == (second / path).read_bytes()


def test_a_finished_run_is_refused_without_overwrite(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    with pytest.raises(InputError, match="holds a finished run; use another --out, or --overwrite"):
        begin(tmp_path / "run")
    finished(tmp_path / "run", overwrite=True)


def test_another_folder_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="is not a run of attnlim"):
        begin(tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_a_partial_run_is_resumed_by_the_same_work_only(tmp_path: Path) -> None:
    run = begin(tmp_path / "run")
    (run.cells / "one.npz").write_bytes(b"kept")
    assert (begin(tmp_path / "run").cells / "one.npz").exists()
    with pytest.raises(InputError, match="unfinished run of other arguments"):
        begin(tmp_path / "run", seed=1)
    assert not list(begin(tmp_path / "run", seed=1, overwrite=True).cells.iterdir())


def test_opening_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no finished run at"):
        open_run(tmp_path / "nothing")
    begin(tmp_path / "half")
    with pytest.raises(InputError, match="is unfinished: give the same command again"):
        open_run(tmp_path / "half")
    old = finished(tmp_path / "old")
    record = json.loads((old / "run.json").read_text())
    (old / "run.json").write_text(json.dumps(record | {"store_version": STORE_VERSION + 1}))
    with pytest.raises(
        InputError, match=f"store version {STORE_VERSION + 1}, this attnlim reads version {STORE_VERSION}"
    ):
        open_run(old)
    (old / "run.json").write_text("{")
    with pytest.raises(InputError, match="not readable as JSON"):
        open_run(old)
    broken = finished(tmp_path / "broken")
    (broken / "data.zarr" / "zarr.json").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        open_run(broken)
