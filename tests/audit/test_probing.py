"""The audit's numbers on whole models, against softmaxes recomputed and against the model's own attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attnlim.audit import naive
from attnlim.audit.probing import anatomy, probe
from attnlim.core.checks import InputError
from attnlim.models.hook import AttentionCall, attached, visible_keys


def captured(model: Any, inputs: dict[str, torch.Tensor]) -> list[AttentionCall]:
    """Every attention call of a forward, with copies of its tensors."""
    calls: list[AttentionCall] = []

    def keep(call: AttentionCall) -> None:
        calls.append(call)

    with attached(model, keep), torch.inference_mode():
        model.base_model(**inputs)
    return calls


def seen_keys(kind: str, model: Any, layer: int, mask: torch.Tensor) -> torch.Tensor:
    """(n, n) bool from the definition of each architecture, not from what the model hands to its attention."""
    n = len(mask)
    row, key = torch.arange(n)[:, None], torch.arange(n)
    real = mask.bool()[None, :].expand(n, n)
    if kind == "bert":
        return real
    if kind == "modernbert":
        return real if layer % 2 == 0 else real & ((row - key).abs() <= 8)  # local_attention = 16, half on each side
    causal = real & (key <= row)
    windowed = kind == "mistral" or (kind == "gemma2" and layer % 2 == 0)
    return causal & (row - key < 24) if windowed else causal


CASES = [
    *((kind, False) for kind in ("llama", "qwen3", "mistral", "gemma2", "gpt2", "bert", "modernbert")),
    *((kind, True) for kind in ("llama", "mistral", "gemma2", "bert", "modernbert")),
]


@pytest.mark.parametrize(("kind", "padded"), CASES)
def test_equals_twin_from_the_same_query_and_key(kind: str, padded: bool, tiny: Any) -> None:
    model, n = tiny(kind), 61
    ids = torch.randint(3, 97, (2, n), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, n, dtype=torch.int64)
    if padded:
        mask[1, :17] = 0  # on the left, as a batch that generates is padded
    parts = anatomy(model, ids[:1, :8])
    rows = torch.arange(1, n, 4)
    found = probe(model, ids, rows, parts, mask if padded else None, k_min=5)
    inputs = {"input_ids": ids} | ({"attention_mask": mask} if padded else {})
    calls = captured(model, inputs)
    assert len(calls) == len(found.statistics) == 3
    compared = 0
    for layer, call in enumerate(calls):
        groups = call.query.shape[1] // call.key.shape[1]
        for sequence in range(2):
            visible = seen_keys(kind, model, layer, mask[sequence])
            kept = [row for row in rows.tolist() if mask[sequence, row]]
            assert found.most_visible[layer][sequence] == int(visible[mask[sequence].bool()].sum(1).max())
            first = int(mask[sequence].argmax())
            for place, row in enumerate(kept):
                assert int(found.visible[layer][sequence][place]) == int(visible[row].sum())
                for head in range(call.query.shape[1]):
                    slow = naive.row_statistics(
                        call.query[sequence, head, row].double().numpy(),
                        call.key[sequence, head // groups].double().numpy(),
                        visible[row].numpy(),
                        row,
                        first,
                        call.scaling,
                        call.softcap,
                        5,
                    )
                    for name, value in slow.items():
                        fast = float(found.statistics[layer][sequence][name][head, place])
                        assert fast == pytest.approx(value, rel=1e-6, abs=1e-6, nan_ok=True), (name, layer, head, row)
                        compared += 1
    assert compared > 4000


@pytest.mark.parametrize("kind", ["llama", "qwen3", "mistral", "gemma2", "gpt2", "bert", "modernbert"])
def test_equals_the_attention_that_the_model_itself_returns(kind: str, tiny: Any) -> None:
    """Scale, mask and soft cap are right: eager attention weights of the model give the same statistics."""
    model, n = tiny(kind), 48
    ids = torch.randint(3, 97, (1, n), generator=torch.Generator().manual_seed(1))
    parts = anatomy(model, ids[:, :8])
    rows = torch.arange(n)
    found = probe(model, ids, rows, parts)
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        weights = model.base_model(input_ids=ids, output_attentions=True).attentions
    for layer, attention in enumerate(weights):
        own = attention[0].double()
        entropy = -torch.special.xlogy(own, own).sum(-1)
        # the model's softmax is float32: its rounding, not ours, sets these tolerances
        torch.testing.assert_close(found.statistics[layer][0]["entropy"], entropy, rtol=0, atol=2e-5)
        torch.testing.assert_close(found.statistics[layer][0]["sink_mass"], own[..., 0], rtol=0, atol=2e-6)
        torch.testing.assert_close(found.statistics[layer][0]["largest_weight"], own.amax(-1), rtol=0, atol=2e-6)


def test_smollm2_equals_twin(smollm2: Any) -> None:
    n = 256
    ids = smollm2.tokenizer("Attention " * 40 + "and the limits of context. " * 60, return_tensors="pt")["input_ids"][
        :, :n
    ]
    assert ids.shape[1] == n
    parts = anatomy(smollm2.model, ids[:, :8])
    rows = torch.tensor([0, 1, 5, 40, 120, 200, 255])
    found = probe(smollm2.model, ids, rows, parts)
    for layer, call in enumerate(captured(smollm2.model, {"input_ids": ids})):
        for head in range(9):
            for place, row in enumerate(rows.tolist()):
                slow = naive.row_statistics(
                    call.query[0, head, row].double().numpy(),
                    call.key[0, head // 3].double().numpy(),
                    np.arange(n) <= row,
                    row,
                    0,
                    64**-0.5,
                )
                for name, value in slow.items():
                    fast = float(found.statistics[layer][0][name][head, place])
                    assert fast == pytest.approx(value, rel=1e-6, abs=1e-6, nan_ok=True), (name, layer, head, row)


def test_logits_are_bit_identical_while_probed(tiny_model: Any) -> None:
    ids = torch.randint(3, 97, (2, 40), generator=torch.Generator().manual_seed(2))
    outputs = {}
    parts = anatomy(tiny_model, ids[:1, :8])
    with torch.inference_mode():
        outputs["before"] = tiny_model(input_ids=ids)[0]
        seen = []
        with attached(tiny_model, lambda call: seen.append(visible_keys(call, torch.arange(40)))):
            outputs["hooked"] = tiny_model(input_ids=ids)[0]
        probe(tiny_model, ids, torch.arange(40), parts)
        outputs["after"] = tiny_model(input_ids=ids)[0]
    assert seen
    assert torch.equal(outputs["before"], outputs["hooked"])
    assert torch.equal(outputs["before"], outputs["after"])
    assert not tiny_model.config._attn_implementation.startswith("attnlim")


def outputs_inside_a_probe(model: Any, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The backbone's output in a plain forward, and in the forward that is measured."""
    backbone, kept = model.base_model, []
    parts = anatomy(model, ids[:1, :8])
    with torch.inference_mode():
        plain = backbone(input_ids=ids)[0]
    handle = backbone.register_forward_hook(lambda module, args, output: kept.append(output[0]))
    try:
        probe(model, ids, torch.arange(0, ids.shape[1], 3), parts)
    finally:
        handle.remove()
    return plain, kept[0]


