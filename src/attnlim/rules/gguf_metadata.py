"""The metadata of a GGUF file: read without its weights, and as the configuration that transformers' loader makes of it.

The layout is that of the GGUF specification, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from attnlim.core.checks import InputError
from attnlim.rules.factors import yarn_scale

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
# longer arrays are vocabularies: they are stepped over
_KEPT = 4096
# values a block, bytes a block, by the number of the type
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66), 17: (256, 74),
    18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2),
    26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip

# architectures of llama.cpp that transformers loads, with the model type that it takes them for
LOADED = {
    "falcon": "falcon", "gemma2": "gemma2", "gemma3": "gemma3_text", "gemma4": "gemma4_text", "lfm2": "lfm2",
    "llama": "llama", "minimax-m2": "minimax_m2", "mistral": "mistral", "nemotron": "nemotron", "phi3": "phi3",
    "qwen2": "qwen2", "qwen2moe": "qwen2_moe", "qwen3": "qwen3", "qwen3moe": "qwen3_moe", "stablelm": "stablelm",
    "starcoder2": "starcoder2", "bloom": "bloom", "gpt2": "gpt2", "mamba": "mamba", "t5": "t5",
}  # fmt: skip
# and others, which are read as what the file declares
DECLARED = {
    "cohere2": "cohere2", "deepseek2": "deepseek_v3", "exaone4": "exaone4", "gpt-oss": "gpt_oss", "grok": "grok-2",
    "llama4": "llama4_text", "minicpm3": "minicpm3", "mistral3": "ministral3", "mistral4": "mistral4", "olmo2": "olmo2",
    "phimoe": "phimoe", "qwen": "qwen", "smollm3": "smollm3",
}  # fmt: skip
_NAMES = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "attention.head_count": "num_attention_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
}


@dataclass(frozen=True)
class GgufFile:
    """The metadata of a GGUF file.

    Attributes:
        path: the file.
        metadata: keys and values; arrays of more than a few thousand entries are left out.
    """

    path: Path
    metadata: dict[str, Any] = field(repr=False)

    @property
    def architecture(self) -> str:
        """llama.cpp's name of the kind of model."""
        return str(self.metadata.get("general.architecture", ""))

    @property
    def loaded(self) -> bool:
        """Whether transformers loads such a file."""
        return self.architecture in LOADED

    def under(self, key: str) -> Any:
        """The value of an architecture's own key, None where it is absent."""
        return self.metadata.get(f"{self.architecture}.{key}")

    def config(self) -> dict[str, Any]:
        """The configuration that transformers makes of the file, which holds no rope scaling.

        For an architecture that transformers does not load it holds what the file declares.
        """
        config = self._shape()
        return config if self.loaded else config | self.declared()

    def declared(self) -> dict[str, Any]:
        """The scaling that the file asks for, under the names of a config.json."""
        config: dict[str, Any] = {}
        kind, log_multiplier = self.under("rope.scaling.type"), self.under("rope.scaling.yarn_log_multiplier")
        scale, length = self.under("attention.temperature_scale"), self.under("attention.temperature_length")
        rope: dict[str, Any] = {}
        if kind not in (None, "none"):
            rope = {"rope_type": kind}
            for key, name in (("factor", "factor"), ("original_context_length", "original_max_position_embeddings")):
                if (value := self.under(f"rope.scaling.{key}")) is not None:
                    rope[name] = value
            multiplier = self.under("rope.scaling.attn_factor")
            if multiplier is not None:  # llama.cpp multiplies YaRN's factor by it; for LongRoPE it is the whole factor
                own = yarn_scale(float(rope.get("factor", 1.0))) if kind == "yarn" else 1.0
                rope["attention_factor"] = own * float(multiplier)
            if log_multiplier is not None:  # llama.cpp keeps 0.1 mscale_all_dim
                rope["mscale"] = rope["mscale_all_dim"] = round(float(log_multiplier) / 0.1, 6)
        if self.architecture in ("mistral3", "mistral4") and scale is not None:
            rope["llama_4_scaling_beta"] = round(float(scale), 6)
        if rope:
            config["rope_parameters"] = rope
        if self.architecture == "llama4":
            config |= {
                key: value for key, value in (("attn_scale", scale), ("floor_scale", length)) if value is not None
            }
        if self.architecture == "grok" and length is not None:
            config["attn_temperature_len"] = length
        return config

    def scaling_keys(self) -> list[str]:
        """The keys that are about scaling, as they stand in the file."""
        mine = [key.removeprefix(f"{self.architecture}.") for key in self.metadata]
        return [key for key in mine if key.startswith(("rope.scaling.", "attention.temperature_"))]

    def _shape(self) -> dict[str, Any]:
        kind = LOADED.get(self.architecture) or DECLARED.get(self.architecture, self.architecture)
        config = {"model_type": kind}
        config |= {name: self.under(key) for key, name in _NAMES.items() if self.under(key) is not None}
        turned, whole = self.under("rope.dimension_count"), self.under("attention.key_length")
        if self.architecture in ("llama", "mistral") and turned is not None:
            config["head_dim"] = turned
        if self.architecture in ("deepseek2", "minicpm3", "mistral4") and turned is not None:
            whole = self.under("attention.key_length_mla") or whole
            config |= {"qk_rope_head_dim": turned} | ({"qk_nope_head_dim": whole - turned} if whole else {})
        return config


