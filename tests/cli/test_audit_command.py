"""`attnlim audit` from the outside: what it writes, what it prints, what it refuses, what a kill leaves."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
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

Run = Callable[..., subprocess.CompletedProcess[str]]
OneLine = Callable[[subprocess.CompletedProcess[str], str], None]
Arguments = tuple[object, ...]
SMALL = ("--context", "32,128", "--windows", "3", "--rows", "64", "--device", "cpu")


def tree_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_run_folder_report_table_and_json(attnlim: Run, fresh_attnlim: Run, tiny_folder: Path, tmp_path: Path) -> None:
    done = fresh_attnlim("audit", tiny_folder, *SMALL)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "runs" / "audit-tiny-llama"
    assert sorted(path.name for path in run.iterdir()) == [
        "data.zarr",
        "figures",
        "heads.csv",
        "report.html",
        "run.json",
    ]
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "At 128 tokens, of 12 heads" in done.stdout
    assert "undecided" in done.stdout and "largest logit" in done.stdout

    dataset, record = open_run(run)
    assert dataset.sizes["context"] == 2 and dataset.sizes["layer"] == 3 and dataset.sizes["head"] == 4
    assert record["status"] == "finished" and record["seeds"] == {"rows": 0}
    assert record["arguments"]["context"] == [32, 128]
    heads = pd.read_csv(run / "heads.csv")
    assert len(heads) == 2 * 3 * 4
    picked = heads.query("context == 128 and layer == 2 and head == 1").iloc[0]
    at = dataset.sel(context=128, layer=2, head=1)
    for name in ("entropy", "kappa", "sink_mass", "largest_logit", "distance_no_sink"):
        assert picked[name] == pytest.approx(float(at[name]), rel=1e-12)
    assert picked["rho_input"] == pytest.approx(float(dataset["rho_input"].sel(context=128, layer=2)))

    redrawn = (run / "report.html").read_bytes()
    (run / "report.html").unlink()
    again = fresh_attnlim("report", run)
    assert again.returncode == 0 and (run / "report.html").read_bytes() == redrawn

    asked = attnlim("audit", tiny_folder, *SMALL, "--out", "other", "--json")
    answer = json.loads(asked.stdout)
    assert answer["run"] == "other" and len(answer["heads"]) == 24
    assert "\n".join(answer["verdict"]) == dataset.attrs["verdict"]
    assert tree_bytes(tmp_path / "other" / "data.zarr") == tree_bytes(run / "data.zarr")


def test_text_from_a_file_and_from_standard_input_agree(attnlim: Run, tiny_folder: Path, tmp_path: Path) -> None:
    text = "To be, or not to be, that is the question. " * 60
    (tmp_path / "play.txt").write_text(text)
    assert attnlim("audit", tiny_folder, *SMALL, "--text", "play.txt", "--out", "a").returncode == 0
    assert attnlim("audit", tiny_folder, *SMALL, "--text", "-", "--out", "b", stdin=text).returncode == 0
    first, second = (open_run(tmp_path / name)[0] for name in "ab")
    xr.testing.assert_equal(first, second)
    assert (first.attrs["text"], second.attrs["text"]) == ("play.txt", "standard input")


def test_dry_run_writes_nothing(attnlim: Run, tiny_audit: Arguments, tmp_path: Path) -> None:
    done = attnlim(*tiny_audit, *SMALL, "--dry-run")
    assert done.returncode == 0
    assert "would run 3 windows of 32 tokens" in done.stdout and "GB on this machine" in done.stdout
    machine = json.loads(attnlim(*tiny_audit, *SMALL, "--dry-run", "--json").stdout)
    assert machine["seconds"] >= 0 and machine["memory_bytes"] > 0 and len(machine["cells"]) == 6
    assert not list(tmp_path.iterdir())


def test_sensitivity_from_end_to_end(
    forks: Forks, attnlim: Run, tiny_audit: Arguments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it adds to a run, that a kill inside its cells leaves the same bytes, and that it says what it will take."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    work = (*tiny_audit, "--context", "32,64", "--windows", "12", "--rows", "16", "--device", "cpu", "--sensitivity")
    plan = json.loads(attnlim(*work, "--dry-run", "--json").stdout)
    assert len(plan["cells"]) == 48 and plan["cells"][24] == "sensitivity-32-window-0"
    assert "windows of 32 tokens, each with a backward pass" in attnlim(*work, "--dry-run").stdout

    clean = attnlim(*work, "--out", "clean")
    assert clean.returncode == 0, clean.stderr
    assert "sensitivity at 64 tokens: done at" in clean.stderr
    assert "would rather be sharper" in clean.stdout
    dataset, record = open_run(tmp_path / "clean")
    assert record["arguments"]["sensitivity"] is True
    heads = pd.read_csv(tmp_path / "clean" / "heads.csv")
    for name in ("sensitivity", "sensitivity_low", "sensitivity_high"):
        np.testing.assert_allclose(heads[name], dataset[name].values.ravel(), rtol=1e-12)

    process = forks.begin(*work, "--out", "killed", cwd=tmp_path)
    cells = tmp_path / "killed.partial" / "cells"
    while len(list(cells.glob("sensitivity*.npz"))) < 3:
        assert process.poll() is None
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    resumed = attnlim(*work, "--out", "killed")
    assert resumed.returncode == 0, resumed.stderr
    assert tree_bytes(tmp_path / "killed" / "data.zarr") == tree_bytes(tmp_path / "clean" / "data.zarr")


def test_a_partial_run_without_sensitivity_is_not_gone_on_with(
    forks: Forks, attnlim: Run, tiny_audit: Arguments, tmp_path: Path, one_line: OneLine
) -> None:
    work = (*tiny_audit, "--context", "64,256", "--windows", "200", "--out", "run")
    process = forks.begin(*work, cwd=tmp_path)
    while not list((tmp_path / "run.partial" / "cells").glob("context*.npz")):
        assert process.poll() is None
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    one_line(attnlim(*work, "--sensitivity"), "run.partial")


def test_compare(attnlim: Run, tiny_audit: Arguments, one_line: OneLine) -> None:
    attnlim(*tiny_audit, *SMALL, "--out", "a")
    attnlim(*tiny_audit, *SMALL, "--out", "b", "--seed", "1")
    done = attnlim("audit", "--compare", "a", "b")
    assert done.returncode == 0 and max(map(len, done.stdout.splitlines())) <= 100
    assert "median tokens attended" in done.stdout and "attention on the first token" in done.stdout
    answer = json.loads(attnlim("audit", "--compare", "a", "b", "--json").stdout)
    assert answer["different"] == []
    rows = pd.DataFrame(answer["rows"])
    counts = rows[rows["quantity"].str.endswith(" heads") & (rows["context"] == 128)]
    assert counts["first"].sum() == counts["second"].sum() == 12
    attnlim(*tiny_audit, "--context", "64", "--windows", "2", "--rows", "8", "--out", "c")
    one_line(attnlim(*tiny_audit, "--compare", "a", "b"), "--compare takes two finished runs and no MODEL")
    attnlim(*tiny_audit, *SMALL, "--diluted-above", "0.7", "--windows", "1", "--out", "d")
    unlike = json.loads(attnlim("audit", "--compare", "a", "d", "--json").stdout)
    assert unlike["different"] == ["n_windows 3 against 1", "diluted_above 0.8 against 0.7"]
    assert not [row for row in unlike["rows"] if row["quantity"].startswith("heads whose")]
    one_line(attnlim("audit", "--compare", "a", "c"), "share no context: [32, 128] against [64]")
    one_line(attnlim("audit", "--compare", "a", "nowhere"), "no finished run at nowhere")


BAD_INPUT = {
    "no model": ((), "audit needs a MODEL"),
    "unknown model": (("audit", "no/such/model/at/all"), "does not exist"),
    "missing text": (("audit", "TINY", *SMALL, "--text", "missing.txt"), "missing.txt: No such file"),
    "short text": (
        ("audit", "TINY", *SMALL, "--text", "short.txt"),
        "3 windows of 128 tokens need a text of 384 tokens",
    ),
    "beyond the positions": (("audit", "TINY", "--context", "512"), "context 512 is beyond the 256 positions"),
    "context not a number": (("audit", "TINY", "--context", "long"), "--context must be lengths such as"),
    "context too small": (
        ("audit", "TINY", "--context", "1"),
        "--context must be a whole number of at least 16, got 1",
    ),
    "sensitivity of an encoder": (
        ("audit", "minilm", "--sensitivity", "--context", "32"),
        "minilm lacks the weights of its next-token head",
    ),
    "no windows": (
        ("audit", "TINY", *SMALL, "--windows", "0"),
        "--windows must be a whole number of at least 1, got 0",
    ),
    "no rows": (("audit", "TINY", *SMALL, "--rows", "0"), "--rows must be a whole number of at least 1, got 0"),
    "negative seed": (("audit", "TINY", *SMALL, "--seed", "-1"), "--seed must be a whole number of at least 0, got -1"),
    "k_min": (("audit", "TINY", *SMALL, "--k-min", "1"), "--k-min must be a whole number of at least 2, got 1"),
    "margins crossed": (
        ("audit", "TINY", *SMALL, "--frozen-below", "0.9"),
        "--frozen-below must be a finite number below 0.8, got 0.9",
    ),
    "margin NaN": (
        ("audit", "TINY", *SMALL, "--diluted-above", "nan"),
        "--diluted-above must be a finite number, got nan",
    ),
    "dtype": (("audit", "TINY", *SMALL, "--dtype", "int4"), "--dtype must be one of"),
    "device": (("audit", "TINY", *SMALL[:-1], "cuda:99"), "--device cuda:99 cannot be used here"),
    "unknown option": (("audit", "TINY", "--contxt", "3"), "No such option: --contxt"),
    "option of a wrong type": (("audit", "TINY", "--windows", "four"), "Invalid value for '--windows'"),
    "nothing to report": (("report", "nowhere"), "no finished run at nowhere"),
    "unknown known model": (("models", "get", "gpt5"), "model must be one of smollm2, minilm"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_line(case: str, attnlim: Run, tiny_folder: Path, tmp_path: Path, one_line: OneLine) -> None:
    check_refusal(case, attnlim, tiny_folder, tmp_path, one_line)


@pytest.mark.parametrize("case", ["no model", "short text"])
def test_nothing_that_is_imported_or_loaded_adds_a_line(
    case: str, fresh_attnlim: Run, tiny_folder: Path, tmp_path: Path, one_line: OneLine
) -> None:
    check_refusal(case, fresh_attnlim, tiny_folder, tmp_path, one_line)


def check_refusal(case: str, call: Run, tiny_folder: Path, folder: Path, one_line: OneLine) -> None:
    arguments, phrase = BAD_INPUT[case]
    (folder / "short.txt").write_text("a short text")
    one_line(call(*(str(tiny_folder) if word == "TINY" else word for word in arguments or ("audit",))), phrase)
    assert [path.name for path in folder.iterdir()] == ["short.txt"]


def test_a_finished_run_is_not_replaced_unasked(attnlim: Run, tiny_audit: Arguments, one_line: OneLine) -> None:
    small = (*tiny_audit, "--context", "32", "--windows", "2", "--rows", "8")
    assert attnlim(*small).returncode == 0
    one_line(attnlim(*small), "holds a finished run; use another --out, or --overwrite")
    assert attnlim(*small, "--overwrite").returncode == 0


def test_a_store_of_another_version_is_refused(
    attnlim: Run, tiny_audit: Arguments, tmp_path: Path, one_line: OneLine
) -> None:
    attnlim(*tiny_audit, "--context", "32", "--windows", "2", "--rows", "8", "--out", "a")
    record = json.loads((tmp_path / "a" / "run.json").read_text())
    (tmp_path / "a" / "run.json").write_text(json.dumps(record | {"store_version": 99}))
    one_line(attnlim("report", "a"), "was written with store version 99")


def test_killed_at_random_and_resumed_gives_the_same_bytes(
    forks: Forks, fresh_attnlim: Run, tiny_audit: Arguments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clean run is of a Python of its own, which hashes strings with another seed."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as the forks have it
    # 120 short cells: ten kills a few cells apart never meet the end, however late this process notices a cell
    work = (*tiny_audit, "--context", "64,128", "--windows", "60", "--rows", "200", "--device", "cpu")
    assert fresh_attnlim(*work, "--out", "clean").returncode == 0
    moments = random.Random(0)
    for _ in range(10):
        cells = tmp_path / "killed.partial" / "cells"
        here = len(list(cells.glob("context*.npz"))) if cells.exists() else 0
        process = forks.begin(*work, "--out", "killed", cwd=tmp_path)
        wanted = here + moments.randint(1, 4)  # a moment after this many cells, wherever in the next one
        while not (cells.exists() and len(list(cells.glob("context*.npz"))) >= wanted):
            assert process.poll() is None
            time.sleep(0.001)
        time.sleep(moments.random() * 0.02)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not (tmp_path / "killed").exists()
    assert forks.run(*work, "--out", "killed", cwd=tmp_path).returncode == 0
    assert tree_bytes(tmp_path / "killed" / "data.zarr") == tree_bytes(tmp_path / "clean" / "data.zarr")
    assert (tmp_path / "killed" / "heads.csv").read_bytes() == (tmp_path / "clean" / "heads.csv").read_bytes()
    first, second = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("clean", "killed"))
    assert first["cells_before"] == 0 < second["cells_before"]
    for record in (first, second):
        for name in ("started", "finished", "seconds", "cells_before", "peak_memory_bytes", "environment", "command"):
            record.pop(name)
        record["arguments"].pop("out")
    assert first == second


def test_ctrl_c_keeps_what_was_finished(forks: Forks, tiny_audit: Arguments, tmp_path: Path) -> None:
    work = ("--context", "64,256", "--windows", "200", "--out", "run")  # long enough not to end before the signal
    (tmp_path / "said").touch()
    process = forks.begin(*tiny_audit, *work, cwd=tmp_path, stderr=tmp_path / "said")
    cells = tmp_path / "run.partial" / "cells"
    while not list(cells.glob("context*.npz")):
        assert process.poll() is None
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait() == 130
    last = (tmp_path / "said").read_text().strip().splitlines()[-1]
    assert last.startswith("attnlim: interrupted; what was finished is kept")
    assert list(cells.glob("context*.npz")) and not (tmp_path / "run").exists()


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mount") is None, reason="a really full disk needs root, to mount a small one"
)
def test_a_full_disk_is_one_line_and_leaves_no_run(
    attnlim: Run, forks: Forks, tiny_audit: Arguments, tmp_path: Path
) -> None:
    """Seen before the work where it can be; filling up during it, the finished cells are kept and resumed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    work = (*tiny_audit, "--context", "32,128", "--windows", "8", "--out", disk / "run", "--json")

    def mount(size: str) -> None:
        if subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], capture_output=True
        ).returncode:
            pytest.skip("this machine does not let root mount a tmpfs")

    mount("200k")
    try:
        done = attnlim(*work)
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert "run needs about" in done.stderr.splitlines()[-1] and not list(disk.iterdir())
    finally:
        subprocess.run(["umount", disk], check=True)

    mount("64m")
    try:
        (tmp_path / "said").touch()
        process = forks.begin(*work, cwd=tmp_path, stderr=tmp_path / "said")
        cells = disk / "run.partial" / "cells"
        while not list(cells.glob("context*.npz")):
            assert process.poll() is None
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGSTOP)
        with open(disk / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
            while filler.write(bytes(4096)):
                pass
        assert shutil.disk_usage(disk).free == 0
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait() == 2
        said = (tmp_path / "said").read_text()
        assert "Traceback" not in said
        assert said.strip().splitlines()[-1].startswith("attnlim: the disk is full; free some space")
        assert list(cells.glob("context*.npz")) and not (disk / "run").exists()
        (disk / "filler").unlink()
        assert attnlim(*work).returncode == 0
        assert os.listdir(disk) == ["run"] and open_run(disk / "run")
    finally:
        subprocess.run(["umount", disk], check=True)


def test_minilm_from_end_to_end(attnlim: Run, tmp_path: Path) -> None:
    """An encoder: every row sees every key, so κ comes from the contexts and the first context has none."""
    done = attnlim("audit", "minilm", "--context", "32,128", "--windows", "2", "--rows", "64", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    dataset, _ = open_run(tmp_path / "runs" / "audit-minilm")
    assert dataset.attrs["kappa_source"] == "contexts"
    assert np.isnan(dataset["kappa"].sel(context=32)).all() and (dataset["phase"].sel(context=32) == -1).all()
    np.testing.assert_array_equal(dataset["kappa"].sel(context=128), dataset["kappa_contexts"])
    assert np.isfinite(dataset["kappa"].sel(context=128)).all()


def test_no_network_is_touched_for_a_local_model(tmp_path: Path) -> None:
    """Without HF_HUB_OFFLINE too: nothing connects anywhere, and no host name is looked up."""
    code = """
import socket, sys
def refuse(*arguments, **settings): raise AssertionError(f"network: {arguments}")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
sys.argv = ["attnlim", "audit", "minilm", "--context", "32", "--windows", "2", "--rows", "8", "--device", "cpu"]
from attnlim.cli.main import main
main()
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "network" not in done.stderr
