"""Rules on the query against what transformers' attention receives: the same model with the rule and without it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from tests.rules.real_configs import as_told
from transformers import CONFIG_MAPPING, AttentionInterface, AttentionMaskInterface, AutoModel

from attnlim.rules import read

TINY: dict[str, Any] = {
    "vocab_size": 53, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 4096, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
EXPERTS = {"num_experts": 2, "num_experts_per_tok": 1, "num_local_experts": 2, "moe_intermediate_size": 16}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 5, "mscale": 1.0, "mscale_all_dim": 1.0}
RECORDER = "attnlim_test_records_query"

# with the rule; what of it is changed to be without it; the layer that is looked at
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "llama4_text": (
        TINY | EXPERTS | {"intermediate_size_mlp": 32, "floor_scale": 5, "attn_scale": 0.3, "no_rope_layers": [0, 1]},
        {"attn_temperature_tuning": False},
        0,
    ),
    "ministral3": (
        TINY | {"rope_parameters": YARN | {"llama_4_scaling_beta": 0.3}},
        {"rope_parameters": YARN | {"llama_4_scaling_beta": 0.0}},
        0,
    ),
    "mistral4": (
        {k: v for k, v in TINY.items() if k != "head_dim"}
        | {
            "num_key_value_heads": 4, "moe_intermediate_size": 16, "n_routed_experts": 4, "num_experts_per_tok": 2,
            "kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8,
            "rope_parameters": YARN | {"llama_4_scaling_beta": 0.3},
        },
        {"rope_parameters": YARN | {"llama_4_scaling_beta": 0.0}},
        0,
    ),
}  # fmt: skip


@contextmanager
def recording(seen: list[torch.Tensor]) -> Iterator[None]:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    def record(module: Any, query: torch.Tensor, key: Any, value: Any, attention_mask: Any, **settings: Any) -> Any:
        seen.append(query.detach().double())
        return sdpa_attention_forward(module, query, key, value, attention_mask, **settings)

    AttentionInterface.register(RECORDER, record)
    AttentionMaskInterface.register(RECORDER, sdpa_mask)
    yield


def captured(model_type: str, settings: dict[str, Any], n_tokens: int) -> list[torch.Tensor]:
    """The query of every layer as attention receives it, (1, heads, tokens, dims)."""
    seen: list[torch.Tensor] = []
    config = CONFIG_MAPPING[model_type](**copy.deepcopy(settings))
    torch.manual_seed(0)
    model = AutoModel.from_config(config).eval()
    with recording(seen), torch.no_grad():
        model.set_attn_implementation(RECORDER)
        model(torch.arange(n_tokens)[None] % 50 + 3, use_cache=False)
    return seen


@pytest.mark.parametrize("model_type", CASES)
def test_the_query_is_multiplied_as_read(model_type: str) -> None:
    if model_type not in CONFIG_MAPPING:
        pytest.skip(f"this transformers has no {model_type}")
    settings, without, layer = CASES[model_type]
    n_tokens = 21
    scaled = captured(model_type, settings, n_tokens)[layer]
    plain = captured(model_type, settings | without, n_tokens)[layer]
    measured = ((scaled * plain).sum(-1) / (plain * plain).sum(-1))[0]
    ours = read({"model_type": model_type, **settings}).parts(np.arange(n_tokens), layer=layer).query
    assert ours.max() > 1.3 and ours.min() == 1.0
    # float32 on both sides of a product: a few units of 6e-8
    np.testing.assert_allclose(measured.numpy(), np.broadcast_to(ours, measured.shape), rtol=1e-6)


def test_llama_4_scales_no_layer_with_rotary_positions() -> None:
    settings, without, _ = CASES["llama4_text"]
    rotary_first = settings | {"no_rope_layers": [1, 0]}
    torch.testing.assert_close(
        captured("llama4_text", rotary_first, 21)[0], captured("llama4_text", rotary_first | without, 21)[0]
    )
    reading = read({"model_type": "llama4_text", **rotary_first})
    assert (reading.parts(20, layer=0).query, reading.parts(20, layer=1).query > 1.3) == (1.0, True)
    assert reading.parts(20) == reading.parts(20, layer=1)


@as_told
@pytest.mark.parametrize("family", ["ministral3", "mistral4"])
def test_published_steps_are_those_of_the_module_itself(family: str) -> None:
    import importlib

    if family not in CONFIG_MAPPING:
        pytest.skip(f"this transformers has no {family}")
    modeling = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    reading = read({"model_type": family})
    length = reading.ropes[0].original
    positions = [0, length - 1, length, 2 * length - 1, 2 * length, 131072, 262143]
    theirs = modeling.get_llama_4_attn_scale(torch.tensor([positions]).double(), 0.1, length)[0, 0, :, 0]
    np.testing.assert_allclose(reading.parts(positions).query, theirs.numpy(), rtol=1e-12)


def test_inkling_begins_at_its_floor() -> None:
    """1 + α ln((p+1)/n) beyond n, on the layers without a window."""
    reading = read({"model_type": "inkling_text", "log_scaling_n_floor": 1000, "num_hidden_layers": 6})
    query = reading.parts([0, 999, 1000, 9999], layer=5).query
    np.testing.assert_allclose(query, [1, 1, 1 + 0.1 * np.log(1.001), 1 + 0.1 * np.log(10)], rtol=1e-12)
    assert reading.parts(9999, layer=0).query == 1.0


def test_beam_as_its_module_has_it() -> None:
    if "beam" not in CONFIG_MAPPING:
        pytest.skip("this transformers has no beam")
    from transformers.models.beam.modeling_beam import compute_attention_scaling

    positions = torch.tensor([[0, 1, 2047, 8191, 100000]])
    theirs = compute_attention_scaling(positions)[0, 0, :, 0]
    ours = read({"model_type": "beam"}).parts(positions[0].numpy()).query
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-6)  # theirs is float32
    assert ours[0] != 1  # not 1 at position 0, as its comment would have it


def test_mistral_large_4_is_known_but_for_its_numbers() -> None:
    reading = read({"model_type": "mistral_large4_text"})
    assert np.isnan(reading.parts(100).query).all()
    assert reading.parts(100, head=3).softmax == 1.0
    assert any(finding.kind == "learned" for finding in reading.findings)
