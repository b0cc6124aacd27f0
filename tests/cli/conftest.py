"""The command line as a user calls it: a process of its own, in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def attnlim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call `attnlim` with arguments in ``tmp_path``; standard input from ``stdin``."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "attnlim", *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, input=stdin, capture_output=True, text=True, env=os.environ)

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
