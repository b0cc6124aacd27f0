"""YaRN's frequencies on a model that was trained on shorter contexts, for as long as a context is open."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from attnlim.core.checks import InputError, extra, real_number
from attnlim.models.loading import trained_length

# layers that see no further than a window meet no new distance
LOCAL = "sliding_attention"


@contextmanager
def stretched(model: Any, factor: float, attention_factor: float = 1.0) -> Iterator[None]:
    """Turn the rotary frequencies of ``model`` into YaRN's while the context is open.

    Source: YaRN (arXiv 2309.00071), as transformers computes it.

    Args:
        model: a transformers decoder with rotary positions, or without positions: then nothing has to be stretched.
        factor: s, target over trained length, at least 1; 1 leaves the model as it is.
        attention_factor: on cos and sin, dimensionless, above 0; 1 leaves the logits to whoever scales them.

    Raises:
        InputError: learned positions, or frequencies that the config scales already.
    """
    factor = real_number("factor", factor, above=1.0, closed=True)
    attention_factor = real_number("attention_factor", attention_factor, above=0.0)
    rotaries = check_stretchable(model) if factor > 1 or attention_factor != 1 else []
    kept = [dict(rotary.__dict__) for rotary in rotaries]
    buffers = [dict(rotary._buffers) for rotary in rotaries]
    try:
        for rotary in rotaries:
            _stretch(model, rotary, factor, attention_factor)
        yield
    finally:
        for rotary, attributes, tensors in zip(rotaries, kept, buffers, strict=True):
            rotary.__dict__.update(attributes)
            rotary._buffers.clear()
            rotary._buffers.update(tensors)


def check_stretchable(model: Any) -> list[Any]:
    """The rotary modules of a model, none where it has no positions.

    Raises:
        InputError: learned positions, or frequencies that the config scales already.
    """
    name = type(model).__name__
    text = model.get_decoder()  # beside it a tower for images has learned positions of its own
    rotaries = [module for module in text.modules() if _is_rotary(module)]
    for rotary in rotaries:
        for kind, parameters in _by_kind(rotary.config.rope_parameters or {}).items():
            if kind != LOCAL and parameters and parameters.get("rope_type", "default") != "default":
                raise InputError(
                    f"{name}: its config stretches its frequencies already (rope type {parameters['rope_type']!r}); "
                    "rescale extends models with plain rotary positions, give the checkpoint from before that extension"
                )
    learned = [key for key, module in text.named_modules() if isinstance(module, nn.Embedding) and _positional(key)]
    if learned:
        raise InputError(
            f"{name} has learned positions ({learned[0]}), which end at its trained length; only models with rotary "
            "positions or with none can go beyond it"
        )
    return rotaries


def _is_rotary(module: Any) -> bool:
    return hasattr(module, "config") and any(key.endswith("inv_freq") for key in module._buffers)


def _positional(key: str) -> bool:
    return any(word in key.rpartition(".")[2] for word in ("position", "wpe", "embed_pos"))


def _by_kind(given: dict[str, Any]) -> dict[str | None, Any]:
    """Rotary parameters by layer type; one entry under None where all layers share them."""
    nested: dict[str | None, Any] = {key: value for key, value in given.items() if key.endswith("_attention")}
    return nested or {None: given}


def stretched_parameters(model: Any, factor: float, attention_factor: float = 1.0) -> dict[str, Any]:
    """The ``rope_parameters`` of a config with YaRN's frequencies, for ``from_pretrained(..., rope_parameters=...)``.

    Args:
        model: as for :func:`stretched`.
        factor: s, target over trained length, at least 1.
        attention_factor: on cos and sin, dimensionless.

    Returns:
        A dictionary like the config's own; by layer type where that is. Empty for a model without positions.
    """
    found = copy.deepcopy(getattr(model.config.get_text_config(), "rope_parameters", None) or {})
    for kind, parameters in _by_kind(found).items():
        if kind != LOCAL and parameters:
            parameters.update(
                rope_type="yarn",
                factor=factor,
                attention_factor=attention_factor,
                original_max_position_embeddings=trained_length(model),
            )
    return found


def _stretch(model: Any, rotary: Any, factor: float, attention_factor: float) -> None:
    extra("transformers", "models")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = copy.deepcopy(rotary.config)
    config.rope_parameters = stretched_parameters(model, factor, attention_factor)
    for kind, parameters in _by_kind(config.rope_parameters).items():
        if kind == LOCAL or not parameters:
            continue
        prefix = "" if kind is None else f"{kind}_"
        held = rotary._buffers[f"{prefix}inv_freq"]
        settings = {} if kind is None else {"layer_type": kind}
        frequencies, scaling = ROPE_INIT_FUNCTIONS["yarn"](config, held.device, **settings)
        rotary._buffers[f"{prefix}inv_freq"] = frequencies.to(held.dtype)
        setattr(rotary, f"{prefix}attention_scaling", scaling)
