"""`attnlim reproduce critical` from the outside, at a size of a second: what it writes and prints, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from rich.cells import cell_len
from tests.lab.tiny_reproduction import TINY

from attnlim.cli import main as command_line
from attnlim.core.runs import open_run
from attnlim.lab import critical_record, critical_size, critical_tasks
from attnlim.lab.critical_record import ORDER

Run = Callable[..., subprocess.CompletedProcess[str]]
OneLine = Callable[[subprocess.CompletedProcess[str], str], None]


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Call the command line in this process and in ``tmp_path``, where the laptop size is a tiny one; its exit code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(critical_size.SIZES, "laptop", TINY)

    def call(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["attnlim", "reproduce", "critical", "--threads", "1", *arguments])
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        return int(str(ended.value.code))

    return call


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs without figures, which take most of the time."""
    monkeypatch.setattr("attnlim.report.draw", lambda dataset, run, folder: folder, raising=False)


def tree_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_run_folder_table_and_report(
    small: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert small() == 0
    printed = capsys.readouterr()
    run = tmp_path / "runs" / "reproduce-critical"
    assert sorted(path.name for path in run.iterdir()) == [
        "claims.csv",
        "data.zarr",
        "figures",
        "report.html",
        "run.json",
    ]
    assert sorted(path.name for path in (run / "figures").iterdir()) == [
        "critical.png", "critical.svg", "finite.png", "finite.svg"
    ]  # fmt: skip
    assert max(map(cell_len, printed.out.splitlines())) <= 100
    dataset, record = open_run(run)
    assert record["status"] == "finished" and record["seeds"] == {"everything": 0} and record["not_as_recorded"] == []
    table = pd.read_csv(run / "claims.csv")
    assert table["key"].tolist() == list(ORDER) and set(table["verdict"]) <= {*dataset["claim_verdict"].values}
    # first what it comes to, then the table, then where the files are
    parts = [f"{len(ORDER)} claims: ", "predicted", "report.html, figures, data.zarr, claims.csv, run.json"]
    places = [printed.out.index(part) for part in parts]
    assert places == sorted(places)
    assert "the other claims: done at" in printed.err

    assert small() == 2
    assert "holds a finished run" in capsys.readouterr().err
    assert small("--overwrite", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["key"] for row in found["claims"]] == list(ORDER) and found["not_as_recorded"] == []


def test_another_verdict_than_the_recorded_one_is_exit_code_1(
    small: Callable[..., int],
    undrawn: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """The run is written all the same, and the claim is named."""
    monkeypatch.setitem(critical_record.RECORDED, "tiny", {"pair": "confirmed", "cosine-critical": "confirmed"})
    assert small("--out", "run") == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("not as recorded")]
    assert lines == [
        "not as recorded: below 1/(1 − ρ_1) every angle shrinks, pair by pair: recorded as confirmed, found contradicted"
    ]
    assert open_run(tmp_path / "run")[1]["not_as_recorded"] == [lines[0].removeprefix("not as recorded: ")]


def test_an_interrupted_run_comes_to_the_same_bytes(
    small: Callable[..., int],
    undrawn: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert small("--out", "clean") == 0
    begun = []
    measure = critical_tasks._PARTS["window"]

    def interrupted(**arguments: object) -> object:
        begun.append(arguments)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return measure(**arguments)

    monkeypatch.setitem(critical_tasks._PARTS, "window", interrupted)
    assert small("--out", "run") == 130
    assert "interrupted; what was finished is kept" in capsys.readouterr().err
    assert (tmp_path / "run.partial" / "cells").is_dir() and not (tmp_path / "run").exists()
    assert small("--out", "run") == 0
    assert tree_bytes(tmp_path / "run" / "data.zarr") == tree_bytes(tmp_path / "clean" / "data.zarr")
    assert (tmp_path / "run" / "claims.csv").read_bytes() == (tmp_path / "clean" / "claims.csv").read_bytes()


def test_dry_run_computes_nothing_that_stays(
    small: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert small("--dry-run", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["cells"]) == len(critical_tasks.cells(TINY, 0)) and found["seconds"] > 0
    assert list(tmp_path.iterdir()) == []


def test_bad_options_are_one_line(attnlim: Run, one_line: OneLine, tmp_path: Path) -> None:
    one_line(attnlim("reproduce", "critical", "--seed", "-1"), "--seed must be a whole number of at least 0, got -1")
    one_line(attnlim("reproduce", "critical", "--workers", "2"), "--workers starts processes on this machine")
    (tmp_path / "file").write_text("")
    one_line(attnlim("reproduce", "critical", "--out", "file/run"), "cannot write file/run")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_help_imports_no_torch() -> None:
    code = (
        "import sys; sys.argv = ['attnlim', 'reproduce', 'critical', '--help']\n"
        "from attnlim.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert not ended.code, ended.code\n"
        "assert 'torch' not in sys.modules and 'xarray' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).returncode == 0
