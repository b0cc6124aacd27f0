"""Derivatives of the loss by logit multipliers, against the loss with the multiplier really applied."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from tests.context.largest_tensor import LargestTensor
from torch import Tensor
from torch.nn import functional

from attnlim.core.checks import InputError
from attnlim.models.hook import AttentionCall, attached
from attnlim.models.next_token import next_token_nll
from attnlim.models.prefilling import prefill
from attnlim.rules import head_sensitivity, sensitivity

N_TOKENS, TRAINED, N_LAYERS, N_HEADS = 48, 20, 3, 4
KINDS = ("llama", "qwen3", "mistral", "gemma2", "gpt2", "gpt_oss")


class _Wide:
    """torch to the code of a model, but for the dtype that it takes norms, softmax and rotations in."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, "float64" if name == "float32" else name)


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """A function that makes a model work in float64 throughout: a difference quotient shows seven digits less than what it
    is made of."""
    monkeypatch.setattr(Tensor, "float", Tensor.double)

    def widened(model: Any) -> Any:
        for name in {type(module).__module__ for module in model.modules()}:
            if name.startswith("transformers.models."):
                monkeypatch.setattr(sys.modules[name], "torch", _Wide())
        return model.double()

    return widened


def made(kind: str, tiny: Any) -> Any:
    if kind != "gpt_oss":
        model = tiny(kind)
        if kind == "gemma2":  # sdpa, which transformers 5.0 takes by itself, would drop the soft cap
            model.set_attn_implementation("eager")
        return model
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    config = CONFIG_MAPPING["gpt_oss"](
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=24,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], max_position_embeddings=256,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1 or "sinks" in name:
                weight.normal_(0, 0.3 if weight.dim() > 1 else 1.0)
    return model.eval()


def tokens(n_tokens: int = N_TOKENS, seed: int = 0) -> Tensor:
    return torch.randint(3, 97, (1, n_tokens), generator=torch.Generator().manual_seed(seed))


def layer_of(call: AttentionCall) -> int:
    return int(next(part for part in call.name.split(".") if part.isdigit()))


def visible(model: Any) -> Tensor:
    """(n_layers, 1, n_tokens): keys that each query of a window sees, by the layers' windows."""
    windows: dict[int, int | None] = {}
    with torch.no_grad(), attached(model, lambda call: windows.update({layer_of(call): call.sliding_window})):
        model(tokens(), use_cache=False)
    counts = torch.arange(1, N_TOKENS + 1, dtype=torch.float64)
    return torch.stack([counts.clamp(max=windows[layer] or N_TOKENS) for layer in range(N_LAYERS)])[:, None]


def losses(model: Any, ids: Tensor, factors: Tensor) -> np.ndarray:
    """The mean loss by the model's own eager attention with its logits multiplied, for many multipliers; the slow twin.

    factors: (n_variants, n_layers, n_heads, n_tokens).
    """
    model.set_attn_implementation("eager")
    many = ids.expand(len(factors), -1)
    with torch.no_grad(), attached(model, lambda call: call.query * factors[:, layer_of(call), :, :, None]):
        logits = model(many, use_cache=False).logits[:, :-1]
    each = functional.cross_entropy(logits.flatten(0, 1), many[:, 1:].flatten(), reduction="none")
    return each.view(len(factors), -1).mean(dim=1).numpy()


def check(model: Any, ids: Tensor, base: Tensor, directions: list[Tensor], derivatives: list[float]) -> None:
    """Central difference quotients err by their step's square: halving the step quarters the error, and what Richardson's
    combination of two leaves is of the fourth power."""
    steps = 2e-3 * torch.tensor([1.0, -1.0, 0.5, -0.5], dtype=torch.float64)[:, None, None, None]
    found = losses(model, ids, torch.cat([base + steps * direction for direction in directions])).reshape(-1, 4)
    coarse, fine = (found[:, 0] - found[:, 1]) / 4e-3, (found[:, 2] - found[:, 3]) / 2e-3
    # losses of about 5 have 1e-15 of rounding, over steps of 1e-3
    np.testing.assert_allclose((4 * fine - coarse) / 3, derivatives, rtol=1e-6, atol=5e-11)
    assert np.median(np.log2(np.abs((coarse - derivatives) / (fine - derivatives)))) == pytest.approx(2.0, abs=0.02)


def only(layer: int, head: int) -> Tensor:
    """(n_layers, n_heads, 1): 1 at one head."""
    chosen = torch.zeros(N_LAYERS, N_HEADS, 1, dtype=torch.float64)
    chosen[layer, head] = 1.0
    return chosen


