"""With a rule attached, generation agrees between caches and between padded and single; wrong counts of n are caught."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from tests.rules.running import ACTING, DECODERS, disagreement, generated, left_padded, logits, tokens

from attnlim.models.hook import AttentionCall, attached
from attnlim.rules import attach, ssmax

# float32 sums of other lengths differ in their last bits: 3e-6 was seen on logits of size 3; wrong factors differ by 0.1
SAME = 5e-5


@pytest.mark.parametrize("kind", DECODERS)
def test_caches_and_padding_agree(kind: str, tiny: Any) -> None:
    model = tiny(kind)
    plain = logits(model, tokens(1, 30))
    attach(model, ACTING)
    assert float((logits(model, tokens(1, 30)) - plain).abs().max()) > 0.5
    found = disagreement(model)
    assert set(found) == {"dynamic", "static", *(f"padded, {way}" for way in ("no cache", "dynamic", "static"))}
    assert max(found.values()) < SAME, found


@pytest.mark.parametrize("kind", ["llama", "mistral", "gpt2"])
def test_prompts_read_in_chunks(kind: str, tiny: Any) -> None:
    if kind == "mistral" and transformers.__version__.startswith("5.0."):
        pytest.skip("transformers 5.0 reads in chunks wrongly under a window, rule or no rule")
    model = tiny(kind)
    attach(model, ACTING)
    rows = [tokens(1, 40, 1)[0], tokens(1, 31, 2)[0]]
    for ids, mask in (left_padded(rows), (rows[0][None], torch.ones(1, 40, dtype=torch.int64))):
        whole = generated(model, ids, mask)
        # transformers 5.0 reads in chunks only into a cache that it is given
        given = (
            {}
            if _cache_keyword(model) == "cache"
            else {"past_key_values": transformers.DynamicCache(config=model.config)}
        )
        parts = generated(model, ids, mask, prefill_chunk_size=16, **given)
        assert torch.equal(whole[0], parts[0])
        assert float((whole[1] - parts[1]).abs().max()) < SAME


@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma2", "gpt2"])
def test_decoding_by_hand_without_position_ids(kind: str, tiny: Any) -> None:
    """A left-padded batch, token by token, with the mask alone: the model's own count of positions has the padding in it."""
    model = tiny(kind)
    attach(model, ACTING)
    rows = [tokens(1, length, seed)[0] for seed, length in enumerate((37, 30))]
    ids, mask = left_padded(rows)
    if kind == "gpt2":  # its embeddings of positions would be others, rule or no rule
        ids, mask = rows[0][None], torch.ones(1, 37, dtype=torch.int64)
    cache, steps = None, []
    for begin, end in ((0, 12), (12, 26), *((i, i + 1) for i in range(26, 37))):
        with torch.no_grad():
            given = {} if cache is None else {_cache_keyword(model): cache}
            made = model(input_ids=ids[:, begin:end], attention_mask=mask[:, :end], use_cache=True, **given)
        cache = made.get("cache", made.get("past_key_values"))  # renamed in transformers 5.24
        steps.append(made.logits)
    found = torch.cat(steps, dim=1)
    for row, alone in enumerate(rows[: len(ids)]):
        wanted = logits(model, alone[None])[0]
        assert float((found[row, -len(alone) :] - wanted).abs().max()) < SAME


def _cache_keyword(model: Any) -> str:
    return "cache" if "cache" in inspect.signature(type(model).forward).parameters else "past_key_values"


def scaling_by(count: Callable[[AttentionCall], Any]) -> Callable[[AttentionCall], torch.Tensor]:
    """A wrong rule: max(1, ln n/ln 4) with n as ``count`` has it."""

    def before(call: AttentionCall) -> torch.Tensor:
        n = torch.as_tensor(count(call), dtype=torch.float32)
        return call.query * (n.clamp(min=4).log() / math.log(4))

    return before


def slots(call: AttentionCall) -> torch.Tensor:
    """Positions counted over slots, padding and all."""
    start = call.key.shape[2] - call.query.shape[2]
    return (torch.arange(call.query.shape[2]) + start + 1)[:, None]


@pytest.mark.parametrize(
    ("wrong", "caught"),
    [
        (lambda call: call.key.shape[2], {"static"}),
        (lambda call: call.query.shape[2], {"dynamic", "static"}),
        (slots, {"padded, no cache", "padded, dynamic", "padded, static"}),
        (lambda call: call.query.shape[2] if call.query.shape[2] > 1 else call.key.shape[2], {"static"}),
    ],
    ids=["keys of a static cache", "length of the query", "slots", "prefill and decoding apart"],
)
def test_wrong_counts_are_caught(wrong: Callable[[AttentionCall], Any], caught: set[str], tiny: Any) -> None:
    model = tiny("llama")
    with attached(model, scaling_by(wrong)):
        found = disagreement(model)
    assert {name for name, apart in found.items() if apart > 0.01} >= caught, found


def test_a_rule_on_the_first_position_alone_would_catch_nothing(tiny: Any) -> None:
    """Every rule is 1 up to its trained length, and one token has one key whatever the factor."""
    model = tiny("llama")
    plain = logits(model, tokens(1, 1))
    attach(model, ACTING)
    assert torch.equal(logits(model, tokens(1, 1)), plain)
    assert not torch.equal(logits(model, tokens(1, 12)), plain[:, :1].expand(-1, 12, -1))


def test_a_factor_of_0_at_one_key_does_no_harm(tiny: Any) -> None:
    """SSMax at the first token is 0, and a row of padding sees no key at all: neither makes a NaN anywhere."""
    model = tiny("llama")
    attach(model, ssmax())
    ids, mask = left_padded([tokens(1, 9, 0)[0], tokens(1, 1, 1)[0]])
    found = logits(model, ids, attention_mask=mask)
    assert bool(torch.isfinite(found).all())
    assert float((found[1, -1] - logits(model, ids[1:, -1:])[0, 0]).abs().max()) < SAME
