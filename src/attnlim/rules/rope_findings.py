"""Findings on the rope parameters: factors that are overridden, dropped, missing, or read otherwise elsewhere."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from attnlim.core.checks import whole_number
from attnlim.rules import catalogue
from attnlim.rules.config_files import Facts
from attnlim.rules.factors import latent_softmax_factor, longrope_attention_factor, yarn_scale
from attnlim.rules.findings import Finding, size
from attnlim.rules.model_families import is_known
from attnlim.rules.rope_keys import key_findings
from attnlim.rules.rope_parameters import WITH_FACTOR, Rope

if TYPE_CHECKING:
    from attnlim.rules.reading import Reading

# what 0.1 ln s + 1 is taken for, and the same for its square
CLOSE = 2e-3


def rope_findings(facts: Facts, reading: Reading) -> list[Finding]:
    """What the rope parameters have to say, and the keys that nobody reads."""
    found = key_findings(facts, reading)
    for rope in reading.ropes:
        found += _lengths(facts, rope)
        found += _override(rope, softmax_of(facts, rope)) if rope.kind in WITH_FACTOR else _dropped(facts, rope)
        if rope.kind == "yarn":
            found += [*_one_mscale(facts, rope), *_latent(facts, rope), *_polylog(rope)]
        found += [*_no_effect(facts, rope), *_by_length(facts, rope)]
    return found


def softmax_of(facts: Facts, rope: Rope, factor: float | None = None) -> float:
    """The factor on the softmax scale that goes with rope parameters, or would with another s; dimensionless."""
    k = rope.real("mscale_all_dim") if facts.family.latent and rope.kind != "default" else None
    s = rope.factor if factor is None else factor
    return latent_softmax_factor(s, k) if k and s > 1 else 1.0


def _lengths(facts: Facts, rope: Rope) -> list[Finding]:
    declared = facts.whole("max_position_embeddings")
    if rope.kind not in WITH_FACTOR or rope.original is None or declared is None:
        return []
    found = []
    inner = rope.given.get("original_max_position_embeddings")
    if rope.original_from == "outside" and inner is not None:
        inner = whole_number("original_max_position_embeddings", inner, 1, "mend it in the config")
    if rope.original_from == "outside" and inner is not None and inner != rope.original:
        found.append(
            Finding(
                "contradiction",
                "warning",
                f"original_max_position_embeddings is {rope.original} in the config and {inner} in its rope parameters: "
                "transformers takes the first.",
            )
        )
    if rope.factor_from_lengths or rope.real("attention_factor") is not None or rope.factor <= 1:
        return found
    reach = rope.factor * rope.original
    if math.isclose(reach, declared, rel_tol=0.01):
        return found
    ratio = declared / rope.original
    applied = rope.value() ** 2 * softmax_of(facts, rope)
    other = _value(rope, ratio) ** 2 * softmax_of(facts, rope, ratio)
    found.append(
        Finding(
            "lengths-disagree",
            "note" if declared == rope.original else "warning",
            f"factor × original length = {reach:.0f}, max_position_embeddings = {declared}: transformers takes the factor "
            f"{rope.factor:g}; with the ratio {ratio:g} logits would be "
            + (f"× {other:.3f} instead of {applied:.3f}." if not math.isclose(other, applied) else "the same."),
            applied,
            other,
        )
    )
    return found


def _value(rope: Rope, factor: float) -> float:
    """The factor on cos and sin that the rope type has at another s."""
    if rope.kind == "longrope" and rope.original:
        return longrope_attention_factor(factor, max(rope.original, 2))
    return float(catalogue.yarn(max(factor, 1.0), rope.real("mscale"), rope.real("mscale_all_dim")).parts(0).cos_sin)


def _override(rope: Rope, softmax: float) -> list[Finding]:
    given = rope.real("attention_factor")
    if given is None:
        return []
    own = _value(rope, rope.factor)
    applied, without, multiplied = given**2 * softmax, own**2 * softmax, (given * own) ** 2 * softmax
    if math.isclose(given, own, rel_tol=CLOSE):
        return []
    if own > 1 and math.isclose(given, own**2, rel_tol=CLOSE):
        return [
            Finding(
                "squared",
                "warning",
                f"attention_factor {given:g} is the square of {own:.4f}, which {rope.kind} has by itself, and cos and sin "
                f"square it again: {size(applied, without)}.",
                applied,
                without,
            )
        ]
    over = (
        "mscale and mscale_all_dim"
        if rope.real("mscale") and rope.real("mscale_all_dim")
        else f"{rope.kind}'s own factor"
    )
    serious = over.startswith("mscale")
    return [
        Finding(
            "attention-factor-overrides",
            "warning" if serious else "note",
            f"attention_factor {given:g} overrides {over}: logits × {applied:.3f}, without it {without:.3f}; an engine that "
            f"takes it for a multiplier has {multiplied:.3f}.",
            applied,
            without,
        )
    ]


def _dropped(facts: Facts, rope: Rope) -> list[Finding]:
    given = rope.real("attention_factor")
    if given is None:
        return []
    softmax = softmax_of(facts, rope)
    kind, severity = ("attention-factor-dropped", "error") if given != 1 else ("does-nothing", "note")
    return [
        Finding(
            kind,
            severity,  # type: ignore[arg-type]
            f"attention_factor {given:g} is dropped: rope type {rope.kind} has no factor on cos and sin"
            + (f"; {size(softmax, given**2 * softmax)}." if given != 1 else "."),
            softmax,
            given**2 * softmax,
        )
    ]


def _one_mscale(facts: Facts, rope: Rope) -> list[Finding]:
    if rope.real("attention_factor") is not None or rope.factor <= 1:
        return []
    k1, k2 = rope.real("mscale"), rope.real("mscale_all_dim")
    softmax, applied = softmax_of(facts, rope), rope.value() ** 2
    if k1 and not k2 and k1 != 1:
        own = yarn_scale(rope.factor, k1) ** 2
        return [
            Finding(
                "mscale-alone",
                "warning",
                f"mscale {k1:g} without mscale_all_dim is ignored by transformers: {size(applied, own)}, which DeepSeek's own "
                "code applies.",
                applied,
                own,
            )
        ]
    if k2 and not k1:
        own = (yarn_scale(rope.factor) / yarn_scale(rope.factor, k2)) ** 2 * softmax
        return [
            Finding(
                "mscale-alone",
                "warning",
                f"mscale_all_dim {k2:g} without mscale does not reach cos and sin in transformers: "
                f"{size(applied * softmax, own)}, which DeepSeek's own code applies.",
                applied * softmax,
                own,
            )
        ]
    return []


def _latent(facts: Facts, rope: Rope) -> list[Finding]:
    k = rope.real("mscale_all_dim")
    if rope.factor <= 1:
        return []
    if facts.family.latent and not k:
        value = rope.value() ** 2
        other = latent_softmax_factor(rope.factor, 1.0)
        if rope.real("attention_factor") is not None:
            return []
        return [
            Finding(
                "mscale-all-dim-missing",
                "warning",
                f"mscale_all_dim is missing on multi-head latent attention: the softmax scale stays × 1; with mscale = "
                f"mscale_all_dim = 1, as DeepSeek-V3 has it, it is × {other:.4f}. Here rotary dimensions have {value:.3f} from "
                f"cos and sin, and the others 1.000 instead of {other:.3f}.",
                value,
                other,
            )
        ]
    if k and not facts.family.latent:
        value = rope.value() ** 2
        meant = value * latent_softmax_factor(rope.factor, k)
        if not is_known(facts.model_type) and facts.get("qk_rope_head_dim"):
            return [
                Finding(
                    "unknown-model",
                    "warning",
                    f"By its keys this has multi-head latent attention, and no table here says whether its code multiplies the "
                    f"softmax scale by mscale_all_dim {k:g}: read as if not; {size(value, meant)} if it does.",
                    value,
                    meant,
                )
            ]
        usual = facts.family.query == "ministral"
        return [
            Finding(
                "mscale-without-latent" if usual else "not-honoured",
                "note" if usual else "warning",
                f"mscale_all_dim {k:g} only divides the factor on cos and sin here: without multi-head latent attention "
                "transformers leaves the softmax scale as it is"
                + (
                    ", and this family has no other use for it."
                    if usual
                    else f"; {size(value, meant)} if it is meant as DeepSeek has it."
                ),
                value,
                meant,
            )
        ]
    return []


def _polylog(rope: Rope) -> list[Finding]:
    if (
        rope.factor <= 1
        or rope.real("attention_factor") is not None
        or (rope.real("mscale") and rope.real("mscale_all_dim"))
    ):
        return []
    m = yarn_scale(rope.factor)
    return [
        Finding(
            "polylog",
            "note",
            f"YaRN is told of as a factor that grows like (ln n)²; what ships is (1 + 0.1 ln s)², constant at every position: "
            f"at s = {rope.factor:g} it is {m * m:.3f}, close to 1 + 0.2 ln s = {1 + 0.2 * math.log(rope.factor):.3f}.",
        )
    ]


def _no_effect(facts: Facts, rope: Rope) -> list[Finding]:
    if rope.kind not in WITH_FACTOR or facts.family.short_long:
        return []
    where = f" ({rope.label})" if rope.label else ""
    if rope.factor <= 1:
        return [
            Finding(
                "does-nothing",
                "note",
                f"rope type {rope.kind} with factor {rope.factor:g}{where}: the factor on logits is 1.",
                1,
                1,
            )
        ]
    if rope.value() != 1:
        return []
    given = rope.real("attention_factor")
    why = f"attention_factor {given:g}" if given is not None else "mscale = mscale_all_dim"
    return [Finding("does-nothing", "note", f"{why}{where}: cos and sin are not scaled.", 1, 1)]


def _by_length(facts: Facts, rope: Rope) -> list[Finding]:
    short, long = rope.real("short_mscale"), rope.real("long_mscale")
    if not facts.family.short_long or rope.kind == "default" or not (short and long) or short == long:
        return []
    return [
        Finding(
            "prefill-decode",
            "warning",
            f"cos and sin × {short:g} up to {rope.original} tokens and × {long:g} once a forward reaches beyond: keys that were "
            f"cached before keep the first, so while decoding past it logits are × {short * long:.4f}, after one long prefill "
            f"× {long * long:.4f}.",
            short * long,
            long * long,
            rope.original,
        )
    ]
