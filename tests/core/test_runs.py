"""The run store: whole or not there, resumed by the same work only, refused when it is of another version."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from attnlim.core.checks import InputError
from attnlim.core.runs import STORE_VERSION, RunFolder, open_run, refuse_finished

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
    assert record["peak_memory_bytes"] > 1_000_000
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
    (run.partial / ".run-abcd_123.json").write_text("what a kill left of a file on its way")
    run.release()
    again = begin(tmp_path / "run")
    assert (again.cells / "one.npz").exists() and not list(again.partial.glob(".run-*"))
    assert (run.record["cells_before"], again.record["cells_before"]) == (0, 1)
    again.release()
    with pytest.raises(
        InputError, match=r"unfinished run of other arguments \(seed: 0 then, 1 now\); give those again"
    ):
        begin(tmp_path / "run", seed=1)
    assert not list(begin(tmp_path / "run", seed=1, overwrite=True).cells.iterdir())


def test_the_refusal_names_what_differs_and_stays_short(tmp_path: Path) -> None:
    then = {"a": 1, "b": [1, 2], "c": "x" * 99, "d": None, "e": 5, "f": "same"}
    RunFolder.begin(tmp_path / "run", "", {}, then, {}).release()
    now = {"a": 2, "b": [1], "c": "y" * 99, "e": 6, "f": "same"}
    with pytest.raises(InputError) as refusal:
        RunFolder.begin(tmp_path / "run", "", {}, now, {})
    told = re.findall(r"\((.*)\)", str(refusal.value))[0]
    assert told.startswith("a: 1 then, 2 now; b: [1, 2] then, [1] now; c: ")
    assert told.endswith("d: null then, absent now; and 1 more")
    assert "x" * 40 not in told and "f:" not in told


def test_a_partial_folder_of_somebody_else_is_never_dropped(tmp_path: Path) -> None:
    mine = tmp_path / "run.partial"
    mine.mkdir()
    (mine / "cells").mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match=r"holds 'thesis.txt', which attnlim did not write; move it elsewhere"):
        begin(tmp_path / "run", overwrite=True)
    for text in ('{"seed": 7}', '["a list"]', "not JSON"):
        (mine / "plan.json").write_text(text)
        with pytest.raises(InputError, match="unfinished run of other arguments"):
            begin(tmp_path / "run")
        with pytest.raises(InputError, match=r"holds 'thesis.txt'"):
            begin(tmp_path / "run", overwrite=True)
    assert (mine / "thesis.txt").read_text() == "years of work"
    shutil.rmtree(mine)
    mine.write_text("a file")
    with pytest.raises(InputError, match=r"run.partial is in the way"):
        begin(tmp_path / "run")
    assert mine.exists()


def test_a_partial_folder_without_a_plan_is_reused_when_all_in_it_is_known(tmp_path: Path) -> None:
    for names in ((), ("cells", "data.zarr"), (".plan-abcd_123.json", ".lock")):
        folder = tmp_path / "run.partial"
        folder.mkdir()
        for name in names:
            (folder / name).mkdir() if "." not in name else (folder / name).write_text("")
        begin(tmp_path / "run").release()
        assert sorted(os.listdir(folder)) == [".lock", "cells", "plan.json"]
        shutil.rmtree(folder)


def test_what_lies_where_the_replaced_run_would_go_is_refused_first(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    finished(tmp_path / "run.replaced")
    with pytest.raises(InputError, match=r"run.replaced is in the way; move it elsewhere"):
        begin(tmp_path / "run", overwrite=True)
    assert open_run(tmp_path / "run.replaced")


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    first = begin(tmp_path / "run")
    with pytest.raises(InputError, match=r"another attnlim process is writing .*run; wait for it or use another --out"):
        begin(tmp_path / "run", overwrite=True)
    first.store(DATASET)
    first.close_record()
    first.finish()
    begin(tmp_path / "run", overwrite=True).release()


def test_what_appears_at_out_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    first = begin(tmp_path / "run")
    finished(tmp_path / "elsewhere").rename(tmp_path / "run")
    first.store(DATASET)
    first.close_record()
    with pytest.raises(OSError, match=os.strerror(errno.ENOTEMPTY)):
        first.finish()
    assert open_run(tmp_path / "run") and first.cells.exists()


def test_places_where_no_run_can_be_are_refused_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to("nowhere")
    for out, phrase in {
        ".": "--out . names no folder of its own; give one such as run",
        "..": "names no folder of its own",
        "/": "names no folder of its own",
        "file/run": "cannot write file/run: Not a directory; use another --out",
        "file/deeper/run": "Not a directory",
        "file": "file exists and is not a run of attnlim",
        "dangling": "dangling exists and is not a run of attnlim",
        "n" * 250: "File name too long",
    }.items():
        with pytest.raises(InputError, match=re.escape(phrase)):
            refuse_finished(Path(out), overwrite=True)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # root may write anywhere
    with pytest.raises(InputError, match=f"no permission to write in {tmp_path}; use another --out"):
        refuse_finished(tmp_path / "new" / "run", overwrite=False)
    assert sorted(os.listdir(tmp_path)) == ["dangling", "file"]


def test_the_disk_is_looked_at_before_the_work(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    settings = ("", {}, {}, {}, False)
    with pytest.raises(InputError, match=r"run needs about .* GB of disk, .* are free there; free some space"):
        RunFolder.begin(tmp_path / "new" / "run", *settings, need_bytes=free + 10**12)
    assert not list(tmp_path.iterdir())
    RunFolder.begin(tmp_path / "run", *settings, need_bytes=free // 2).release()


KILLED_FINISH = """
import os, sys
from pathlib import Path
from attnlim.core import runs

