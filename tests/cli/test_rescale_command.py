"""`attnlim rescale` as a user calls it, on a tiny random Llama: what it writes, how it resumes, what it refuses."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forks import Forks
from tests.report.synthetic_rescale import rescale_dataset

from attnlim.cli.rescale import _show
from attnlim.core.runs import open_run
from attnlim.models.text import read_text

TARGET = 1024  # of a model that was trained to 256; a letter is a token


@pytest.fixture(scope="session")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough text for five windows."""
    path = tmp_path_factory.mktemp("texts") / "text"
    path.write_text(read_text(None).content[: 6 * TARGET], encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def arguments(tiny_folder: Path, letters: Path) -> tuple[object, ...]:
    return "rescale", tiny_folder, "--target", "1k", "--text", letters


def test_from_a_name_to_a_recommendation(attnlim: Any, arguments: tuple[object, ...], tmp_path: Path) -> None:
    done = attnlim(*arguments, "--rule", "qwen,yarn", "--windows", "1,1,2", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "Recommended:" in done.stdout and "trained to 256 · target 1024 (4 ×)" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    dataset, record = open_run(tmp_path / "run")
    assert dataset["variant"].values.tolist() == ["raw", "none", "yarn", "qwen"]
    assert record["seeds"] == {"needles and bootstrap": 0} and record["arguments"]["target"] == TARGET
    kept = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"data.zarr", "run.json", "variants.csv", "report.html", "figures"} <= kept
    assert ("attnlim" in kept) == (dataset.attrs["recommended"] != "raw")
    assert dataset.attrs["recommended"] in done.stdout


def test_the_table_of_all_rules_is_cut_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    dataset = rescale_dataset().assign_attrs(trained_length=131072, target=1048576)  # the longest caption
    _show(dataset, tmp_path, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    begun = next(i for i, line in enumerate(lines) if line.lstrip().startswith("rule "))
    rows = lines[begun + 2 : begun + 2 + dataset.sizes["variant"]]
    assert [line.split()[0] for line in rows] == dataset["variant"].values.tolist()
    assert not [line for line in lines[begun - 2 : begun + 2] + rows if "…" in line or len(line) > 100]


def test_machine_readable(attnlim: Any, arguments: tuple[object, ...]) -> None:
    done = attnlim(*arguments, "--rule", "qwen", "--json", "--out", "run")
    told = json.loads(done.stdout)
    assert [row["variant"] for row in told["variants"]] == ["raw", "none", "qwen"]
    assert told["recommended"] in ("raw", "none", "qwen") and len(told["verdict"]) == 4


def test_a_dry_run_says_what_it_would_take(attnlim: Any, arguments: tuple[object, ...], tmp_path: Path) -> None:
    done = attnlim(*arguments, "--rule", "calibrate", "--dry-run", "--json")
    told = json.loads(done.stdout)
    assert told["seconds"] > 0 and told["memory_bytes"] > 1e5
    assert "derivative-0-window-1" in told["cells"] and "test-calibrated-window-1" in told["cells"]
    assert "without the critical rule" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_killed_run_goes_on_to_the_same_bytes(
    attnlim: Any, arguments: tuple[object, ...], forks: Forks, tmp_path: Path
) -> None:
    command = (*arguments, "--rule", "qwen", "--out", "run")
    assert attnlim(*arguments, "--rule", "qwen", "--out", "whole").returncode == 0
    begun = forks.begin(*command, cwd=tmp_path)
    cells = tmp_path / "run.partial" / "cells"
    while begun.poll() is None and len(list(cells.glob("*.npz"))) < 3:
        time.sleep(0.01)
    os.kill(begun.pid, signal.SIGKILL)
    begun.wait()
    assert not (tmp_path / "run").exists() and cells.exists()
    kept = {path.name: path.stat().st_mtime_ns for path in cells.glob("*.npz")}
    assert attnlim(*command).returncode == 0
    for path in sorted((tmp_path / "whole" / "data.zarr").rglob("*")):
        if path.is_file():
            again = tmp_path / "run" / "data.zarr" / path.relative_to(tmp_path / "whole" / "data.zarr")
            assert again.read_bytes() == path.read_bytes(), path
    assert kept


@pytest.mark.parametrize(
    ("changed", "phrase"),
    [
        (("--target", "256"), "rescale goes beyond the 256 tokens that the model was trained for"),
        (("--target", "1k,2k"), "--target must be one length"),
        (("--target", "8k"), "give a longer --text, fewer --windows or a shorter --target"),
        (("--rule", "critical"), "the critical rule needs b_c of every head, which `attnlim audit` measures"),
        (("--rule", "warm"), "--rule must be one of raw, none, yarn"),
        (("--rule", "calibrate", "--windows", "1,1,1"), "'calibrate' must be a whole number of at least 2"),
        (("--windows", "2,1"), "--windows must be 3 numbers"),
        (("--per", "token"), "--per must be one of head, layer, model"),
        (("--audit", "nowhere"), "no finished run at nowhere"),
        (("--seed", "-1"), "seed must be a whole number of at least 0"),
    ],
)
def test_what_is_refused(
    attnlim: Any, one_line: Callable[..., None], arguments: tuple[object, ...], changed: tuple[str, ...], phrase: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    given = arguments if changed[0] != "--target" else (*arguments[:2], *arguments[4:])
    one_line(attnlim(*given, *changed), phrase)
    assert not list(tmp_path.iterdir())
