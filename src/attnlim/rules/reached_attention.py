"""Which attention layers of a model a rule can reach: found by a forward of a few tokens, watched and not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnlim.core.checks import InputError
from attnlim.models.hook import AttentionCall, attached
from attnlim.models.layer_numbers import layer_number
from attnlim.models.placement import standing_on
from attnlim.models.recomputing import evaluating

N_PROBE_TOKENS = 8


@dataclass(frozen=True)
class ReachedLayer:
    """One attention module that hands its query to the hook.

    Attributes:
        layer: its number in the model, from 0.
        name: the module's qualified name.
        n_heads: query heads.
        head_dim: dimensions of one of their queries.
        shared: several layers of the model run this one module.
    """

    layer: int
    name: str
    n_heads: int
    head_dim: int
    shared: bool = False


def reached_layers(model: Any) -> tuple[ReachedLayer, ...]:
    """The attention layers that a short forward shows to the hook, in the order in which it reaches them.

    Args:
        model: a transformers model, with or without its head.

    Raises:
        InputError: an encoder-decoder, attention that cannot be hooked, a model that does not run on tokens alone, one that
            computes something else while it is watched, two attention modules in one layer, or no attention at all.
    """
    name = type(model).__name__
    if getattr(model.config, "is_encoder_decoder", False):
        raise InputError(f"{name} is an encoder-decoder; rules can be attached only to decoders and encoders")
    found: dict[str, ReachedLayer] = {}

    def note(call: AttentionCall) -> None:
        if call.name in found:
            found[call.name] = replace(found[call.name], shared=True)
            return
        number = layer_number(call.name)
        layer = len(found) if number is None else number
        found[call.name] = ReachedLayer(layer, call.name, call.query.shape[1], call.query.shape[3])

    plain = probe_output(model)
    with attached(model, note):
        watched = probe_output(model)
    if not found:
        raise InputError(f"{name}: no softmax attention reached the hook, so a rule would do nothing")
    # on a CPU the same kernels give the same bits; elsewhere a reduction may run in another order
    same = torch.equal(plain, watched) if plain.device.type == "cpu" else torch.allclose(plain, watched, 1e-2, 1e-2)
    if not same:
        raise InputError(f"{name} computes something else while it is hooked, so no rule can be attached")
    layers = [one.layer for one in found.values()]
    if len(set(layers)) < len(layers):
        twice = next(layer for layer in layers if layers.count(layer) > 1)
        raise InputError(f"{name} has several attentions in layer {twice}, which a rule cannot tell apart")
    return tuple(found.values())


def probe_output(model: Any) -> Tensor:
    """What the model puts out for a few tokens: hidden states or logits; it is in evaluation mode meanwhile.

    Raises:
        InputError: it does not run on tokens alone.
    """
    settings = {"use_cache": False} if hasattr(model.config, "use_cache") else {}
    with evaluating(model), torch.no_grad():
        try:
            n_words = model.get_input_embeddings().weight.shape[0]
            ids = torch.arange(N_PROBE_TOKENS, device=standing_on(model))[None] % n_words
            output: Tensor = model(input_ids=ids, **settings)[0]
        except InputError:
            raise
        except Exception as reason:  # each model raises its own types when an image or a target is missing
            raise InputError(
                f"{type(model).__name__} does not run on {N_PROBE_TOKENS} tokens alone ({str(reason).strip().splitlines()[0]}); "
                "attach the rule to its language model"
            ) from reason
    return output
