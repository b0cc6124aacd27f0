"""A reading in words: its headline, its factors, and what it already applies at a context."""

from __future__ import annotations

import math

from attnlim.core.checks import whole_number
from attnlim.rules.effect_findings import begins_at
from attnlim.rules.layer_kinds import LayerKind
from attnlim.rules.reading import Reading
from attnlim.rules.rule import KIND_WORDS, Factor

NAMES = {
    "yarn": "YaRN", "longrope": "LongRoPE", "latent yarn": "YaRN on multi-head latent attention", "logn": "Qwen-1's log rule",
    "grok": "Grok-2's temperature", "llama4": "Llama 4's temperature tuning", "ministral": "Ministral 3's query scaling",
    "inkling": "Inkling's log scaling", "beam": "Beam's query scaling", "learned": "learned query scaling",
    "mscale by length": "Phi-3.5-MoE's mscale",
}  # fmt: skip
ROPES = {"yarn": "YaRN", "longrope": "LongRoPE", "llama3": "Llama 3's RoPE scaling", "linear": "linear RoPE scaling"}
PLACES = {"cos_sin": "cos/sin", "softmax": "softmax scale", "query": "query"}


def headline(reading: Reading) -> list[str]:
    """The model and its rope scaling in a line, and a line for every factor.

    >>> from attnlim.rules import read
    >>> for line in headline(read({"model_type": "ministral3"})): print(line)
    ministral3 · 34 layers × 32 heads of 128 dimensions · YaRN 16× over 16384 · declares 262144 tokens
    cos/sin × (1 + 0.1·1 ln 16)/(1 + 0.1·1 ln 16) = 1.0000 on all layers
    query × 1 + 0.1 ln(1 + ⌊p/16384⌋) on all layers
    """
    words = [reading.title]
    if reading.model_type and reading.model_type != reading.title:
        words.append(reading.model_type)
    if reading.n_layers:
        dims = f" of {reading.head_dim} dimensions" if reading.head_dim else ""
        if has_still(reading):
            dims += f", {reading.rotary_dim} of them rotary"
        words.append(f"{reading.n_layers} layers" + (f" × {reading.n_heads} heads{dims}" if reading.n_heads else ""))
    words += list(
        dict.fromkeys(_stretch(rope.kind, rope.factor, rope.original) for rope in reading.ropes if rope.kind in ROPES)
    )
    if reading.declared_length:
        words.append(f"declares {reading.declared_length} tokens")
    return [" · ".join(words), *(_told(reading, factor) for factor in reading.factors)]


def applied(reading: Reading, context: int) -> str:
    """What the config already multiplies logits by at a context, in one sentence; or that it applies nothing.

    Args:
        reading: of the config.
        context: n, tokens; the row looked at is the last, which sees them all.

    >>> from attnlim.rules import read
    >>> applied(read({"model_type": "llama"}), 8192)
    'The config applies no scaling rule: logits are q·k/√d at every length.'
    >>> applied(read({"model_type": "ministral3"}), 32768)
    "The config already multiplies logits by 1.069 at 32768 tokens (Ministral 3's query scaling)."
    """
    n = whole_number("context", context, 1)
    kinds = reading.kinds_that_differ
    told = []
    for kind in kinds:
        logit = reading.parts(n - 1, layer=reading.layer_of(kind), head=0).logit
        turned, still = float(logit.rotary), float(logit.other)
        value = turned if kind.rotary else still
        if math.isnan(value):
            return (
                "The config applies a rule whose numbers are learned and lie in the weights: what it multiplies logits by is "
                "not known here."
            )
        where = f" on {kind.words}" if len(kinds) > 1 else ""
        split = kind.rotary and has_still(reading) and still != value
        if split:
            told.append(f"by {value:.3f} on rotary dimensions and {still:.3f} on the others{where}")
        elif value != 1:
            told.append(f"by {value:.3f}{where}")
    if told:
        return f"The config already multiplies logits {', '.join(told)} at {n} tokens ({_names(reading)})."
    starts = [start for kind in kinds if (start := begins_at(reading, kind)) is not None]
    if starts:
        return f"The config's rule ({_names(reading)}) is 1 at {n} tokens: it begins at position {min(starts)}."
    return "The config applies no scaling rule: logits are q·k/√d at every length."


def has_still(reading: Reading) -> bool:
    """Whether heads have dimensions with rotary positions and others without."""
    return reading.rotary_dim is not None and reading.head_dim is not None and 0 < reading.rotary_dim < reading.head_dim


def _names(reading: Reading) -> str:
    """The rules that multiply by something else than 1 somewhere."""
    moving = [one for one in reading.factors if one.by_position or float(one.at(0, 1, head=0)) != 1]
    return ", ".join(dict.fromkeys(NAMES.get(one.name, one.name) for one in moving))


def _stretch(kind: str, factor: float, original: int | None) -> str:
    told = ROPES[kind] + ("" if math.isnan(factor) else f" {factor:g}×")
    return told if original is None else f"{told} over {original}"


def _told(reading: Reading, factor: Factor) -> str:
    value = "" if factor.by_position else f" = {float(factor.at(0, 1, head=0)):.4f}"
    value = "" if factor.formula.replace("attention_factor ", "") == value.removeprefix(" = ") else value
    return f"{PLACES[factor.place]} × {factor.formula}{value} on {_where(reading, factor)}"


def _where(reading: Reading, factor: Factor) -> str:
    if factor.layers is None or not reading.kinds:
        return KIND_WORDS[factor.kind]
    on: list[LayerKind] = [kind for kind in reading.kinds if not kind.layers or factor.acts_on(kind.layers[0])]
    if len(on) == len(reading.kinds):
        return "all layers"
    return " and ".join(
        kind.words if not index else kind.words.removeprefix("layers ") for index, kind in enumerate(on)
    )
