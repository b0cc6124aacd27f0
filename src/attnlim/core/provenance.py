"""What a number was made with: versions, machine and commit."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

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
    "dask",
    "distributed",
)


def environment() -> dict[str, Any]:
    """Versions and machine, for provenance; reads package metadata only, and imports nothing."""
    versions: dict[str, Any] = {"python": platform.python_version()}
    for package in RECORDED_PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {**versions, "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"}


def git_commit() -> str | None:
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
