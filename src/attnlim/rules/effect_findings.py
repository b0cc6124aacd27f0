"""Findings on what the rule as a whole does: where it begins, what it multiplies, whether it does so twice or not at all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from attnlim.rules.config_files import Facts
from attnlim.rules.findings import Finding
from attnlim.rules.landmark_positions import FAR, first_where, landmarks, unlike

if TYPE_CHECKING:
    from attnlim.rules.layer_kinds import LayerKind
    from attnlim.rules.reading import Reading


def effects(facts: Facts, reading: Reading) -> list[Finding]:
    """Squared, applied twice, the first position that differs from 1, and a rule that does nothing."""
    return [*_squared(reading), *_twice(reading), *_begins(reading), *_nothing(reading)]


def reach(reading: Reading) -> int:
    """The last position of the range that a reading is looked at over."""
    stretched = [int(rope.factor * rope.original) for rope in reading.ropes if rope.original and rope.factor > 1]
    length = max([reading.declared_length or 0, *stretched]) or reading.trained_length
    return max(length, 2) - 1 if length else FAR


def begins_at(reading: Reading, kind: LayerKind, last: int | None = None) -> int | None:
    """The first position at which the factor on logits is not 1 on the layers of a kind; None where it is 1 to the end."""
    end = reach(reading) if last is None else last
    number = reading.layer_of(kind)

    def differs(positions: np.ndarray) -> np.ndarray:
        logit = reading.parts(positions, layer=number, head=0).logit
        away = unlike(np.asarray(logit.other), 1.0)
        return away | unlike(np.asarray(logit.rotary), 1.0) if kind.rotary else away

    return first_where(differs, landmarks([reading], end))


def _squared(reading: Reading) -> list[Finding]:
    told = []
    for kind in reading.kinds_that_differ:
        if not kind.rotary:
            continue
        m = float(reading.parts(reach(reading), layer=reading.layer_of(kind), head=0).cos_sin)
        if math.isfinite(m) and m != 1:
            where = "" if len(reading.kinds_that_differ) == 1 else f" ({kind.words})"
            told.append(
                Finding(
                    "squared",
                    "note",
                    f"cos and sin × {m:.4f} act on query and key, so logits of rotary dimensions get its square, "
                    f"{m * m:.4f}{where}.",
                    m * m,
                    m * m,
                )
            )
    return told


def _twice(reading: Reading) -> list[Finding]:
    last = reach(reading)
    for kind in reading.kinds_that_differ:
        parts = reading.parts(last, layer=reading.layer_of(kind), head=0)
        constant = float(parts.cos_sin) ** 2 * float(parts.softmax) if kind.rotary else float(parts.softmax)
        query = float(parts.query)
        if math.isfinite(constant * query) and constant != 1 and query != 1:
            return [
                Finding(
                    "applied-twice",
                    "warning",
                    f"two rules for the same length act on {kind.words}: {constant:.3f} at every position and "
                    f"{query:.3f} on the query at {last} make {constant * query:.3f} together; see that both are meant.",
                    constant * query,
                    max(constant, query),
                    last,
                )
            ]
    return []


def _begins(reading: Reading) -> list[Finding]:
    told: list[Finding] = []
    for kind in reading.kinds_that_differ:
        first = begins_at(reading, kind)
        if first is None:
            continue
        where = "" if len(reading.kinds_that_differ) == 1 else f" on {kind.words}"
        value = float(reading.parts(first, layer=reading.layer_of(kind), head=0).logit[0 if kind.rotary else 1])
        if math.isnan(value):
            continue
        sentence = f"The factor on logits first differs from 1 at position {first}{where}"
        if first > 0:
            sentence += f": a prompt under {first + 1} tokens cannot show whether an engine applies this"
        told.append(Finding("first-differs", "note", f"{sentence}.", value, value, first))
    return told


def _nothing(reading: Reading) -> list[Finding]:
    if not reading.factors:
        return []
    if any(begins_at(reading, kind) is not None for kind in reading.kinds_that_differ):
        return []
    last = reach(reading)
    names = ", ".join(dict.fromkeys(one.name for one in reading.factors))
    return [
        Finding(
            "does-nothing",
            "note",
            f"The rule ({names}) does nothing: its factor on logits is 1 up to position {last}.",
            1.0,
            1.0,
        )
    ]
