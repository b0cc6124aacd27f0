"""The loss of each next token, against the model's own logits of the whole window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from attnlim.core.checks import InputError
from attnlim.models import next_token
from attnlim.models.next_token import next_token_nll, run_backbone, score
from attnlim.models.prefilling import prefill

N_TOKENS = 40
OTHERS = {
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 16},  # its head sits on a part of its backbone
    "granite": {"logits_scaling": 3.0},
    "cohere": {"logit_scale": 0.3},
    "gemma2": {"final_logit_softcapping": 0.7, "head_dim": 8},
    "mixtral": {"num_local_experts": 3},
    "llama4_text": {"num_local_experts": 2, "head_dim": 8},  # whose backbone transformers looks for under another name
}


@pytest.fixture(autouse=True)
def few_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 7 positions, the last one shorter."""
    monkeypatch.setattr(next_token, "LOGITS_AT_ONCE", 97 * 7 + 5)


def ids(n_tokens: int = N_TOKENS) -> Tensor:
    return torch.randint(3, 97, (1, n_tokens), generator=torch.Generator().manual_seed(0))


def other(kind: str) -> Any:
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    sizes = {
        "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(CONFIG_MAPPING[kind](**{**sizes, **OTHERS[kind]})).eval()


def whole(model: Any, tokens: Tensor) -> Tensor:
    """The slow twin: all logits at once."""
    with torch.no_grad():
        logits = model(tokens).logits[0, :-1]
    return functional.cross_entropy(logits, tokens[0, 1:], reduction="none")


@pytest.mark.parametrize("kind", ["llama", "qwen3", "mistral", "gemma2", "gpt2"])
def test_the_loss_is_that_of_the_whole_windows_logits(kind: str, tiny: Any) -> None:
    model = tiny(kind)
    # products of 7 rows add up in another order than those of 39
    torch.testing.assert_close(next_token_nll(model, ids()), whole(model, ids()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", OTHERS)
def test_scales_and_caps_of_the_logits_are_the_models_own(kind: str) -> None:
    model = other(kind)
    torch.testing.assert_close(next_token_nll(model, ids()), whole(model, ids()), rtol=1e-5, atol=1e-5)
    assert not any("forward" in module.__dict__ for module in model.modules())


@pytest.mark.parametrize("kind", ["llama", "mistral", "gpt2"])
def test_what_follows_a_prefix(kind: str, tiny: Any) -> None:
    """The first token behind the prefix is predicted by its last one, which is not run again."""
    model = tiny(kind).double()
    past = prefill(model, ids()[:, :15]).cache
    for _ in range(2):  # the cache serves again
        suffix = next_token_nll(model, ids()[:, 15:], past=past, targets_from=3)
        torch.testing.assert_close(suffix, whole(model, ids())[17:], rtol=1e-6, atol=1e-6)  # models' norms are float32
    assert past.get_seq_length() == 15


def test_the_gradient_is_that_of_the_summed_loss(tiny: Any) -> None:
    model = tiny("gemma2").double().requires_grad_(False)
    output = run_backbone(model, ids())
    found, gradient = score(model, output, ids(), 10, backward=True)
    hidden = output.last_hidden_state.detach().requires_grad_()
    cap = model.config.final_logit_softcapping
    logits = cap * torch.tanh(model.lm_head(hidden[0, 9:-1]) / cap)
    total = functional.cross_entropy(logits, ids()[0, 10:], reduction="sum")
    (wanted,) = torch.autograd.grad(total, hidden)
    assert float(found.sum()) == pytest.approx(float(total.detach()), rel=1e-12)
    torch.testing.assert_close(gradient, wanted, rtol=1e-10, atol=1e-14)
    assert (gradient[:, :9] == 0).all() and (gradient[:, -1] == 0).all()
    assert (score(model, output, ids(), 10)[1] == 0).all()


def test_low_precision_is_scored_in_single(tiny: Any) -> None:
    model = tiny("llama").bfloat16()
    found = next_token_nll(model, ids())
    assert found.dtype == torch.float32
    assert len(np.unique(found.numpy().view(np.int32) & 0xFFFF)) > 10  # more digits than bfloat16 has


def test_refusals(tiny: Any) -> None:
    model = tiny("llama")
    with pytest.raises(InputError, match="LlamaModel has no next-token head"):
        next_token_nll(model.model, ids())
    with pytest.raises(InputError, match=r"input_ids must be \(1, n_tokens\) with at least 2 tokens, got \(1, 1\)"):
        next_token_nll(model, ids(1))
    with pytest.raises(InputError, match="nothing would be scored"):
        next_token_nll(model, ids(), targets_from=N_TOKENS)
    elsewhere = tiny("llama").model  # a head that does not sit where the model says
    model.get_decoder = lambda: elsewhere
    with pytest.raises(InputError, match="LlamaForCausalLM does not put its head on LlamaModel"):
        next_token_nll(model, ids())
