"""Which rows of a window are looked at: positions spread evenly over the logarithm of what they see."""

from __future__ import annotations

import numpy as np


def sample_rows(n_tokens: int, n_rows: int, causal: bool, random: np.random.Generator) -> np.ndarray:
    """Seeded systematic sample of query positions.

    A causal row at position p sees p+1 keys and is taken with a probability proportional to 1/(p+1), capped at
    1: the sample is even in ln(visible keys) as far as there are positions. Where every row sees every key, all
    positions are equally likely.

    Args:
        n_tokens: positions to choose from.
        n_rows: how many to choose; all of them when there are no more.
        causal: whether a row sees only the keys up to its own position.
        random: the stream for the one random number that places the sample.

    Returns:
        (min(n_rows, n_tokens),) int64, ascending, without repetition.
    """
    start = random.random()
    if n_rows >= n_tokens:
        return np.arange(n_tokens)
    weight = 1 / np.arange(1, n_tokens + 1) if causal else np.ones(n_tokens)
    inclusion = _capped_inclusion(weight, n_rows)
    # Madow's systematic sampling: one position for every whole step that the cumulated probability passes
    cumulated = np.cumsum(inclusion)
    cumulated *= n_rows / cumulated[-1]
    return np.searchsorted(cumulated, np.arange(n_rows) + start, side="right").astype(np.int64)


def _capped_inclusion(weight: np.ndarray, n_rows: int) -> np.ndarray:
    """min(1, c·weight) with c such that the sum is ``n_rows``; the capped ones are the largest weights."""
    certain = np.zeros(len(weight), dtype=bool)
    while True:
        scale = (n_rows - certain.sum()) / weight[~certain].sum()
        over = ~certain & (scale * weight >= 1)
        if not over.any():
            return np.where(certain, 1.0, scale * weight)
        certain |= over
