"""`attnlim phase` from the outside: what it writes, prints and refuses, and what kills leave, of itself or its workers."""

from __future__ import annotations

import json
import os
import random
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
from tests.forks import Forks

from attnlim.core.runs import open_run
from attnlim.lab import phase

Run = Callable[..., subprocess.CompletedProcess[str]]
OneLine = Callable[[subprocess.CompletedProcess[str], str], None]
SMALL = ("--n", "32", "--d", "2,8", "--rho", "0.2,0.6", "--gamma", "0:5:11", "--draws", "2", "--device", "cpu")


def tree_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def finished_cells(folder: Path) -> list[Path]:
    return list(folder.glob("n*.npz")) if folder.exists() else []


def test_run_folder_table_and_report(attnlim: Run, tmp_path: Path, one_line: OneLine) -> None:
    done = attnlim("phase", *SMALL)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "runs" / "phase"
    assert sorted(path.name for path in run.iterdir()) == [
        "cells.csv",
        "data.zarr",
        "figures",
        "report.html",
        "run.json",
    ]
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "8 cells in this process" in done.stdout and "At 32 tokens and ρ = 0.2 the transition" in done.stdout
    assert "γ_½" in done.stdout and done.stdout.rstrip().endswith("cells.csv, run.json")
    assert "n = 32, d = 8: done at" in done.stderr

    dataset, record = open_run(run)
    assert list(dataset.sizes.items()) == [
        ("n_tokens", 1), ("width", 2), ("rho", 2), ("gamma", 11), ("alpha", 1), ("causal", 1), ("draw", 2)
    ]  # fmt: skip
    for name in ("contraction", "eta", "entropy", "rho_hat", "contraction_simplex"):
        assert np.isfinite(dataset[name]).all(), name
    assert record["status"] == "finished" and record["seeds"] == {"tokens": 0}
    assert record["arguments"]["gamma"] == dataset["gamma"].values.tolist()
    cells = pd.read_csv(run / "cells.csv")
    assert len(cells) == 2 * 2 * 11 * 2
    row = cells.query("width == 8 and rho == 0.6 and gamma == 2.5 and draw == 1").iloc[0]
    at = dataset.sel(width=8, rho=0.6, gamma=2.5, draw=1).squeeze()
    assert row["contraction"] == pytest.approx(float(at["contraction"]), rel=1e-12)

    redrawn = (run / "report.html").read_bytes()
    (run / "report.html").unlink()
    again = attnlim("report", run)
    assert again.returncode == 0 and (run / "report.html").read_bytes() == redrawn
    one_line(attnlim("phase", *SMALL), "runs/phase holds a finished run; use another --out, or --overwrite")

    # and a notebook gets the same
    found = phase(
        "gaussian", [32], [2, 8], [0.2, 0.6], np.linspace(0, 5, 11), draws=2, device="cpu",
        threads=record["arguments"]["threads"],
    )  # fmt: skip
    xr.testing.assert_identical(found, dataset)


def test_quick_answers_with_one_sentence_and_the_figure(attnlim: Run, tmp_path: Path) -> None:
    done = attnlim("phase", "--quick", "--n", "64", "--d", "2,16", "--draws", "1", "--rows", "16")
    assert done.returncode == 0, done.stderr
    answer = " ".join(done.stdout.split("\n\n")[1].split())
    assert answer.startswith("At 64 tokens and ρ = ")
    assert answer.endswith("figure: runs/phase-quick/figures/phase.png · report: runs/phase-quick/report.html")
    assert answer.count(". ") == 1
    run = tmp_path / "runs" / "phase-quick"
    assert (run / "figures" / "phase.png").exists()

    # and measures everything, of sampled rows too
    assert "contraction, eta, focus · 18 cells" in done.stdout
    cells = pd.read_csv(run / "cells.csv")
    for name in ("contraction", "eta", "entropy", "perplexity", "participation"):
        errors = cells.loc[cells["gamma"].between(0.5, 3), f"{name}_standard_error"]
        assert np.isfinite(cells[name]).all() and (errors > 0).all(), name
    assert "1 draw · 16 sampled rows" in (run / "report.html").read_text(encoding="utf-8")


