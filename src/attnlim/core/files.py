"""Files that appear whole or not at all, whatever stops the process that writes them; and locks on them."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside ``path`` to write into; it takes the place of ``path`` when the block ends well.

    What a killed process leaves begins with a dot and is never mistaken for the file.

    Args:
        path: the file to make or replace; its folder is made if it is missing.

    Yields:
        The temporary file's path, with the same suffix as ``path``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        # mkstemp makes the file private; it is to be as readable as any other new file
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def replaced_by(name: str) -> str | None:
    """The name of the file that a temporary file of :func:`replacing` was to become, None for any other name.

    >>> replaced_by(".run-0a_bcde1.json"), replaced_by("run.json")
    ('run.json', None)
    """
    found = re.fullmatch(r"\.(.+)-[a-z0-9_]{8}(\.[^.]*)?", name)
    return found and found[1] + (found[2] or "")


def drop(path: Path) -> None:
    """Remove a file, a link or a whole folder, if it is there.

    Raises:
        OSError: it cannot be removed.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def take_lock(path: Path) -> BinaryIO:
    """An exclusive lock on the file ``path``, which is made if it is missing.

    It holds until the returned file is closed or the process ends, however it ends. Where the system or the
    file system knows no such locks there is none.

    Raises:
        BlockingIOError: another process holds it, or moved the file away meanwhile.
        OSError: the file cannot be opened.
    """
    held = open(path, "ab")  # noqa: SIM115  # the caller keeps it open
    try:
        import fcntl
    except ImportError:
        held.close()  # on Windows an open file would keep its folder from being renamed
        return held
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        raise
    except OSError:
        return held  # a file system without locks
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(held.fileno()), path.stat()):
            return held
    held.close()
    raise BlockingIOError(f"{path} was moved by the process that held it")
