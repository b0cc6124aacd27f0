"""YaRN's frequencies put onto a model, against transformers' own model of that config."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from attnlim.core.checks import InputError
from attnlim.rules.stretching import check_stretchable, stretched

IDS = torch.arange(3, 83)[None].repeat(1, 5)


def _logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(IDS).logits
    return found


@pytest.mark.parametrize("attention_factor", [1.0, 1.2])
@pytest.mark.parametrize("kind", ["llama", "qwen3", "mistral"])
def test_it_is_the_model_of_the_stretched_config(tiny: Any, kind: str, attention_factor: float) -> None:
    model = tiny(kind)
    config = copy.deepcopy(model.config)
    config.rope_parameters = {
        "rope_type": "yarn",
        "rope_theta": config.rope_parameters["rope_theta"],
        "factor": 4.0,
        "attention_factor": attention_factor,
        "original_max_position_embeddings": 256,
    }
    reference = type(model)(config).eval()
    reference.load_state_dict(model.state_dict())
    before = _logits(model)
    with stretched(model, 4.0, attention_factor):
        inside = _logits(model)
    assert torch.equal(inside, _logits(reference))
    assert not torch.allclose(inside, before)
    assert torch.equal(_logits(model), before)  # nothing stays


def test_a_factor_of_one_changes_nothing(tiny: Any) -> None:
    model = tiny("llama")
    before = _logits(model)
    with stretched(model, 1.0):
        assert torch.equal(_logits(model), before)


def test_an_error_inside_gives_the_frequencies_back(tiny: Any) -> None:
    model = tiny("llama")
    before = _logits(model)
    with pytest.raises(RuntimeError, match="stop"), stretched(model, 4.0):
        raise RuntimeError("stop")
    assert torch.equal(_logits(model), before)


def test_windows_keep_their_own_frequencies() -> None:
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    config = Gemma3TextConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=64, sliding_window=16,
        layer_types=["sliding_attention", "full_attention"],
    )  # fmt: skip
    model = Gemma3ForCausalLM(config).eval()
    (rotary,) = check_stretchable(model)
    held = {name: tensor.clone() for name, tensor in rotary.named_buffers()}
    with stretched(model, 4.0):
        assert torch.equal(rotary.sliding_attention_inv_freq, held["sliding_attention_inv_freq"])
        assert not torch.equal(rotary.full_attention_inv_freq, held["full_attention_inv_freq"])
    assert torch.equal(rotary.full_attention_inv_freq, held["full_attention_inv_freq"])


def test_a_tower_for_images_has_positions_of_its_own() -> None:
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    text = {
        "vocab_size": 300, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "sliding_window": 16,
    }  # fmt: skip
    images = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "image_size": 28,
    }
    config = Gemma3Config(text_config=text, vision_config=images, image_token_index=299)
    model = Gemma3ForConditionalGeneration(config).eval()
    assert len(check_stretchable(model)) == 1


def test_what_cannot_be_stretched_is_refused(tiny: Any) -> None:
    with pytest.raises(InputError, match="learned positions"):
        check_stretchable(tiny("gpt2"))
    model = tiny("llama")
    config = copy.deepcopy(model.config)
    config.rope_parameters = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}
    with pytest.raises(InputError, match="stretches its frequencies already .rope type 'linear'"):
        check_stretchable(type(model)(config))