def test_dry_run_writes_nothing(attnlim: Run, tmp_path: Path) -> None:
    done = attnlim("phase", *SMALL, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "would run 8 cells into runs/phase: about 0:00:0" in done.stdout and "GB on this machine" in done.stdout
    machine = json.loads(attnlim("phase", *SMALL, "--dry-run", "--json", "--cluster", "local").stdout)
    assert machine["seconds"] >= 0 and machine["memory_bytes"] > 0 and len(machine["cells"]) == 8
    assert not list(tmp_path.iterdir())


def test_tokens_of_a_model_and_json(attnlim: Run, tiny_folder: Path, tmp_path: Path) -> None:
    few = ("--gamma", "1,2,3", "--json", "--device", "cpu", "--causal", "both")
    done = attnlim("phase", "--tokens", f"{tiny_folder}:1", "--n", "32", "--draws", "2", *few)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    dataset, _ = open_run(tmp_path / answer["run"])
    assert dataset["width"].values.tolist() == [32] and np.isnan(dataset["rho"].values).all()
    assert "\n".join(answer["verdict"]) == dataset.attrs["verdict"] and answer["cells_begun_again"] == 0
    assert [row["causal"] for row in answer["transitions"]] == [False, True]
    rho_hat = dataset["rho_hat"].values.ravel()
    assert np.isfinite(rho_hat).all() and rho_hat[0] != rho_hat[1]  # two windows of the text


def test_help_is_instant() -> None:
    code = """
import sys
sys.argv = ["attnlim", "phase", "--help"]
from attnlim.cli.main import main
try: main()
except SystemExit: pass
import attnlim.lab
found = {"torch", "dask", "distributed", "xarray", "matplotlib"} & set(sys.modules)
assert not found, found
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--cluster" in done.stdout


BAD_INPUT = {
    "not a number": (("--rho", "a"), "--rho must be numbers such as 0.1,0.5 or a range start:stop:count"),
    "a range cut short": (("--gamma", "0:4"), "--gamma must be numbers such as"),
    "a range of one": (("--gamma", "0:4:1"), "--gamma must be numbers such as"),
    "an empty list": (("--n", ""), "--n must be numbers such as"),
    "half a token": (("--n", "10.5"), "--n must be whole numbers, got 10.5"),
    "one token": (("--n", "1"), "--n must be a whole number of at least 2, got 1"),
    "no width": (("--d", "0"), "--d must be a whole number of at least 1, got 0"),
    "gamma": (("--gamma=-1,2",), "--gamma must be a finite number of at least 0, got -1.0"),
    "gamma NaN": (("--gamma", "nan"), "--gamma must be a finite number of at least 0, got nan"),
    "rho": (("--rho", "1"), "--rho must be a number in"),
    "causal": (("--causal", "maybe"), "--causal must be one of no, yes, both, got 'maybe'"),
    "measure": (("--measure", "eta,zeta"), "--measure must be one of contraction, eta, focus, got 'zeta'"),
    "simplex in too few dimensions": (("--tokens", "simplex", "--n", "16", "--d", "8"), "a simplex of 16 tokens spans"),
    "rho of a half-sphere": (("--tokens", "half-sphere", "--rho", "0.5"), "half-sphere tokens take no --rho"),
    "missing file": (("--tokens", "missing.npy"), "missing.npy does not exist"),
    "nobody at the address": (("--cluster", "nowhere"), "no Dask scheduler at nowhere (missing port number"),
    "workers elsewhere": (("--workers", "2"), "--workers starts processes on this machine, got it without --cluster"),
    "device": (("--device", "cuda:99"), "--device cuda:99 cannot be used here"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_line(case: str, attnlim: Run, tmp_path: Path, one_line: OneLine) -> None:
    arguments, phrase = BAD_INPUT[case]
    one_line(attnlim("phase", *arguments), phrase)
    assert not list(tmp_path.iterdir())


def test_a_missing_extra_names_itself(tmp_path: Path) -> None:
    code = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "distributed" else find(name, *rest)
sys.argv = ["attnlim", "phase", "--cluster", "local"]
from attnlim.cli.main import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "attnlim: this needs the package 'distributed'; install it with: pip install 'attnlim[cluster]'"
    ]
    assert not list(tmp_path.iterdir())


def test_killed_at_random_and_resumed_gives_the_same_bytes(forks: Forks, tmp_path: Path) -> None:
    # 120 cells of some milliseconds: ten kills a few cells apart never meet the end, however late they are noticed
    work = (
        "--n",
        "32,64",
        "--d",
        "2,8,32",
        "--rho",
        "0.2,0.5,0.8",
        "--gamma",
        "0:4:9",
        "--draws",
        "5",
        "--device",
        "cpu",
    )
    moments = random.Random(0)
    assert forks.begin("phase", *work, "--out", "clean", cwd=tmp_path).wait() == 0
    cells = tmp_path / "killed.partial" / "cells"
    for _ in range(10):
        here = len(finished_cells(cells))
        fork = forks.begin("phase", *work, "--out", "killed", cwd=tmp_path)
        wanted = here + moments.randint(1, 3)  # a moment after this many cells, wherever in the next one
        while len(finished_cells(cells)) < wanted:
            assert fork.poll() is None  # it is still there
            time.sleep(0.0005)
        time.sleep(moments.random() * 0.01)
        os.kill(fork.pid, signal.SIGKILL)
        assert fork.wait() == -signal.SIGKILL
        assert not (tmp_path / "killed").exists()
    assert forks.begin("phase", *work, "--out", "killed", cwd=tmp_path).wait() == 0
    assert tree_bytes(tmp_path / "killed" / "data.zarr") == tree_bytes(tmp_path / "clean" / "data.zarr")
    assert (tmp_path / "killed" / "cells.csv").read_bytes() == (tmp_path / "clean" / "cells.csv").read_bytes()
    first, second = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("clean", "killed"))
    assert first["cells_before"] == 0 < second["cells_before"]
    for record in (first, second):
        for name in ("started", "finished", "seconds", "cells_before", "peak_memory_bytes", "environment", "command"):
            record.pop(name)
        record["arguments"].pop("out")
    assert first == second


def children(process: int) -> list[int]:
    """The processes that another one started, worker processes of a local cluster among them."""
    psutil = pytest.importorskip("psutil")
    return [
        child.pid for child in psutil.Process(process).children(recursive=True) if "spawn_main" in str(child.cmdline())
    ]


def begun_on_a_cluster(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A run with two worker processes, of which one cell has been finished."""
    command = [
        sys.executable,
        "-m",
        "attnlim",
        "phase",
        *arguments,
        "--cluster",
        "local",
        "--workers",
        "2",
        "--out",
        "run",
    ]
    driver = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not finished_cells(folder / "run.partial" / "cells"):
        assert driver.poll() is None, driver.communicate()[1]
        time.sleep(0.001)
    return driver


# cells of about a tenth of a second
LONGER = (
    "--n",
    "256",
    "--d",
    "64",
    "--rho",
    "0.2,0.6",
    "--gamma",
    "0:4:21",
    "--draws",
    "8",
    "--device",
    "cpu",
    "--json",
)


def test_a_worker_killed_in_flight_costs_only_time(attnlim: Run, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    driver = begun_on_a_cluster(tmp_path, *LONGER)
    victim = children(driver.pid)[0]
    stored = len(finished_cells(tmp_path / "run.partial" / "cells"))
    os.kill(victim, signal.SIGKILL)
    said, complaints = driver.communicate()
    assert driver.returncode == 0, complaints
    assert all(line.startswith(("gaussian", "contraction", "n = 256")) for line in complaints.splitlines()), complaints
    again = json.loads(said)["cells_begun_again"]
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    # the cell in flight, if there was one, and results that the dead worker still held; never one that was stored
    assert 0 <= again <= 16 - stored and record["environment"]["cells_begun_again"] == again
    assert attnlim("phase", *LONGER, "--threads", "1", "--out", "here").returncode == 0
    assert tree_bytes(tmp_path / "run" / "data.zarr") == tree_bytes(tmp_path / "here" / "data.zarr")
    assert (tmp_path / "run" / "cells.csv").read_bytes() == (tmp_path / "here" / "cells.csv").read_bytes()


def test_ctrl_c_keeps_what_was_finished_and_closes_the_cluster(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    driver = begun_on_a_cluster(tmp_path, *LONGER, "--n", "256,512,1024")  # long enough not to end before the signal
    workers = children(driver.pid)
    assert len(workers) == 2
    driver.send_signal(signal.SIGINT)
    _, said = driver.communicate()
    assert driver.returncode == 130
    assert said.strip().splitlines()[-1].startswith("attnlim: interrupted; what was finished is kept")
    assert "Traceback" not in said
    assert finished_cells(tmp_path / "run.partial" / "cells") and not (tmp_path / "run").exists()
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)
