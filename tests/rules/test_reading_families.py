"""The table of families against the modeling code of the installed transformers: a family that changes its ways fails here."""

from __future__ import annotations

import importlib
import inspect
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import transformers
from tests.rules.real_configs import as_told, module_class
from transformers import CONFIG_MAPPING

from attnlim.rules import read
from attnlim.rules.gguf_metadata import LOADED
from attnlim.rules.model_families import FAMILIES, PLAIN, TEXT_MODEL_OF
from attnlim.rules.rope_keys import _ALWAYS, _BY_TYPE
from attnlim.rules.rope_parameters import ROPE_TYPES

pytestmark = as_told
MODELS = Path(transformers.__file__).parent / "models"
INSTALLED = sorted(name for name in FAMILIES if name in CONFIG_MAPPING and name != "swan")
ROTARY = sorted(name for name in {*FAMILIES, *PLAIN} - {"swan", "qwen", "grok-2"} if name in CONFIG_MAPPING)


@cache
def source(folder: str) -> str:
    path = MODELS / folder / f"modeling_{folder}.py"
    return path.read_text() if path.exists() else ""


def folder_of(model_type: str) -> str:
    return type(CONFIG_MAPPING[model_type]()).__module__.split(".")[-2]


@cache
def reading_keys(pattern: str) -> frozenset[str]:
    """The model types of the classes in whose code a pattern occurs, by the configuration that the class takes."""
    found = set()
    for folder in sorted(path.name for path in MODELS.iterdir() if path.is_dir()):
        text = source(folder)
        if not re.search(pattern, text):
            continue
        module = None
        for body in re.split(r"^(?=class )", text, flags=re.M)[1:]:
            if not re.search(pattern, body):
                continue
            for name in re.findall(r"config: (\w+Config)\b", body)[:1]:
                module = module or importlib.import_module(f"transformers.models.{folder}.configuration_{folder}")
                if hasattr(module, name):
                    found.add(getattr(module, name).model_type)
    return frozenset(found)


# what the code reads, and the families that the table has for it
READ = {
    r"yarn_apply_mscale\(config": {name for name, family in FAMILIES.items() if family.latent},
    r"llama_4_scaling_beta": {name for name, family in FAMILIES.items() if family.query == "ministral"},
    r"config\.attn_temperature_tuning": {name for name, family in FAMILIES.items() if family.query == "llama4"},
    r"config\.log_scaling_n_floor": {name for name, family in FAMILIES.items() if family.query == "inkling"},
    r"\[\"short_mscale\"\]": {name for name, family in FAMILIES.items() if family.short_long},
    r"use_logn_attn|attn_temperature_len": set(),
}


@pytest.mark.parametrize("pattern", READ)
def test_the_families_that_read_a_key_are_those_of_the_table(pattern: str) -> None:
    here = {name for name in READ[pattern] if name in CONFIG_MAPPING}
    assert reading_keys(pattern) == here


def test_no_other_family_scales_by_position() -> None:
    """Every logarithm of a position, a floor or a length in modeling code, but for buckets of distances and the like."""
    logarithm = re.compile(r"torch\.log1?p?\(|\.log\(\)")
    meant, other = re.compile(r"posit|floor|effective_n|seq_len"), re.compile(r"relative|abs_pos|max_distance|bucket")
    found = set()
    for folder in (path.name for path in MODELS.iterdir() if path.is_dir()):
        lines = [line for line in source(folder).splitlines() if logarithm.search(line) and meant.search(line)]
        if any(not other.search(line) for line in lines):
            found.add(folder)
    scaled = {folder_of(name) for name in INSTALLED if FAMILIES[name].query}
    assert found <= scaled
    assert scaled - found <= {"inkling", "inkling2", "inkling2_loop"}  # theirs goes over two lines


@pytest.mark.parametrize("model_type", ROTARY)
def test_who_has_rotary_positions(model_type: str) -> None:
    """Cos and sin are multiplied by the factor of the rope type; families without say so in the table."""
    text, family = source(folder_of(model_type)), FAMILIES.get(model_type)
    multiplied = re.search(r"\* self\.attention_scaling|\* attention_scaling|\* mscale", text) is not None
    without = family is not None and family.without_rotary == "all"
    assert multiplied != without or model_type.startswith("inkling")  # those have images beside the text


