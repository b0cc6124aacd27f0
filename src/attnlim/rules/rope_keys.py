"""Findings on the keys of the rope parameters: unknown, misspelt, in the wrong place, contradicting, or refused."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attnlim.rules.config_files import Facts, number
from attnlim.rules.findings import Finding, size
from attnlim.rules.layer_kinds import layers_of
from attnlim.rules.rope_parameters import WITH_FACTOR, Rope, cos_sin_factors, ropes_of, softmax_factors
from attnlim.rules.rule import Rule

if TYPE_CHECKING:
    from attnlim.rules.reading import Reading

_ALWAYS = {
    "rope_type",
    "type",
    "rope_theta",
    "partial_rotary_factor",
    "mrope_section",
    "mrope_interleaved",
    "interleaved",
}
_BY_TYPE = {
    "linear": {"factor"},
    "dynamic": {"factor"},
    "yarn": {
        "factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
        "truncate",
    },
    "longrope": {"factor", "original_max_position_embeddings", "attention_factor", "short_factor", "long_factor"},
    "llama3": {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"},
    "proportional": {"factor"},
}  # fmt: skip
_ANY_TYPE = set().union(*_BY_TYPE.values())
# keys of other engines and older code: what they do to the factor on cos and sin
_MULTIPLIERS = ("attn_factor", "yarn_attn_factor")
_REPLACEMENTS = ("attention_scaling", "attn_scaling", "attention_scale", "attn_factors", "short_mscale", "long_mscale")
_HARMLESS = {"finetuned", "extrapolation_factor", "dynamic", "alpha", "max_position_embeddings"}
# keys that the rule depends on
_MATTER = (
    "rope_type", "factor", "original_max_position_embeddings", "attention_factor", "mscale", "mscale_all_dim",
    "llama_4_scaling_beta",
)  # fmt: skip


def key_findings(facts: Facts, reading: Reading) -> list[Finding]:
    """What the keys have to say, whatever their values."""
    found = [*_both_tables(facts), *_layered(facts), *_outside(facts), *_without_rotary(facts)]
    for rope in reading.ropes:
        found += [*_unknown(facts, rope), *_refused(facts, rope)]
    return found


def constant_logit(facts: Facts, label: str = "") -> float:
    """The factor on rotary logits that the rope parameters make, dimensionless.

    Args:
        facts: of the configuration.
        label: the layer type that is meant; empty for the layers on which it is largest.
    """
    layers = layers_of(facts)
    ropes = ropes_of(facts, layers)
    rule = Rule("", (*cos_sin_factors(facts, ropes, layers), *softmax_factors(facts, ropes)))
    at = max((rope.original or 0 for rope in ropes), default=0)
    chosen = [n for n, layer in enumerate(layers) if layer.softmax and label in ("", layer.label)]
    return max((float(rule.parts(at, layer=n).logit.rotary) for n in chosen), default=1.0)


def _both_tables(facts: Facts) -> list[Finding]:
    old, new = facts.config.get("rope_scaling"), facts.config.get("rope_parameters")
    if not isinstance(old, Mapping) or not isinstance(new, Mapping) or facts.family.layered:
        return []
    one, two = (_plain(table) for table in (old, new))
    unlike = [key for key in _MATTER if one.get(key) != two.get(key)]
    if not unlike:
        return []
    told = ", ".join(f"{key} {one.get(key)!r} and {two.get(key)!r}" for key in unlike)
    applied = constant_logit(facts)
    other = constant_logit(replace(facts, config={k: v for k, v in facts.config.items() if k != "rope_scaling"}))
    return [
        Finding(
            "contradiction",
            "error",
            f"rope_scaling and rope_parameters disagree ({told}): transformers takes rope_scaling; an engine that takes the "
            f"other has logits × {other:.3f} instead of {applied:.3f}.",
            applied,
            other,
        )
    ]


def _plain(table: Mapping[str, Any]) -> dict[str, Any]:
    return {**table, "rope_type": table.get("rope_type", table.get("type", "default"))}


def _layered(facts: Facts) -> list[Finding]:
    """What a family with rope parameters by layer type loses of flat or old ones."""
    if facts.family.layered not in ("full", "both"):
        return []
    old, new = facts.config.get("rope_scaling"), facts.config.get("rope_parameters")
    found = []
    plain = replace(facts, family=replace(facts.family, layered=""))
    applied = constant_logit(facts)
    if isinstance(old, Mapping) and "rope_type" not in old and old.get("type") not in (None, "default"):
        meant = constant_logit(plain)
        found.append(
            Finding(
                "type-lost",
                "error",
                f"transformers does not see the old key type {old['type']!r} in rope_scaling of a {facts.model_type}: it needs "
                f"rope_type there. The type stays default and positions are not stretched; {size(applied, meant)}.",
                applied,
                meant,
            )
        )
    flat = isinstance(new, Mapping) and new.get("rope_type", new.get("type", "default")) != "default"
    if flat:
        without_old = replace(plain, config={k: v for k, v in facts.config.items() if k != "rope_scaling"})
        meant = constant_logit(without_old)
        found.append(
            Finding(
                "flat-ignored",
                "error",
                f"rope_parameters of a {facts.model_type} are kept by layer type (full_attention, sliding_attention); the flat "
                f"ones given here are ignored: {size(applied, meant)}, and positions are not stretched.",
                applied,
                meant,
            )
        )
    return found


def _outside(facts: Facts) -> list[Finding]:
    """Keys of the rope parameters that stand beside them, where nobody looks."""
    found = []
    for key in ("attention_factor", "mscale", "mscale_all_dim", "attn_factor"):
        if facts.config.get(key) is None or facts.model_type == "grok-2":
            continue
        value = facts.config[key]
        found.append(
            Finding(
                "misplaced",
                "warning",
                f"{key} {value!r} stands outside the rope parameters, where transformers does not read it; move it into "
                "rope_parameters if it is meant.",
            )
        )
    return found


def _without_rotary(facts: Facts) -> list[Finding]:
    table = facts.config.get("rope_scaling") or facts.config.get("rope_parameters")
    if facts.family.without_rotary != "all" or not isinstance(table, Mapping):
        return []
    kind = _plain(table)["rope_type"]
    if kind == "default":
        return []
    meant = constant_logit(replace(facts, family=replace(facts.family, without_rotary="")))
    return [
        Finding(
            "not-honoured",
            "error",
            f"rope type {kind!r} is declared, but a {facts.model_type} has no rotary positions that transformers would stretch: "
            f"{size(1.0, meant)}.",
            1.0,
            meant,
        )
    ]


def _unknown(facts: Facts, rope: Rope) -> list[Finding]:
    known = _ALWAYS | _BY_TYPE.get(rope.kind, set()) | set(facts.family.rope) | {""}
    if facts.family.query == "ministral":
        known |= {"llama_4_scaling_beta"}
    if facts.family.short_long:
        known |= {"short_mscale", "long_mscale"}
    if rope.kind != "yarn" and facts.family.latent:
        known |= {"mscale_all_dim"}  # the softmax scale reads it under every rope type
    found = []
    for key in rope.given:
        quiet = key in known or key in _HARMLESS or key in ("llama_4_scaling_beta", "attention_factor")
        if not quiet and not isinstance(rope.given[key], Mapping):
            found.append(_about(facts, rope, key, known))
    return found


def _about(facts: Facts, rope: Rope, key: str, known: set[str]) -> Finding:
    value = rope.given[key]
    applied = constant_logit(facts, rope.label)
    guess, meant = "", math.nan
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        if key in _MULTIPLIERS:
            guess, meant = (
                "llama.cpp and YaRN's own code multiply the factor on cos and sin by it",
                applied * float(value) ** 2,
            )
        elif key in _REPLACEMENTS and rope.kind in WITH_FACTOR:
            guess, meant = "if it is meant as attention_factor", applied / rope.value() ** 2 * float(value) ** 2
        elif close := difflib.get_close_matches(key, sorted(known - _ALWAYS), 1, 0.75):
            guess = f"if it is meant as {close[0]}"
            meant = _as_if(facts, rope, key, close[0])
        elif key in _ANY_TYPE:
            guess = f"rope type {rope.kind} has no use for it"
    if math.isnan(meant):
        because = f": {guess}" if guess else ""
        return Finding(
            "unknown-key", "note", f"transformers does not read {key} {value!r} of the rope parameters{because}."
        )
    if math.isclose(meant, applied, rel_tol=1e-9):
        return Finding(
            "unknown-key",
            "note",
            f"transformers does not read {key} {value!r} of the rope parameters; {guess} it changes nothing.",
            applied,
            meant,
        )
    return Finding(
        "unknown-key",
        "error",
        f"transformers does not read {key} {value!r} of the rope parameters; {guess}: {size(applied, meant)}.",
        applied,
        meant,
    )


def _as_if(facts: Facts, rope: Rope, key: str, name: str) -> float:
    """The factor on logits if a key were spelt otherwise."""
    number(key, rope.given[key], -math.inf)
    renamed: dict[str, Any] = {(name if old == key else old): value for old, value in rope.given.items()}
    rest = {k: v for k, v in facts.config.items() if k not in ("rope_scaling", "rope_parameters")}
    if rope.label:
        table = facts.config.get("rope_parameters")
        renamed = {**(table if isinstance(table, Mapping) else {}), rope.label: renamed}
    return constant_logit(replace(facts, config={**rest, "rope_parameters": renamed}), rope.label)


def _refused(facts: Facts, rope: Rope) -> list[Finding]:
    """What transformers stops at."""
    why = []
    missing = {
        "yarn": ("factor",),
        "linear": ("factor",),
        "dynamic": ("factor",),
        "longrope": ("short_factor", "long_factor"),
        "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    }.get(rope.kind, ())
    absent = [key for key in missing if key not in rope.given]
    if absent and facts.gguf is None:
        why.append(f"rope type {rope.kind} without {' and '.join(absent)}")
    told = rope.given.get("rope_type", rope.given.get("type"))
    if told == "su" and "original_max_position_embeddings" not in rope.given:
        why.append("the old rope type 'su' with original_max_position_embeddings outside the rope parameters")
    if facts.family.longrope_names and rope.kind not in ("default", "longrope"):
        why.append(f"rope type {rope.kind} on a {facts.model_type}, which takes LongRoPE alone")
    if (
        facts.family.short_long
        and rope.kind != "default"
        and not (rope.real("short_mscale") and rope.real("long_mscale"))
    ):
        why.append("a Phi-3.5-MoE without short_mscale and long_mscale")
    if (
        facts.family.latent
        and rope.real("mscale_all_dim")
        and rope.given.get("factor") is None
        and rope.kind != "default"
    ):
        why.append("mscale_all_dim without a factor")
    return [
        Finding("refused", "error", f"transformers 5 refuses {reason}; the reading is what its other keys come to.")
        for reason in why
    ]