def test_outputs_are_bit_identical_inside_a_probe(tiny_model: Any) -> None:
    ids = torch.randint(3, 97, (2, 40), generator=torch.Generator().manual_seed(3))
    assert torch.equal(*outputs_inside_a_probe(tiny_model, ids))


def test_smollm2_is_bit_identical_inside_a_probe(smollm2: Any) -> None:
    assert torch.equal(*outputs_inside_a_probe(smollm2.model, torch.arange(100, 228)[None]))


def test_cosines_of_input_and_residual(tiny: Any) -> None:
    """ρ̂ against all pairs, one by one, with padding left out; Llama's attention input is its normed residual."""
    model = tiny("llama")
    ids = torch.randint(3, 97, (2, 30), generator=torch.Generator().manual_seed(4))
    mask = torch.ones(2, 30, dtype=torch.int64)
    mask[1, :11] = 0
    parts = anatomy(model, ids[:1, :8])
    found = probe(model, ids, torch.arange(30), parts, mask)
    with torch.inference_mode():
        states = model.base_model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        last: list[torch.Tensor] = []
        handle = model.base_model.layers[-1].register_forward_hook(lambda module, args, output: last.append(output))
        model.base_model(input_ids=ids, attention_mask=mask)
        handle.remove()
    residual = [*states[:3], last[0]]
    for sequence in range(2):
        keep = mask[sequence].bool()
        for depth, hidden in enumerate(residual):
            assert found.rho_residual[depth][sequence] == pytest.approx(pairwise(hidden[sequence, keep]), abs=1e-9)
        for layer in range(3):
            normed = model.base_model.layers[layer].input_layernorm(residual[layer])[sequence, keep].detach()
            assert found.rho_input[layer][sequence] == pytest.approx(pairwise(normed), abs=1e-6)


def pairwise(tokens: torch.Tensor) -> float:
    unit = torch.nn.functional.normalize(tokens.double(), dim=1)
    gram = unit @ unit.T
    return float(gram[~torch.eye(len(unit), dtype=torch.bool)].mean())


def test_anatomy_names_layers_windows_and_direction(tiny: Any) -> None:
    ids = torch.arange(3, 11)[None]
    gemma = anatomy(tiny("gemma2"), ids)
    assert [layer.sliding_window for layer in gemma.layers] == [24, None, 24]
    assert [layer.layer for layer in gemma.layers] == [0, 1, 2]
    assert all(layer.causal for layer in gemma.layers)
    assert not any(layer.causal for layer in anatomy(tiny("bert"), ids).layers)
    assert gemma.skipped == ()


