"""Old and new keys, in every combination that matters, against the factors that transformers computes from them."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest
from huggingface_hub.errors import StrictDataclassError
from tests.rules.real_configs import as_told, attention, module_class
from transformers import CONFIG_MAPPING

from attnlim.rules import read

pytestmark = as_told
SMALL: dict[str, Any] = {
    "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 4, "hidden_size": 64, "max_position_embeddings": 32768,
}  # fmt: skip
LATENT = SMALL | {"qk_nope_head_dim": 8, "qk_rope_head_dim": 16, "v_head_dim": 8, "kv_lora_rank": 8, "q_lora_rank": 8}
LISTS = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}


def tables() -> Iterator[dict[str, Any]]:
    """Rope parameters of every type, with and without each key that the factor may depend on."""
    for factor, k1, k2, override in itertools.product(
        (0.5, 4.0, 40.0), (None, 0.0, 0.707, 1.0), (None, 0.0, 1.0), (None, 1.25)
    ):
        keys = {"mscale": k1, "mscale_all_dim": k2, "attention_factor": override}
        given = {name: value for name, value in keys.items() if value is not None}
        yield {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": 4096, **given}
    for factor, override, original in itertools.product((None, 1.0, 8.0), (None, 1.0, 1.3), (4096, 65536, None)):
        keys = {"factor": factor, "attention_factor": override, "original_max_position_embeddings": original}
        yield {"rope_type": "longrope", **LISTS, **{name: value for name, value in keys.items() if value is not None}}
    for override in (None, 1.3):
        more = {} if override is None else {"attention_factor": override}
        yield {"rope_type": "linear", "factor": 8.0, **more}
        yield {"rope_type": "dynamic", "factor": 8.0, **more, "mscale_all_dim": 1.0}
        yield {"rope_type": "default", **more}
        yield {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 4096, **more,
        }  # fmt: skip
    yield {"rope_type": "yarn", "factor": 4.0}
    yield {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 4096}


def transformers_factors(model_type: str, settings: dict[str, Any]) -> dict[str | None, tuple[float, float]]:
    """By layer type the attention_scaling of the rotary module, and what the softmax scale is multiplied by."""
    config = CONFIG_MAPPING[model_type](**copy.deepcopy(settings))
    rotary, scale = module_class(config, "RotaryEmbedding")(config), attention(config, 0)
    whole = getattr(config, "qk_head_dim", None) or getattr(config, "head_dim", None) or 16
    softmax = scale.scaling * math.sqrt(whole)
    if hasattr(rotary, "attention_scaling"):
        return {None: (rotary.attention_scaling, softmax)}
    return {label: (getattr(rotary, f"{label}_attention_scaling"), softmax) for label in set(config.layer_types)}


FAMILIES = {
    "llama": SMALL, "qwen3": SMALL | {"head_dim": 16}, "phi3": SMALL, "deepseek_v3": LATENT, "mistral4": LATENT,
    "ministral3": SMALL | {"head_dim": 16}, "gpt_oss": SMALL | {"head_dim": 16}, "olmo3": SMALL,
}  # fmt: skip


@pytest.mark.parametrize(
    ("model_type", "key"),
    [
        *((name, "rope_parameters") for name in FAMILIES),
        *((name, "rope_scaling") for name in ("llama", "phi3", "olmo3")),
    ],
)
def test_every_combination_of_keys(model_type: str, key: str) -> None:
    compared = 0
    for table in tables():
        old = key == "rope_scaling"
        given = {
            ("type" if name == "rope_type" and old and model_type != "olmo3" else name): v for name, v in table.items()
        }
        if model_type == "olmo3" and not old:
            given = {"full_attention": given, "sliding_attention": {"rope_type": "default"}}
        settings = FAMILIES[model_type] | {key: given}
        try:
            theirs = transformers_factors(model_type, settings)
        except (KeyError, TypeError, RuntimeError, StrictDataclassError):
            continue  # transformers refuses: nothing to compare with
        reading = read({"model_type": model_type, **settings})
        labels = reading.kinds[0], reading.kinds[-1]
        for label, (cos_sin, softmax) in theirs.items():
            if label is None:
                layer = 0
            else:
                layer = next(kind.layers[0] for kind in labels if (kind.window is None) == (label == "full_attention"))
            parts = reading.parts(100, layer=layer)
            assert parts.cos_sin == pytest.approx(cos_sin, rel=1e-12), (table, label)
            assert parts.softmax == pytest.approx(softmax, rel=1e-12), (table, label)
        compared += 1
    assert compared > (15 if model_type == "phi3" else 75)


@pytest.mark.parametrize(
    ("model_type", "settings"),
    [
        # an original length outside the rope parameters wins over the one inside
        ("llama", {"original_max_position_embeddings": 1024, "rope_parameters": {"rope_type": "longrope", **LISTS, "original_max_position_embeddings": 4096}}),
        ("phi3", {"original_max_position_embeddings": 1024, "rope_scaling": {"type": "longrope", **LISTS, "original_max_position_embeddings": 4096}}),
        # Phi-3 takes yarn for LongRoPE
        ("phi3", {"original_max_position_embeddings": 4096, "rope_scaling": {"type": "yarn", **LISTS}}),
        # rope_scaling wins over rope_parameters
        ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "rope_parameters": {"rope_type": "default"}}),
        ("llama", {"rope_scaling": None, "rope_parameters": {"rope_type": "yarn", "factor": 4.0}}),
        # by layer type: old tables reach the layers without a window, or both
        ("gemma3_text", {"head_dim": 16, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}),
        ("gemma3_text", {"head_dim": 16, "rope_scaling": {"type": "yarn", "factor": 4.0}}),
        ("gemma3_text", {"head_dim": 16, "rope_parameters": {"rope_type": "yarn", "factor": 4.0}}),
        ("olmo3", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.2}}),
        ("modernbert", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}),
        # a default of the family
        ("gpt_oss", {"head_dim": 16}),
        ("ministral3", {"head_dim": 16}),
    ],
)  # fmt: skip
def test_which_key_wins(model_type: str, settings: dict[str, Any]) -> None:
    settings = SMALL | settings
    config = CONFIG_MAPPING[model_type](**copy.deepcopy(settings))
    rotary = module_class(config, "RotaryEmbedding")(config)
    reading = read({"model_type": model_type, **settings})
    if hasattr(rotary, "attention_scaling"):
        assert reading.parts(0).cos_sin == pytest.approx(rotary.attention_scaling, rel=1e-12)
        return
    for layer, label in enumerate(config.layer_types):
        assert reading.parts(0, layer=layer).cos_sin == pytest.approx(
            getattr(rotary, f"{label}_attention_scaling"), rel=1e-12
        )


def test_phi_moe_changes_for_the_whole_sequence() -> None:
    import torch

    rope = {
        "type": "longrope",
        **LISTS,
        "short_mscale": 1.1,
        "long_mscale": 1.3,
        "original_max_position_embeddings": 4096,
    }
    settings = SMALL | {"rope_scaling": rope}
    config = CONFIG_MAPPING["phimoe"](**copy.deepcopy(settings))
    rotary = module_class(config, "RotaryEmbedding")(config)
    reading = read({"model_type": "phimoe", **settings})
    for last in (4095, 4096):
        cos, sin = rotary(torch.zeros(1, 1, 1), torch.tensor([[0, last]]))
        amplitude = (cos.double() ** 2 + sin.double() ** 2).sqrt().mean(-1)[0]
        # the sequence's length decides for its first position too; cos and sin are float32
        assert amplitude.tolist() == pytest.approx([reading.parts(last).cos_sin] * 2, rel=3e-7)
    assert reading.parts([4095, 4096]).cos_sin.tolist() == [1.1, pytest.approx(1.3)]
