"""A text read into a cache: going on from it is as reading on, as often as one likes, also where layers keep a state."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnlim.core.checks import InputError
from attnlim.models.prefilling import check_reads_on, prefill
from attnlim.rules.rescale_plan import check_rescalable

SHAPE: dict[str, Any] = {
    "vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip


def models() -> dict[str, tuple[str, dict[str, Any]]]:
    state = {"layer_types": ["conv", "full_attention"] * 2}
    recurrent = {
        "head_dim": 8, "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8,
        "linear_value_head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
    }  # fmt: skip
    window = {"head_dim": 8, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"] * 2}
    return {
        "Llama": ("Llama", {}),
        "windows": ("Gemma2", window),
        "convolutions": ("Lfm2", state),
        "recurrent layers": ("Qwen3Next", recurrent),
    }


@pytest.mark.parametrize("name", models())
def test_a_cache_is_left_as_it_is(name: str) -> None:
    """Each needle of a haystack, and each variant behind a prefix, goes on from the same cache."""
    import transformers

    family, settings = models()[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**SHAPE, **settings)
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    ids = torch.randint(0, 50, (1, 40))
    other = torch.randint(0, 50, (1, 9))
    wanted = prefill(model, ids).output.last_hidden_state[:, 24:]
    past = prefill(model, ids[:, :24]).cache
    for _ in range(2):
        torch.testing.assert_close(
            prefill(model, ids[:, 24:], past).output.last_hidden_state, wanted, rtol=1e-5, atol=1e-6
        )
        prefill(model, other, past)


def test_a_model_without_a_cache_of_its_kind_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**SHAPE)).eval()
    check_reads_on(model)

    def forward(input_ids: torch.Tensor, past_key_values: Any = None, use_cache: bool = True) -> Any:
        raise AttributeError("'DynamicCache' object has no attribute 'conv_states'\nand more")

    monkeypatch.setattr(model.model, "forward", forward)
    with pytest.raises(InputError, match="does not read on behind a cache of transformers .*conv_states'.; a newer"):
        check_reads_on(model)
    with pytest.raises(InputError, match="does not read on behind a cache"):
        check_rescalable(model, "tiny")  # rescale asks before anything is spent, and so does the audit's advice
