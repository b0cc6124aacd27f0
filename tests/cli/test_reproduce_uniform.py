"""`attnlim reproduce uniform` from the outside, at a size of seconds: what it writes and prints, and its exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from rich.cells import cell_len
from tests.lab.tiny_uniform import TINY, results, short_runs

from attnlim.cli import main as command_line
from attnlim.core.cells import Cell, write_cell
from attnlim.core.runs import open_run
from attnlim.lab import uniform_record, uniform_size


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Call the command line in this process and in ``tmp_path``, where the laptop size is a tiny one; its exit code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(uniform_size.SIZES, "laptop", TINY)

    def call(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["attnlim", "reproduce", "uniform", "--threads", "1", *arguments])
        with short_runs(), pytest.raises(SystemExit) as ended:
            command_line.main()
        return int(str(ended.value.code))

    return call


def interrupted(**arguments: object) -> None:
    raise KeyboardInterrupt


def test_dry_run(small: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert small("--dry-run", "--json") == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert len(found["cells"]) == len(results()) and found["seconds"] > 0
    assert "Uniform scaling limits of AdamW-trained transformers · tiny size" in printed.err
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_goes_on_to_its_folder_and_table(
    small: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a verdict that is not the recorded one ends with 1, the run written all the same."""
    run = tmp_path / "runs" / "reproduce-uniform"
    with monkeypatch.context() as patched:
        patched.setattr("attnlim.lab.uniform_run.measure_first", interrupted)
        assert small() == 130
    capsys.readouterr()
    cells = tmp_path / "runs" / "reproduce-uniform.partial" / "cells"
    cells.mkdir(parents=True, exist_ok=True)
    for key, arrays in results().items():
        write_cell(cells, Cell(key), arrays)
    monkeypatch.setitem(uniform_record.RECORDED, "tiny", {"identity": "contradicted", "cubic": "confirmed"})
    assert small() == 1
    printed = capsys.readouterr()
    assert sorted(path.name for path in run.iterdir()) == [
        "claims.csv",
        "data.zarr",
        "figures",
        "report.html",
        "run.json",
    ]
    wide = [line for line in printed.out.splitlines() if cell_len(line) > 100]
    assert all(line.startswith("not as recorded") for line in wide)
    lines = [line for line in printed.out.splitlines() if line.startswith("not as recorded")]
    assert lines == [
        "not as recorded: before training the limit of a centred law is the identity: recorded as contradicted, found confirmed"
    ]
    dataset, record = open_run(run)
    assert record["status"] == "finished" and record["not_as_recorded"] == [lines[0].removeprefix("not as recorded: ")]
    table = pd.read_csv(run / "claims.csv")
    assert len(table) == dataset.sizes["claim"] and set(table["verdict"]) <= {*dataset["claim_verdict"].values}
