"""Two rules side by side over a whole range of positions, never at position 0 alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attnlim.core.checks import InputError, whole_number
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
        largest: the factor of the second over that of the first where they differ most, of all heads, dimensionless; NaN where
            one of them is not known.
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
        One entry for every kind of layers and dimensions on which the rules may differ; for every layer where a rule has numbers
        of its own for each. Layers of models with different numbers of layers are paired by whether they have rotary positions.

    Raises:
        InputError: ``last`` is no position, or the rules have different numbers of heads.

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
    return tuple(row for words, one, two in _pairs(first, second) for row in _rows(positions, words, one, two))


class _Side(NamedTuple):
    """One rule on the layers that are compared."""

    rule: Rule
    layer: int | None
    rotary: bool

    def factor(self, positions: np.ndarray, other_dimensions: bool) -> np.ndarray:
        """(n_positions,), with heads in front where they differ."""
        logit = self.rule.parts(positions, layer=self.layer).logit
        return np.asarray(logit.rotary if self.rotary and not other_dimensions else logit.other)


def _pairs(first: Rule, second: Rule) -> Iterator[tuple[str, _Side, _Side]]:
    """The layers to compare, in words and as each rule has them."""
    of_one, of_two = _kinds(first), _kinds(second)
    if len(of_one) == len(of_two) == 1:
        yield "all layers", _side(first, of_one[0]), _side(second, of_two[0])
    elif _n_layers(first) == _n_layers(second) and _n_layers(first) is not None:
        seen = set()
        for layer in range(_n_layers(first) or 0):
            one, two = (_kind_of(kinds, layer) for kinds in (of_one, of_two))
            if one is not None and two is not None and (one, two) not in seen:
                seen.add((one, two))
                words = one.words if one.words == two.words or two.words == "all layers" else two.words
                if "all layers" not in (one.words, two.words) and one.words != two.words:
                    words = f"{one.words} in A, {two.words.removeprefix('layers ')} in B"
                yield words, _Side(first, layer, one.rotary), _Side(second, layer, two.rotary)
    else:
        finer, coarser = (of_one, of_two) if len(of_one) >= len(of_two) else (of_two, of_one)
        for index, kind in enumerate(finer):
            alike = [other for other in coarser if other.rotary == kind.rotary] or list(coarser)
            partner = alike[min(index, len(alike) - 1)]
            one, two = (kind, partner) if finer is of_one else (partner, kind)
            yield kind.words, _side(first, one), _side(second, two)


def _kinds(rule: Rule) -> tuple[LayerKind, ...]:
    if isinstance(rule, Reading):
        return rule.kinds_that_differ
    tables = [value for factor in rule.factors for value in factor.parameters.values() if np.ndim(value) == 2]
    if not tables:
        return (LayerKind("all layers", (), True, None),)
    return tuple(LayerKind(f"layer {layer}", (layer,), True, None) for layer in range(max(map(len, tables))))


def _n_layers(rule: Rule) -> int | None:
    return rule.n_layers if isinstance(rule, Reading) else None


def _side(rule: Rule, kind: LayerKind) -> _Side:
    return _Side(rule, kind.layers[0] if kind.layers else None, kind.rotary)


def _kind_of(kinds: tuple[LayerKind, ...], layer: int) -> LayerKind | None:
    """The kind of a layer, None for one without softmax attention."""
    return next((kind for kind in kinds if layer in kind.layers), None)


def _rows(positions: np.ndarray, words: str, one: _Side, two: _Side) -> Iterator[Comparison]:
    """One row, or two where some dimensions turn and others do not."""
    rules = (one.rule, two.rule)
    scaled = any(factor.place == "cos_sin" for rule in rules for factor in rule.factors)
    whole = all(
        rule.rotary_dim is not None and rule.rotary_dim == rule.head_dim for rule in rules if isinstance(rule, Reading)
    )
    split = scaled and one.rotary and two.rotary and not whole
    yield _row(positions, f"{words}, rotary dimensions" if split else words, one, two, False)
    if split:
        yield _row(positions, f"{words}, other dimensions", one, two, True)


def _row(positions: np.ndarray, words: str, one: _Side, two: _Side, other_dimensions: bool) -> Comparison:
    def ratio(where: np.ndarray) -> np.ndarray:
        below, above = (side.factor(where, other_dimensions) for side in (one, two))
        if below.ndim == above.ndim == 2 and len(below) != len(above):
            raise InputError(
                f"{words}: {one.rule.name} has {len(below)} heads and {two.rule.name} {len(above)}; compare rules for one model"
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            # 0 over 0, as of two factors that are ln 1, is no difference
            each = np.where((below == 0) & (above == 0), 1.0, above / below)
            if each.ndim == 1:
                return each
            apart = np.abs(np.log(np.abs(each)))
        # of each position the head that differs most, or one that is not known
        farthest = np.where(np.isnan(apart), np.inf, apart).argmax(axis=0)
        return np.asarray(np.take_along_axis(each, farthest[None], axis=0)[0])

    ratios = ratio(positions)
    start = first_where(lambda where: unlike(ratio(where), 1.0), positions)
    unknown = np.isnan(ratios)
    if unknown.any():
        return Comparison(words, start, math.nan, int(positions[unknown][0]), int(positions[-1]))
    with np.errstate(divide="ignore"):
        farthest = int(np.argmax(np.abs(np.log(np.abs(ratios)))))
    return Comparison(words, start, float(ratios[farthest]), int(positions[farthest]), int(positions[-1]))
