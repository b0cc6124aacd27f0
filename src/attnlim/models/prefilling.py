"""Reading a text into a cache: once for all that is to be asked behind it, or for all windows that begin alike."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnlim.core.checks import InputError, extra
from attnlim.models.next_token import cache_keyword, decoder_of
from attnlim.models.placement import standing_on

# behind a cache a mask stands for the causal order, and every hidden pair of a piece is computed: small pieces have few
PIECE = 1024


@dataclass(frozen=True)
class Prefilled:
    """A text that a model has read.

    Attributes:
        cache: its keys and values, a transformers cache; :func:`prefill` goes on from it and leaves it as it is.
        output: what the backbone put out over the tokens that were read now, for :func:`attnlim.models.next_token.score`.
    """

    cache: Any
    output: Any


def prefill(model: Any, input_ids: Tensor, past: Any = None) -> Prefilled:
    """Run the backbone over a text and keep what later tokens need of it.

    Args:
        model: a causal language model.
        input_ids: (1, n_tokens) int64; with ``past`` what follows it.
        past: the cache of what stands before; copied, not changed.

    Returns:
        A :class:`Prefilled`; its cache holds ``past`` and ``input_ids``.

    Cost: one forward of the backbone; keys and values of every token and layer.
    """
    extra("transformers", "models")
    from transformers import DynamicCache

    decoder = decoder_of(model)
    ids = input_ids.to(standing_on(decoder))
    cache = DynamicCache(config=decoder.config) if past is None else grown_from(past)
    settings = {"use_cache": True, cache_keyword(decoder): cache}
    with torch.no_grad():
        pieces = [ids] if past is None else torch.split(ids, PIECE, dim=1)
        outputs = [decoder(input_ids=piece, **settings) for piece in pieces]
        hidden = torch.cat([output.last_hidden_state for output in outputs], dim=1)
    return Prefilled(cache, type(outputs[-1])(last_hidden_state=hidden))


def check_reads_on(model: Any) -> None:
    """Refuse a model that cannot go on from a cache, before anything is spent on it.

    Raises:
        InputError: it fails on three tokens, of which the last comes from behind a cache.
    """
    ids = torch.zeros((1, 3), dtype=torch.int64)
    try:
        prefill(model, ids[:, 2:], prefill(model, ids[:, :2]).cache)
    except InputError:
        raise
    except Exception as reason:  # of whatever type its own code raises, without a cache of the kind that it wants
        told = str(reason).strip().splitlines()
        raise InputError(
            f"{type(model).__name__} does not read on behind a cache of transformers ({told[0] if told else type(reason).__name__}); "
            "a newer transformers may have one for it"
        ) from reason


def grown_from(past: Any) -> Any:
    """A cache with the content of ``past`` that grows by itself, and leaves ``past`` as it is."""
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    grown = copy.copy(past)
    # others, such as the states of recurrent layers, are written in place
    by_itself = (DynamicLayer, DynamicSlidingWindowLayer)
    grown.layers = [copy.copy(one) if type(one) in by_itself else copy.deepcopy(one) for one in past.layers]
    return grown
