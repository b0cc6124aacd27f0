"""The stored audit of SmolLM2 that the pages quote, and the pages themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import xarray as xr
from tests.script_modules import script_module

from attnlim.core.runs import RunFolder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def stored() -> xr.Dataset:
    """The dataset of the audit that the pages show, in float64 as an audit stores it."""
    data = xr.load_dataset(ROOT / "docs" / "data" / "audit-smollm2.nc", engine="scipy")
    return data.map(lambda values: values.astype("float64") if values.dtype == "float32" else values, keep_attrs=True)


@pytest.fixture(scope="session")
def stored_run(stored: xr.Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a finished run folder, without the report."""
    folder = tmp_path_factory.mktemp("stored") / "audit-smollm2"
    folder.mkdir()
    plain = stored.assign_attrs(
        {name: getattr(value, "item", lambda v=value: v)() for name, value in stored.attrs.items()}
    )
    for name in plain.variables:
        attrs = plain[name].attrs
        attrs.update({key: getattr(value, "item", lambda v=value: v)() for key, value in attrs.items()})
    record = json.loads((ROOT / "docs" / "data" / "run.json").read_text(encoding="utf-8"))
    RunFolder(folder, folder, record).store(plain)
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def phases_figure() -> ModuleType:
    """examples/phases_figure.py as a module."""
    return script_module(ROOT / "examples" / "phases_figure.py")


@pytest.fixture(scope="session")
def transition_figures() -> ModuleType:
    """examples/transition_figures.py as a module."""
    return script_module(ROOT / "examples" / "transition_figures.py")


@pytest.fixture(scope="session")
def transition_tables() -> ModuleType:
    """examples/transition_tables.py as a module."""
    return script_module(ROOT / "examples" / "transition_tables.py")


@pytest.fixture(scope="session")
def drawn_formulas() -> ModuleType:
    """docs/extensions/docstrings.py as a module."""
    return script_module(ROOT / "docs" / "extensions" / "docstrings.py")


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """One thread, here and in child processes: on a machine that others use, threads would wait for each other."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
