"""`attnlim meanfield` from the outside: what it writes, prints and refuses, and that a kill costs only time."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from attnlim.core.runs import open_run
from attnlim.lab import meanfield

Run = Callable[..., subprocess.CompletedProcess[str]]
OneLine = Callable[[subprocess.CompletedProcess[str], str], None]
SMALL = (
    "--layers", "2,4,8", "--heads", "1,2", "--steps", "0,2", "--inits", "4", "--particles", "32", "--nodes", "3",
    "--fresh", "3", "--sequences", "2", "--threads", "1", "--device", "cpu",
)  # fmt: skip


def tree_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_run_folder_table_and_report(attnlim: Run, tmp_path: Path, one_line: OneLine) -> None:
    done = attnlim("meanfield", *SMALL)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "runs" / "meanfield"
    assert sorted(path.name for path in run.iterdir()) == [
        "cells.csv",
        "data.zarr",
        "figures",
        "report.html",
        "run.json",
    ]
    assert sorted(path.name for path in (run / "figures").iterdir()) == ["meanfield.png", "meanfield.svg"]
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "10 cells in this process, 1 thread each" in done.stdout and "power of L" in done.stdout
    assert "The distance from the limit falls as L^−" in " ".join(done.stdout.split())
    assert done.stdout.rstrip().endswith("cells.csv, run.json") and "limits: done at" in done.stderr
    dataset, record = open_run(run)
    assert record["status"] == "finished" and record["seeds"] == {"everything": 0}
    assert record["arguments"]["n_layers"] == [2, 4, 8] and record["arguments"]["lr"] == 0.1
    assert len(pd.read_csv(run / "cells.csv")) == 3 * 2 * 2 * 2
    one_line(attnlim("meanfield", *SMALL), "runs/meanfield holds a finished run; use another --out, or --overwrite")

    # and a notebook gets the same
    found = meanfield(
        [2, 4, 8], [1, 2], steps=[0, 2], n_inits=4, n_particles=32, n_nodes=3, n_fresh=3, n_sequences=2, threads=1,
        device="cpu",
    )  # fmt: skip
    xr.testing.assert_identical(found, dataset)


def test_quick_shows_a_first_rate(attnlim: Run, tmp_path: Path) -> None:
    few = ("--particles", "64", "--inits", "4", "--layers", "4,8,16", "--threads", "1")
    done = attnlim("meanfield", "--quick", *few)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith(
        "figure: runs/meanfield-quick/figures/meanfield.png · report: runs/meanfield-quick/report.html"
    )
    assert "L = 4, 8, 16 · H = 1, 4" in done.stdout and "after 2 steps" in " ".join(done.stdout.split())
    assert (tmp_path / "runs/meanfield-quick/figures/meanfield.png").exists()


def test_json_and_dry_run(attnlim: Run, tmp_path: Path) -> None:
    dry = attnlim("meanfield", *SMALL, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "would run 10 cells into runs/meanfield: about 0:00:0" in dry.stdout and "GB on this machine" in dry.stdout
    machine = json.loads(attnlim("meanfield", *SMALL, "--dry-run", "--json").stdout)
    assert machine["seconds"] > 0 and machine["memory_bytes"] > 0 and len(machine["cells"]) == 10
    assert not list(tmp_path.iterdir())
    found = json.loads(attnlim("meanfield", *SMALL, "--json").stdout)
    assert len(found["rates"]) == 4 and found["cells_begun_again"] == 0
    assert found["rates"][0]["p"].startswith("−") and found["verdict"][0].startswith("The distance from the limit")


def test_a_killed_run_goes_on_to_the_same_bytes(attnlim: Run, tmp_path: Path) -> None:
    whole = attnlim("meanfield", *SMALL, "--out", "whole")
    assert whole.returncode == 0, whole.stderr
    command = [sys.executable, "-m", "attnlim", "meanfield", *SMALL, "--out", "killed"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cells = tmp_path / "killed.partial" / "cells"
    deadline = time.monotonic() + 120
    while len(list(cells.glob("*.npz"))) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = len(list(cells.glob("*.npz")))
    assert 2 <= kept < 10
    again = attnlim("meanfield", *SMALL, "--out", "killed")
    assert again.returncode == 0, again.stderr
    assert tree_bytes(tmp_path / "killed" / "data.zarr") == tree_bytes(tmp_path / "whole" / "data.zarr")


def test_a_cluster_gives_the_same_numbers(attnlim: Run, tmp_path: Path) -> None:
    for name, options in (("here", ()), ("there", ("--cluster", "local", "--workers", "2"))):
        done = attnlim("meanfield", *SMALL, "--out", name, *options)
        assert done.returncode == 0, done.stderr
    assert tree_bytes(tmp_path / "here" / "data.zarr") == tree_bytes(tmp_path / "there" / "data.zarr")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--heads", "0"), "--heads must be"),
        (("--layers", "0"), "--layers must be"),
        (("--betas", "0.99,0.9"), "betas must be below 1 with the first one's square below the second"),
        (("--betas", "0.9"), "--betas must be two numbers such as 0.9,0.999"),
        (("--lr", "3", "--weight-decay", "1"), "lr times weight_decay must be at most 1, got 3"),
        (("--eps", "0"), "--eps must be a finite number above 0"),
        (("--target", "nan"), "--target must be a finite number of at least 0"),
        (("--gamma", "1", "--beta", "1"), "--beta and --gamma say the same thing"),
        (("--k", "0"), "--k must be a whole number of at least 1"),
        (("--inputs", "words"), "--inputs must be one of gaussian, sphere, clustered"),
        (
            (*SMALL, "--optimiser", "sgd", "--lr", "50", "--weight-decay", "0", "--target", "3", "--steps", "0,30"),
            "the run has diverged",
        ),
    ],
)
def test_bad_input_is_one_line(
    attnlim: Run, one_line: OneLine, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    done = attnlim("meanfield", *options)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2 and words in lines[-1] and lines[-1].startswith("attnlim: "), done.stderr
    assert not (tmp_path / "runs" / "meanfield").exists()


def test_dataset_names_what_is_missing(attnlim: Run, tmp_path: Path) -> None:
    done = attnlim("meanfield", *SMALL, "--max-product", "8", "--out", "some")
    assert done.returncode == 0, done.stderr
    dataset, _ = open_run(tmp_path / "some")
    left_out = dataset["sup_tokens"].sel(n_layers=8, n_heads=2)
    assert np.isnan(left_out).all() and len(pd.read_csv(tmp_path / "some" / "cells.csv")) == 5 * 2 * 2