@pytest.mark.parametrize("model_type", ROTARY)
def test_who_has_layers_without_rotary_positions(model_type: str) -> None:
    """Rotary positions that are put on under a condition on the layer."""
    text, family = source(folder_of(model_type)), FAMILIES.get(model_type)
    lines = text.split("\n")
    conditions = set()
    for number, line in enumerate(lines):
        if re.search(r"= apply_rotary\w*\(", line):
            depth = len(line) - len(line.lstrip())
            above = next(
                other
                for other in reversed(lines[:number])
                if other.strip() and len(other) - len(other.lstrip()) < depth
            )
            conditions.add(above.strip())
    by_layer = any(
        re.search(r"use_rope|sliding_window|is_sliding|is_local|position_embeddings is not None", one)
        for one in conditions
    )
    expected = family is not None and family.without_rotary not in ("", "all")
    if model_type in ("granitemoe", "granite"):  # no condition on the layer: a key for all of them
        return
    assert by_layer == expected, conditions


@pytest.mark.parametrize("model_type", INSTALLED)
def test_defaults_are_those_of_the_configuration_class(model_type: str) -> None:
    config = CONFIG_MAPPING[model_type]()
    for key, value in FAMILIES[model_type].defaults.items():
        if key == "no_rope_layer_interval":
            assert [not (n + 1) % value for n in range(8)] == [not flag for flag in config.no_rope_layers[:8]]
        elif key == "partial_rotary_factor":
            assert config.rope_parameters[key] == value
        elif key == "sliding_window" and "qwen" in model_type:
            assert config.sliding_window in (None, 0)  # the class drops it where use_sliding_window is off
        elif key == "max_window_layers":
            assert config.max_window_layers == value
        elif key == "local_attention":
            assert config.local_attention == value
        else:
            assert getattr(config, key) == value, key


@pytest.mark.parametrize("model_type", [name for name in INSTALLED if FAMILIES[name].without_rotary != "all"])
def test_a_config_that_says_nothing_is_read_as_the_class_fills_it(model_type: str) -> None:
    if not FAMILIES[model_type].defaults:
        pytest.skip("no defaults in the table")
    config, reading = CONFIG_MAPPING[model_type](), read({"model_type": model_type})
    assert reading.n_layers == config.num_hidden_layers
    labels = getattr(config, "layer_types", None)
    if labels and "linear_attention" not in labels:
        windowed = {layer for kind in reading.kinds if kind.window is not None for layer in kind.layers}
        assert windowed == {n for n, label in enumerate(labels) if "sliding" in label or "chunked" in label}
    rope: Any = config.rope_parameters
    nested = [value for value in rope.values() if isinstance(value, dict)] or [rope]
    assert {one["rope_type"] for one in nested} == {one.kind for one in reading.ropes}
    for given, ours in zip(nested, reading.ropes, strict=False):
        for key in ("factor", "original_max_position_embeddings", "attention_factor", "mscale", "mscale_all_dim"):
            if given["rope_type"] != "default":
                assert given.get(key) == ours.given.get(key), key


