"""Text and windows: special tokens where the tokenizer puts them, no overlap, plain refusals."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlim.core.checks import InputError
from attnlim.models.text import Text, cut_windows, read_text


def test_default_text_is_the_language_reference() -> None:
    text = read_text(None)
    assert text.name == "pydoc_data.topics"
    assert len(text.content) > 400_000
    assert "The Python" in text.content or "Python" in text.content


def test_windows_of_a_decoder_are_pieces_of_the_text(smollm2: Any) -> None:
    text = read_text(None)
    windows = cut_windows(smollm2.tokenizer, text, 4, 8192)
    whole = smollm2.tokenizer(text.content, verbose=False)["input_ids"]
    assert windows.prefix == windows.suffix == ()  # this tokenizer begins a text with no special token
    assert len(whole) == len(windows.tokens)
    for window, start in enumerate(windows.starts):
        assert windows.ids(window, 512)[0].tolist() == whole[start : start + 512]
    assert windows.ids(3, 8192).shape == (1, 8192)
    gaps = torch.tensor([*windows.starts, len(whole)]).diff()
    assert int(gaps.min()) >= 8192


def test_windows_of_an_encoder_begin_and_end_as_its_texts_do(minilm: Any) -> None:
    windows = cut_windows(minilm.tokenizer, read_text(None), 2, 128)
    ids = windows.ids(1, 128)[0]
    assert ids.shape == (128,)
    assert ids[0] == minilm.tokenizer.cls_token_id
    assert ids[-1] == minilm.tokenizer.sep_token_id
    start = windows.starts[1]
    assert ids[1:-1].tolist() == windows.tokens[start : start + 126].tolist()


def test_a_short_text_is_refused_with_what_fits(minilm: Any) -> None:
    short = Text("note.txt", "word " * 600)
    with pytest.raises(InputError, match=r"4 windows of 300 tokens need .* note.txt has 600; use --windows 2"):
        cut_windows(minilm.tokenizer, short, 4, 300)
    with pytest.raises(InputError, match="use a shorter --context or a longer --text"):
        cut_windows(minilm.tokenizer, Text("note.txt", "word"), 1, 300)


def test_files_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.txt"
    file.write_text("zwölf Boxkämpfer", encoding="utf-8")
    assert read_text(str(file)) == Text("a.txt", "zwölf Boxkämpfer")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("zwölf\r\n".encode()), encoding="ascii"))
    assert read_text("-") == Text("standard input", "zwölf\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9"), encoding="latin-1"))
    with pytest.raises(InputError, match=r"--text - is not UTF-8 text \(.* at byte 3\)"):
        read_text("-")
    with pytest.raises(InputError, match=r"missing.txt: No such file or directory; give a UTF-8 text file"):
        read_text(str(tmp_path / "missing.txt"))
    file.write_bytes(b"caf\xe9 au lait")
    with pytest.raises(InputError, match=r"is not UTF-8 text \(.* at byte 3\)"):
        read_text(str(file))
    file.write_text(" \n")
    with pytest.raises(InputError, match="is empty"):
        read_text(str(file))
