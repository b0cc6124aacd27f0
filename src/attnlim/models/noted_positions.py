"""Positions noted on an attention mask when it is made: the one moment at which the padding itself is known.

A windowed mask does not show padding that lies before the window, and a plain forward counts left padding in its
``position_ids``. So the true positions travel with the mask, as an attribute of the tensor, to every layer that gets it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_AMONG_REAL, _SLOTS = "attnlim_positions_among_real", "attnlim_slots"


def noting_positions(mask_function: Callable[..., Any]) -> Callable[..., Any]:
    """A mask function of transformers that also notes on the mask where its queries stand."""

    def make(*given: Any, **named: Any) -> Any:
        mask = mask_function(*given, **named)
        if isinstance(mask, Tensor) and mask.dim() == 4:
            slots = _slots(mask, named)
            padding = named.get("attention_mask")
            if slots is not None and padding is not None:
                among_real = padding.to(torch.int64).cumsum(dim=-1) - 1
                setattr(mask, _AMONG_REAL, among_real.index_select(1, slots.clamp(max=padding.shape[1] - 1)))
            elif slots is not None:
                setattr(mask, _SLOTS, slots[None])
        return mask

    return make


def positions_among_real(mask: Tensor) -> Tensor | None:
    """(batch, n_queries) int64: how many real tokens come before each query; None where no padding was given."""
    positions: Tensor | None = getattr(mask, _AMONG_REAL, None)
    return positions


def slots_without_padding(mask: Tensor) -> Tensor | None:
    """(1, n_queries) int64: the queries' slots, of a mask that transformers made without padding; else None."""
    slots: Tensor | None = getattr(mask, _SLOTS, None)
    return slots


def _slots(mask: Tensor, named: dict[str, Any]) -> Tensor | None:
    """(n_queries,) int64 on the mask's device; transformers 5.0 names them, later versions give an offset."""
    slots: Tensor
    if (cache_position := named.get("cache_position")) is not None:
        slots = cache_position.to(mask.device)
        return slots
    if (offset := named.get("q_offset")) is not None:
        slots = torch.arange(mask.shape[2], device=mask.device) + offset
        return slots
    return None
