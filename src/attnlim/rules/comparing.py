"""Two rules side by side over a whole range of positions, never at position 0 alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attnlim.core.checks import whole_number
from attnlim.rules.effect_findings import reach
from attnlim.rules.landmark_positions import FAR, first_where, landmarks, unlike
from attnlim.rules.layer_kinds import LayerKind
from attnlim.rules.reading import Reading
from attnlim.rules.rule import Rule


@dataclass(frozen=True)
class Comparison:
    """How two rules differ on one kind of layers and one kind of dimensions of a head.

    Attributes:
        words: which layers and dimensions, such as "all layers, rotary dimensions".
        first_difference: the first position at which the two factors on logits differ, None where they are the same.
        largest: the factor of the second over that of the first where they differ most, dimensionless; NaN where one of them
            is not known.
        position: where that is.
        last: the last position looked at.
    """

    words: str
    first_difference: int | None
    largest: float
    position: int
    last: int


def compare(first: Rule, second: Rule, last: int | None = None) -> tuple[Comparison, ...]:
    """Where two rules part, and by how much at most.

    Args:
        first: a rule, or the reading of a config.
        second: the same.
        last: the last position to look at; None is the farther of the two lengths that the configs declare.

    Returns:
        One entry for every kind of layers and dimensions on which the rules may differ. Layers of models with different
        numbers of layers are paired by whether they have rotary positions.

    Raises:
        InputError: ``last`` is no position.

    >>> from attnlim.rules import logn, ministral
    >>> found = compare(logn(2048), ministral(2048), last=8191)[0]
    >>> found.first_difference, found.position, round(found.largest, 4)
    (2048, 2048, 1.0692)
    """
    ends = [reach(rule) if isinstance(rule, Reading) else FAR for rule in (first, second)]
    readings = [rule for rule in (first, second) if isinstance(rule, Reading)]
    far = max(ends) if len(readings) != 1 else reach(readings[0])
    end = far if last is None else whole_number("last", last, 1)
    positions = landmarks([first, second], end)
    return tuple(
        _one(first, second, positions, words, one, two, place) for words, one, two, place in _pairs(first, second)
    )


def _pairs(first: Rule, second: Rule) -> Iterator[tuple[str, int | None, int | None, int]]:
    """Words, the layer of each, and 0 for rotary dimensions or 1 for the others."""
    kinds_one, kinds_two = _kinds(first), _kinds(second)
    same_layers = getattr(first, "n_layers", None) == getattr(second, "n_layers", None)
    if len(kinds_one) > 1 or len(kinds_two) > 1:
        finer, other = (first, second) if len(kinds_one) >= len(kinds_two) else (second, first)
        for index, kind in enumerate(_kinds(finer)):
            mine = kind.layers[0] if kind.layers else None
            theirs = mine if same_layers else _counterpart(other, kind, index)
            one, two = (mine, theirs) if finer is first else (theirs, mine)
            yield from _places(first, second, kind.words, one, two, kind.rotary)
        return
    kind = kinds_one[0]
    yield from _places(first, second, "all layers", _layer(first), _layer(second), kind.rotary and kinds_two[0].rotary)


def _places(
    first: Rule, second: Rule, words: str, one: int | None, two: int | None, rotary: bool
) -> Iterator[tuple[str, int | None, int | None, int]]:
    split = any(factor.place == "cos_sin" for factor in first.factors + second.factors)
    still = any(
        rule.rotary_dim is None or rule.head_dim is None or rule.rotary_dim < rule.head_dim
        for rule in (first, second)
        if isinstance(rule, Reading)
    )
    if not split or not rotary:
        yield words, one, two, 0 if rotary else 1
        return
    yield (f"{words}, rotary dimensions" if still else words), one, two, 0
    if still:
        yield f"{words}, other dimensions", one, two, 1


def _kinds(rule: Rule) -> tuple[LayerKind, ...]:
    return rule.kinds_that_differ if isinstance(rule, Reading) else (LayerKind("all layers", (), True, None),)


def _layer(rule: Rule) -> int | None:
    return rule.layer_of(rule.main_kind) if isinstance(rule, Reading) else None


def _counterpart(rule: Rule, kind: LayerKind, index: int) -> int | None:
    alike = [other for other in _kinds(rule) if other.rotary == kind.rotary] or list(_kinds(rule))
    chosen = alike[min(index, len(alike) - 1)]
    return chosen.layers[0] if chosen.layers else None


def _one(
    first: Rule, second: Rule, positions: np.ndarray, words: str, one: int | None, two: int | None, place: int
) -> Comparison:
    def ratio(where: np.ndarray) -> np.ndarray:
        values = [
            np.asarray(rule.parts(where, layer=layer, head=0).logit[place])
            for rule, layer in ((first, one), (second, two))
        ]
        with np.errstate(divide="ignore", invalid="ignore"):
            # 0 over 0, as of two factors that are ln 1, is no difference
            return np.where((values[0] == 0) & (values[1] == 0), 1.0, values[1] / values[0])

    ratios = ratio(positions)
    start = first_where(lambda where: unlike(ratio(where), 1.0), positions)
    unknown = np.isnan(ratios)
    if unknown.any():
        return Comparison(words, start, math.nan, int(positions[unknown][0]), int(positions[-1]))
    with np.errstate(divide="ignore"):
        farthest = int(np.argmax(np.abs(np.log(np.abs(ratios)))))
    return Comparison(words, start, float(ratios[farthest]), int(positions[farthest]), int(positions[-1]))
