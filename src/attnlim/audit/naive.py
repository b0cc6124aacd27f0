"""The slow twin of :mod:`attnlim.audit.statistics`: one attention row at a time, as a student would write it."""

from __future__ import annotations

import math

import numpy as np


def row_statistics(
    query: np.ndarray,
    key: np.ndarray,
    visible: np.ndarray,
    row: int,
    first_key: int,
    scaling: float,
    softcap: float | None = None,
    k_min: int = 10,
) -> dict[str, float]:
    """The statistics of one row of one head, from the whole softmax of its scores in float64.

    Args:
        query: (head_dim,) of this row.
        key: (n_keys, head_dim) of this head.
        visible: (n_keys,) bool.
        row: the row's own slot.
        first_key: the slot of the first token.
        scaling: the softmax scale.
        softcap: scores become softcap·tanh(score/softcap).
        k_min: the smallest rank that counts in the gap count.

    Returns:
        the names of ``attnlim.audit.statistics.row_statistics``.
    """
    raw = key.astype(np.float64) @ query.astype(np.float64) * scaling
    slots = np.flatnonzero(visible)
    found = _of_scores(raw, slots, row, softcap, k_min)
    rest = slots[slots != first_key]
    without = _of_scores(raw, rest, row, softcap, k_min)
    found["sink_mass"] = float(_softmax(raw, slots, softcap)[slots == first_key].sum())
    return found | {f"{name}_no_sink": value for name, value in without.items()}


def _softmax(raw: np.ndarray, slots: np.ndarray, softcap: float | None) -> np.ndarray:
    scores = raw[slots] if softcap is None else softcap * np.tanh(raw[slots] / softcap)
    weights = np.exp(scores - scores.max())
    normalised: np.ndarray = weights / weights.sum()
    return normalised


def _of_scores(raw: np.ndarray, slots: np.ndarray, row: int, softcap: float | None, k_min: int) -> dict[str, float]:
    if len(slots) == 0:
        names = ("entropy", "perplexity", "participation", "largest_weight", "distance", "critical_multiplier")
        return dict.fromkeys((*names, "largest_logit"), math.nan)
    weights = _softmax(raw, slots, softcap)
    entropy = -sum(float(w) * math.log(w) for w in weights if w > 0)
    scores = raw[slots] if softcap is None else softcap * np.tanh(raw[slots] / softcap)
    ordered = sorted(scores, reverse=True)
    multiplier = math.nan
    for k in range(k_min, len(ordered) + 1):
        gap = ordered[0] - ordered[k - 1]
        multiplier = np.fmax(multiplier, math.log(k) / gap if gap > 0 else math.inf)
    return {
        "entropy": entropy,
        "perplexity": math.exp(entropy),
        "participation": 1 / float((weights**2).sum()),
        "largest_weight": float(weights.max()),
        "distance": float((weights * np.abs(row - slots)).sum()),
        "critical_multiplier": float(multiplier),
        "largest_logit": float(raw[slots].max()),
    }
