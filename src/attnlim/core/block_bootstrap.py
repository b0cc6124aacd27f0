"""An interval for a mean over tokens of a few text windows, where neighbouring tokens are not independent."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlim.core.checks import InputError, real_number, whole_number
from attnlim.core.intervals import IntervalArray

METHOD = "percentile bootstrap over windows and blocks of tokens"


def block_bootstrap_mean(
    values: ArrayLike, block: int, seed: int, n_resamples: int = 2000, level: float = 0.95
) -> IntervalArray:
    r"""The mean over windows and tokens, with the interval of a bootstrap in two stages.

    Windows are drawn with replacement, and within each drawn window blocks of neighbouring tokens; with one window the
    blocks alone. Every block counts by the tokens that it holds.

    Source: Künsch (Annals of Statistics 17, 1989) for blocks; Davison and Hinkley, Bootstrap Methods and their Application
    (1997), section 3.8, for two stages.

    Assumes: independent windows; blocks long enough that what lies in one says little of the next. Of m windows the bootstrap
    sees (m-1)/m of the variance between them, of two the half: with few windows it speaks of text in which windows differ by
    little more than their blocks do.

    Args:
        values: (..., n_windows, n_tokens), any unit; NaN where a token has no value, in the same places for all.
        block: tokens of a block, at least 1.
        seed: at least 0; the same resamples for every leading index, so that differences may be taken of means.
        n_resamples: at least 2.
        level: coverage, dimensionless, in (0, 1).

    Returns:
        An :class:`IntervalArray` of the leading shape: NaN without a value, NaN bounds with a single block in all.

    Raises:
        InputError: fewer than two axes, or an argument outside its range.

    >>> found = block_bootstrap_mean(np.arange(8.0).reshape(1, 2, 4), block=2, seed=0)
    >>> found.estimate.tolist(), bool(found.low[0] < 3.5 < found.high[0])
    ([3.5], True)
    """
    data = np.asarray(values, dtype=np.float64)
    if data.ndim < 2:
        raise InputError(f"values must be (..., n_windows, n_tokens), got shape {data.shape}")
    block = whole_number("block", block, 1)
    n_resamples = whole_number("n_resamples", n_resamples, 2)
    level = real_number("level", level, above=0.0, below=1.0)
    random = np.random.default_rng(whole_number("seed", seed, 0))
    sums, counts = _blocks(data, block)
    n_windows, n_blocks = sums.shape[-2:]
    windows = random.integers(n_windows, size=(n_resamples, n_windows, 1))
    picks = random.integers(n_blocks, size=(n_resamples, n_windows, n_blocks))
    with np.errstate(invalid="ignore", divide="ignore"):
        estimate = sums.sum(axis=(-2, -1)) / counts.sum(axis=(-2, -1))
        draws = np.stack(
            [
                sums[..., w, p].sum(axis=(-2, -1)) / counts[..., w, p].sum(axis=(-2, -1))
                for w, p in zip(windows, picks, strict=True)
            ]
        )
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    error = draws.std(axis=0, ddof=1)
    if n_windows * n_blocks < 2:
        low, high, error = (np.full(estimate.shape, np.nan) for _ in range(3))
    units = np.full(estimate.shape, n_windows * n_blocks, dtype=np.int64)
    return IntervalArray(np.asarray(estimate), low, high, error, level, METHOD, units, seed)


def _blocks(data: NDArray[np.float64], block: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums of values and numbers of them in each block; the last may be shorter."""
    there = ~np.isnan(data)
    short = -data.shape[-1] % block
    pad = [(0, 0)] * (data.ndim - 1) + [(0, short)]
    shape = (*data.shape[:-1], -1, block)
    sums = np.pad(np.where(there, data, 0.0), pad).reshape(shape).sum(axis=-1)
    counts = np.pad(there.astype(np.float64), pad).reshape(shape).sum(axis=-1)
    return sums, counts