@pytest.mark.parametrize(
    "model_type",
    [
        "llama",
        "qwen3",
        "glm",
        "glm4",
        "phi",
        "stablelm",
        "persimmon",
        "nemotron",
        "gpt_neox",
        "deepseek_v3",
        "minicpm3",
    ],
)
def test_how_many_dimensions_turn(model_type: str) -> None:
    config, reading = CONFIG_MAPPING[model_type](), read({"model_type": model_type})
    assert reading.rotary_dim == 2 * module_class(config, "RotaryEmbedding")(config).inv_freq.numel()
    whole = getattr(config, "qk_head_dim", None) or getattr(config, "head_dim", None)
    assert reading.head_dim == (whole or config.hidden_size // config.num_attention_heads)


@pytest.mark.parametrize(
    ("model_type", "keys"),
    [
        ("gpt_neox", {"rotary_pct": 1.0}),
        ("gpt_neox", {"rotary_pct": 0.5}),
        ("minimax_m2", {"rotary_dim": 64, "head_dim": 128}),
    ],
)
def test_old_keys_say_how_many_dimensions_turn(model_type: str, keys: dict[str, Any]) -> None:
    if model_type not in CONFIG_MAPPING:
        pytest.skip(f"this transformers has no {model_type}")
    keys = {"num_attention_heads": 8, "hidden_size": 1024, **keys}
    rope = CONFIG_MAPPING[model_type](**keys).rope_parameters
    reading = read({"model_type": model_type, **keys})
    assert reading.head_dim == 128 and reading.rotary_dim == 128 * rope["partial_rotary_factor"]


KIMI = {
    "num_hidden_layers": 61, "num_attention_heads": 64, "hidden_size": 7168, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "kv_lora_rank": 512, "q_lora_rank": 1536, "v_head_dim": 128, "max_position_embeddings": 262144,
    "rope_scaling": {
        "type": "yarn", "factor": 64.0, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096,
    },
}  # fmt: skip


def test_kimi_is_deepseek_under_another_name() -> None:
    """K2 brings DeepSeek-V3's code along; K2.5 stands in transformers, which renames its language model."""
    alone, inner = read({"model_type": "kimi_k2", **KIMI}), {"model_type": "kimi_k2", **KIMI}
    whole = read({"model_type": "kimi_k25", "text_config": inner})
    for reading in (alone, whole):
        assert (reading.head_dim, reading.rotary_dim) == (192, 64)
        assert reading.parts(100_000).logit.rotary == pytest.approx((1 + 0.1 * math.log(64)) ** 2, rel=1e-12)
        assert not {one.kind for one in reading.findings} & {"not-honoured", "unknown-model"}
    assert "came with Kimi K2" in alone.applied_by and whole.applied_by == "transformers"
    if "kimi_k25" in CONFIG_MAPPING:
        config = CONFIG_MAPPING["kimi_k25"](text_config=inner).get_text_config()
        assert config.model_type == whole.model_type == "deepseek_v3"


def test_an_unknown_model_with_latent_attention_is_not_said_to_have_none() -> None:
    (finding,) = [one for one in read({"model_type": "new_mla", **KIMI}).findings if one.severity == "warning"]
    assert finding.kind == "unknown-model" and "no table here says whether its code multiplies" in finding.sentence
    assert finding.applied == 1 and finding.meant == pytest.approx((1 + 0.1 * math.log(64)) ** 2, rel=1e-12)


def test_the_language_model_of_a_configuration_of_several() -> None:
    for whole, text in TEXT_MODEL_OF.items():
        if whole in CONFIG_MAPPING and whole not in ("llava",):
            assert CONFIG_MAPPING[whole]().get_text_config().model_type == text, whole


def test_the_rope_types_and_their_keys_are_those_of_transformers() -> None:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS, RotaryEmbeddingConfigMixin

    assert {"default", *ROPE_INIT_FUNCTIONS} <= set(ROPE_TYPES)
    for kind, ours in _BY_TYPE.items():
        check = inspect.getsource(getattr(RotaryEmbeddingConfigMixin, f"_validate_{kind}_rope_parameters"))
        sets = re.findall(r"(?:required|optional)_keys = \{(.*?)\}", check, re.S)
        theirs = set(re.findall(r'"(\w+)"', " ".join(sets)))
        assert theirs - _ALWAYS <= ours, kind
        # LongRoPE's own factor and that of proportional are read but not listed by every version
        assert ours - theirs <= {"factor"}, kind


def test_which_gguf_files_transformers_loads_and_that_it_drops_their_scaling() -> None:
    from transformers.integrations.ggml import GGUF_CONFIG_MAPPING

    for architecture, kind in LOADED.items():
        name = architecture if architecture in GGUF_CONFIG_MAPPING else kind
        assert name in GGUF_CONFIG_MAPPING, architecture
        keys = GGUF_CONFIG_MAPPING[name]
        assert not [key for key in keys if key.startswith("rope.scaling") or "temperature" in key], architecture
