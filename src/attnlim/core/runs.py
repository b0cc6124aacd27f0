"""The run store: a command's results in one folder, written beside it first and moved into place when whole."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import xarray as xr

import attnlim
from attnlim.core.checks import InputError
from attnlim.core.files import drop, replaced_by, replacing, take_lock
from attnlim.core.memory import peak_bytes
from attnlim.core.provenance import environment, git_commit

STORE_VERSION = 1
# all that attnlim puts into a run's folder, unfinished or finished: a folder that holds anything else is not dropped
WRITTEN = frozenset(
    (
        "cells",
        "plan.json",
        ".lock",
        "data.zarr",
        "run.json",
        "heads.csv",
        "cells.csv",
        "claims.csv",
        "variants.csv",
        "attnlim",
        "report.html",
        "figures",
    )
)
DIFFERENCES_SHOWN = 4


@dataclass(frozen=True)
class RunFolder:
    """A run on its way: everything is written to ``OUT.partial`` and moved to ``OUT`` by :meth:`finish`.

    Attributes:
        out: the folder that the finished run will have.
        partial: where it is made; ``partial/cells`` keeps the finished cells.
        record: what run.json will hold.
        overwrite: a finished run at ``out`` is replaced.
        lock: keeps other processes from the same ``out``; let go by :meth:`release`, :meth:`finish` or the process' end.
    """

    out: Path
    partial: Path
    record: dict[str, Any]
    overwrite: bool = False
    lock: BinaryIO | None = field(default=None, repr=False, compare=False)

    @classmethod
    def begin(
        cls,
        out: Path,
        command: str,
        arguments: Mapping[str, Any],
        identity: Mapping[str, Any],
        seeds: Mapping[str, int],
        overwrite: bool = False,
        need_bytes: int = 0,
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
            need_bytes: disk that the whole run takes, in bytes.

        Raises:
            InputError: ``out`` holds a finished run or something else, ``OUT.partial`` is of other work or holds
                files of somebody else, another process is writing there, or the disk has less than ``need_bytes``.
            OSError: the folder cannot be written.
        """
        refuse_finished(out, overwrite)
        _refuse_full_disk(out, need_bytes)
        plan = json.loads(json.dumps(dict(identity), sort_keys=True))
        lock = _take_back(out, plan, overwrite) or _lock(_partial(out), out)
        try:
            _open_partial(out, plan, overwrite)
        except BaseException:
            lock.close()
            raise
        record = {
            "command": command,
            "arguments": dict(arguments),
            "version": attnlim.__version__,
            "store_version": STORE_VERSION,
            "git_commit": git_commit(),
            "seeds": dict(seeds),
            "environment": environment(),
            "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "finished": None,
            "cells_before": len(list((_partial(out) / "cells").glob("*.npz"))),
            "seconds": None,
            "peak_memory_bytes": None,
            "status": "unfinished",
        }
        return cls(out, _partial(out), record, overwrite, lock)

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
        """The finished run.json, with times, memory and status.

        Of a run that was resumed they are those of its last part, which found ``cells_before`` cells finished.
        """
        finished = datetime.datetime.now(datetime.UTC)
        seconds = (finished - datetime.datetime.fromisoformat(self.record["started"])).total_seconds()
        self.record.update(
            finished=finished.isoformat(timespec="seconds"),
            seconds=seconds,
            peak_memory_bytes=peak_bytes(),
            status="finished",
        )
        write_text(self.partial / "run.json", json.dumps(self.record, indent=1, ensure_ascii=False) + "\n")
        return self.record

    def finish(self) -> Path:
        """Move the whole run into place, then drop the run that it replaces and the cells.

        Killed anywhere in here, the same command comes to the same end: until plan.json goes, which is last,
        :meth:`begin` knows this run as its own, and the replaced run stays until the new one is in place.

        Returns:
            The run's folder.

        Raises:
            OSError: it cannot be moved, such as when something else has appeared at ``out`` meanwhile.
        """
        if self.overwrite and (self.out / "run.json").exists():
            os.rename(self.out, _replaced(self.out))
        os.rename(self.partial, self.out)
        _tidy(self.out, self.overwrite)
        self.release()
        return self.out

    def release(self) -> None:
        """Let other processes write this run; what was finished of it is kept."""
        if self.lock is not None:
            self.lock.close()


def refuse_finished(out: Path, overwrite: bool) -> None:
    """Make sure that a run can be written at ``out``, before anything is loaded; writes nothing.

    Raises:
        InputError: a finished run lies there and ``overwrite`` is false, or something that is not a run; or there
            is no such place, no permission to write, or ``OUT.partial`` or ``OUT.replaced`` of somebody else.
    """
    if out.name in ("", ".."):
        raise InputError(f"--out {out} names no folder of its own; give one such as {out / 'run'}")
    partial, replaced = _partial(out), _replaced(out)
    try:
        partial.lstat()
        if not (partial / "plan.json").exists():
            _refuse_foreign(partial)
    except FileNotFoundError:
        pass
    except OSError as reason:
        raise InputError(f"cannot write {out}: {reason.strerror}; use another --out") from reason
    if not os.access(_ground(out), os.W_OK | os.X_OK):
        raise InputError(f"cannot write {out}: no permission to write in {_ground(out)}; use another --out")

    finished = out
    if os.path.lexists(replaced):
        if not os.path.lexists(out) and (partial / "plan.json").exists():
            finished = replaced  # killed between the two moves of finish
        elif not _untidy(out):
            raise InputError(f"{replaced} is in the way; move it elsewhere or use another --out")
    elif _untidy(out):
        return  # killed after them: only begin knows whose it is
    if not os.path.lexists(finished):
        return
    if not (finished / "run.json").exists() and (not finished.is_dir() or any(finished.iterdir())):
        raise InputError(f"{finished} exists and is not a run of attnlim; use another --out")
    if (finished / "run.json").exists() and not overwrite:
        raise _finished(finished)


