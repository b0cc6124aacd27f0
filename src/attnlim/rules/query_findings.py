"""Findings on rules for the query: asked for where nobody reads them, switched off, without layers, or counted otherwise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from attnlim.rules import catalogue
from attnlim.rules.config_files import Facts, number
from attnlim.rules.findings import Finding, size
from attnlim.rules.query_scaling import beta_of
from attnlim.rules.rule import Rule

if TYPE_CHECKING:
    from attnlim.rules.reading import Reading


def query_findings(facts: Facts, reading: Reading, query: Rule) -> list[Finding]:
    """What the keys of a rule on the query have to say.

    Args:
        facts: of the configuration.
        reading: its reading, without findings.
        query: the rule, before it was given its layers.
    """
    return [
        *_not_honoured(facts, reading),
        *_llama4(facts, reading),
        *_ministral(facts, reading),
        *_learned(facts),
        *_switched_off(facts),
        *_no_layers(reading, query),
        *_flat(reading, query),
    ]


def _not_honoured(facts: Facts, reading: Reading) -> list[Finding]:
    """A rule that is declared on a model whose code does not know it."""
    family, config = facts.family.query, facts.config
    told = []
    trained = reading.trained_length or reading.declared_length or 4096
    far = max((reading.declared_length or 0) - 1, 4 * trained - 1)
    if config.get("use_logn_attn") and family != "logn":
        length = facts.whole("seq_length") or trained
        told.append(("use_logn_attn", catalogue.logn(max(length, 2)), far))
    beta = _rope_value(facts, "llama_4_scaling_beta")
    if beta is not None and family != "ministral":
        slope = number("llama_4_scaling_beta", beta, -math.inf)
        told.append((f"llama_4_scaling_beta {beta!r}", catalogue.ministral(max(trained, 1), slope), far))
    if config.get("attn_temperature_tuning") and family != "llama4":
        floor, slope = facts.whole("floor_scale") or 8192, facts.real("attn_scale", -math.inf) or 0.1
        told.append(("attn_temperature_tuning", catalogue.llama4(floor, slope), max(far, 4 * floor)))
    if config.get("log_scaling_n_floor") and family != "inkling":
        floor = facts.whole("log_scaling_n_floor") or 0
        slope = facts.real("log_scaling_alpha", -math.inf) or 0.1
        told.append((f"log_scaling_n_floor {floor}", catalogue.log_slope(max(floor, 2), slope), max(far, 4 * floor)))
    found = []
    for what, rule, position in told:
        applied = float(reading.parts(position, head=0).logit.rotary)
        meant = applied * float(rule.parts(position).query)
        found.append(
            Finding(
                "not-honoured",
                "error" if meant != applied else "note",
                f"{what} is declared, but the code of a {facts.model_type or 'plain decoder'} in transformers does not read it: "
                f"{size(applied, meant, position)}.",
                applied,
                meant,
                position,
            )
        )
    return found


def _rope_value(facts: Facts, key: str) -> Any:
    for name in ("rope_scaling", "rope_parameters"):
        table = facts.config.get(name)
        if isinstance(table, dict) and table.get(key) is not None:
            return table[key]
    return facts.config.get(key)


def _llama4(facts: Facts, reading: Reading) -> list[Finding]:
    if facts.family.query != "llama4":
        return []
    given = facts.config.get("attn_temperature_tuning")
    found = []
    if given is not None and not isinstance(given, bool):
        found.append(
            Finding(
                "refused",
                "error",
                f"transformers 5 refuses attn_temperature_tuning {given!r}: it must be true or false; read as "
                f"{'true' if given else 'false'}.",
            )
        )
    if any(one.place == "query" for one in reading.factors):
        found.append(_from_cache("Llama 4"))
    return found


def _from_cache(name: str) -> Finding:
    return Finding(
        "positions-from-cache",
        "warning",
        f"{name} in transformers counts positions from the cache and not from position_ids: with left padding they are shifted "
        "by it, and documents packed into one sequence do not begin again at 0.",
    )


def _ministral(facts: Facts, reading: Reading) -> list[Finding]:
    if facts.family.query != "ministral":
        return []
    beta = beta_of(reading.ropes)
    if beta is None or not reading.ropes or reading.ropes[0].original is None:
        missing = "llama_4_scaling_beta" if beta is None else "original_max_position_embeddings"
        return [
            Finding(
                "refused",
                "error",
                f"transformers 5 fails on a {facts.model_type} without {missing}; no rule on the query is read.",
            )
        ]
    return []


def _learned(facts: Facts) -> list[Finding]:
    if facts.model_type == "inkling_text" and facts.get("log_scaling_n_floor") is not None:
        return [_from_cache("Inkling")]
    if facts.family.query != "learned":
        return []
    return [
        Finding(
            "learned",
            "warning",
            "query × (s_h ln(p+1) + b_h) on all layers: s_h and b_h are learned by every head and lie in the weights "
            "(softmax_scaling), not in the config, so the factor is not known here. Where b_h is 0 it is 0 at the first token, "
            "which does no harm: one key takes all the weight whatever its logit.",
        )
    ]


def _switched_off(facts: Facts) -> list[Finding]:
    off = {
        "llama4": ("attn_temperature_tuning", facts.get("attn_temperature_tuning")),
        "logn": ("use_logn_attn", facts.get("use_logn_attn")),
        "grok": ("attn_temperature_len", (facts.get("attn_temperature_len") or 0) > 1),
        "inkling": ("log_scaling_n_floor", facts.get("log_scaling_n_floor")),
    }.get(facts.family.query)
    if off is None or off[1]:
        return []
    return [Finding("does-nothing", "note", f"{off[0]} is off: the query is not scaled.", 1, 1)]


def _no_layers(reading: Reading, query: Rule) -> list[Finding]:
    if not query.factors or any(one.place == "query" for one in reading.factors):
        return []
    wanted = {"nope": "without rotary positions", "global": "without a window", "local": "with a window"}
    where = wanted.get(query.factors[0].kind, "with softmax attention")
    return [
        Finding(
            "does-nothing", "warning", f"The rule {query.name} does nothing: the model has no layers {where}.", 1, 1
        )
    ]


def _flat(reading: Reading, query: Rule) -> list[Finding]:
    if not any(one.parameters.get("slope") == 0 for one in reading.factors if one.place == "query"):
        return []
    return [Finding("does-nothing", "note", f"The rule {query.name} has slope 0: its factor is 1.", 1, 1)]
