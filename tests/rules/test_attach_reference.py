"""Logits with a rule attached equal those of attention written out with the factor in its scores; wrong ones do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.rules.running import ACTING, DECODERS, by_hand, left_padded, logits, tokens

from attnlim.models.hook import AttentionCall, attached
from attnlim.rules import Rule, attach, constant, critical, detach, grok, llama4, log_slope, ministral, ssmax, su, swan

# float32 attention against float64 attention, three layers, logits of size 3: 3e-6 was seen
SAME = 3e-5
# on layers 0 to 2 and query heads 0 to 3
TABLE = [[0.5, 1.0, 1.5, 2.0], [2.0, 0.7, 1.0, 1.3], [1.0, 1.0, 1.0, 3.0]]


def padded() -> tuple[torch.Tensor, torch.Tensor]:
    """Longer than the windows, padded on the left."""
    return left_padded([tokens(1, 40, 0)[0], tokens(1, 33, 1)[0]])


def check(model: Any, kind: str, rule: Rule, ids: torch.Tensor, mask: torch.Tensor) -> None:
    with by_hand(model, kind, rule, mask):
        wanted = logits(model, ids, attention_mask=mask)[mask.bool()]
    plain = logits(model, ids, attention_mask=mask)[mask.bool()]
    attach(model, rule)
    found = logits(model, ids, attention_mask=mask)[mask.bool()]
    assert float((plain - wanted).abs().max()) > 0.2  # so that the next line says something
    assert float((found - wanted).abs().max()) < SAME


@pytest.mark.parametrize("kind", [*DECODERS, "bert"])
def test_equals_attention_written_out(kind: str, tiny: Any) -> None:
    model = tiny(kind)
    if kind == "gemma2":
        model.set_attn_implementation("eager")  # transformers 5.0 loads it with sdpa, which has no soft cap
    check(model, kind, ACTING, *padded())


@pytest.mark.parametrize(
    "rule",
    [
        constant(1.5), constant(TABLE[0]), constant(TABLE), ssmax(), ssmax(TABLE[1], 0.2), su(4), grok(4), ministral(6, 0.5),
        critical(4, 0.5), critical(4, TABLE), log_slope(4, TABLE[0]), constant(0.5) * su(6),
    ],
    ids=lambda rule: rule.name,
)  # fmt: skip
def test_every_rule_on_grouped_heads_and_windows(rule: Rule, tiny: Any) -> None:
    """Four query heads on two key heads, and a window on every layer."""
    check(tiny("mistral"), "mistral", rule, *padded())


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert"])
def test_a_batch_padded_on_the_right(kind: str, tiny: Any) -> None:
    ids, mask = padded()
    check(tiny(kind), kind, ACTING, ids.flip(1), mask.flip(1))


def test_padded_and_single_agree_for_an_encoder(tiny: Any) -> None:
    model = tiny("bert")
    attach(model, ACTING)
    rows = [tokens(1, 40, 0)[0], tokens(1, 33, 1)[0]]
    ids, mask = left_padded(rows)
    found = logits(model, ids.flip(1), attention_mask=mask.flip(1))  # encoders are padded on the right
    for i, row in enumerate(rows):
        assert float((found[i, : len(row)] - logits(model, row.flip(0)[None])[0]).abs().max()) < SAME


def test_layers_of_a_kind(tiny: Any) -> None:
    """Gemma's layers 0 and 2 have a window."""
    rule = Rule("two kinds", (replace(su(4).factors[0], kind="local"), replace(su(6).factors[0], kind="global")))
    told = attach(model := tiny("gemma3"), rule)
    assert [factor.layers for factor in told.factors] == [(0, 2), (1,)]
    detach(model)
    check(model, "gemma3", told, *padded())


def test_layers_without_rotary_positions() -> None:
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    config = CONFIG_MAPPING["smollm3"](
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    assert [factor.layers for factor in attach(model, llama4(4) * swan(0.3, 1.0)).factors] == [(3,), (3,)]
    names = [name for name, _ in model.named_modules() if name.endswith("attnlim_rule")]
    assert len(names) == 4  # the others are there, and multiply by 1
    seen: dict[str, float] = {}

    def note(call: AttentionCall) -> None:
        seen[call.name] = float(call.query.abs().max())

    with attached(model, note):
        logits(model, tokens(1, 20))
    scaled = dict(seen)
    detach(model)
    with attached(model, note):
        logits(model, tokens(1, 20))
    assert [name for name in seen if seen[name] != scaled[name]] == ["model.layers.3.self_attn"]


@pytest.mark.parametrize(
    "wrong",
    ["on key heads", "squared", "twice over", "query and key", "on the first query alone", "positions of the cache"],
)
def test_wrong_rules_are_caught(wrong: str, tiny: Any) -> None:
    """Each goes through the same comparison as the right one."""
    rule = constant(TABLE[0]) if wrong == "on key heads" else ACTING
    model, (ids, mask) = tiny("llama"), padded()

    def before(call: AttentionCall) -> torch.Tensor:
        n = call.query.shape[2]
        slots = np.arange(n)
        if wrong == "on key heads":
            factor = torch.tensor(TABLE[0]).reshape(2, 2).T.reshape(1, 4, 1, 1)  # heads told apart within a group first
        else:
            real = mask.cumsum(1).clamp(min=1).numpy()
            if wrong == "positions of the cache":
                real = np.stack([slots + 1] * 2)
            factor = torch.from_numpy(np.stack([ACTING.parts(row - 1, row).query for row in real])).float()[
                :, None, :, None
            ]
        if wrong in ("squared", "twice over", "query and key"):
            factor = factor**2
        if wrong == "on the first query alone":
            factor = factor[:, :, :1]
        return call.query * factor

    with attached(model, before):
        found = logits(model, ids, attention_mask=mask)
    with by_hand(model, "llama", rule, mask):
        wanted = logits(model, ids, attention_mask=mask)
    assert float((found - wanted)[mask.bool()].abs().max()) > 0.01
