"""A model's scaling rule as its configuration gives it and transformers applies it, with what is to be known of it.

Neither torch nor transformers is imported: the rules of transformers 5 are written down here and in the modules that this one
uses, and tests compare them with transformers' own numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from attnlim.core.checks import InputError
from attnlim.rules.config_files import Facts, facts_of, number
from attnlim.rules.findings import Finding, by_severity
from attnlim.rules.layer_kinds import Layer, LayerKind, kinds_of, layers_of, of_kind
from attnlim.rules.query_scaling import query_rule
from attnlim.rules.rope_parameters import Rope, cos_sin_factors, ropes_of, softmax_factors
from attnlim.rules.rule import Parts, Rule


@dataclass(frozen=True)
class Reading(Rule):
    """The rule of a configuration, and the model that it is for.

    Attributes:
        title: of the model, for a headline.
        model_type: its kind, empty where the config does not say it.
        applied_by: whose code is read: transformers, or where it has no such model another's.
        n_layers: None where neither the config nor its family says it.
        n_heads: query heads, the same.
        head_dim: dimensions of a head that a logit is made of, the same.
        rotary_dim: those of them that have rotary positions, the same.
        kinds: the layers with softmax attention, by kind.
        ropes: the rope parameters in force.
        trained_length: tokens that the model was first trained with, None where it is not said.
        declared_length: tokens that the config declares, the same.
        findings: what is to be known, errors first.
    """

    title: str = ""
    model_type: str = ""
    applied_by: str = "transformers"
    n_layers: int | None = None
    n_heads: int | None = None
    head_dim: int | None = None
    rotary_dim: int | None = None
    kinds: tuple[LayerKind, ...] = ()
    ropes: tuple[Rope, ...] = ()
    trained_length: int | None = None
    declared_length: int | None = None
    findings: tuple[Finding, ...] = ()

    def parts(self, position: Any, keys: Any = None, layer: int | None = None, head: int | None = None) -> Parts:
        """The three factors of a query at a position, as :meth:`attnlim.rules.Rule.parts` gives them.

        Args:
            position: counted from 0, one or many.
            keys: how many keys it may attend to, itself counted in; None takes position + 1.
            layer: from 0; None is a layer of the kind on which most factors act.
            head: query head from 0; None gives all heads as the first axis, where heads differ.

        Raises:
            InputError: a position below 0, keys below 1, no such layer or head.

        >>> read({"model_type": "llama4"}).parts(131072).query == read({"model_type": "llama4"}).parts(131072, layer=3).query
        True
        """
        return super().parts(position, keys, self._layer(layer), head)

    def gap(self, n_tokens: int, layer: int | None = None, head: int | None = None) -> float:
        """The logit gap that the rule takes for granted, as :meth:`attnlim.rules.Rule.gap`."""
        return super().gap(n_tokens, self._layer(layer), head)

    @property
    def main_kind(self) -> LayerKind:
        """The kind of layers on which most factors act; of several the one with most layers."""
        if not self.kinds:
            return LayerKind("all layers", (), True, None)
        return max(self.kinds, key=lambda kind: (self._acting(kind), len(kind.layers)))

    def layer_of(self, kind: LayerKind) -> int | None:
        """A layer of a kind, None where layers are not numbered."""
        return kind.layers[0] if kind.layers else None

    @property
    def kinds_that_differ(self) -> tuple[LayerKind, ...]:
        """One kind of layers for each different set of factors."""
        seen: dict[tuple[int, ...], LayerKind] = {}
        for kind in self.kinds:
            number = self.layer_of(kind)
            acting = tuple(index for index, one in enumerate(self.factors) if one.acts_on(number))
            # without rotary positions there are no rotary dimensions to tell apart
            key = (*acting, -1) if not kind.rotary and any(one.place == "cos_sin" for one in self.factors) else acting
            if key in seen:
                first = seen[key]
                words = first.words if first.words == kind.words else _joined(first, kind, self.kinds)
                seen[key] = LayerKind(words, tuple(sorted(first.layers + kind.layers)), first.rotary, first.window)
            else:
                seen[key] = kind
        return tuple(seen.values())

    def _acting(self, kind: LayerKind) -> int:
        number = self.layer_of(kind)
        return sum(one.acts_on(number) for one in self.factors)

    def _layer(self, layer: int | None) -> int | None:
        if layer is None:
            return self.layer_of(self.main_kind)
        if self.n_layers is not None and not 0 <= layer < self.n_layers:
            raise InputError(f"layer must be one of 0 to {self.n_layers - 1}, got {layer!r}")
        return layer


def read(config: Mapping[str, Any] | str | PathLike[str]) -> Reading:
    """The scaling rule of a configuration, as transformers applies it.

    Args:
        config: what a config.json holds, or a path to one, to a folder that holds one, or to a .gguf file. Old keys
            (``rope_scaling``, ``type``) and new ones (``rope_parameters``, ``rope_type``) are read.

    Returns:
        A rule with its findings. A model that transformers does not have is read as the code that it came with, or that
        serves it, applies its config.

    Raises:
        InputError: nothing to read, an unknown rope type, keys that contradict each other or hold no number.

    >>> qwen = read({"model_type": "qwen2", "max_position_embeddings": 32768, "rope_scaling": {"type": "yarn", "factor": 4.0}})
    >>> round(qwen.parts(0).cos_sin, 5), round(qwen.parts(0).logit.rotary, 5)
    (1.13863, 1.29648)
    """
    facts = facts_of(config)
    layers = layers_of(facts)
    known = facts.whole("num_hidden_layers") is not None or len(layers) > 1
    ropes = ropes_of(facts, layers)
    query = query_rule(facts, ropes)
    all_alike = all(layer.softmax for layer in layers)
    resolved = query.on(lambda kind: None if kind == "all" and all_alike else of_kind(kind, layers))
    cos_sin = cos_sin_factors(facts, ropes, layers)
    softmax = softmax_factors(facts, ropes)
    factors = tuple(one for one in (*cos_sin, *softmax, *resolved.factors) if one.layers != ())
    if not known:  # the one layer stands for all
        factors = tuple(replace(one, layers=None) for one in factors)
    head_dim, rotary_dim = _dimensions(facts, ropes, layers)
    plain = Reading(
        name=facts.model_type or "config",
        factors=factors,
        title=_title(facts),
        model_type=facts.model_type,
        applied_by=facts.family.applied_by,
        n_layers=len(layers) if known else None,
        n_heads=facts.whole("num_attention_heads"),
        head_dim=head_dim,
        rotary_dim=rotary_dim,
        kinds=kinds_of(layers, known),
        ropes=ropes,
        trained_length=_trained(facts, ropes),
        declared_length=facts.whole("max_position_embeddings"),
    )
    return _with_findings(plain, facts, query)


def _with_findings(plain: Reading, facts: Facts, query: Rule) -> Reading:
    from attnlim.rules.effect_findings import effects
    from attnlim.rules.family_findings import family_findings
    from attnlim.rules.query_findings import query_findings
    from attnlim.rules.rope_findings import rope_findings

    found = [
        *family_findings(facts, plain),
        *rope_findings(facts, plain),
        *query_findings(facts, plain, query),
        *effects(facts, plain),
    ]
    return replace(plain, findings=by_severity(found))


def _title(facts: Facts) -> str:
    return facts.name or facts.model_type or "config"


def _joined(first: LayerKind, second: LayerKind, kinds: tuple[LayerKind, ...]) -> str:
    """What two kinds have in common, in words."""
    if len(first.layers) + len(second.layers) == sum(len(kind.layers) for kind in kinds):
        return "all layers"
    if first.rotary == second.rotary and len({kind.rotary for kind in kinds}) > 1:
        return f"layers {'with' if first.rotary else 'without'} rotary positions"
    return f"{first.words} and {second.words.removeprefix('layers ')}"


def _dimensions(facts: Facts, ropes: tuple[Rope, ...], layers: tuple[Layer, ...]) -> tuple[int | None, int | None]:
    """The dimensions of a head, and those of them that turn."""
    turned, plain = facts.whole("qk_rope_head_dim", 0), facts.whole("qk_nope_head_dim", 0)
    if turned is not None and plain is not None and turned + plain:
        return turned + plain, turned
    heads, hidden = facts.whole("num_attention_heads"), facts.whole("hidden_size")
    head = facts.whole("head_dim")
    if head is None and heads and hidden:
        head = hidden // heads
    if head is None or not any(layer.rotary for layer in layers):
        return head, None if head is None else 0
    # proportional: cos and sin are those of the whole head, with still dimensions among them
    whole_head = bool(ropes) and ropes[0].kind == "proportional"
    share = ropes[0].given.get("partial_rotary_factor") if ropes and not whole_head else None
    share = _share(facts, head) if share is None and not whole_head else share
    return head, head if share is None else int(head * number("partial_rotary_factor", share))


def _share(facts: Facts, head: int) -> Any:
    """The part of a head that turns where its rope parameters do not say it; the family's default comes last."""
    for key in ("partial_rotary_factor", "rotary_pct"):
        if facts.config.get(key) is not None:
            return number(key, facts.config[key])
    if facts.model_type == "minimax_m2" and (turned := facts.whole("rotary_dim")) is not None:
        return turned / head
    return facts.get("partial_rotary_factor")


def _trained(facts: Facts, ropes: tuple[Rope, ...]) -> int | None:
    for rope in ropes:
        if rope.original is not None and rope.kind != "default":
            return rope.original
    if facts.model_type == "qwen":
        return facts.whole("seq_length")
    if facts.model_type == "grok-2" and facts.config.get("original_max_position_embeddings"):
        return facts.whole("original_max_position_embeddings")
    return facts.whole("max_position_embeddings")
