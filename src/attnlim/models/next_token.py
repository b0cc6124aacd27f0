"""How well a causal language model predicts each next token, with its own head applied to a few positions at a time.

Logits of a whole window would take more memory than the model. The head runs as part of the model's own forward, whose
backbone hands out hidden states that are already there: soft caps and scales of the logits stay the model's own.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attnlim.core.checks import InputError, whole_number
from attnlim.models.placement import standing_on

# logits that are held at once: 64 MiB in float32
LOGITS_AT_ONCE = 2**24


def next_token_nll(model: Any, input_ids: Tensor, *, past: Any = None, targets_from: int = 1) -> Tensor:
    r"""Negative log-likelihood of each token of a window, given those before it.

    .. math:: -\ln p(x_t \mid x_0 \dots x_{t-1}), \qquad t = \text{targets\_from} \dots n - 1

    Source: *ours* (how it is computed); the head is the model's own code.

    Args:
        model: a causal language model with its head.
        input_ids: (1, n_tokens) int64, n_tokens ≥ 2; with ``past`` only what follows the prefix.
        past: keys and values of a prefix, a dynamic transformers cache, from :func:`attnlim.models.prefill`; left as it is.
        targets_from: the first token of ``input_ids`` that is scored, at least 1: nothing in ``input_ids`` predicts the first.

    Returns:
        (n_tokens - targets_from,) float32 (float64 for a float64 model), nats, on the model's device, without gradient.

    Raises:
        InputError: a model without a next-token head, more than one sequence, nothing to score, a cache of another kind.

    Cost: one forward of the backbone, and the head on the scored positions; at most 64 MiB of logits at once.
    """
    with torch.no_grad():
        output = run_backbone(model, input_ids, past)
        scored, _ = score(model, output, input_ids, targets_from)
    return scored


def decoder_of(model: Any) -> Any:
    """The backbone of a causal language model, below its head.

    Raises:
        InputError: there is no head, or no one part below it.
    """
    if model.get_output_embeddings() is None:
        raise InputError(
            f"{type(model).__name__} has no next-token head; load it with one: attnlim.models.load(..., head=True)"
        )
    decoder = model.get_decoder()
    if decoder is model:  # it was looked for under a name that this class does not use
        parts = [part for part in model.children() if hasattr(part, "get_input_embeddings")]
        if len(parts) != 1:
            raise InputError(
                f"{type(model).__name__}: its backbone was not found below its head, so it cannot be scored"
            )
        decoder = parts[0]
    return decoder


def run_backbone(model: Any, input_ids: Tensor, past: Any = None) -> Any:
    """The backbone's output for a window, hidden states first; arguments and errors as for :func:`next_token_nll`."""
    decoder = decoder_of(model)
    if input_ids.dim() != 2 or input_ids.shape[0] != 1 or input_ids.shape[1] < 2:
        raise InputError(f"input_ids must be (1, n_tokens) with at least 2 tokens, got {tuple(input_ids.shape)}")
    settings = {} if past is None else {cache_keyword(decoder): _unchanging(past)}
    return decoder(input_ids=input_ids.to(standing_on(decoder)), use_cache=False, **settings)


def score(
    model: Any, output: Any, input_ids: Tensor, targets_from: int, backward: bool = False
) -> tuple[Tensor, Tensor]:
    """The loss of every scored token from the backbone's output, and the gradient of their sum in the hidden states.

    Args:
        model: a causal language model with its head.
        output: of :func:`run_backbone`.
        input_ids: (1, n_tokens) int64, what it was run on.
        targets_from: the first token that is scored.
        backward: whether the gradient is wanted; each chunk's is taken at once, so that no logits are kept or made again.

    Returns:
        (n_scored,) nats, and (1, n_tokens, width) in nats per unit of hidden state, 0 where nothing is scored and throughout without
        ``backward``.
    """
    hidden: Tensor = output.last_hidden_state.detach()
    n_tokens = hidden.shape[1]
    first = whole_number("targets_from", targets_from, 1, "nothing predicts the first token")
    if first >= n_tokens:
        raise InputError(
            f"targets_from must be below the {n_tokens} tokens given, got {first}; nothing would be scored"
        )
    targets = input_ids[0].to(hidden.device)
    gradient = torch.zeros_like(hidden)
    step = max(1, LOGITS_AT_ONCE // model.get_output_embeddings().weight.shape[0])
    scored = []
    for begin in range(first - 1, n_tokens - 1, step):
        end = min(begin + step, n_tokens - 1)
        chunk = hidden[:, begin:end]
        with torch.set_grad_enabled(backward):
            chunk = chunk.clone().requires_grad_(backward)
            logits = _logits(model, output, chunk, input_ids[:, begin:end])[0]
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
            losses = functional.cross_entropy(logits, targets[begin + 1 : end + 1].to(logits.device), reduction="none")
        if backward:
            (pulled,) = torch.autograd.grad(losses.sum(), chunk)
            gradient[:, begin:end] = pulled
        scored.append(losses.detach().to(hidden.device))
    return torch.cat(scored), gradient


def _logits(model: Any, output: Any, hidden: Tensor, input_ids: Tensor) -> Tensor:
    """The model's own forward above its backbone."""
    decoder = decoder_of(model)
    reached = []

    def ready(*arguments: Any, **settings: Any) -> Any:
        reached.append(True)
        return type(output)(**{**output, "last_hidden_state": hidden})

    given = decoder.__dict__.get("forward")  # accelerate puts its own there
    decoder.forward = ready
    try:
        logits: Tensor = model(input_ids=input_ids.to(standing_on(decoder)), use_cache=False).logits
    finally:
        del decoder.forward
        if given is not None:
            decoder.forward = given
    if not reached:
        raise InputError(
            f"{type(model).__name__} does not put its head on {type(decoder).__name__}; it cannot be scored"
        )
    return logits


def cache_keyword(decoder: Any) -> str:
    """How the backbone's forward calls a cache: transformers 5.24 renamed it."""
    names = inspect.signature(decoder.forward).parameters
    return "cache" if "cache" in names else "past_key_values"


def _unchanging(past: Any) -> Any:
    """A cache that answers as ``past`` and keeps nothing, so that a block may run twice on it.

    Raises:
        InputError: a cache that is written in place, which would change under the first run.
    """
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    def answering(layer: Any) -> Any:
        if type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer):
            raise InputError(
                f"past must be a dynamic cache, got layers of {type(layer).__name__}; use attnlim.models.prefill"
            )
        still = copy.copy(layer)
        still.update = lambda *arguments, **settings: copy.copy(layer).update(*arguments, **settings)
        return still

    answer = copy.copy(past)
    answer.layers = [answering(layer) for layer in past.layers]
    return answer
