"""The positions at which rules are looked at when a whole range is meant: a geometric grid and every step of a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attnlim.rules.rule import Rule

# tokens that a rule is looked at where nothing says how far the model reaches
FAR = 1 << 20
PER_OCTAVE = 8
# steps of one rule; beyond them the grid has to do
MOST_STEPS = 50_000
# parting within rounding is none
SAME = 1e-9


def landmarks(rules: Sequence[Rule], last: int) -> np.ndarray:
    """Positions from 0 to ``last``: a geometric grid, and the surroundings of every step of the rules.

    >>> from attnlim.rules import ministral
    >>> set(landmarks([ministral(16384)], 40000).tolist()) >= {0, 1, 16383, 16384, 32767, 32768, 40000}
    True
    """
    octaves = np.log2(max(last, 2))
    grid = np.round(2.0 ** np.arange(0, octaves, 1 / PER_OCTAVE)).astype(np.int64)
    found = [np.array([0, 1, last]), grid]
    for rule in rules:
        for factor in rule.factors:
            length = factor.parameters.get("trained")
            if length is not None:
                steps = np.arange(1, min(last // int(length) + 1, MOST_STEPS) + 1, dtype=np.int64) * int(length)
                found += [steps + near for near in (-2, -1, 0, 1)]
    every = np.unique(np.concatenate(found))
    return every[(every >= 0) & (every <= last)]


def first_where(differs: Callable[[np.ndarray], np.ndarray], positions: np.ndarray) -> int | None:
    """The first position from 0 on at which something differs, None where it never does at the landmarks.

    Args:
        differs: whether it does, elementwise.
        positions: ascending landmarks, from 0 on; what lies between the first that differs and the one before is searched.
    """
    found = np.flatnonzero(differs(positions))
    if not found.size:
        return None
    place = int(found[0])
    if place == 0:
        return int(positions[0])
    between = np.arange(positions[place - 1] + 1, positions[place] + 1)
    return int(between[np.flatnonzero(differs(between))[0]])


def unlike(first: np.ndarray, second: np.ndarray | float) -> np.ndarray:
    """Elementwise whether two factors differ by more than rounding; a factor that is not known differs from all."""
    return np.asarray(~np.isclose(first, second, rtol=SAME, atol=0.0))
