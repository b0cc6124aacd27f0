"""Hidden states of a real model as tokens: the residual stream before one layer, from a forward that stops there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnlim.core.checks import InputError, whole_number
from attnlim.models.loading import LoadedModel, load, trained_length
from attnlim.models.placement import standing_on
from attnlim.models.text import Text, cut_windows, read_text


@dataclass(frozen=True)
class LayerSource:
    """Where tokens come from: a model, as :func:`attnlim.models.load` names it, and a layer of it."""

    model: str
    layer: int


class _ReachedError(Exception):
    """Ends a forward where nothing after it is wanted."""


def parse_source(source: str) -> LayerSource:
    """The model and the layer in ``MODEL:LAYER``; the model's name may hold colons itself.

    Raises:
        InputError: no model, or a layer that is not a whole number of at least 0.

    >>> parse_source("smollm2:12")
    LayerSource(model='smollm2', layer=12)
    """
    model, _, layer = source.rpartition(":")
    if not model or not (layer.isascii() and layer.isdigit()):
        raise InputError(
            f"hidden states are named as MODEL:LAYER with layers counted from 0, such as smollm2:12, got {source!r}"
        )
    return LayerSource(model, int(layer))


def hidden_states(
    model: LoadedModel | str,
    text: Text | str | None,
    n_tokens: int,
    layer: int,
    *,
    window: int = 0,
    n_windows: int = 1,
) -> Tensor:
    """The residual stream that enters a layer, as a token set.

    It is taken before the layer's own normalisation: the layer of "Critical attention scaling" forms y = x/|x|
    itself. Layer L, one beyond the last, is what the last layer puts out, before the final normalisation.

    Args:
        model: a loaded model, or what :func:`attnlim.models.load` takes.
        text: a text, a file of one, or None for the language reference inside every CPython.
        n_tokens: tokens, special ones counted in, from 2 to the length that the model was trained for.
        layer: from 0, the embeddings, to L, the number of layers.
        window: which of ``n_windows`` places of the text, from 0.
        n_windows: places spread evenly over the text, without overlap.

    Returns:
        (n_tokens, width) float32, on the device where the model has it, without a gradient.

    Raises:
        InputError: a model that cannot be loaded or whose layers cannot be told apart, no such layer or window, more
            tokens than the model was trained for, a text that is too short, hidden states with NaN or infinity.

    Cost: the forward up to ``layer``; one layer's hidden states, no language-model head.
    """
    n_tokens = whole_number("n_tokens", n_tokens, 2)
    n_windows = whole_number("n_windows", n_windows, 1)
    window = whole_number("window", window, 0)
    layer = whole_number("layer", layer, 0)
    if window >= n_windows:
        raise InputError(f"window must be below n_windows = {n_windows}, got {window}; windows are counted from 0")
    loaded = load(model) if isinstance(model, str) else model
    blocks = _blocks(loaded)
    if layer > len(blocks):
        raise InputError(
            f"layer must be at most {len(blocks)} for {loaded.name}, got {layer}; "
            f"0 is its embeddings, {len(blocks)} the output of its last layer"
        )
    trained = trained_length(loaded.model)
    if trained is not None and n_tokens > trained:
        raise InputError(
            f"n_tokens = {n_tokens} is beyond the {trained} positions that {loaded.name} was trained for; "
            f"use {trained} or fewer"
        )
    content = text if isinstance(text, Text) else read_text(text)
    ids = cut_windows(loaded.tokenizer, content, n_windows, n_tokens).ids(window, n_tokens)
    found = _stream(loaded.model.base_model, blocks, layer, ids)[0].float()
    if not bool(torch.isfinite(found).all()):
        raise InputError(f"{loaded.name}: the hidden states at layer {layer} hold NaN or infinity; load it as float32")
    return found


def _blocks(loaded: LoadedModel) -> nn.ModuleList:
    """The stack of layers: the outermost list with as many modules as the config says there are layers."""
    backbone = loaded.model.base_model
    n_layers = getattr(backbone.config.get_text_config(), "num_hidden_layers", None)
    for module in backbone.modules():
        if isinstance(module, nn.ModuleList) and len(module) == n_layers:
            return module
    raise InputError(
        f"{loaded.name}: no stack of {n_layers} layers was found in {type(backbone).__name__}; "
        "hidden states can be taken only from models that keep their layers in one list"
    )


def _stream(backbone: Any, blocks: nn.ModuleList, layer: int, ids: Tensor) -> Tensor:
    """(1, n_tokens, width): what enters block ``layer``, or leaves the last."""
    kept: list[Tensor] = []

    def entering(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        kept.append(kwargs["hidden_states"] if "hidden_states" in kwargs else args[0])
        raise _ReachedError

    def leaving(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        kept.append(output[0] if isinstance(output, tuple) else output)
        raise _ReachedError

    if layer < len(blocks):
        handle = blocks[layer].register_forward_pre_hook(entering, with_kwargs=True)
    else:
        handle = blocks[-1].register_forward_hook(leaving)
    settings = {"use_cache": False} if hasattr(backbone.config, "use_cache") else {}
    try:
        # not inference_mode: these tokens may be differentiated through later
        with torch.no_grad():
            backbone(input_ids=ids.to(standing_on(backbone)), **settings)
    except _ReachedError:
        pass
    finally:
        handle.remove()
    return kept[0]
