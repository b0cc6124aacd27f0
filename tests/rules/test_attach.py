"""Attaching and detaching: bit-identical where nothing is scaled, refused where it would not be right, and never twice."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from tests.rules.running import ACTING, logits, tokens

from attnlim.core.checks import InputError
from attnlim.models.hook import attached
from attnlim.rules import (
    Rule,
    attach,
    attached_rule,
    constant,
    detach,
    latent_yarn,
    llama4,
    log_slope,
    logn,
    none,
    ssmax,
    yarn,
)

KINDS = ("llama", "qwen3", "mistral", "gemma2", "gemma3", "gpt2", "opt", "gpt-oss", "bert")
IDENTITIES = {
    "none": none(),
    "constant": constant(1.0),
    "one a head": constant(np.ones((3, 4))),
    "below the trained length": logn(64) * log_slope(64, [0.5, 1.0, 1.5, 2.0]),
    "slope 0": log_slope(4, 0.0),
}


def inputs() -> dict[str, torch.Tensor]:
    mask = torch.ones(2, 40, dtype=torch.int64)
    mask[1, :9] = 0
    return {"input_ids": tokens(2, 40), "attention_mask": mask}


def untouched(model: Any) -> dict[str, Any]:
    """Everything about a model that attaching changes."""
    return {
        "attention": [m.config._attn_implementation for m in model.modules() if hasattr(m, "config")],
        "modules": [name for name, _ in model.named_modules()],
        "parameters": [name for name, _ in model.named_parameters()],
        "hooks": [len(m._forward_pre_hooks) for m in model.modules()],
        "attributes": [sorted(m.__dict__) for m in model.modules()],
        "training": [m.training for m in model.modules()],
    }


@pytest.mark.parametrize("kind", KINDS)
def test_identity_and_detaching_are_bit_identical(kind: str, tiny: Any) -> None:
    model = tiny(kind)
    before, plain = untouched(model), logits(model, **_named(inputs()))
    for name, rule in IDENTITIES.items():
        attach(model, rule)
        assert torch.equal(logits(model, **_named(inputs())), plain), name
        detach(model)
    attach(model, ACTING)
    assert not torch.equal(logits(model, **_named(inputs())), plain)
    detach(model)
    assert torch.equal(logits(model, **_named(inputs())), plain)
    assert untouched(model) == before


def _named(given: dict[str, torch.Tensor]) -> dict[str, Any]:
    return {"ids": given["input_ids"], "attention_mask": given["attention_mask"]}


def test_a_model_without_its_head_and_one_in_training(tiny: Any) -> None:
    model = tiny("gpt2")
    wanted = (attach(model, ACTING), logits(model.transformer, tokens(1, 20)))[1]
    detach(model)
    model.transformer.train()
    attach(model.transformer, ACTING)
    assert model.transformer.training and model.transformer.h[0].attn.training
    assert torch.equal(logits(model.eval().transformer, tokens(1, 20)), wanted)
    detach(model)  # the whole takes off what was attached to its part
    assert attached_rule(model.transformer) is None


def test_no_second_rule_and_none_under_a_watch(tiny: Any) -> None:
    model = tiny("llama")
    with attached(model, lambda call: None):
        with pytest.raises(InputError, match="is being watched; attach the rule before"):
            attach(model, ACTING)
        with pytest.raises(InputError, match="has no rule attached, so there is none to detach"):
            detach(model)
    plain = logits(model, tokens(1, 20))
    attach(model, ACTING)
    once = logits(model, tokens(1, 20))
    with pytest.raises(
        InputError, match="has the rule 'logn × log slope' attached, which would act twice; detach it first"
    ):
        attach(model, ACTING)
    assert torch.equal(logits(model, tokens(1, 20)), once)
    with attached(model, lambda call: None), pytest.raises(InputError, match="detach the rule when that has ended"):
        detach(model)
    assert torch.equal(logits(model, tokens(1, 20)), once)
    detach(model)
    assert torch.equal(logits(model, tokens(1, 20)), plain)


def test_a_watcher_sees_what_the_rule_made(tiny: Any) -> None:
    """The factor is on the query once, and not on the key."""
    model, seen = tiny("llama"), []
    with attached(model, seen.append):
        logits(model, tokens(1, 20))
    attach(model, logn(4))
    with attached(model, seen.append):
        logits(model, tokens(1, 20))
    assert model.config._attn_implementation == "attnlim_sdpa"
    plain, scaled = seen[0], seen[3]
    factor = torch.tensor(logn(4).parts(np.arange(20)).query)[:, None]
    torch.testing.assert_close(scaled.query[0].double(), plain.query[0].double() * factor, rtol=1e-6, atol=0)
    assert torch.equal(plain.key, scaled.key)


def test_a_later_choice_of_attention_does_not_drop_the_rule_in_silence(tiny: Any) -> None:
    model = tiny("llama")
    plain = logits(model, tokens(1, 20))
    attach(model, ACTING)
    model.set_attn_implementation("eager")
    with pytest.raises(InputError, match="attention was set to 'eager' after a rule had been attached"):
        logits(model, tokens(1, 20))
    detach(model)
    assert model.config._attn_implementation == "eager"
    torch.testing.assert_close(logits(model, tokens(1, 20)), plain, rtol=0, atol=1e-5)


def test_a_copy_keeps_its_rule(tiny: Any) -> None:
    model = tiny("llama")
    attach(model, ssmax())
    wanted = logits(model, tokens(1, 20))
    twin = copy.deepcopy(model)
    detach(model)
    assert torch.equal(logits(twin, tokens(1, 20)), wanted)
    with torch.no_grad():
        twin.model.layers[0].self_attn.attnlim_rule.scale.mul_(2)
    assert not torch.equal(logits(twin, tokens(1, 20)), wanted)
    detach(twin)
    assert torch.equal(logits(twin, tokens(1, 20)), logits(model, tokens(1, 20)))


SCALED_CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "yarn": ("llama", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}}),
    "longrope": ("phi3", {"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}, "original_max_position_embeddings": 64}),
    "llama4": ("llama4_text", {"num_hidden_layers": 4, "num_local_experts": 2}),
    "ministral": ("ministral3", {}),
    "yarn of gpt-oss": ("gpt_oss", {"num_local_experts": 2, "num_experts_per_tok": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", SCALED_CONFIGS)
def test_no_rule_on_a_config_that_scales(name: str) -> None:
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    kind, more = SCALED_CONFIGS[name]
    if kind not in CONFIG_MAPPING:
        pytest.skip(f"this transformers has no {kind}")
    settings = {
        "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": 2,
    }  # fmt: skip
    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[kind](**{**settings, **more})).eval()
    before = untouched(model)
    with pytest.raises(InputError, match=r"scales its logits already \(.*\); .* or attach with on_top=True"):
        attach(model, ACTING)
    assert untouched(model) == before
    attach(model, ACTING, on_top=True)
    assert attached_rule(model) is not None


@pytest.mark.parametrize("kind", ["falcon", "bloom", "mpt", "deberta-v2"])
def test_models_that_keep_their_own_attention(kind: str, tiny: Any) -> None:
    model = tiny(kind)
    before, plain = untouched(model), logits(model, tokens(1, 12))
    with pytest.raises(InputError, match="keeps its own attention code and cannot be hooked"):
        attach(model, ACTING)
    assert untouched(model) == before
    assert torch.equal(logits(model, tokens(1, 12)), plain)


def test_models_without_attention_and_of_two_halves() -> None:
    from transformers import CONFIG_MAPPING, AutoModel, AutoModelForCausalLM

    mamba = AutoModelForCausalLM.from_config(
        CONFIG_MAPPING["mamba"](vocab_size=97, hidden_size=32, num_hidden_layers=2, pad_token_id=0, eos_token_id=2)
    )
    with pytest.raises(InputError, match="no softmax attention reached the hook"):
        attach(mamba, ACTING)
    t5 = AutoModel.from_config(
        CONFIG_MAPPING["t5"](vocab_size=97, d_model=16, d_ff=16, num_layers=1, num_heads=2, d_kv=8)
    )
    with pytest.raises(InputError, match="is an encoder-decoder"):
        attach(t5, ACTING)
    vit = AutoModel.from_config(CONFIG_MAPPING["vit"](hidden_size=16, num_hidden_layers=1, num_attention_heads=2))
    with pytest.raises(InputError, match="does not run on 8 tokens alone"):
        attach(vit, ACTING)


def test_masks_of_flex_attention_cannot_be_read(tiny: Any) -> None:
    model = tiny("llama")
    model.config._attn_implementation_internal = "flex_attention"
    with pytest.raises(InputError, match="uses flex attention, whose masks cannot be read"):
        attach(model, logn(4))


def test_a_layer_that_hands_nothing_on_is_named(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One layer with attention of its own: everywhere else the rule would act, and there be ignored."""
    model = tiny("llama")
    own = model.model.layers[1].self_attn
    monkeypatch.setattr(own, "forward", lambda hidden_states, **rest: (hidden_states, None))
    before = untouched(model)
    with pytest.raises(InputError, match="no attention of layer 1 reached the hook, so logn would be ignored there"):
        attach(model, logn(4))
    assert untouched(model) == before


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        (yarn(4.0), r"acts on cos and sin \(yarn: .*\), which belongs into the model's own config"),
        (latent_yarn(40.0, 1.0, 1.0), "acts on cos and sin"),
        (Rule("softmax", latent_yarn(40.0, 1.0, 1.0).factors[1:]), "acts on the softmax scale"),
        (llama4(), "acts on layers without rotary positions, and the config of LlamaForCausalLM names none"),
        (constant([1.0, 2.0]), "value has 2 heads, layer 0 of LlamaForCausalLM has 4 query heads"),
        (constant(np.ones((2, 4))), "value has 2 layers, LlamaForCausalLM has 3"),
        (ssmax(np.ones(5)), "scale has 5 heads"),
    ],
)
def test_rules_that_do_not_fit(rule: Rule, complaint: str, tiny: Any) -> None:
    model = tiny("llama")
    before = untouched(model)
    with pytest.raises(InputError, match=complaint):
        attach(model, rule)
    assert untouched(model) == before


def test_a_failure_half_way_leaves_nothing(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from attnlim.rules import attaching

    model = tiny("llama")
    before = untouched(model)

    def broken(model: Any, befores: Any) -> None:
        raise RuntimeError("half-way")

    monkeypatch.setattr(attaching, "hook_layers", broken)
    with pytest.raises(RuntimeError, match="half-way"):
        attach(model, ACTING)
    assert untouched(model) == before


def test_layers_that_share_a_module() -> None:
    from transformers import CONFIG_MAPPING, AutoModel

    config = CONFIG_MAPPING["albert"](
        vocab_size=97,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        embedding_size=16,
    )
    model = AutoModel.from_config(config).eval()
    plain = logits(model, tokens(1, 20))
    attach(model, ACTING)
    assert not torch.equal(logits(model, tokens(1, 20)), plain)
    detach(model)
    with pytest.raises(InputError, match="runs one attention module as several layers, so constant cannot differ"):
        attach(model, constant(np.ones((3, 4))))
