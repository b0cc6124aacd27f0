"""The run folder from the outside: where it cannot be, who else writes it, and what a kill at the very end leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.forks import Forks

from attnlim.core.runs import open_run

Run = Callable[..., subprocess.CompletedProcess[str]]
OneLine = Callable[[subprocess.CompletedProcess[str], str], None]
Arguments = tuple[object, ...]
SMALL = ("--context", "32", "--windows", "2", "--rows", "8", "--device", "cpu")


def tree_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("out", "phrase"),
    [
        (".", "--out . names no folder of its own; give one such as run"),
        ("file/run", "cannot write file/run: Not a directory; use another --out"),
        ("mine", "mine.partial holds 'thesis.txt', which attnlim did not write"),
    ],
)
def test_a_place_that_cannot_be_written_is_one_line(
    out: str, phrase: str, attnlim: Run, tmp_path: Path, one_line: OneLine
) -> None:
    """Before the model is looked for: here there is none of that name."""
    (tmp_path / "file").write_text("")
    (tmp_path / "mine.partial").mkdir()
    (tmp_path / "mine.partial" / "thesis.txt").write_text("years of work")
    one_line(attnlim("audit", "no/such/model", *SMALL, "--out", out), phrase)
    assert sorted(os.listdir(tmp_path)) == ["file", "mine.partial"]
    assert os.listdir(tmp_path / "mine.partial") == ["thesis.txt"]


def test_an_error_of_the_system_is_one_line(
    attnlim: Run, tiny_audit: Arguments, tmp_path: Path, one_line: OneLine
) -> None:
    assert attnlim(*tiny_audit, *SMALL, "--out", "run").returncode == 0
    (tmp_path / "run" / "report.html").unlink()
    (tmp_path / "run" / "report.html").mkdir()
    one_line(attnlim("report", "run"), "cannot write or read run/report.html: Is a directory")


def test_standard_input_is_utf8_whatever_the_locale(
    attnlim: Run, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-m", "attnlim", "audit", str(tiny_folder), *SMALL, "--text", "-", "--json"]
    text = "zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. " * 30
    done = subprocess.run([*command, "--out", "a"], cwd=tmp_path, input=text.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr
    (tmp_path / "text").write_text(text, encoding="utf-8")
    assert attnlim("audit", tiny_folder, *SMALL, "--text", "text", "--out", "b", "--json").returncode == 0
    first, second = (open_run(tmp_path / name)[0] for name in "ab")
    assert first.equals(second)
    done = subprocess.run(command, cwd=tmp_path, input=text.encode("latin-1"), capture_output=True)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and b"--text - is not UTF-8 text" in lines[0]


@pytest.mark.skipif(os.name == "nt", reason="no file locks there")
def test_a_second_process_of_the_same_out_is_refused(
    attnlim: Run, forks: Forks, tiny_audit: Arguments, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    work = (*tiny_audit, "--context", "64,128", "--windows", "4", "--device", "cpu", "--out", "run")
    said = tmp_path_factory.mktemp("elsewhere") / "said"
    said.touch()
    first = forks.begin(*work, cwd=tmp_path, stderr=said)
    while not list((tmp_path / "run.partial" / "cells").glob("context*.npz")):
        assert first.poll() is None
        time.sleep(0.001)
    os.kill(first.pid, signal.SIGSTOP)
    second = attnlim(*work, "--json", "--overwrite")
    assert second.returncode == 2 and "Traceback" not in second.stderr
    assert second.stderr.splitlines()[-1] == (
        "attnlim: another attnlim process is writing run; wait for it or use another --out"
    )
    os.kill(first.pid, signal.SIGCONT)
    assert first.wait() == 0 and "Traceback" not in said.read_text()
    assert os.listdir(tmp_path) == ["run"] and open_run(tmp_path / "run")


def test_other_arguments_are_named(attnlim: Run, tiny_audit: Arguments) -> None:
    stop = "import os; from attnlim.core import runs; runs.RunFolder.finish = lambda self: os._exit(9)"
    assert attnlim(*tiny_audit, *SMALL, "--out", "run", before=stop).returncode == 9
    done = attnlim(*tiny_audit, *SMALL, "--out", "run", "--seed", "7")
    assert done.returncode == 2
    assert "unfinished run of other arguments (seed: 0 then, 7 now); give those again" in done.stderr.splitlines()[-1]


def test_killed_between_the_two_moves_of_finish_the_same_command_ends_with_the_same_run(
    attnlim: Run, tiny_audit: Arguments, tmp_path: Path
) -> None:
    """The old run aside, the new one not yet in place; every other moment is tested on the run store itself."""
    stop = """
import os
rename = os.rename
os.rename = lambda before, after: os._exit(9) if str(before).endswith(".partial") else rename(before, after)
"""
    assert attnlim(*tiny_audit, *SMALL, "--out", "run").returncode == 0
    before = tree_bytes(tmp_path / "run")
    arguments = [*tiny_audit, *SMALL, "--out", "run", "--overwrite"]
    assert attnlim(*arguments, before=stop).returncode == 9
    assert sorted(os.listdir(tmp_path)) == ["run.partial", "run.replaced"]
    assert tree_bytes(tmp_path / "run.replaced") == before
    done = attnlim(*arguments)
    assert done.returncode == 0, done.stderr
    assert os.listdir(tmp_path) == ["run"]
    after = tree_bytes(tmp_path / "run")
    assert sorted(after) == sorted(before)
    for name, content in before.items():
        assert after[name] == content or name in ("run.json", "report.html")  # these two tell the time
