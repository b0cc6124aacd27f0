"""The rule on the query that a configuration asks for, as the code of its family applies it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from attnlim.core.checks import InputError
from attnlim.rules import catalogue, factors
from attnlim.rules.config_files import Facts, number
from attnlim.rules.factors import Numbers
from attnlim.rules.rope_parameters import Rope
from attnlim.rules.rule import Factor, Rule

INKLING = "code of Inkling, log_scaling_n_floor and log_scaling_alpha"
BEAM = "code of Beam; its comment says (1 + p/2048)^0.1, the code has p + 1"
MISTRAL_LARGE_4 = "code of Mistral Large 4; SSMax by position, its numbers lie in the weights"
BEAM_LENGTH, BEAM_POWER = 2048, 0.1
# Qwen-1 keeps its factors in a table of this many entries
QWEN_TABLE = 32767


def position_power(position: Numbers, keys: Numbers, *, trained: int, exponent: float) -> Numbers:
    r"""Beam's rule: a power of the position from the first token on.

    .. math:: \Big(1 + \frac{p + 1}{n_0}\Big)^{\zeta}

    Source: the code of Beam.

    >>> round(float(position_power(2047, 2048, trained=2048, exponent=0.1)), 6)
    1.071773
    """
    return (1 + (position + 1) / trained) ** exponent


def log_position_learned(position: Numbers, keys: Numbers, *, scale: Numbers, bias: Numbers) -> Numbers:
    r"""Mistral Large 4's rule: SSMax with the position in place of the number of visible keys.

    .. math:: s_h \ln(p + 1) + b_h

    Source: the code of Mistral Large 4.

    >>> round(float(log_position_learned(1023, 512, scale=0.43, bias=0.0)), 4)
    2.9805
    """
    return factors.scalable_softmax(position, position + 1, scale=scale, bias=bias)


def query_rule(facts: Facts, ropes: tuple[Rope, ...]) -> Rule:
    """The rule on the query, with the kind of layers that it acts on; without factors where there is none.

    Raises:
        InputError: a key of the rule holds something that is no number.
    """
    match facts.family.query:
        case "llama4":
            return _llama4(facts)
        case "ministral":
            return _ministral(ropes)
        case "inkling":
            return _inkling(facts)
        case "beam":
            return _beam()
        case "learned":
            return _learned(facts)
        case "logn":
            return _logn(facts)
        case "grok":
            return _grok(facts)
        case _:
            return catalogue.none()


def beta_of(ropes: tuple[Rope, ...]) -> float | None:
    """``llama_4_scaling_beta``, None where it is absent.

    Raises:
        InputError: it is no number.
    """
    given = ropes[0].given.get("llama_4_scaling_beta") if ropes else None
    return None if given is None else number("llama_4_scaling_beta", given, -math.inf)


def _llama4(facts: Facts) -> Rule:
    if not facts.get("attn_temperature_tuning"):
        return catalogue.none()
    return catalogue.llama4(
        facts.whole("floor_scale") or 8192, number("attn_scale", facts.get("attn_scale"), -math.inf)
    )


def _ministral(ropes: tuple[Rope, ...]) -> Rule:
    beta = beta_of(ropes)
    if beta is None or ropes[0].original is None:
        return catalogue.none()
    return catalogue.ministral(ropes[0].original, beta)


def _inkling(facts: Facts) -> Rule:
    floor = facts.whole("log_scaling_n_floor")
    if floor is None:
        return catalogue.none()
    slope = number("log_scaling_alpha", facts.get("log_scaling_alpha"), -math.inf)
    rule = catalogue.log_slope(max(floor, 2), slope)
    formula = f"1 + {slope:g} ln((p+1)/{floor}) beyond {floor}"
    return Rule(
        "inkling",
        tuple(
            replace(one, name="inkling", kind="global", formula=formula, source=INKLING, learned=())
            for one in rule.factors
        ),
    )


def _beam() -> Rule:
    def gap(n: int) -> float:
        return 1 / float(BEAM_POWER * (1 + n / BEAM_LENGTH) ** (BEAM_POWER - 1) * n / BEAM_LENGTH)

    parameters = {"trained": BEAM_LENGTH, "exponent": BEAM_POWER}
    formula = f"(1 + (p+1)/{BEAM_LENGTH})^{BEAM_POWER:g}"
    return Rule("beam", (Factor("beam", "query", position_power, parameters, formula, BEAM, gap, kind="nope"),))


def _learned(facts: Facts) -> Rule:
    n_heads = facts.whole("num_attention_heads") or 1
    unknown = np.full(n_heads, math.nan)
    one = Factor(
        "learned", "query", log_position_learned, {"scale": unknown, "bias": unknown}, "s_h ln(p+1) + b_h",
        MISTRAL_LARGE_4, learned=("scale", "bias"),
    )  # fmt: skip
    return Rule("learned", (one,))


def _logn(facts: Facts) -> Rule:
    length = facts.whole("seq_length", 2)
    return catalogue.logn(length) if facts.get("use_logn_attn") and length else catalogue.none()


def _grok(facts: Facts) -> Rule:
    given = facts.get("attn_temperature_len")
    if not isinstance(given, int) or isinstance(given, bool):
        raise InputError(f"attn_temperature_len must be a whole number, got {given!r}; mend the config")
    return catalogue.grok(given) if given > 1 else catalogue.none()
