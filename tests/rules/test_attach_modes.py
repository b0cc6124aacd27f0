"""Packed documents, masks of one's own, narrow numbers, checkpointing and compilation, with a rule attached."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.rules.running import ACTING, left_padded, logits, tokens

from attnlim.models.hook import AttentionCall, attached
from attnlim.rules import attach, constant, detach, logn, ssmax
from attnlim.rules.attaching import multiplier_of

SAME = 3e-5
LENGTHS = (30, 9, 28)


def packed() -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
    """Documents, the same in one row, and positions that begin anew with each."""
    documents = [tokens(1, length, seed) for seed, length in enumerate(LENGTHS)]
    return documents, torch.cat(documents, dim=1), torch.cat([torch.arange(n) for n in LENGTHS])[None]


def block_diagonal() -> torch.Tensor:
    document = torch.arange(len(LENGTHS)).repeat_interleave(torch.tensor(LENGTHS))
    return (document[:, None] == document) & torch.ones(len(document), len(document), dtype=torch.bool).tril()


@pytest.mark.parametrize("kind", ["llama", "qwen3", "mistral", "gemma2", "gemma3", "gpt2"])
def test_packed_documents_begin_anew(kind: str, tiny: Any) -> None:
    model = tiny(kind)
    documents, ids, positions = packed()
    wanted = torch.cat([logits(model, one) for one in documents], dim=1)
    assert float((logits(model, ids, position_ids=positions) - wanted).abs().max()) < SAME  # the model keeps them apart
    attach(model, ACTING)
    wanted = torch.cat([logits(model, one) for one in documents], dim=1)
    found = logits(model, ids, position_ids=positions)
    assert float((found - wanted).abs().max()) < SAME
    assert float((logits(model, ids) - wanted).abs().max()) > 0.1


@pytest.mark.parametrize("kind", ["llama", "mistral", "gpt2"])
@pytest.mark.parametrize("additive", [False, True])
def test_packed_by_a_mask_of_ones_own(kind: str, additive: bool, tiny: Any) -> None:
    model = tiny(kind)
    documents, ids, positions = packed()
    mask = block_diagonal()
    if kind == "mistral":
        slots = torch.arange(len(mask))
        mask = mask & (slots[:, None] - slots < 24)
    given = torch.where(mask, 0.0, torch.finfo(torch.float32).min) if additive else mask
    attach(model, ACTING)
    wanted = torch.cat([logits(model, one) for one in documents], dim=1)
    found = logits(model, ids, position_ids=positions, attention_mask=given[None, None])
    assert float((found - wanted).abs().max()) < SAME
    if kind != "gpt2":  # rotary positions are relative, so only the rule could mind that they are not given
        found = logits(model, ids, attention_mask=given[None, None])
        assert float((found - wanted).abs().max()) < SAME


def test_documents_that_do_not_begin_anew_are_caught(tiny: Any) -> None:
    """A rule over the slots of the row: the same comparison fails."""
    model = tiny("llama")
    documents, ids, positions = packed()
    attach(model, logn(4))
    wanted = torch.cat([logits(model, one) for one in documents], dim=1)
    detach(model)
    factor = torch.tensor(logn(4).parts(np.arange(sum(LENGTHS))).query).float()[:, None]
    with attached(model, lambda call: call.query * factor):
        found = logits(model, ids, position_ids=positions)
    assert float((found - wanted).abs().max()) > 0.1


def test_narrow_numbers_are_multiplied_in_float32(tiny: Any) -> None:
    model = tiny("llama").to(torch.bfloat16)
    seen: list[AttentionCall] = []
    with attached(model, seen.append):
        logits(model, tokens(1, 40))
    attach(model, logn(4))
    with attached(model, seen.append):
        logits(model, tokens(1, 40))
    plain, scaled = seen[0].query, seen[3].query
    assert scaled.dtype == torch.bfloat16
    factor = torch.tensor(logn(4).parts(np.arange(40)).query)[:, None]
    # rounded once: within half a unit of bfloat16's last place, 2^-8, and a little for float32's own rounding
    error = ((scaled.double() - plain.double() * factor).abs() / (plain.double() * factor).abs().clamp(min=1e-30)).max()
    assert float(error) <= 2**-8 * 1.001
    narrow = (plain * factor.to(torch.bfloat16)).double()
    assert (
        float(((narrow - plain.double() * factor).abs() / (plain.double() * factor).abs().clamp(min=1e-30)).max())
        > 2**-8 * 1.3
    )


def compiled(model: Any) -> Any:
    """As one graph, by the backend "aot_eager": it traces everything, gradients too, and generates no code."""
    torch._dynamo.reset()
    return torch.compile(model, backend="aot_eager", fullgraph=True)


def test_compiled_with_padding_and_a_window(tiny: Any) -> None:
    model = tiny("mistral")
    attach(model, ACTING)
    ids, mask = left_padded([tokens(1, 40, 0)[0], tokens(1, 35, 1)[0]])
    found = logits(compiled(model), ids, attention_mask=mask, use_cache=False)
    assert float((found - logits(model, ids, attention_mask=mask)).abs().max()) < SAME


def test_compiled_it_follows_its_parameters(tiny: Any) -> None:
    model = tiny("llama")
    attach(model, ssmax())
    fast = compiled(model)
    first = logits(fast, tokens(1, 20), use_cache=False)
    assert float((first - logits(model, tokens(1, 20))).abs().max()) < SAME
    with torch.no_grad():
        model.model.layers[0].self_attn.attnlim_rule.scale.mul_(2.0)
    found = logits(fast, tokens(1, 20), use_cache=False)
    assert float((found - first).abs().max()) > 0.01
    assert float((found - logits(model, tokens(1, 20))).abs().max()) < SAME


def test_gradients_with_checkpointing(tiny: Any) -> None:
    """Blocks that run again during the backward pass get the same factors."""
    found = []
    for checkpointing in (False, True):
        model = tiny("llama")
        attach(model, ACTING * ssmax())
        model.train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        ids, mask = left_padded([tokens(1, 20, 0)[0], tokens(1, 13, 1)[0]])
        model(input_ids=ids, attention_mask=mask, use_cache=False).logits.square().mean().backward()
        found.append({name: weight.grad for name, weight in model.named_parameters()})
    assert any(name.endswith("attnlim_rule.scale_2") for name in found[0])
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=1e-5, atol=1e-7)


def test_masks_changed_in_place_are_seen(tiny: Any) -> None:
    """The same mask object with other entries in the next forward: nothing of the last one is kept."""
    model = tiny("llama")
    attach(model, ACTING)
    mask = torch.ones(1, 1, 20, 20, dtype=torch.bool).tril()
    logits(model, tokens(1, 20), attention_mask=mask)
    mask[..., :5] = False
    mask[..., range(20), range(20)] = True
    found = logits(model, tokens(1, 20), attention_mask=mask)
    assert torch.equal(found, logits(model, tokens(1, 20), attention_mask=mask.clone()))


def test_one_after_another_with_and_without_gradients(tiny: Any) -> None:
    model = tiny("llama")
    attach(model, logn(4))
    with torch.inference_mode():
        wanted = model(input_ids=tokens(1, 20), use_cache=False).logits.clone()
    made = model(input_ids=tokens(1, 20), use_cache=False).logits
    assert torch.equal(made.detach(), wanted)
    made.sum().backward()
    assert all(bool(torch.isfinite(weight.grad).all()) for weight in model.parameters())


def test_multiplier_of_equals_the_attached_rule(tiny: Any) -> None:
    model = tiny("mistral")
    table = constant([[0.5, 1.0, 1.5, 2.0], [2.0, 0.7, 1.0, 1.3], [1.0, 1.0, 1.0, 3.0]])
    for rule in (ACTING, table, constant(1.5), logn(4)):
        factor = multiplier_of(rule, model)

        def before(call: AttentionCall, factor: Any = factor) -> torch.Tensor:
            found = factor(call)
            assert found.shape == (4, 40)
            return call.query * found[..., None]

        with attached(model, before):
            wanted = logits(model, tokens(1, 40))
        attach(model, rule)
        assert torch.equal(logits(model, tokens(1, 40)), wanted)
        detach(model)
    assert multiplier_of(logn(4096), model)(_call(model)) is None


def _call(model: Any) -> AttentionCall:
    seen: list[AttentionCall] = []
    with attached(model, seen.append):
        logits(model, tokens(1, 12))
    return seen[0]
