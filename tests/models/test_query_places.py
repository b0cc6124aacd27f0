"""Where queries stand: visible keys equal the rows of the slow twin, positions what the padding and documents say."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.models.test_hook import call

from attnlim.core.checks import InputError
from attnlim.models.hook import AttentionCall, visible_keys
from attnlim.models.noted_positions import noting_positions
from attnlim.models.query_places import query_places

LOWEST = torch.finfo(torch.float32).min


def both(attention: AttentionCall) -> tuple[list[list[int]], list[list[int]]]:
    places = query_places(attention)
    return places.position.tolist(), places.keys.tolist()


def check_keys(attention: AttentionCall) -> None:
    """Against the twin, which makes every row."""
    wanted = visible_keys(attention, torch.arange(attention.query.shape[2])).sum(dim=2).clamp(min=1)
    found = query_places(attention).keys
    assert torch.equal(found.expand(wanted.shape), wanted)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 3, 7, 50])
@pytest.mark.parametrize("base", ["sdpa", "flash_attention_2"])
def test_without_a_mask_and_with_one_over_slots(causal: bool, window: int | None, base: str) -> None:
    settings: dict[str, Any] = {"causal": causal, "sliding_window": window, "base": base}
    check_keys(call(9, 9, **settings))
    check_keys(call(9, 9, position_ids=torch.arange(9)[None], **settings))
    if base != "sdpa":
        for padding in ([0, 0, 0, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0, 0, 0], [1] * 9):
            check_keys(call(9, 9, mask=torch.tensor([padding]), **settings))
            check_keys(call(4, 9, mask=torch.tensor([padding]), **settings))


@pytest.mark.parametrize("additive", [False, True])
@pytest.mark.parametrize("shape", [(9, 9), (4, 9), (1, 9), (9, 14)])
def test_rows_of_a_mask(additive: bool, shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    mask = torch.rand(2, 1, shape[0], shape[1] + 2, generator=generator) < 0.6
    given = torch.where(mask, 0.0, LOWEST) if additive else mask
    check_keys(call(*shape, mask=given, query=torch.zeros(2, 2, shape[0], 4)))
    check_keys(call(*shape, mask=torch.where(mask, 0.0, -torch.inf), query=torch.zeros(2, 2, shape[0], 4)))


def test_many_rows_of_an_additive_mask() -> None:
    """More than are compared at a time."""
    mask = torch.where(torch.ones(2500, 2500, dtype=torch.bool).tril(), 0.0, LOWEST)[None, None]
    assert both(call(2500, 2500, mask=mask)) == ([list(range(2500))], [list(range(1, 2501))])


def test_decoding() -> None:
    """Neither the length of the query nor, with a mask, the capacity of the cache says where it stands."""
    assert both(call(1, 7)) == ([[6]], [[7]])
    assert both(call(1, 7, position_ids=torch.tensor([[4]]))) == ([[4]], [[7]])
    static = torch.arange(20)[None, None, None] <= 6
    assert both(call(1, 20, mask=static)) == ([[6]], [[7]])
    # the prompt into an empty static cache has no mask: sdpa's causality begins with the first key
    assert both(call(3, 20)) == ([[0, 1, 2]], [[1, 2, 3]])
    # flash attention's ends with the last
    assert both(call(3, 7, base="flash_attention_2")) == ([[4, 5, 6]], [[5, 6, 7]])


def test_padding_is_noted_on_the_mask_when_it_is_made() -> None:
    """Behind a window padding no longer shows, and position_ids of a plain forward count it."""
    padding = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1]]).bool()
    slots = torch.arange(8)
    window = (slots[:, None] >= slots) & (slots[:, None] - slots < 2)
    last = (window[None] & padding[:, None])[:, None, 5:]
    base = noting_positions(lambda **given: last.clone())
    plain = {"position_ids": torch.tensor([[5, 6, 7]]), "sliding_window": 2, "query": torch.zeros(2, 2, 3, 4)}
    for newer in (True, False):  # than transformers 5.0
        named: dict[str, Any] = {"q_offset": 5} if newer else {"cache_position": torch.tensor([5, 6, 7])}
        noted = base(attention_mask=padding, **named)
        assert both(call(3, 8, mask=noted, **plain)) == ([[2, 3, 4], [5, 6, 7]], [[2, 2, 2], [2, 2, 2]])
        assert both(call(3, 8, mask=base(attention_mask=None, **named), **plain))[0] == [[5, 6, 7]]
    # what happens without the note: the window alone cannot say it
    assert both(call(3, 8, mask=last, **plain))[0] == [[5, 6, 7]]
    assert noting_positions(lambda **given: None)(attention_mask=padding, q_offset=0) is None


def test_packed_documents() -> None:
    document = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2])
    slots = torch.arange(9)
    mask = (document[:, None] == document) & (slots[:, None] >= slots)
    positions = [0, 1, 2, 0, 1, 0, 1, 2, 3]
    assert both(call(9, 9, mask=mask[None, None])) == ([positions], [[p + 1 for p in positions]])
    window = mask & (slots[:, None] - slots < 2)
    for given in (window, torch.where(window, 0.0, LOWEST)):
        assert both(call(9, 9, mask=given[None, None], sliding_window=2)) == (
            [positions],
            [[min(p + 1, 2) for p in positions]],
        )
    # position_ids that begin anew in one row are documents to flash attention, and to sdpa without a mask they are not
    ids = torch.tensor([positions])
    flash: dict[str, Any] = {"base": "flash_attention_2", "position_ids": ids}
    assert both(call(9, 9, **flash)) == ([positions], [[p + 1 for p in positions]])
    assert both(call(9, 9, **flash, sliding_window=2)) == ([positions], [[min(p + 1, 2) for p in positions]])
    assert both(call(9, 9, position_ids=ids)) == ([positions], [list(range(1, 10))])
    ends = torch.tensor([0, 3, 5, 9], dtype=torch.int32)
    packed: dict[str, Any] = {"base": "flash_attention_2", "extras": {"cu_seq_lens_q": ends}}
    assert both(call(9, 9, **packed)) == ([positions], [[p + 1 for p in positions]])
    assert both(call(9, 9, **packed, causal=False)) == ([positions], [[3, 3, 3, 2, 2, 4, 4, 4, 4]])
    assert both(call(9, 9, **packed, causal=False, sliding_window=2))[1] == [[2, 3, 2, 2, 2, 2, 3, 3, 2]]


def test_encoders() -> None:
    padding = torch.tensor([[1, 1, 1, 1, 0, 0]]).bool()
    mask = padding[:, None, None].expand(1, 1, 6, 6)
    assert both(call(6, 6, causal=False)) == ([list(range(6))], [[6] * 6])
    assert both(call(6, 6, causal=False, mask=mask)) == ([[0, 1, 2, 3, 3, 3]], [[4] * 6])
    assert both(call(6, 6, causal=False, mask=mask.flip(3)))[0] == [[0, 0, 0, 1, 2, 3]]
    slots = torch.arange(6)
    near = mask & ((slots[:, None] - slots).abs() <= 1)
    assert both(call(6, 6, causal=False, mask=near))[0] == [[0, 1, 2, 3, 3, 3]]


def test_rows_that_see_nothing_stay_in_range() -> None:
    mask = torch.zeros(1, 1, 3, 3, dtype=torch.bool)
    assert both(call(3, 3, mask=mask)) == ([[0, 0, 0]], [[1, 1, 1]])


def test_positions_along_several_axes_are_not_taken() -> None:
    """Images: three rows of positions, which say nothing of the text's."""
    assert both(call(4, 4, position_ids=torch.zeros(3, 1, 4, dtype=torch.int64)))[0] == [[0, 1, 2, 3]]


def test_masks_that_cannot_be_read() -> None:
    with pytest.raises(InputError, match="flex attention's block masks"):
        query_places(call(4, 4, extras={"block_mask": object()}))
    mixed = torch.ones(1, 2, 4, 4, dtype=torch.bool)
    mixed[0, 1, 0, 0] = False
    with pytest.raises(InputError, match="differs between heads"):
        query_places(call(4, 4, mask=mixed))
