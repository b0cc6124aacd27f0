"""How well a model finds needles, and how much attention each of its heads leaves on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from attnlim.models.hook import AttentionCall, visible_keys
from attnlim.models.layer_numbers import layer_number
from attnlim.models.next_token import cache_keyword
from attnlim.models.placement import standing_on
from attnlim.models.prefilling import grown_from, prefill
from attnlim.rules.needles import Haystack, Needle
from attnlim.rules.variant_running import Prefix, running
from attnlim.rules.variants import Variant


@dataclass(frozen=True)
class NeedleScores:
    """One entry a needle.

    Attributes:
        nll: (n_needles,) loss of the whole number, teacher-forced, nats.
        found: (n_needles,) whether every one of its tokens was the likeliest: then greedy decoding writes it.
        mass: (n_needles, n_layers, n_heads) attention on the needle's sentence from the token that has to bring forth the number's
            first, dimensionless, in [0, 1]; NaN for layers without softmax attention.
    """

    nll: np.ndarray
    found: np.ndarray
    mass: np.ndarray


def needle_scores(
    model: Any, hay: Haystack, variant: Variant, stretch: float, shape: tuple[int, int], prefix: Prefix | None = None
) -> NeedleScores:
    """Ask for every needle behind the whole context, each time from the same cache.

    Args:
        model: a causal language model.
        hay: the context and its needles.
        variant: how to run the model.
        stretch: target over trained length.
        shape: layers and query heads of the model.
        prefix: of the same context, for variants that share it.

    Raises:
        InputError: as :func:`~attnlim.rules.variant_running.running`; a mask that cannot be read.
    """
    asking = _Asking(shape)
    with running(model, variant, stretch, asking):
        rest, past = (hay.ids, None) if prefix is None else (hay.ids[:, prefix.n_tokens :], prefix.read.cache)
        cache = prefill(model, rest, past).cache
        found = [_ask(model, needle, cache, asking) for needle in hay.needles]
    nll, hits, mass = zip(*found, strict=True)
    return NeedleScores(np.array(nll), np.array(hits), np.stack(mass))


@dataclass
class _Asking:
    """Watches every attention call, and while a question is asked measures what its last token leaves on the needle."""

    shape: tuple[int, int]
    needle: Needle | None = None
    n_tokens: int = 0
    mass: np.ndarray = field(default_factory=lambda: np.empty(0))
    turn: int = 0

    def begin(self, needle: Needle, n_tokens: int) -> None:
        """The next calls are those of this needle's question, which ends a text of so many tokens."""
        self.needle, self.n_tokens, self.mass, self.turn = needle, n_tokens, np.full(self.shape, np.nan), 0

    def __call__(self, call: AttentionCall) -> None:
        if self.needle is None:
            return
        number = layer_number(call.name)
        layer = self.turn if number is None else number
        gone = self.n_tokens - call.key.shape[2]  # a layer with a window keeps no more than it
        begins, ends = max(0, self.needle.begins - gone), max(0, self.needle.ends - gone)
        on_needle = _mass(call, len(self.needle.question) - 1, begins, ends)
        self.mass[layer, : len(on_needle)] = on_needle
        self.turn += 1


def _ask(model: Any, needle: Needle, cache: Any, asking: _Asking) -> tuple[float, bool, np.ndarray]:
    asks = len(needle.question)
    asking.begin(needle, cache.get_seq_length() + asks + len(needle.answer))
    ids = torch.cat([needle.question, needle.answer])[None].to(standing_on(model))
    with torch.no_grad():
        logits = model(input_ids=ids, use_cache=True, **{cache_keyword(model): grown_from(cache)}).logits
    wanted = ids[0, asks:].to(logits.device)
    bringing = logits[0, asks - 1 : -1].to(torch.promote_types(logits.dtype, torch.float32))
    nll = functional.cross_entropy(bringing, wanted, reduction="sum")
    return float(nll), bool((bringing.argmax(dim=-1) == wanted).all()), asking.mass


def _mass(call: AttentionCall, row: int, begins: int, ends: int) -> np.ndarray:
    """(n_heads,) float64: the weight of one row on the keys from ``begins`` to ``ends``."""
    n_heads, n_key_heads = call.query.shape[1], call.key.shape[1]
    query, key = call.query[0, :, row], call.key[0]
    if query.device.type == "mps":  # has no float64
        query, key = query.cpu(), key.cpu()
    query = query.double().reshape(n_key_heads, n_heads // n_key_heads, -1)
    scores = (torch.einsum("ghd,gkd->ghk", query, key.double()) * call.scaling).reshape(n_heads, -1)
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    visible = visible_keys(call, torch.tensor([row]))[0, 0].to(scores.device)
    scores = scores.masked_fill(~visible, -torch.inf)
    total = torch.logsumexp(scores, dim=1)
    sink = call.extras.get("s_aux")  # a logit of its own beside those of the keys
    if sink is not None:
        total = torch.logaddexp(total, sink.to(total.device).to(total))
    return torch.exp(torch.logsumexp(scores[:, begins:ends], dim=1) - total).cpu().numpy()
