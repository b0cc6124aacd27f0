"""Where the queries of an attention call stand: the position of each in its document, and how many keys it sees.

Neither the number of queries says it (1 while decoding) nor the number of keys (the capacity of a static cache), and
``position_ids`` count left padding in a plain forward. The slow twin is :func:`attnlim.models.hook.visible_keys`, row by row.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attnlim.core.checks import InputError
from attnlim.models.attention_function import AttentionCall
from attnlim.models.noted_positions import positions_among_real, slots_without_padding

ROWS_AT_ONCE = 1024  # of a mask: what a comparison of it would copy


class QueryPlaces(NamedTuple):
    """Both (1 or batch, n_queries) int64, on the query's device; slots of padding hold some number in range.

    Attributes:
        position: from 0, among the real tokens of the query's document.
        keys: visible keys, itself counted in, at least 1.
    """

    position: Tensor
    keys: Tensor


def query_places(call: AttentionCall) -> QueryPlaces:
    """Positions and visible keys of every query of an attention call.

    Args:
        call: an attention call; with a mask or without, causal or not.

    Raises:
        InputError: the mask cannot be read: a block mask of flex attention, or one that differs between heads.

    Cost: one pass over a 4-dimensional mask where there is one, else O(n).
    """
    if "block_mask" in call.extras:
        raise InputError("flex attention's block masks cannot be read; load the model with attn_implementation='sdpa'")
    mask = call.mask
    if mask is None or mask.dim() != 4:
        position, keys = _from_slots(call)
    else:
        position, keys = _position(call, mask), _row_sums(call, mask)
    device = call.query.device
    return QueryPlaces(position.to(device).clamp(min=0), keys.to(device).clamp(min=1))


def _row_sums(call: AttentionCall, mask: Tensor) -> Tensor:
    """(batch, n_queries): the entries of each row that let a key through."""
    # the comparison would be a branch on data, which a compiled graph cannot hold; no model here makes such masks
    if mask.shape[1] != 1 and not torch.compiler.is_compiling() and not bool((mask == mask[:, :1]).all()):
        raise InputError(f"{call.name}: the attention mask differs between heads, which cannot be read")
    shown = mask[:, 0, :, : call.key.shape[2]]  # a static cache's mask can be wider than the keys
    if shown.dtype == torch.bool:
        return shown.sum(dim=-1)
    lowest = torch.finfo(shown.dtype).min / 2  # an additive mask hides with the dtype's minimum, or with -inf
    return torch.cat([(rows > lowest).sum(dim=-1) for rows in torch.split(shown, ROWS_AT_ONCE, dim=1)], dim=1)


def _position(call: AttentionCall, mask: Tensor) -> Tensor:
    """(1 or batch, n_queries) under a 4-dimensional mask."""
    if (noted := positions_among_real(mask)) is not None:
        return noted
    slots = slots_without_padding(mask)
    given = _given(call)
    if slots is not None and given is not None:
        return given  # nothing is padded, so they count what they should, packed documents too
    square = call.query.shape[2] == call.key.shape[2]
    if not call.causal:
        if slots is not None:
            return slots
        # every real token sees itself
        seen = _let_through(mask[:, 0].diagonal(dim1=1, dim2=2)) if square else _let_through(mask[:, 0, 0])
        return (seen.to(torch.int64).cumsum(dim=-1) - 1)[:, : call.query.shape[2]]
    if call.sliding_window is None:
        return _row_sums(call, mask) - 1
    if square:
        # a document begins where a query does not see the token before it
        before = _let_through(mask[:, 0].diagonal(offset=-1, dim1=1, dim2=2))
        return _since_start(torch.nn.functional.pad(~before, (1, 0), value=True))
    if given is not None:
        return given
    return slots if slots is not None else _row_sums(call, mask) - 1


def _given(call: AttentionCall) -> Tensor | None:
    """(1 or batch, n_queries); positions along several axes, of images, say nothing of text."""
    ids = call.position_ids
    return ids if ids is not None and ids.dim() == 2 and ids.shape[1] == call.query.shape[2] else None


def _let_through(entries: Tensor) -> Tensor:
    return entries if entries.dtype == torch.bool else entries > torch.finfo(entries.dtype).min / 2


def _since_start(begins: Tensor) -> Tensor:
    """(batch, n): how far each slot is from the last one that begins a document."""
    slots = torch.arange(begins.shape[1], device=begins.device)
    return slots - torch.where(begins, slots, 0).cummax(dim=1).values


def _from_slots(call: AttentionCall) -> tuple[Tensor, Tensor]:
    """Position and visible keys where slots alone say which keys a query sees: no mask, or a padding mask over slots."""
    n_queries, n_keys, device = call.query.shape[2], call.key.shape[2], call.query.device
    flash = "flash" in call.base
    # sdpa's own causality begins with the first key, flash attention's ends with the last one
    start = n_keys - n_queries if flash or n_queries == 1 else 0
    slots = torch.arange(n_queries, device=device)[None] + start
    first, last = torch.zeros_like(slots), torch.full_like(slots, n_keys - 1)
    given = _given(call)
    position = slots if given is None else given.to(device)
    if flash and call.mask is None and n_queries == n_keys:
        if (ends := call.extras.get("cu_seq_lens_q")) is not None:
            ends = ends.to(device=device, dtype=torch.int64)
            document = torch.searchsorted(ends, slots[0], right=True)
            first, last = ends[document - 1][None], ends[document][None] - 1
            position = slots - first
        elif given is not None and call.query.shape[0] == 1 and call.causal:
            # one row in which positions begin anew is packed documents to flash attention
            first = slots - _since_start(torch.diff(position, dim=1, prepend=position[:, :1]) != 1)
    begin, end = first, slots if call.causal else last
    # sdpa gets no mask only where the window holds everything
    if call.sliding_window is not None and (call.causal or flash):
        begin = torch.maximum(begin, slots - (call.sliding_window - 1))
        end = torch.minimum(end, slots + (call.sliding_window - 1))
    if call.mask is None:
        return position, end - begin + 1
    real = torch.nn.functional.pad(call.mask.to(device=device, dtype=torch.int64).cumsum(dim=1), (1, 0))  # 0 to n_keys
    seen = real.gather(1, (end + 1).expand(len(real), -1)) - real.gather(1, begin.expand(len(real), -1))
    return real.gather(1, slots.expand(len(real), -1)), seen
