"""Text to measure on, and windows cut from it as the tokenizer begins a text."""

from __future__ import annotations

import hashlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlim.core.checks import InputError

DEFAULT_TEXT = "pydoc_data.topics"


@dataclass(frozen=True)
class Text:
    """A text and where it came from.

    Attributes:
        name: what to call it in a report.
        content: the text.
    """

    name: str
    content: str

    @property
    def sha256(self) -> str:
        """Of the UTF-8 bytes: which text a run was made on."""
        return hashlib.sha256(self.content.encode()).hexdigest()


def read_text(source: str | None = None) -> Text:
    """The text named by ``source``.

    Args:
        source: a UTF-8 file, ``-`` for standard input, None for the language reference inside every CPython.

    Raises:
        InputError: missing file, not UTF-8, or empty.
    """
    if source is None:
        from pydoc_data.topics import topics

        return Text(DEFAULT_TEXT, "\n\n".join(topics[name] for name in sorted(topics)))
    try:
        # not sys.stdin.read(): the locale's encoding may be another
        given = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        content = io.StringIO(given.decode("utf-8"), newline=None).read()
    except OSError as reason:
        raise InputError(
            f"--text {source}: {reason.strerror or reason}; give a UTF-8 text file, or - for standard input"
        ) from reason
    except UnicodeDecodeError as reason:
        raise InputError(
            f"--text {source} is not UTF-8 text ({reason.reason} at byte {reason.start}); convert it first"
        ) from reason
    if not content.strip():
        raise InputError(f"--text {source} is empty; give a text of at least the longest context")
    return Text("standard input" if source == "-" else Path(source).name, content)


@dataclass(frozen=True)
class Windows:
    """Where the windows of a text begin; every context takes its first tokens from the same places.

    Attributes:
        tokens: (n_text,) int64, the whole text without special tokens.
        starts: where each window begins in it.
        prefix: special tokens that the tokenizer puts before a text.
        suffix: special tokens that it puts after.
    """

    tokens: Tensor
    starts: tuple[int, ...]
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]

    def most(self, n_tokens: int) -> int:
        """How many windows of ``n_tokens`` the text holds without overlap."""
        return len(self.tokens) // (n_tokens - len(self.prefix) - len(self.suffix))

    def ids(self, window: int, n_tokens: int) -> Tensor:
        """(1, n_tokens) int64: window ``window`` at context ``n_tokens``, special tokens counted in."""
        inner = n_tokens - len(self.prefix) - len(self.suffix)
        start = self.starts[window]
        body = self.tokens[start : start + inner]
        return torch.cat(
            [torch.tensor(self.prefix, dtype=torch.int64), body, torch.tensor(self.suffix, dtype=torch.int64)]
        )[None]


def cut_windows(tokenizer: Any, text: Text, n_windows: int, longest: int) -> Windows:
    """Place ``n_windows`` windows of ``longest`` tokens evenly over the text, without overlap.

    Raises:
        InputError: the text is too short for that.
    """
    encoded = _encode(tokenizer, text.content, special=False)
    if not encoded:  # what transformers makes of a folder without tokenizer files
        raise InputError(
            f"the tokenizer makes no tokens of {text.name}; the checkpoint seems to lack its tokenizer files"
        )
    prefix, suffix = _special_tokens(tokenizer)
    inner = longest - len(prefix) - len(suffix)
    if len(encoded) < n_windows * inner:
        fits = len(encoded) // inner
        hint = (
            f"use --windows {fits}, a shorter --context or a longer --text"
            if fits
            else "use a shorter --context or a longer --text"
        )
        raise InputError(
            f"{n_windows} windows of {longest} tokens need a text of {n_windows * inner} tokens, {text.name} has {len(encoded)}; {hint}"
        )
    stride = len(encoded) // n_windows
    return Windows(
        torch.tensor(encoded, dtype=torch.int64),
        tuple(stride * window for window in range(n_windows)),
        prefix,
        suffix,
    )


def _encode(tokenizer: Any, content: str, special: bool) -> list[int]:
    # verbose=False: a text longer than the model's window is what is wanted here, not a reason to warn
    return list(tokenizer(content, add_special_tokens=special, verbose=False)["input_ids"])


def _special_tokens(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    plain = _encode(tokenizer, "a text", special=False)
    whole = _encode(tokenizer, "a text", special=True)
    for begin in range(len(whole) - len(plain) + 1):
        if whole[begin : begin + len(plain)] == plain:
            return tuple(whole[:begin]), tuple(whole[begin + len(plain) :])
    raise InputError("this tokenizer changes a text when it adds special tokens, so windows cannot be cut from it")
