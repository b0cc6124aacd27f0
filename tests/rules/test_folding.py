"""A constant rule in the weights: the logits of the model that had it attached, and refused where that cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tests.rules.running import left_padded, logits, tokens
from tests.rules.test_attach import untouched

from attnlim.core.checks import InputError
from attnlim.rules import Rule, attach, attached_rule, constant, fold, frozen_log, logn, none, ssmax

TABLE = constant([[0.5, 1.0, 1.5, 2.0], [2.0, 0.7, 1.0, 1.3], [1.0, 1.0, 1.0, 3.0]])


def _build(kind: str, tiny: Any) -> Any:
    from transformers import CONFIG_MAPPING, AutoModel, AutoModelForCausalLM

    if kind not in ("distilbert", "gpt_neox", "olmo2", "phi3", "qwen2"):
        return tiny(kind)
    settings = {
        "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 4, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    torch.manual_seed(1)
    if kind == "distilbert":
        config = CONFIG_MAPPING[kind](vocab_size=97, dim=32, n_layers=3, n_heads=4, hidden_dim=48)
        model = AutoModel.from_config(config).eval()
    else:
        model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[kind](**settings)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.mul_(6.0)  # as the tiny models have it, so that heads tell tokens apart
    return model


@pytest.mark.parametrize(
    "kind",
    [
        "llama",
        "mistral",
        "gemma2",
        "gpt2",
        "opt",
        "gpt-oss",
        "bert",
        "modernbert",
        "gpt_neox",
        "phi3",
        "qwen2",
        "distilbert",
    ],
)
def test_equals_the_attached_rule(kind: str, tiny: Any) -> None:
    model = _build(kind, tiny)
    with torch.no_grad():
        for name, one in model.named_parameters():  # fresh biases are 0, and would hide that they are left out
            if name.endswith("bias") and one.dim() == 1:
                one.normal_(std=0.5, generator=torch.Generator().manual_seed(0))
    before = untouched(model)
    ids, mask = left_padded([tokens(1, 40, 0)[0], tokens(1, 33, 1)[0]])
    plain = logits(model, ids, attention_mask=mask)[mask.bool()]
    if kind == "modernbert" and transformers.__version__.startswith("5.0."):
        pytest.skip("it has attention of its own there")
    attach(model, TABLE)
    wanted = logits(model, ids, attention_mask=mask)[mask.bool()]
    fold(model)
    assert untouched(model) == before
    assert attached_rule(model) is None
    found = logits(model, ids, attention_mask=mask)[mask.bool()]
    assert float((found - wanted).abs().max()) < 1e-4  # what the issue asks for; 3e-6 was seen
    assert float((plain - wanted).abs().max()) > 0.005


def test_generation_after_folding(tiny: Any) -> None:
    from tests.rules.running import disagreement

    model = tiny("gpt2")
    attach(model, frozen_log(64, 4096))
    fold(model)
    assert max(disagreement(model).values()) < 5e-5


@pytest.mark.parametrize("kind", ["qwen3", "gemma3", "olmo2"])
def test_a_norm_after_the_projection(kind: str, tiny: Any) -> None:
    model = _build(kind, tiny)
    attach(model, TABLE)
    _stays(model, "has the norm q_norm between query projection and attention")


def test_a_clip_after_the_projection() -> None:
    """It acts on rare tokens, which the check need not meet."""
    from transformers import OlmoConfig, OlmoForCausalLM

    sizes = {
        "vocab_size": 97,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
    }
    model = OlmoForCausalLM(OlmoConfig(**sizes, clip_qkv=1e4)).eval()
    attach(model, TABLE)
    _stays(model, "clips what its query projection gives .clip_qkv.")
    free = OlmoForCausalLM(OlmoConfig(**sizes)).eval()
    attach(free, TABLE)
    fold(free)
    assert attached_rule(free) is None


def _stays(model: Any, complaint: str) -> None:
    """Folding is refused; the rule stays on, and the weights are bit for bit what they were."""
    before, wanted = untouched(model), logits(model, tokens(1, 20))
    with pytest.raises(InputError, match=complaint):
        fold(model)
    assert untouched(model) == before
    assert torch.equal(logits(model, tokens(1, 20)), wanted)


def test_a_norm_that_its_name_does_not_tell(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check on tokens finds out by itself."""
    from attnlim.rules import folding

    monkeypatch.setattr(folding, "NORMS", ())
    model = tiny("qwen3")
    attach(model, TABLE)
    _stays(model, "differs by .* of its largest output from the model with it attached")


def test_a_wrong_layout_is_found_by_the_check(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPT-NeoX keeps query, key and value of each head together: read as queries first it goes wrong, and is undone."""
    from attnlim.rules import folding

    monkeypatch.setitem(folding.LAYOUTS, "query_key_value", folding.FIRST)
    model = _build("gpt_neox", tiny)
    attach(model, constant([0.1, 5.0, 1.0, 9.0]))
    _stays(model, "differs by")


def test_rules_that_are_no_constant_and_models_without_a_rule(tiny: Any) -> None:
    model = tiny("llama")
    with pytest.raises(InputError, match="has no rule attached, so there is none to fold"):
        fold(model)
    for rule in (logn(4), ssmax(), Rule("both", TABLE.factors + logn(4).factors)):
        attach(model, rule)
        _stays(model, "differs between positions, so it is no constant")
        from attnlim.rules import detach

        detach(model)
    attach(model, none())
    fold(model)


def test_narrow_weights(tiny: Any) -> None:
    """A factor that is no power of two is rounded away in bfloat16; one that is goes in without a trace."""
    model = tiny("llama").to(torch.bfloat16)
    attach(model, constant([1.1, 1.3, 0.9, 1.7]))
    _stays(model, "if its numbers are torch.bfloat16, fold it in float32")
    model = tiny("llama").to(torch.bfloat16)
    attach(model, constant([0.5, 1.0, 2.0, 4.0]))
    wanted = logits(model, tokens(1, 20))
    fold(model)
    assert torch.equal(logits(model, tokens(1, 20)), wanted)


def test_projections_of_another_shape_or_name(tiny: Any) -> None:
    model = tiny("llama")
    attach(model, TABLE)
    attention = model.model.layers[0].self_attn
    own = attention.q_proj
    attention.q_proj = torch.nn.Sequential(own)  # such as an adapter around it
    _stays(model, "has no query projection of a known name")
    attention.q_proj = own
    model.model.layers[1].self_attn.q_proj.weight = own.weight
    _stays(model, "shares a query projection between layers")


def test_the_default_of_a_frozen_log_is_its_ratio(tiny: Any) -> None:
    model = tiny("llama")
    weight = model.model.layers[0].self_attn.q_proj.weight.detach().clone()
    attach(model, frozen_log(64, 4096))
    fold(model)
    np.testing.assert_allclose(model.model.layers[0].self_attn.q_proj.weight.detach(), 2 * weight, rtol=1e-6)
