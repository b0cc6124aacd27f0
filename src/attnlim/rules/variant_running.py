"""Running a model as a variant says, on windows whose beginning several variants share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlim.models.hook import AttentionCall, attached
from attnlim.models.next_token import next_token_nll, score
from attnlim.models.prefilling import Prefilled, prefill
from attnlim.rules.attaching import multiplier_of
from attnlim.rules.stretching import stretched
from attnlim.rules.variants import Variant


@dataclass(frozen=True)
class Prefix:
    """The first tokens of a window, on which some variants agree.

    Attributes:
        n_tokens: how many.
        read: their keys, values and hidden states.
        nll: (n_tokens,) float64, nats; NaN for the first token, which nothing predicts.
    """

    n_tokens: int
    read: Prefilled
    nll: np.ndarray


Watch = Callable[[AttentionCall], None]


@contextmanager
def running(model: Any, variant: Variant, stretch: float, watch: Watch | None = None) -> Iterator[None]:
    """The model as ``variant`` has it, while the context is open.

    Args:
        model: a causal language model.
        variant: how to run it.
        stretch: target over trained length, for YaRN's frequencies.
        watch: is shown every attention call, its query scaled.

    Raises:
        InputError: frequencies that cannot be stretched, attention that cannot be hooked.
    """
    multiplier = multiplier_of(variant.rule, model) if variant.rule.factors else None

    def before(call: AttentionCall) -> Tensor | None:
        factor = None if multiplier is None else multiplier(call)
        query = None if factor is None else (call.query.to(factor.dtype) * factor[..., None]).to(call.query.dtype)
        if watch is not None:
            watch(call if query is None else replace(call, query=query))
        return query

    with ExitStack() as stack:
        if variant.stretched:
            stack.enter_context(stretched(model, stretch, variant.cos_sin))
        if multiplier is not None or watch is not None:
            stack.enter_context(attached(model, before))
        yield


def shared_prefix(model: Any, ids: Tensor, trained: int, stretch: float) -> Prefix:
    """The trained length of a window under stretched frequencies without scaling."""
    with stretched(model, stretch), torch.no_grad():
        read = prefill(model, ids[:, :trained])
        nll, _ = score(model, read.output, ids[:, :trained], 1)
    return Prefix(trained, read, np.concatenate([[np.nan], _numbers(nll)]))


def window_nll(model: Any, ids: Tensor, variant: Variant, stretch: float, prefix: Prefix | None = None) -> np.ndarray:
    """Loss of every token of a window.

    Args:
        model: a causal language model.
        ids: (1, n_tokens) int64.
        variant: how to run it.
        stretch: target over trained length.
        prefix: of the same window, for variants that share it; without it the whole window is run.

    Returns:
        (n_tokens,) float64, nats; NaN for the first token.
    """
    with running(model, variant, stretch):
        if prefix is None:
            return np.concatenate([[np.nan], _numbers(next_token_nll(model, ids))])
        output = prefill(model, ids[:, prefix.n_tokens :], prefix.read.cache).output
    # the last token of the prefix predicts the first behind it
    last = prefix.read.output.last_hidden_state[:, -1:]
    output.last_hidden_state = torch.cat([last, output.last_hidden_state], dim=1)
    with torch.no_grad():
        suffix, _ = score(model, output, ids[:, prefix.n_tokens - 1 :], 1)
    return np.concatenate([prefix.nll, _numbers(suffix)])


def _numbers(nll: Tensor) -> np.ndarray:
    return nll.cpu().double().numpy()
