"""Configurations and files that cannot be read: one line each that says what was expected, what came and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from attnlim.core.checks import InputError
from attnlim.rules import read
from attnlim.rules.gguf_metadata import _BLOCKS, read_gguf

LLAMA = {"model_type": "llama", "num_hidden_layers": 4, "max_position_embeddings": 131072}


def rope(**keys: Any) -> dict[str, Any]:
    return LLAMA | {"rope_scaling": keys}


BAD: dict[str, tuple[Any, str]] = {
    "unknown rope type": (rope(rope_type="spiral", factor=4.0), "rope type 'spiral', known are default, linear"),
    "unknown old rope type": (rope(type="ntk-by-parts"), "rope type 'ntk-by-parts'"),
    "su outside Phi-3": (rope(type="su"), "rope type 'su'"),
    "two rope types": (rope(type="yarn", rope_type="linear", factor=4.0), "both type 'yarn' and rope_type 'linear'"),
    "factor in words": (rope(rope_type="yarn", factor="4.0"), "factor must be a number, got '4.0'; mend it"),
    "negative factor": (rope(rope_type="yarn", factor=-4.0), "factor must be a finite number of at least 0, got -4.0"),
    "NaN": (rope(rope_type="yarn", factor=float("nan")), "factor must be"),
    "negative attention_factor": (
        rope(rope_type="yarn", factor=4.0, attention_factor=-1.0),
        "attention_factor must be a finite number of at least 0",
    ),
    "mscale in words": (rope(rope_type="yarn", factor=4.0, mscale=[1.0], mscale_all_dim=1.0), "mscale must be"),
    "no lengths": ({"rope_scaling": {"rope_type": "yarn"}}, "yarn without a factor needs max_position_embeddings"),
    "rope_scaling is a number": (LLAMA | {"rope_scaling": 4.0}, "rope_scaling must be a JSON object, got 4.0"),
    "layer types of another length": (LLAMA | {"layer_types": ["full_attention"]}, "one entry for each of 4 layers, got 1"),
    "no_rope_layers of another length": (
        {"model_type": "smollm3", "num_hidden_layers": 4, "no_rope_layers": [1, 0]},
        "no_rope_layers must have one entry for each of 4 layers",
    ),
    "a length in words": (LLAMA | {"use_logn_attn": True, "seq_length": "8k"}, "seq_length must be a whole number"),
    "a floor in words": (
        LLAMA | {"attn_temperature_tuning": True, "floor_scale": "8k"}, "floor_scale must be a whole number",
    ),
    "a slope in words": (LLAMA | {"attn_temperature_tuning": True, "attn_scale": "a"}, "attn_scale must be a number, got 'a'"),
    "another floor in words": (LLAMA | {"log_scaling_n_floor": "x"}, "log_scaling_n_floor must be a whole number"),
    "half in words": (LLAMA | {"head_dim": 64, "partial_rotary_factor": "half"}, "partial_rotary_factor must be a number"),
    "an inner length in words": (
        LLAMA
        | {
            "original_max_position_embeddings": 4096,
            "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": "4k"},
        },
        "original_max_position_embeddings must be a whole number",
    ),
    "architectures is a number": (LLAMA | {"architectures": 3}, "architectures must be a list of names, got 3"),
    "half a layer": (LLAMA | {"num_hidden_layers": 2.5}, "num_hidden_layers must be a whole number"),
    "no heads": (LLAMA | {"num_attention_heads": 0}, "num_attention_heads must be a whole number of at least 1, got 0"),
    "beta in words": (
        {"model_type": "ministral3", "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "llama_4_scaling_beta": "big"}},
        "llama_4_scaling_beta must be",
    ),
    "temperature length in words": (
        {"architectures": ["Grok1ForCausalLM"], "attn_temperature_len": "1024"},
        "attn_temperature_len must be a whole number",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_config_that_contradicts_itself_or_holds_no_number(case: str) -> None:
    config, phrase = BAD[case]
    with pytest.raises(InputError) as told:
        read(config)
    assert phrase in str(told.value)
    assert "\n" not in str(told.value)


def test_files_that_are_not_there_or_no_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama", ')
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "empty").mkdir()
    for path, phrase in (
        (tmp_path / "nowhere.json", "does not exist; give a config.json, a folder"),
        (tmp_path / "empty", "has no config.json"),
        (tmp_path / "config.json", "is not readable as JSON"),
        (tmp_path / "list.json", "must hold a JSON object, got list"),
    ):
        with pytest.raises(InputError, match=phrase):
            read(path)


@pytest.mark.parametrize("layer", [4, -1, 1.5])
def test_no_such_layer(layer: Any) -> None:
    with pytest.raises(InputError, match="layer must be"):
        read(LLAMA).parts(0, layer=layer)


def gguf_file(path: Path, architecture: str = "llama", tokens: int = 5000, **more: Any) -> Path:
    """A whole small GGUF file, written by the gguf package."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_context_length(131072)
    writer.add_block_count(4)
    writer.add_embedding_length(32)
    writer.add_head_count(4)
    writer.add_rope_dimension_count(8)
    for key, value in more.items():
        name = key.replace("__", ".")
        name = name if name.startswith("general.") else f"{architecture}.{name}"
        {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}[type(value)](name, value)
    writer.add_token_list([f"token {n}" for n in range(tokens)])
    writer.add_token_scores([0.0] * tokens)
    writer.add_tensor("token_embd.weight", np.zeros((7, 32), dtype=np.float32))
    writer.add_tensor("output_norm.weight", np.zeros((32,), dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_gguf_file_is_read_as_the_gguf_package_reads_it(tmp_path: Path) -> None:
    path = gguf_file(tmp_path / "a.gguf", rope__scaling__type="yarn", rope__scaling__factor=4.0)
    ours, theirs = read_gguf(path).metadata, gguf.GGUFReader(path)
    for key, value in ours.items():
        assert theirs.fields[key].contents() == value, key
    assert {key for key in theirs.fields if not key.startswith(("GGUF.", "tokenizer."))} <= ours.keys()


def test_the_sizes_of_blocks_are_those_of_the_gguf_package() -> None:
    theirs = {int(kind): sizes for kind, sizes in gguf.constants.GGML_QUANT_SIZES.items()}
    assert {kind: theirs[kind] for kind in _BLOCKS} == _BLOCKS


def test_a_gguf_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = gguf_file(tmp_path / "whole.gguf", tokens=40).read_bytes()
    cut = tmp_path / "cut.gguf"
    padding = len(whole) - read_needed(tmp_path / "whole.gguf")
    for size in [*range(4, 400, 7), *range(400, len(whole) - padding, 61), len(whole) - padding - 1]:
        cut.write_bytes(whole[:size])
        with pytest.raises(InputError, match="cut short or damaged"):
            read(cut)
    cut.write_bytes(whole[: len(whole) - padding])
    assert read(cut).n_layers == 4


@pytest.mark.parametrize("alignment", [0, "wide"])
def test_a_gguf_file_with_an_alignment_that_is_none(tmp_path: Path, alignment: Any) -> None:
    with pytest.raises(InputError, match=f"general.alignment must be a whole number of at least 1, got {alignment!r}"):
        read(gguf_file(tmp_path / "a.gguf", general__alignment=alignment))


def read_needed(path: Path) -> int:
    """Where the last tensor ends."""
    last = max(gguf.GGUFReader(path).tensors, key=lambda tensor: tensor.data_offset)
    return int(last.data_offset + last.n_bytes)


def test_a_file_that_is_no_gguf_or_of_another_version(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"not a gguf file")
    with pytest.raises(InputError, match="is not a GGUF file"):
        read(path)
    path.write_bytes(b"GGUF\x09\x00\x00\x00" + bytes(16))
    with pytest.raises(InputError, match="GGUF version 9"):
        read(path)