def read_gguf(path: Path) -> GgufFile:
    """The metadata of a GGUF file; that its weights are all there is checked by its length.

    Raises:
        InputError: no GGUF file, one of another version, or one that is cut short.
    """
    size = path.stat().st_size
    with open(path, "rb") as file:
        if file.read(4) != b"GGUF":
            raise InputError(f"{path} is not a GGUF file; give a .gguf file, a config.json or a folder")
        try:
            (version,) = _take(file, "I")
            if version not in (2, 3):
                raise InputError(f"{path} is of GGUF version {version}; versions 2 and 3 are read, convert it again")
            n_tensors, n_keys = _take(file, "QQ")
            metadata = {}
            for _ in range(n_keys):
                key = _text(file)
                value = _value(file, _take(file, "I")[0])
                if value is not None:
                    metadata[key] = value
            alignment = metadata.get("general.alignment", 32)
            if not isinstance(alignment, int) or alignment < 1:
                raise InputError(
                    f"{path}: general.alignment must be a whole number of at least 1, got {alignment!r}; get it again"
                )
            needed = _weights_end(file, n_tensors, alignment)
        except (struct.error, UnicodeDecodeError, KeyError, OverflowError, MemoryError) as reason:
            raise _cut(path, size) from reason
    if size < needed:
        raise _cut(path, size, needed)
    if "general.architecture" not in metadata:
        raise InputError(f"{path} does not say its architecture; give the file of a whole model")
    return GgufFile(path, metadata)


def _cut(path: Path, size: int, needed: int = 0) -> InputError:
    wanted = f", its header asks for {needed}" if needed else " and end within its header"
    return InputError(f"{path} is cut short or damaged: it has {size} bytes{wanted}; get it again")


def _take(file: BinaryIO, layout: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{layout}", file.read(struct.calcsize(f"<{layout}")))


def _text(file: BinaryIO) -> str:
    (length,) = _take(file, "Q")
    raw = file.read(min(length, 1 << 24))
    if len(raw) != length:
        raise struct.error("text is cut short")
    return raw.decode("utf-8")


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _text(file)
    if kind != _ARRAY:
        return _take(file, _SCALARS[kind])[0]
    inner, count = _take(file, "IQ")
    if inner in _SCALARS:
        if count <= _KEPT:
            return list(_take(file, f"{count}{_SCALARS[inner]}"))
        file.seek(count * struct.calcsize(f"<{_SCALARS[inner]}"), 1)
        return None
    for _ in range(count):
        if inner == _STRING:
            (length,) = _take(file, "Q")
            file.seek(length, 1)
        else:
            _value(file, inner)
    return None


def _weights_end(file: BinaryIO, n_tensors: int, alignment: int) -> int:
    end = 0
    for _ in range(n_tensors):
        _text(file)
        (n_dims,) = _take(file, "I")
        count = 1
        for size in _take(file, f"{n_dims}Q"):
            count *= size
        kind, offset = _take(file, "IQ")
        values, n_bytes = _BLOCKS.get(kind, (1, 0))
        end = max(end, offset + count // values * n_bytes)
    header = file.tell()
    return header + (-header) % alignment + end if n_tensors else 0
