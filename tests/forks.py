"""Processes that begin with everything imported: one that has loaded it all forks a fresh one for every command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

# A fork is a process of its own: its streams, its exit code and its death by a signal are real. What it shares with
# its siblings are the imports and what is drawn at a start: the seeds of the hashes of strings and of numpy's global
# generator. So what must not depend on those is compared with a process that starts by itself.
_PARENT = """
import contextlib, gc, importlib, json, os, pkgutil, sys
from multiprocessing import get_context
import attnlim
from attnlim.cli.main import main

names = [module.name for module in pkgutil.walk_packages(attnlim.__path__, "attnlim.")]
# what a command imports only on its way
names += '''
dask.array gguf jinja2 matplotlib.backends.backend_agg matplotlib.backends.backend_svg matplotlib.figure
PIL.PngImagePlugin plotly.offline pydantic rich.table safetensors.torch tokenizers zarr
transformers.models.bert.modeling_bert transformers.models.llama.modeling_llama
'''.split()
for name in names:
    with contextlib.suppress(ImportError):  # an extra that is not there
        importlib.import_module(name)

def command(arguments, cwd, environment, streams, before):
    for stream, path in enumerate(streams):
        os.dup2(os.open(path, os.O_RDWR | os.O_APPEND), stream)
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["attnlim", *arguments]
    exec(before, {})
    main()

gc.freeze()
forks = {}
for line in sys.stdin:
    order, given = json.loads(line)
    if order == "begin":
        fork = get_context("fork").Process(target=command, args=given)
        fork.start()
        forks[fork.pid] = fork
        answer = fork.pid
    else:
        if order == "wait":
            forks[given].join()
        answer = forks[given].exitcode
    print(json.dumps(answer), flush=True)
for fork in forks.values():
    fork.kill()
"""


class Fork:
    """One command."""

    def __init__(self, forks: Forks, pid: int) -> None:
        self.pid, self._forks = pid, forks

    def poll(self) -> int | None:
        """Its exit code, the negative number of the signal that ended it, or None while it runs."""
        return self._forks.ask("poll", self.pid)

    def wait(self) -> int | None:
        """The same when it has ended."""
        return self._forks.ask("wait", self.pid)


class Forks:
    """The process that forks, as a context."""

    def __enter__(self) -> Self:
        # a fork keeps none of its parent's threads, so there must be none
        alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PARENT], env=alone, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()

    def ask(self, order: str, given: object) -> int | None:
        """Give an order and read the answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([order, given]) + "\n")
        self._process.stdin.flush()
        answer: int | None = json.loads(self._process.stdout.readline())
        return answer

    def begin(
        self,
        *arguments: object,
        cwd: Path,
        stdin: Path | str = os.devnull,
        stdout: Path | str = os.devnull,
        stderr: Path | str = os.devnull,
        before: str = "",
    ) -> Fork:
        """Begin `attnlim`; its streams are files that are there already, and ``before`` is Python that it runs first."""
        streams = [str(stdin), str(stdout), str(stderr)]
        pid = self.ask("begin", [[*map(str, arguments)], str(cwd), {**os.environ}, streams, before])
        assert pid is not None
        return Fork(self, pid)

    def run(self, *arguments: object, cwd: Path, stdin: str = "", before: str = "") -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` with captured text."""
        with TemporaryDirectory() as folder:
            paths = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
            for path, content in zip(paths, (stdin, "", ""), strict=True):
                path.write_text(content, encoding="utf-8")
            code = self.begin(
                *arguments, cwd=cwd, stdin=paths[0], stdout=paths[1], stderr=paths[2], before=before
            ).wait()
            said, complaints = (path.read_text(encoding="utf-8") for path in paths[1:])
        assert code is not None
        return subprocess.CompletedProcess(["attnlim", *map(str, arguments)], code, said, complaints)