def hybrid() -> Any:
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    torch.manual_seed(0)
    config = CONFIG_MAPPING["qwen3_next"](
        vocab_size=97, hidden_size=32, intermediate_size=48, moe_intermediate_size=16, shared_expert_intermediate_size=16,
        num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8, num_experts=2, num_experts_per_tok=1,
        linear_num_value_heads=2, linear_num_key_heads=2, linear_key_head_dim=8, linear_value_head_dim=8,
        max_position_embeddings=256,
    )  # fmt: skip
    return AutoModelForCausalLM.from_config(config).eval()


def test_layers_without_softmax_attention_are_listed() -> None:
    parts = anatomy(hybrid(), torch.arange(3, 11)[None])
    assert [layer.layer for layer in parts.layers] == [3]
    assert [(number, what) for number, _, what in parts.skipped] == [(n, "linear_attention") for n in range(3)]


COMMON = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
}
GROUPED = {**COMMON, "num_key_value_heads": 2, "head_dim": 8}
OTHER_KINDS: dict[str, dict[str, Any]] = {
    "albert": {**COMMON, "embedding_size": 16},  # one module, used for every layer
    "distilbert": {"vocab_size": 97, "dim": 32, "hidden_dim": 48, "n_layers": 3, "n_heads": 4},  # gives layers no number
    "deepseek_v3": {
        **COMMON, "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8,
        "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 16,
    },  # values narrower than queries and keys
    "gemma3_text": {**GROUPED, "sliding_window": 16},
    "opt": {"vocab_size": 97, "hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
            "word_embed_proj_dim": 32},  # scales the query itself
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_other_kinds_of_model(kind: str) -> None:
    from transformers import CONFIG_MAPPING, AutoModel

    torch.manual_seed(0)
    model = AutoModel.from_config(CONFIG_MAPPING[kind](**OTHER_KINDS[kind])).eval()
    ids = torch.randint(3, 97, (1, 50), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        before = model(input_ids=ids)[0]
    parts = anatomy(model, ids[:, :8])
    found = probe(model, ids, torch.arange(50), parts)
    with torch.inference_mode():
        assert torch.equal(model(input_ids=ids)[0], before)
        model.set_attn_implementation("eager")
        weights = model(input_ids=ids, output_attentions=True).attentions
    assert [layer.layer for layer in parts.layers] == [0, 1, 2]
    assert (len(found.rho_input), len(found.rho_residual)) == (3, 4)
    for layer, attention in enumerate(weights):
        # the model's softmax is float32
        torch.testing.assert_close(
            found.statistics[layer][0]["participation"], 1 / attention[0].double().square().sum(-1), rtol=2e-5, atol=0
        )


def test_models_that_cannot_be_hooked_are_refused() -> None:
    from transformers import CONFIG_MAPPING, AutoModel

    ids = torch.arange(3, 11)[None]
    encoder_decoder = AutoModel.from_config(
        CONFIG_MAPPING["bart"](vocab_size=97, d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=16,
                               decoder_ffn_dim=16, encoder_attention_heads=2, decoder_attention_heads=2)
    )  # fmt: skip
    with pytest.raises(InputError, match="encoder-decoder"):
        anatomy(encoder_decoder, ids)
    falcon = AutoModel.from_config(
        CONFIG_MAPPING["falcon"](vocab_size=97, hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    )
    with pytest.raises(InputError, match=r"cannot be hooked|no softmax attention"):
        anatomy(falcon, ids)
    mamba = AutoModel.from_config(CONFIG_MAPPING["mamba"](vocab_size=97, hidden_size=16, num_hidden_layers=1))
    with pytest.raises(InputError, match=r"cannot be hooked|no softmax attention"):
        anatomy(mamba, ids)
    gpt_oss = AutoModel.from_config(
        CONFIG_MAPPING["gpt_oss"](vocab_size=97, hidden_size=32, intermediate_size=16, num_hidden_layers=2, head_dim=8,
                                  num_attention_heads=4, num_key_value_heads=2, num_local_experts=2, num_experts_per_tok=1)
    )  # fmt: skip
    with pytest.raises(InputError, match="passes 's_aux' to its attention"):
        anatomy(gpt_oss, ids)


CHOOSY = {
    # attention over chosen keys: the choice reaches the attention function as indices
    "deepseek_v32": (
        {
            **COMMON, "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1,
            "topk_group": 1, "moe_intermediate_size": 16, "index_topk": 5, "index_head_dim": 16, "index_n_heads": 2,
        },
        "which the audit does not read yet",
    ),
    # a difference of two softmaxes
    "diffllama": ({**COMMON, "num_key_value_heads": 2}, "several softmaxes in one attention"),
}  # fmt: skip


@pytest.mark.parametrize("kind", CHOOSY)
def test_attention_that_is_not_one_plain_softmax_is_refused(kind: str) -> None:
    from transformers import CONFIG_MAPPING, AutoModel

    settings, phrase = CHOOSY[kind]
    model = AutoModel.from_config(CONFIG_MAPPING[kind](**settings)).eval()
    with pytest.raises(InputError, match=phrase):
        anatomy(model, torch.arange(3, 11)[None])
    assert model.config._attn_implementation == "sdpa"


def test_chunked_attention_counts_every_row() -> None:
    """Llama 4's local layers see chunks: neither the middle row nor the last sees the most keys."""
    from transformers import CONFIG_MAPPING, AutoModel

    settings = {**GROUPED, "num_local_experts": 2, "attention_chunk_size": 16, "no_rope_layers": [1, 1, 0]}
    torch.manual_seed(0)
    model = AutoModel.from_config(CONFIG_MAPPING["llama4_text"](**settings)).eval()
    ids = torch.randint(3, 97, (1, 65), generator=torch.Generator().manual_seed(0))
    found = probe(model, ids, torch.arange(65), anatomy(model, ids[:, :8]))
    chunks = [row % 16 + 1 for row in range(65)]
    assert [counts[0] for counts in found.most_visible] == [16, 16, 65]
    assert found.visible[0][0].tolist() == chunks
    assert found.visible[2][0].tolist() == list(range(1, 66))


def test_offloaded_weights_run_where_accelerate_runs_them(tiny: Any) -> None:
    from accelerate import cpu_offload

    from attnlim.models.loading import check_weights, fingerprint

    ids, rows = torch.randint(3, 97, (1, 30), generator=torch.Generator().manual_seed(0)), torch.arange(30)
    model, plain = tiny("llama").base_model, tiny("llama").base_model
    expected = probe(plain, ids, rows, anatomy(plain, ids[:, :8]))
    cpu_offload(model, execution_device=torch.device("cpu"))
    assert next(model.parameters()).device.type == "meta"
    found = probe(model, ids, rows, anatomy(model, ids[:, :8]))
    for layer in range(3):
        torch.testing.assert_close(found.statistics[layer][0], expected.statistics[layer][0], equal_nan=True)
    assert fingerprint(model) == fingerprint(plain)
    check_weights(model, "offloaded")


def test_parts_with_different_attention_are_refused_and_left_alone() -> None:
    from transformers import CONFIG_MAPPING, AutoModel

    vision = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
    }
    config = CONFIG_MAPPING["gemma3"](
        text_config={**GROUPED, "sliding_window": 16}, vision_config=vision, mm_tokens_per_image=4
    )
    model = AutoModel.from_config(config).eval()
    ids = torch.arange(3, 11)[None]
    before = [
        module.config._attn_implementation for module in model.modules() if hasattr(module, "set_attn_implementation")
    ]
    assert len(anatomy(model, ids).layers) == 3
    after = [
        module.config._attn_implementation for module in model.modules() if hasattr(module, "set_attn_implementation")
    ]
    assert before == after
    model.config.text_config._attn_implementation_internal = "eager"
    with pytest.raises(InputError, match="use different attention"):
        anatomy(model, ids)
    assert model.config.text_config._attn_implementation == "eager"


def test_a_second_hook_is_refused_and_the_first_restores(tiny: Any) -> None:
    model = tiny("llama")
    with (
        attached(model, lambda call: None),
        pytest.raises(InputError, match="cannot be hooked"),
        attached(model, lambda call: None),
    ):
        pass
    assert model.config._attn_implementation == "sdpa"


def test_a_returned_query_replaces_the_query(tiny: Any) -> None:
    """What rules will use: scaling the query by 0 makes attention uniform."""
    model = tiny("gpt2")
    ids = torch.arange(3, 23)[None]
    model.set_attn_implementation("eager")
    with attached(model, lambda call: 0 * call.query), torch.inference_mode():
        weights = model.base_model(input_ids=ids, output_attentions=True).attentions
    uniform = torch.tril(torch.ones(20, 20)) / torch.arange(1, 21)[:, None]
    torch.testing.assert_close(weights[0][0, 0], uniform)


def test_nan_in_hidden_states_is_one_line(tiny: Any) -> None:
    model = tiny("llama")
    with torch.no_grad():
        model.base_model.layers[1].mlp.down_proj.weight.fill_(float("inf"))
    ids = torch.arange(3, 33)[None]
    with pytest.raises(InputError, match="NaN or infinity"):
        probe(model, ids, torch.arange(30), anatomy(tiny("llama"), ids[:, :8]))
