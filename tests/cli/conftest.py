"""The command line as a user calls it: a process of its own, in an empty folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.forks import Forks

from attnlim.models.text import read_text

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def attnlim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: Forks) -> Run:
    """Call `attnlim` with arguments in ``tmp_path``; standard input from ``stdin``, Python to run first in ``before``."""
    monkeypatch.chdir(tmp_path)
    return partial(forks.run, cwd=tmp_path)


@pytest.fixture
def fresh_attnlim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The same in a Python that starts for it, as from a shell: one that has not yet imported anything."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "attnlim", *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    return run


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory, tiny: Any, minilm: Any) -> Path:
    """A tiny random Llama on disk, and a tokenizer of one token a letter."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    path = tmp_path_factory.mktemp("checkpoints") / "tiny-llama"
    tiny("llama").save_pretrained(path)
    vocabulary = {"[PAD]": 0} | {chr(32 + i): i + 1 for i in range(95)} | {"[UNK]": 96}
    letters = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    PreTrainedTokenizerFast(tokenizer_object=letters, unk_token="[UNK]").save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def tiny_audit(tiny_folder: Path) -> tuple[object, ...]:
    """The beginning of a command that audits it on a shorter text: at a token a letter the default one takes a second
    to cut into tokens."""
    path = tiny_folder.with_name("text")
    path.write_text(read_text(None).content[:60_000], encoding="utf-8")
    return "audit", tiny_folder, "--text", path


@pytest.fixture
def one_line() -> Callable[[subprocess.CompletedProcess[str], str], None]:
    """Check a refusal: exit code 2, one line on standard error that holds a phrase, no traceback."""

    def check(done: subprocess.CompletedProcess[str], phrase: str) -> None:
        lines = done.stderr.strip().splitlines()
        assert done.returncode == 2, done.stderr
        assert len(lines) == 1, done.stderr
        assert lines[0].startswith("attnlim: ")
        assert phrase in lines[0], lines[0]

    return check
