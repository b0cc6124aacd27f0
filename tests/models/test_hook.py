"""Visible keys of a query: under every kind of mask, with and without a cache, padded, windowed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnlim.core.checks import InputError
from attnlim.models.hook import AttentionCall, attached, visible_keys
from attnlim.models.query_places import query_places


def call(n_queries: int, n_keys: int, **settings: Any) -> AttentionCall:
    fields: dict[str, Any] = {
        "name": "layers.0", "module": torch.nn.Identity(), "base": "sdpa", "query": torch.zeros(1, 2, n_queries, 4),
        "key": torch.zeros(1, 1, n_keys, 4), "mask": None, "scaling": 0.5, "causal": True, "softcap": None,
        "sliding_window": None, "position_ids": None, "extras": {},
    }  # fmt: skip
    return AttentionCall(**{**fields, **settings})


def counts(attention: AttentionCall, *rows: int) -> list[int]:
    return visible_keys(attention, torch.tensor(rows))[0].sum(dim=1).tolist()


def test_without_a_mask() -> None:
    assert counts(call(9, 9), 0, 4, 8) == [1, 5, 9]
    assert counts(call(9, 9, causal=False), 0, 8) == [9, 9]
    assert counts(call(9, 9, sliding_window=3), 0, 1, 2, 8) == [1, 2, 3, 3]
    seen = visible_keys(call(9, 9, sliding_window=3), torch.tensor([8]))[0, 0]
    assert seen.nonzero()[:, 0].tolist() == [6, 7, 8]


def test_positions_count_where_a_cache_holds_more_than_the_query() -> None:
    """Decoding the token at position 6: neither the query's length, 1, nor the cache's capacity, 20, says it."""
    assert counts(call(1, 7, position_ids=torch.tensor([[6]])), 0) == [7]
    assert counts(call(1, 20, position_ids=torch.tensor([[6]])), 0) == [7]
    assert counts(call(1, 20, position_ids=torch.tensor([[6]]), sliding_window=4), 0) == [4]
    assert counts(call(3, 7, position_ids=torch.tensor([[4, 5, 6]])), 0, 2) == [5, 7]


def test_flash_attention_without_a_mask_ends_with_the_last_key() -> None:
    """Behind a cache that keeps a window, positions count what the cache has let go."""
    late = torch.tensor([[5000, 5001, 5002]])
    windowed = call(3, 10, base="flash_attention_2", position_ids=late, sliding_window=8)
    assert counts(windowed, 0, 1, 2) == [8, 8, 8]
    assert counts(call(3, 10, base="flash_attention_2", position_ids=late), 0, 2) == [8, 10]
    assert query_places(windowed).keys[0].tolist() == [8, 8, 8]


def test_bool_and_additive_masks() -> None:
    allowed = torch.tril(torch.ones(6, 6, dtype=torch.bool))
    allowed[:, 1] = False
    assert counts(call(6, 6, mask=allowed[None, None]), 0, 3, 5) == [1, 3, 5]
    lowest = torch.finfo(torch.float32).min
    for hidden in (lowest, -torch.inf):
        additive = torch.where(allowed, 0.0, hidden)[None, None]
        assert counts(call(6, 6, mask=additive), 0, 3, 5) == [1, 3, 5]
    # a static cache's mask is as wide as its capacity, or wider than the keys
    assert counts(call(6, 6, mask=torch.nn.functional.pad(allowed, (0, 4))[None, None]), 5) == [5]


def test_flash_attention_gets_a_padding_mask_over_slots() -> None:
    padding = torch.tensor([[0, 0, 1, 1, 1, 1]])
    assert counts(call(6, 6, base="flash_attention_2", mask=padding), 2, 5) == [1, 4]
    assert counts(call(6, 6, base="flash_attention_2", mask=padding, sliding_window=2), 2, 5) == [1, 2]
    both_sides = call(6, 6, base="flash_attention_2", mask=padding, sliding_window=2, causal=False)
    assert counts(both_sides, 3, 5) == [3, 2]
    # one new token after five in the cache
    assert counts(call(1, 6, base="flash_attention_2", mask=padding), 0) == [4]


def test_masks_that_cannot_be_read() -> None:
    with pytest.raises(InputError, match="flex attention's block masks"):
        visible_keys(call(4, 4, extras={"block_mask": object()}), torch.tensor([0]))
    slope = torch.where(torch.tril(torch.ones(4, 4)) > 0, -0.5 * torch.arange(4.0), -torch.inf)
    with pytest.raises(InputError, match="adds a position bias through its mask"):
        visible_keys(call(4, 4, mask=slope[None, None]), torch.tensor([3]))
    mixed = torch.ones(1, 2, 4, 4, dtype=torch.bool)
    mixed[0, 1, 0, 0] = False
    with pytest.raises(InputError, match="differs between heads"):
        visible_keys(call(4, 4, mask=mixed), torch.tensor([0]))


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generating_sees_one_key_more_each_step(cache: str, tiny: Any) -> None:
    """The prompt row by row, then one new token a step, each seeing all before it: 5 prompt tokens, 4 new ones."""
    model = tiny("llama")
    seen: list[list[int]] = []

    def note(attention: AttentionCall) -> None:
        if attention.name.endswith("layers.0.self_attn"):
            rows = torch.arange(attention.query.shape[2])
            seen.append(visible_keys(attention, rows)[0].sum(dim=1).tolist())

    ids = torch.randint(3, 97, (1, 5), generator=torch.Generator().manual_seed(0))
    settings: dict[str, Any] = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    plain = model.generate(ids, attention_mask=torch.ones_like(ids), cache_implementation=cache, **settings)
    with attached(model, note):
        hooked = model.generate(ids, attention_mask=torch.ones_like(ids), cache_implementation=cache, **settings)
    assert torch.equal(plain, hooked)
    assert seen == [[1, 2, 3, 4, 5], [6], [7], [8], [9]]
