"""The run store: a command's results in one folder, written beside it first and moved into place when whole."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

import attnlim
from attnlim.core.checks import InputError
from attnlim.core.files import replacing

STORE_VERSION = 1
RECORDED_PACKAGES = (
    "attnlim",
    "torch",
    "transformers",
    "numpy",
    "scipy",
    "xarray",
    "zarr",
    "gguf",
    "tokenizers",
)


@dataclass(frozen=True)
class RunFolder:
    """A run on its way: everything is written to ``OUT.partial`` and moved to ``OUT`` by :meth:`finish`.

    Attributes:
        out: the folder that the finished run will have.
        partial: where it is made; ``partial/cells`` keeps the finished cells.
        record: what run.json will hold.
    """

    out: Path
    partial: Path
    record: dict[str, Any]

    @classmethod
    def begin(
        cls,
        out: Path,
        command: str,
        arguments: Mapping[str, Any],
        identity: Mapping[str, Any],
        seeds: Mapping[str, int],
        overwrite: bool = False,
    ) -> RunFolder:
        """Open ``OUT.partial``, or resume it when it was begun by the same work.

        Args:
            out: the run's folder.
            command: the command as the user gave it, for provenance.
            arguments: all its arguments with defaults filled in.
            identity: what decides the numbers (model, text, sizes, seed, threads): a partial folder with
                another identity is not resumed.
            seeds: the seeds by what they are for.
            overwrite: replace a finished run, and drop a partial one of other work.

        Raises:
            InputError: ``out`` holds a finished run or something else, or ``OUT.partial`` is of other work.
        """
        partial = out.with_name(out.name + ".partial")
        refuse_finished(out, overwrite)
        plan = partial / "plan.json"
        fresh = json.loads(json.dumps(dict(identity), sort_keys=True))
        if partial.exists() and not (plan.exists() and json.loads(plan.read_text()) == fresh):
            if plan.exists() and not overwrite:
                raise InputError(
                    f"{partial} holds an unfinished run of other arguments; use another --out, "
                    "the same arguments, or --overwrite to drop it"
                )
            shutil.rmtree(partial)
        (partial / "cells").mkdir(parents=True, exist_ok=True)
        write_text(plan, json.dumps(fresh, indent=1, sort_keys=True))
        record = {
            "command": command,
            "arguments": dict(arguments),
            "version": attnlim.__version__,
            "store_version": STORE_VERSION,
            "git_commit": _git_commit(),
            "seeds": dict(seeds),
            "environment": environment(),
            "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "finished": None,
            "seconds": None,
            "status": "unfinished",
        }
        return cls(out, partial, record)

    @property
    def cells(self) -> Path:
        """Where the finished cells lie."""
        return self.partial / "cells"

    def store(self, dataset: xr.Dataset) -> None:
        """Write the data as Zarr (``data.zarr``), replacing what an interrupted finish left."""
        shutil.rmtree(self.partial / "data.zarr", ignore_errors=True)
        with warnings.catch_warnings():
            # Zarr v3 has no specification of it yet, but without it whoever opens the store gets a warning
            warnings.filterwarnings("ignore", message="Consolidated metadata")
            dataset.to_zarr(self.partial / "data.zarr", mode="w", consolidated=True, zarr_format=3)

    def close_record(self) -> dict[str, Any]:
        """The finished run.json, with times and status."""
        finished = datetime.datetime.now(datetime.UTC)
        seconds = (finished - datetime.datetime.fromisoformat(self.record["started"])).total_seconds()
        self.record.update(finished=finished.isoformat(timespec="seconds"), seconds=seconds, status="finished")
        write_text(self.partial / "run.json", json.dumps(self.record, indent=1, ensure_ascii=False) + "\n")
        return self.record

    def finish(self) -> Path:
        """Drop the cells and move the whole run into place; returns the run's folder."""
        shutil.rmtree(self.cells)
        (self.partial / "plan.json").unlink()
        if self.out.exists():
            shutil.rmtree(self.out)
        os.rename(self.partial, self.out)
        return self.out


def refuse_finished(out: Path, overwrite: bool) -> None:
    """Make sure that a run can be written at ``out``.

    Raises:
        InputError: a finished run lies there and ``overwrite`` is false, or something that is not a run.
    """
    if not out.exists():
        return
    if not (out / "run.json").exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists and is not a run of attnlim; use another --out")
    if (out / "run.json").exists() and not overwrite:
        raise InputError(f"{out} holds a finished run; use another --out, or --overwrite to replace it")


def open_run(folder: Path) -> tuple[xr.Dataset, dict[str, Any]]:
    """A finished run's dataset (in memory) and its run.json.

    Raises:
        InputError: no run there, an unfinished one, or one of another store version.
    """
    path = folder / "run.json"
    if not path.exists():
        partial = folder.with_name(folder.name + ".partial")
        hint = (
            f"{partial} is unfinished: give the same command again to resume it"
            if partial.exists()
            else "give the folder that a command of attnlim wrote"
        )
        raise InputError(f"no finished run at {folder}; {hint}")
    try:
        record = json.loads(path.read_text())
    except json.JSONDecodeError as reason:
        raise InputError(f"{path} is not readable as JSON ({reason}); run the command again") from reason
    version = record.get("store_version")
    if version != STORE_VERSION:
        raise InputError(
            f"{folder} was written with store version {version}, this attnlim reads version {STORE_VERSION}; "
            f"use attnlim {record.get('version', 'of that time')} or run the command again"
        )
    try:
        with xr.open_zarr(folder / "data.zarr", chunks=None) as stored:
            dataset = stored.load()
    except (OSError, ValueError, KeyError) as reason:
        raise InputError(f"{folder / 'data.zarr'} cannot be read ({reason}); run the command again") from reason
    return dataset, record


def write_text(path: Path, text: str) -> None:
    """Write a file in one step: it is either the old one or the whole new one."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def environment() -> dict[str, Any]:
    """Versions and machine, for provenance; reads package metadata only, and imports nothing."""
    versions: dict[str, Any] = {"python": platform.python_version()}
    for package in RECORDED_PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {**versions, "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"}


def _git_commit() -> str | None:
    """The commit of attnlim's own checkout ("-dirty" with uncommitted changes), None for an installed package."""
    here = Path(__file__)
    git = ["git", "-C", str(here.resolve().parent)]
    try:
        # an installed package may lie inside somebody else's checkout, where this file is not tracked
        subprocess.run([*git, "ls-files", "--error-unmatch", here.name], capture_output=True, timeout=10, check=True)
        found = subprocess.run(
            [*git, "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