def _partial(out: Path) -> Path:
    return out.with_name(out.name + ".partial")


def _replaced(out: Path) -> Path:
    return out.with_name(out.name + ".replaced")


def _ground(out: Path) -> Path:
    """The nearest folder above ``out`` that is there."""
    return next((parent for parent in out.parents if os.path.lexists(parent)), Path())


def _finished(out: Path) -> InputError:
    return InputError(f"{out} holds a finished run; use another --out, or --overwrite to replace it")


def _refuse_foreign(partial: Path) -> None:
    if not partial.is_dir():
        raise InputError(f"{partial} is in the way; move it elsewhere or use another --out")
    foreign = sorted(name for name in os.listdir(partial) if not {name, replaced_by(name)} & WRITTEN)
    if foreign:
        raise InputError(
            f"{partial} holds {foreign[0]!r}, which attnlim did not write; move it elsewhere or use another --out"
        )


def _refuse_full_disk(out: Path, need_bytes: int) -> None:
    held = sum(path.lstat().st_size for path in _partial(out).rglob("*") if path.is_file())
    free = shutil.disk_usage(_ground(out)).free
    if free + held < need_bytes:
        raise InputError(
            f"{out} needs about {_size(need_bytes - held)} of disk, {_size(free)} are free there; "
            "free some space or use another --out"
        )


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"


def _lock(folder: Path, out: Path) -> BinaryIO:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return take_lock(folder / ".lock")
    except (BlockingIOError, FileNotFoundError) as reason:
        raise InputError(f"another attnlim process is writing {out}; wait for it or use another --out") from reason


def _untidy(out: Path) -> bool:
    """Whether ``out`` is a whole run whose :meth:`RunFolder.finish` was stopped before its end."""
    return (out / "run.json").exists() and (out / "plan.json").exists()


def _tidy(out: Path, overwrite: bool) -> None:
    if overwrite:
        drop(_replaced(out))
    for name in ("cells", ".lock", "plan.json"):  # plan.json last: it says that there is something to tidy
        drop(out / name)


def _take_back(out: Path, plan: dict[str, Any], overwrite: bool) -> BinaryIO | None:
    """Make ``OUT.partial`` again of an untidy ``out``; the lock on it, or None where there is nothing to take back."""
    if not _untidy(out):
        return None
    same = _read_plan(out) == plan and not os.path.lexists(_partial(out))
    if not same and not overwrite:
        raise _finished(out)
    lock = _lock(out, out)
    if not same:
        _tidy(out, overwrite)
        lock.close()
        return None
    if overwrite:
        drop(_replaced(out))
    os.rename(out, _partial(out))
    return lock


def _open_partial(out: Path, plan: dict[str, Any], overwrite: bool) -> None:
    """Bring the locked ``OUT.partial`` to where work can begin or go on."""
    partial = _partial(out)
    if os.path.lexists(_replaced(out)) and not os.path.lexists(out):
        os.rename(_replaced(out), out)
    found = _read_plan(partial)
    if found is not None and found != plan and not overwrite:
        raise InputError(
            f"{partial} holds an unfinished run of other arguments ({_differences(found, plan)}); "
            "give those again to resume it, use another --out, or --overwrite to drop it"
        )
    if found != plan:
        _refuse_foreign(partial)
    for path in list(partial.iterdir()):
        if (found != plan and path.name != ".lock") or replaced_by(path.name) in WRITTEN:
            drop(path)
    (partial / "cells").mkdir(exist_ok=True)
    write_text(partial / "plan.json", json.dumps(plan, indent=1, sort_keys=True))


def _read_plan(folder: Path) -> dict[str, Any] | None:
    """The identity in ``plan.json``: None without the file, empty when it holds something else."""
    try:
        found = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _differences(then: dict[str, Any], now: dict[str, Any]) -> str:
    def short(identity: dict[str, Any], name: str) -> str:
        shown = json.dumps(identity[name], ensure_ascii=False) if name in identity else "absent"
        return shown if len(shown) <= 32 else f"{shown[:31]}…"

    missing = object()
    names = [name for name in sorted({*then, *now}) if then.get(name, missing) != now.get(name, missing)]
    shown = [f"{name}: {short(then, name)} then, {short(now, name)} now" for name in names[:DIFFERENCES_SHOWN]]
    more = len(names) - len(shown)
    return "; ".join([*shown, f"and {more} more"] if more else shown)


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
