"""Checkpoints that cannot be audited: each is one line, exit code 2, and nothing written."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

Run = Callable[..., subprocess.CompletedProcess[str]]
OneLine = Callable[[subprocess.CompletedProcess[str], str], None]


def cut_gguf(folder: Path, tiny_folder: Path, tiny: Any) -> Path:
    path = folder / "cut.gguf"
    path.write_bytes(b"GGUF\x03\x00\x00\x00" + bytes(40))
    return path


def cut_safetensors(folder: Path, tiny_folder: Path, tiny: Any) -> Path:
    copy(tiny_folder, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    return folder


def unknown_rope(folder: Path, tiny_folder: Path, tiny: Any) -> Path:
    copy(tiny_folder, folder)
    config = json.loads((folder / "config.json").read_text())
    config["rope_parameters"] = {"rope_type": "spiral", "rope_theta": 1e4}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def nan_weights(folder: Path, tiny_folder: Path, tiny: Any) -> Path:
    copy(tiny_folder, folder)
    model = tiny("llama")
    with torch.no_grad():
        model.base_model.layers[0].mlp.up_proj.weight[0, 0] = float("inf")
    model.save_pretrained(folder)
    return folder


def own_attention(folder: Path, tiny_folder: Path, tiny: Any) -> Path:
    from transformers import CONFIG_MAPPING, AutoModel

    copy(tiny_folder, folder)
    (folder / "model.safetensors").unlink()
    config = CONFIG_MAPPING["falcon"](vocab_size=97, hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    AutoModel.from_config(config).save_pretrained(folder)
    return folder


def encoder_decoder(folder: Path, tiny_folder: Path, tiny: Any) -> Path:
    from transformers import CONFIG_MAPPING, AutoModel

    copy(tiny_folder, folder)
    (folder / "model.safetensors").unlink()
    config = CONFIG_MAPPING["t5"](vocab_size=97, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    AutoModel.from_config(config).save_pretrained(folder)
    return folder


def no_tokenizer(folder: Path, tiny_folder: Path, tiny: Any) -> Path:
    tiny("gpt2").save_pretrained(folder)
    return folder


def copy(source: Path, target: Path) -> None:
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())


CASES: dict[str, tuple[Callable[[Path, Path, Any], Path], str]] = {
    "a GGUF file cut short": (cut_gguf, "cannot load"),
    "safetensors cut short": (cut_safetensors, "cannot load"),
    "a config with an unknown rope type": (unknown_rope, "rope type 'spiral', known are default, "),
    "infinite weights": (nan_weights, "hold NaN or infinity"),
    "attention that cannot be hooked": (own_attention, "cannot be hooked"),
    "an encoder-decoder": (encoder_decoder, "is an encoder-decoder (t5)"),
    "no tokenizer": (no_tokenizer, "seems to lack its tokenizer files"),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str, attnlim: Run, one_line: OneLine, tiny_folder: Path, tiny: Any, tmp_path: Path) -> None:
    make, phrase = CASES[case]
    (tmp_path / "checkpoint").mkdir()
    path = make(tmp_path / "checkpoint", tiny_folder, tiny)
    one_line(attnlim("audit", path, "--context", "32,128", "--windows", "2", "--device", "cpu"), phrase)
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]