ALL = [(layer, head) for layer in range(N_LAYERS) for head in range(N_HEADS)]
ONES = torch.ones(N_LAYERS, N_HEADS, N_TOKENS, dtype=torch.float64)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_are_those_of_the_loss(kind: str, tiny: Any, double: Any) -> None:
    model = double(made(kind, tiny))
    if kind == "gpt_oss":
        model.set_experts_implementation("eager")  # grouped products are not made in float64
    ids = tokens()
    before = model.config._attn_implementation
    found = sensitivity(model, ids, trained=TRAINED)
    assert model.config._attn_implementation == before
    assert found.layers == (0, 1, 2)
    assert found.nll == pytest.approx(float(losses(model, ids, ONES[None])[0]), rel=1e-12)

    beyond = (visible(model) / TRAINED).log().clamp(min=0)
    # each head, and all at once: a common factor moves the loss as all heads together
    directions = [only(*one) * ONES for one in ALL] + [ONES]
    derivatives = [*found.by_multiplier.ravel(), found.by_multiplier.sum()]
    directions += [only(*one) * beyond for one in ALL] + [beyond * ONES]
    derivatives += [*found.by_slope.ravel(), found.by_slope.sum()]
    check(model, ids, ONES, directions, derivatives)


def test_a_derivative_at_another_multiplier(tiny: Any, double: Any) -> None:
    """At m = base + w ln(keys/n0): by w at w = 0, and by a common factor on the base."""
    model, ids = double(tiny("llama")), tokens()
    beyond = (visible(model) / TRAINED).log().clamp(min=0)
    base = 1 + torch.linspace(-0.3, 0.4, N_HEADS, dtype=torch.float64)[:, None] * beyond
    found = sensitivity(model, ids, trained=TRAINED, multiplier=lambda call: base[layer_of(call)])
    batched = sensitivity(model, ids, trained=TRAINED, multiplier=lambda call: base[layer_of(call)][None])
    np.testing.assert_array_equal(found.by_slope, batched.by_slope)
    directions = [only(*one) * beyond for one in ALL] + [only(*one) * base for one in ALL]
    check(model, ids, base, directions, [*found.by_slope.ravel(), *found.by_multiplier.ravel()])


