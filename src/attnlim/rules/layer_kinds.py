"""The layers of a model by what matters to a scaling rule: rotary positions or none, a window or the whole context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnlim.core.checks import InputError
from attnlim.rules.config_files import Facts
from attnlim.rules.rule import Kind

WINDOWED = ("sliding_attention", "chunked_attention", "hybrid_sliding", "window_attention")
# layers that keep a state and compute no logits
STATEFUL = ("linear_attention", "conv", "mamba", "moe")


@dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes:
        label: its entry in ``layer_types``, which is also the key of its rope parameters.
        rotary: it has rotary positions.
        window: the most tokens that its rows see, None for the whole context.
        softmax: it has softmax attention.
    """

    label: str
    rotary: bool
    window: int | None
    softmax: bool = True

    def keys_at(self, position: int) -> int:
        """How many keys a causal query sees, itself counted in."""
        if self.window is None:
            return position + 1
        if self.label == "chunked_attention":  # chunks follow each other, and a query sees its own
            return position % self.window + 1
        return min(position + 1, self.window)


@dataclass(frozen=True)
class LayerKind:
    """Layers that are alike.

    Attributes:
        words: what they are, such as "layers without rotary positions".
        layers: their numbers from 0; empty where the config does not say how many layers there are.
        rotary: they have rotary positions.
        window: the most tokens that their rows see, None for the whole context.
    """

    words: str
    layers: tuple[int, ...]
    rotary: bool
    window: int | None


def layers_of(facts: Facts) -> tuple[Layer, ...]:
    """Every layer of a model; one that stands for all where their number is not known.

    Raises:
        InputError: ``layer_types`` or ``no_rope_layers`` are of another length than the model.
    """
    n_layers = _count(facts)
    labels = _labels(facts, n_layers or 1)
    window = _window(facts)
    flags = _flags(facts, n_layers or 1)
    rope = facts.config.get("rope_parameters") or facts.family.rope
    layers = []
    for number, label in enumerate(labels):
        here = window if label in WINDOWED else None
        layers.append(
            Layer(label, _rotary(facts, number, label, here, window, flags, rope), here, label not in STATEFUL)
        )
    return tuple(layers)


def kinds_of(layers: tuple[Layer, ...], known: bool) -> tuple[LayerKind, ...]:
    """The layers with softmax attention, by kind, in the order in which they first come.

    Args:
        layers: of :func:`layers_of`.
        known: how many there are is known.
    """
    groups: dict[tuple[bool, int | None], list[int]] = {}
    for number, layer in enumerate(layers):
        if layer.softmax:
            groups.setdefault((layer.rotary, layer.window), []).append(number)
    told = []
    mixed_rotary = len({rotary for rotary, _ in groups}) > 1
    mixed_window = len({window for _, window in groups}) > 1
    for (rotary, window), numbers in groups.items():
        parts = []
        if mixed_rotary:
            parts.append("with rotary positions" if rotary else "without rotary positions")
        if mixed_window and (not mixed_rotary or len(groups) > 2):
            parts.append("with the whole context" if window is None else f"with a window of {window}")
        words = f"layers {', '.join(parts)}" if parts else "all layers"
        told.append(LayerKind(words, tuple(numbers) if known else (), rotary, window))
    return tuple(told)


def of_kind(kind: Kind, layers: tuple[Layer, ...]) -> tuple[int, ...]:
    """The numbers of the layers of a rule's kind."""
    return tuple(number for number, layer in enumerate(layers) if layer.softmax and _is(kind, layer))


def _is(kind: Kind, layer: Layer) -> bool:
    if kind == "nope":
        return not layer.rotary
    return kind == "all" or (layer.window is None) == (kind == "global")


def _count(facts: Facts) -> int | None:
    for key, times in (
        ("num_hidden_layers", 1),
        ("n_layer", 1),
        ("num_layers", 2 if "longcat" in facts.model_type else 1),
    ):
        if (count := facts.config.get(key)) is not None:
            return times * (facts.whole(key) or count)
    return facts.whole("num_hidden_layers")


def _labels(facts: Facts, n_layers: int) -> list[str]:
    given = facts.config.get("layer_types")
    if given is not None:
        if not isinstance(given, list) or len(given) != n_layers:
            told = len(given) if isinstance(given, list) else repr(given)
            raise InputError(
                f"layer_types must have one entry for each of {n_layers} layers, got {told}; mend the config"
            )
        return [str(label) for label in given]
    local, whole, state = "sliding_attention", "full_attention", "linear_attention"
    every = facts.whole("full_attention_interval") or facts.whole("layer_group_size")
    if every:  # hybrids: of so many layers the last has softmax attention
        return [state if (number + 1) % every else whole for number in range(n_layers)]
    family = facts.family
    if family.windows in ("last", "first"):
        given_every = facts.whole(family.every_key, 0) if family.every_key else None
        every = family.every if given_every is None else given_every
        rest = every - 1 if family.windows == "last" else 0
        labels = [local if every and number % every != rest else whole for number in range(n_layers)]
        if facts.model_type == "beam":
            labels[-1] = whole
        return labels
    if family.windows == "chunked":
        return [whole if not flag else "chunked_attention" for flag in _flags(facts, n_layers)]
    if family.windows == "smollm3":
        windowed = facts.get("use_sliding_window") and facts.get("sliding_window")
        return [local if windowed and not flag else whole for flag in _flags(facts, n_layers)]
    if family.windows == "qwen":
        first = facts.whole("max_window_layers", 0) if facts.get("use_sliding_window") else n_layers
        return [local if number >= (n_layers if first is None else first) else whole for number in range(n_layers)]
    if family.windows == "all" and _window(facts):
        return [local] * n_layers
    return [whole] * n_layers


def _window(facts: Facts) -> int | None:
    if facts.config.get("use_sliding_window") is False:
        return None
    if facts.family.windows == "chunked":
        return facts.whole("attention_chunk_size")
    # a key that is null says that there is no window: the family's default is for one that is absent
    for key in ("sliding_window", "sliding_window_size", "local_attention"):
        if key in facts.config or key in facts.family.defaults:
            given = facts.config[key] if key in facts.config else facts.family.defaults[key]
            if isinstance(given, int) and given > 0:
                return facts.whole(key)
            return None
    return None


def _flags(facts: Facts, n_layers: int) -> list[bool]:
    """For each layer whether it has rotary positions, by ``no_rope_layers``: 1 means that it has."""
    if facts.family.without_rotary != "flags":
        return [True] * n_layers
    given = facts.config.get("no_rope_layers")
    if given:
        if not isinstance(given, list) or len(given) < n_layers:
            raise InputError(
                f"no_rope_layers must have one entry for each of {n_layers} layers, got {given!r}; mend the config"
            )
        return [bool(flag) for flag in given[:n_layers]]
    every = facts.whole("no_rope_layer_interval") or 4
    return [(number + 1) % every != 0 for number in range(n_layers)]


def _rotary(
    facts: Facts,
    number: int,
    label: str,
    here: int | None,
    window: int | None,
    flags: list[bool],
    rope: Mapping[str, Any],
) -> bool:
    how = facts.family.without_rotary
    if facts.config.get("alibi") or facts.config.get("position_embedding_type") in ("nope", "absolute", "alibi"):
        return False
    if how == "all" or label in STATEFUL:
        return False
    if how == "flags":
        return flags[number]
    if how == "global":
        return here is not None
    if how == "global if windowed":
        return window is None or here is not None
    if how == "null":
        return rope.get(label, {}) is not None
    return True
