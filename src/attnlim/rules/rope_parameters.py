"""The rope parameters that transformers ends up with, from old and new keys, for each kind of layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from attnlim.core.checks import InputError
from attnlim.rules import catalogue
from attnlim.rules.config_files import Facts, number
from attnlim.rules.layer_kinds import Layer
from attnlim.rules.rule import Factor, Rule

ROPE_TYPES = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional", "axial")
# the types that keep the length which the model was trained with
WITH_ORIGINAL = ("llama3", "yarn", "longrope")
# the types whose cos and sin have a factor
WITH_FACTOR = ("yarn", "longrope")


@dataclass(frozen=True)
class Rope:
    """The rope parameters of one kind of layer.

    Attributes:
        label: the entry of ``layer_types`` that they are for, empty for all layers with rotary positions.
        given: the keys and values in force, after defaults.
        kind: the rope type.
        factor: s; NaN for a type without one.
        original: n_0, None for a type that has none.
        factor_from_lengths: ``factor`` is absent or null, so s is the ratio of two lengths.
        original_from: where n_0 is from: "rope", "outside" (the config's own key) or "max_position_embeddings".
    """

    label: str
    given: Mapping[str, Any]
    kind: str
    factor: float
    original: int | None
    factor_from_lengths: bool = False
    original_from: str = "rope"

    def real(self, key: str) -> float | None:
        """A number of at least 0, None where it is absent or null."""
        value = self.given.get(key)
        return None if value is None else number(key, value)

    def cos_sin(self) -> Rule:
        """The rule on cos and sin that transformers' rope functions compute."""
        override = self.real("attention_factor")
        if self.kind == "yarn":
            return catalogue.yarn(max(self.factor, 1.0), self.real("mscale"), self.real("mscale_all_dim"), override)
        if self.kind == "longrope" and self.original is not None:
            return catalogue.longrope(self.factor, max(self.original, 2), override)
        return catalogue.none()

    def value(self) -> float:
        """The factor on cos and sin, dimensionless; that of a long sequence where it depends on the length."""
        at = float(self.original or 0)
        return float(self.cos_sin().parts(at).cos_sin)


def ropes_of(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Rope, ...]:
    """The rope parameters in force, one entry for each kind of layer that has its own.

    Raises:
        InputError: an unknown rope type, ``type`` and ``rope_type`` that disagree, a number that is none.
    """
    if facts.family.without_rotary == "all" or facts.model_type in ("qwen", "grok-2"):
        return ()
    labels = {layer.label for layer in layers}
    tables = chosen_tables(facts, labels)
    return tuple(_rope(facts, label, table) for label, table in tables.items() if table is not None)


def chosen_tables(facts: Facts, labels: set[str]) -> dict[str, dict[str, Any] | None]:
    """The table of rope parameters for each label; one with an empty label where all layers share one."""
    old, new = (_table(facts, key) for key in ("rope_scaling", "rope_parameters"))
    family = facts.family
    if family.layered in ("full", "both"):
        base: dict[str, Any] = {key: dict(value) for key, value in (new or {}).items() if isinstance(value, Mapping)}
        for label in ("full_attention", "sliding_attention"):
            base.setdefault(label, {"rope_type": "default"})
        if old:
            for label in ("full_attention", "sliding_attention")[: 1 if family.layered == "full" else 2]:
                base[label] |= old
        return {label: table for label, table in base.items() if label in labels}
    table = dict(old or new or family.rope)
    nested = [
        label for label in table if label in labels and (table[label] is None or isinstance(table[label], Mapping))
    ]
    if nested:
        return {label: None if table[label] is None else dict(table[label]) for label in nested}
    return {"": table}


def cos_sin_factors(facts: Facts, ropes: tuple[Rope, ...], layers: tuple[Layer, ...]) -> tuple[Factor, ...]:
    """The factors on cos and sin, each with the layers that it acts on."""
    found: list[Factor] = []
    for rope in ropes:
        rule = rope.cos_sin()
        if facts.family.short_long and rope.kind != "default":
            short, long = rope.real("short_mscale"), rope.real("long_mscale")
            if short is not None and long is not None and rope.original is not None:
                rule = catalogue.mscale_by_length(short, long, rope.original)
        where = tuple(index for index, layer in enumerate(layers) if layer.rotary and rope.label in ("", layer.label))
        found += [replace(factor, layers=where) for factor in rule.factors]
    return tuple(found)


def softmax_factors(facts: Facts, ropes: tuple[Rope, ...]) -> tuple[Factor, ...]:
    """The factor on the softmax scale: only multi-head latent attention has one."""
    if not facts.family.latent or not ropes or ropes[0].kind == "default":
        return ()
    if math.isnan(ropes[0].factor):
        return ()
    return catalogue.latent_softmax(max(ropes[0].factor, 1.0), ropes[0].real("mscale_all_dim")).factors


def _table(facts: Facts, key: str) -> dict[str, Any] | None:
    table = facts.config.get(key)
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise InputError(f"{key} must be a JSON object, got {table!r}; mend the config")
    return dict(table)


def _rope(facts: Facts, label: str, table: dict[str, Any]) -> Rope:
    kind = _kind(facts, table)
    declared = facts.whole("max_position_embeddings")
    original, came_from = None, "rope"
    if kind in WITH_ORIGINAL or facts.family.query == "ministral":
        outside = None if label else facts.get("original_max_position_embeddings")
        if outside is not None:
            original, came_from = facts.whole("original_max_position_embeddings"), "outside"
        elif table.get("original_max_position_embeddings") is not None:
            inner = table["original_max_position_embeddings"]
            original = int(number("original_max_position_embeddings", inner, 1.0))
        elif kind in WITH_ORIGINAL:
            original, came_from = declared, "max_position_embeddings"
    factor, from_lengths = float("nan"), False
    if kind in ("yarn", "linear", "dynamic", "llama3", "longrope", "proportional"):
        if table.get("factor") is not None:
            factor = number("factor", table["factor"])
        elif kind in ("yarn", "longrope"):
            from_lengths = True
            if declared is None or original is None:
                raise InputError(
                    f"rope type {kind} without a factor needs max_position_embeddings and "
                    "original_max_position_embeddings; add one or the other to the config"
                )
            factor = declared / original
    return Rope(label, table, kind, factor, original, from_lengths, came_from)


def _kind(facts: Facts, table: Mapping[str, Any]) -> str:
    new, old = table.get("rope_type"), table.get("type")
    # a layered family writes "default" into rope_type itself, before it looks at an old table
    written = facts.family.layered in ("full", "both") and new == "default"
    if new is not None and old is not None and _modern(facts, new) != _modern(facts, old) and not written:
        raise InputError(f"rope parameters say both type {old!r} and rope_type {new!r}; keep one of the two")
    kind = _modern(facts, new if new is not None else old if old is not None else "default")
    if kind not in ROPE_TYPES:
        raise InputError(
            f"the config has the rope type {kind!r}, known are {', '.join(ROPE_TYPES)}; mend rope_parameters"
        )
    return kind


def _modern(facts: Facts, kind: Any) -> str:
    if kind == "mrope":  # Qwen2-VL's name for several axes of position
        return "default"
    return "longrope" if kind in facts.family.longrope_names else str(kind)