@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt2", "gpt_oss"])
def test_running_blocks_again_changes_no_bit(kind: str, tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = made(kind, tiny), tokens()
    again = sensitivity(model, ids, trained=TRAINED)
    monkeypatch.setattr(head_sensitivity, "recomputed", lambda model: nullcontext())
    kept = sensitivity(model, ids, trained=TRAINED)
    for name in ("token_nll", "by_multiplier", "by_slope", "by_octave"):
        np.testing.assert_array_equal(getattr(again, name), getattr(kept, name))


@pytest.mark.parametrize("kind", ["llama", "gpt2", "mistral"])
def test_the_loss_is_the_models_own_bit_for_bit(kind: str, tiny: Any) -> None:
    """A factor of 1 changes nothing, so a window's loss can be taken from here."""
    model, ids = tiny(kind), tokens()
    found = sensitivity(model, ids)
    np.testing.assert_array_equal(found.token_nll, next_token_nll(model, ids).double().numpy())


def test_a_head_that_nothing_reads_has_none(tiny: Any) -> None:
    model = tiny("llama")
    with torch.no_grad():
        model.model.layers[1].self_attn.o_proj.weight[:, 16:24] = 0.0  # head 2 of 4, 8 wide
    found = sensitivity(model, tokens(), trained=TRAINED)
    assert found.by_multiplier[1, 2] == found.by_slope[1, 2] == 0.0
    others = np.delete(found.by_multiplier.ravel(), 6)
    assert (others != 0).all()


def test_octaves_add_up_and_say_which_queries(tiny: Any, double: Any) -> None:
    model, ids = double(tiny("mistral")), tokens()
    found = sensitivity(model, ids)
    np.testing.assert_allclose(np.nansum(found.by_octave, axis=0), found.by_multiplier, atol=1e-15)
    # the window has 24 keys, so octave 0 begins where 13 are seen
    late = [only(*one) * (visible(model) > 12) for one in ALL]
    check(model, ids, ONES, late, list(found.by_octave[0].ravel()))


def test_slopes_exist_where_queries_see_more_than_the_trained_length(
    tiny: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = sensitivity(tiny("llama"), tokens(), trained=N_TOKENS)
    assert np.isnan(inside.by_slope).all()
    assert np.isfinite(inside.by_multiplier).all()
    assert np.isfinite(sensitivity(tiny("llama"), tokens(), trained=N_TOKENS - 1).by_slope).all()
    assert np.isnan(sensitivity(tiny("mistral"), tokens(), trained=24).by_slope).all()  # the window, not the text
    windowed = sensitivity(made("gemma2", tiny), tokens(), trained=24).by_slope  # every other layer has one
    assert np.isnan(windowed[[0, 2]]).all() and np.isfinite(windowed[1]).all()
    assert sensitivity(tiny("llama"), tokens()).trained == 256  # the config's
    monkeypatch.setattr(head_sensitivity, "trained_length", lambda model: None)
    found = sensitivity(tiny("llama"), tokens())
    assert found.trained is None and np.isnan(found.by_slope).all()


@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma2", "gpt2"])
def test_a_prefix_read_once(kind: str, tiny: Any, double: Any) -> None:
    """Slopes act beyond the trained length alone, so the trained length can be a prefix: same derivatives, and the cache
    serves again."""
    model, ids = double(made(kind, tiny)), tokens()
    whole = sensitivity(model, ids, trained=20, targets_from=21)
    past = prefill(model, ids[:, :20]).cache
    for _ in range(2):
        suffix = sensitivity(model, ids[:, 20:], trained=20, past=past)
        # sums over keys run in another order
        np.testing.assert_allclose(suffix.by_slope, whole.by_slope, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(suffix.token_nll, whole.token_nll, rtol=1e-11)
    assert past.get_seq_length() == 20


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sums_in_single(dtype: torch.dtype, tiny: Any) -> None:
    """A model in half precision differs from itself in float32 by its own rounding, not by that of the sums."""
    model, ids = tiny("llama").to(dtype), tokens(200)
    half = sensitivity(model, ids, trained=TRAINED)
    full = sensitivity(model.float(), ids, trained=TRAINED)  # the same weights
    for name in ("by_multiplier", "by_slope"):
        a, b = getattr(half, name).ravel(), getattr(full, name).ravel()
        # 2^-8 a product, through three layers with scores of several tens: a tenth of the typical size at most
        assert np.sqrt(np.mean((a - b) ** 2)) < 0.1 * np.sqrt(np.mean(b**2))


def test_a_derivative_beyond_the_range_of_the_dtype_is_no_number(tiny: Any) -> None:
    """Half precision ends at 65504: what lies beyond must not be left out of a sum."""
    model = tiny("llama").half()
    projection = model.model.layers[1].self_attn.o_proj
    projection.register_full_backward_hook(lambda module, into, out: (into[0] * 65504.0 * 65504.0,))
    with pytest.raises(
        InputError, match="LlamaForCausalLM in float16: the derivative of . heads is not finite; take a dtype"
    ):
        sensitivity(model, tokens(200))


def test_the_model_is_given_back(tiny: Any) -> None:
    model = tiny("qwen3").train()
    model.lm_head.weight.requires_grad_(False)
    model.model.layers[1].eval()
    wanted = {name: weight.requires_grad for name, weight in model.named_parameters()}
    modes = {name: module.training for name, module in model.named_modules()}
    with torch.no_grad():  # a caller's mode does not matter
        sensitivity(model, tokens())
    assert {name: weight.requires_grad for name, weight in model.named_parameters()} == wanted
    assert {name: module.training for name, module in model.named_modules()} == modes
    assert all(weight.grad is None for weight in model.parameters())
    assert not any("forward" in module.__dict__ for module in model.modules())
    assert model.config._attn_implementation == "sdpa"


def test_no_tensor_is_as_large_as_the_attention(tiny: Any) -> None:
    n_tokens = 512
    model = tiny("llama")
    model.config.max_position_embeddings = n_tokens
    with LargestTensor() as largest:
        sensitivity(model, tokens(n_tokens))
    assert 0 < largest.entries <= 97 * n_tokens  # logits; one matrix of attention has 512²
    model.set_attn_implementation("eager")
    with LargestTensor() as largest:  # the control
        sensitivity(model, tokens(n_tokens))
    assert largest.entries >= n_tokens**2


def test_refusals(tiny: Any) -> None:
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForMaskedLM, StaticCache

    model, ids = tiny("llama"), tokens()
    with pytest.raises(InputError, match="LlamaModel has no next-token head; load it with one"):
        sensitivity(model.model, ids)
    sizes = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    masked = AutoModelForMaskedLM.from_config(CONFIG_MAPPING["bert"](**sizes, num_attention_heads=4))
    with pytest.raises(InputError, match="is an encoder: it predicts no next token"):
        sensitivity(masked, ids)
    falcon = AutoModelForCausalLM.from_config(
        CONFIG_MAPPING["falcon"](vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4)
    )
    with pytest.raises(InputError, match="cannot be hooked"):
        sensitivity(falcon, ids)
    shared = tiny("llama")
    shared.model.layers[1].self_attn = shared.model.layers[0].self_attn
    with pytest.raises(InputError, match="for several layers, whose heads cannot be told apart"):
        sensitivity(shared, ids)
    with pytest.raises(InputError, match=r"input_ids must be \(1, n_tokens\) with at least 2 tokens, got \(2, 48\)"):
        sensitivity(model, ids.expand(2, -1))
    with pytest.raises(InputError, match="targets_from must be below the 48 tokens given, got 48"):
        sensitivity(model, ids, targets_from=48)
    with pytest.raises(InputError, match="targets_from must be a whole number of at least 1, got 0"):
        sensitivity(model, ids, targets_from=0)
    with pytest.raises(InputError, match="trained must be a whole number of at least 1, got 0"):
        sensitivity(model, ids, trained=0)
    with pytest.raises(InputError, match="past must be a dynamic cache, got layers of StaticLayer"):
        sensitivity(model, ids, past=StaticCache(config=model.config, max_cache_len=64))
    # whatever was refused, the model is as it was
    assert model.config._attn_implementation == "sdpa"
    assert all(weight.requires_grad for weight in model.parameters())