root, overwrite = Path(sys.argv[1]), sys.argv[2] == "True"

def killed_before(step):
    count = -1
    def armed(call):
        def wrapped(*arguments, **settings):
            nonlocal count
            count += 1
            if count == step:
                os._exit(9)
            return call(*arguments, **settings)
        return wrapped
    for name in ("rename", "unlink", "rmdir"):
        setattr(os, name, armed(getattr(os, name)))

for step in range(100):
    child = os.fork()
    if child == 0:
        run = runs.RunFolder.begin(root / str(step) / "run", "", {}, {"seed": 0}, {}, overwrite)
        (run.cells / "one.npz").write_text("a cell")
        runs.write_text(run.partial / "data.zarr" / "zarr.json", "new")
        run.close_record()
        killed_before(step)
        run.finish()
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
@pytest.mark.parametrize("overwrite", [False, True])
def test_killed_before_each_step_of_finish_the_same_again_ends_well(tmp_path: Path, overwrite: bool) -> None:
    def work(out: Path, seed: int, overwrite: bool, content: str) -> None:
        run = RunFolder.begin(out, "", {}, {"seed": seed}, {}, overwrite)
        (run.cells / "one.npz").write_text("a cell")
        (run.partial / "data.zarr").mkdir(exist_ok=True)
        (run.partial / "data.zarr" / "zarr.json").write_text(content)
        run.close_record()
        run.finish()

    def whole(folder: Path, content: str) -> bool:
        data = folder / "data.zarr" / "zarr.json"
        return (folder / "run.json").exists() and data.exists() and data.read_text() == content

    for step in range(30):
        (tmp_path / str(step)).mkdir()
        if overwrite:
            work(tmp_path / str(step) / "run", seed=1, overwrite=False, content="old")
    command = [sys.executable, "-c", KILLED_FINISH, str(tmp_path), str(overwrite)]
    assert subprocess.run(command, capture_output=True, text=True).stderr == ""
    states = set()
    for step in range(30):
        place = tmp_path / str(step)
        if not (place / "run.partial").exists() and not (place / "run" / "plan.json").exists():
            break
        states.add(tuple(sorted(os.listdir(place))))
        if overwrite:
            assert whole(place / "run", "old") or whole(place / "run.replaced", "old") or whole(place / "run", "new")
            if (place / "run" / "plan.json").exists():
                with pytest.raises(InputError, match="holds a finished run"):
                    work(place / "run", seed=2, overwrite=False, content="never")
        work(place / "run", seed=0, overwrite=overwrite, content="new")
        assert os.listdir(place) == ["run"]
        assert sorted(os.listdir(place / "run")) == ["data.zarr", "run.json"]
        assert whole(place / "run", "new")
    moved = {("run.partial", "run.replaced"), ("run", "run.partial"), ("run", "run.replaced")}
    assert states == ({("run",)} | moved if overwrite else {("run",), ("run.partial",)})
    assert step >= (9 if overwrite else 5)


def test_after_a_killed_finish_other_work_keeps_or_replaces_the_run(tmp_path: Path) -> None:
    out = finished(tmp_path / "run")
    (out / "plan.json").write_text('{"seed": 0, "sizes": [1, 2]}')
    with pytest.raises(InputError, match="holds a finished run; use another --out, or --overwrite"):
        begin(out, seed=1)
    assert open_run(out)
    other = begin(out, seed=1, overwrite=True)
    assert open_run(out)  # until the new one is whole
    other.store(DATASET)
    other.close_record()
    other.finish()
    assert os.listdir(tmp_path) == ["run"] and open_run(out)[1]["seeds"] == {"rows": 1}


def test_opening_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no finished run at"):
        open_run(tmp_path / "nothing")
    begin(tmp_path / "half").release()
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
