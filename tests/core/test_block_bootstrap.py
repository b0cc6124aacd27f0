"""The bootstrap over windows and blocks: exact means, coverage where tokens hang together, and what goes wrong without blocks."""

from __future__ import annotations

import numpy as np
import pytest

from attnlim.core.block_bootstrap import block_bootstrap_mean
from attnlim.core.checks import InputError


def _losses(seed: int, n_windows: int, n_tokens: int, between: float, memory: float) -> np.ndarray:
    """Windows with means of their own, and within each a chain with mean 0 and variance 1."""
    random = np.random.default_rng(seed)
    noise = random.standard_normal((n_windows, n_tokens)) * np.sqrt(1 - memory**2)
    chain = np.empty_like(noise)
    chain[:, 0] = random.standard_normal(n_windows)
    for i in range(1, n_tokens):
        chain[:, i] = memory * chain[:, i - 1] + noise[:, i]
    return between * random.standard_normal((n_windows, 1)) + chain


def test_the_estimate_is_the_mean_and_missing_tokens_do_not_count() -> None:
    values = _losses(0, 3, 100, 1.0, 0.5)
    values[1, 10:30] = np.nan
    found = block_bootstrap_mean(values, 16, 0)
    assert found.estimate == pytest.approx(np.nanmean(values), rel=1e-12)
    assert found.low < found.estimate < found.high


def test_a_constant_has_no_spread() -> None:
    found = block_bootstrap_mean(np.full((2, 2, 64), 3.0), 8, 0)
    assert (found.low == 3).all() and (found.high == 3).all() and (found.standard_error == 0).all()


def test_the_same_resamples_serve_all_leading_indices() -> None:
    values = _losses(0, 3, 128, 1.0, 0.5)
    both = block_bootstrap_mean(np.stack([values, values + 1]), 16, 3)
    np.testing.assert_allclose(both.low[1] - both.low[0], 1, rtol=1e-12)
    assert both.low[0] == block_bootstrap_mean(values, 16, 3).low


def _covered(n_windows: int, between: float, block: int) -> float:
    hits = 0
    for seed in range(100):
        found = block_bootstrap_mean(_losses(seed, n_windows, 512, between, 0.8), block, seed, n_resamples=200)
        hits += bool(found.low <= 0 <= found.high)
    return hits / 100


def test_it_covers_where_neighbours_hang_together() -> None:
    """100 runs: a coverage of .95 is seen within .88 and 1; blocks of 64 keep most of a memory of 5 tokens."""
    assert _covered(n_windows=2, between=0.0, block=64) >= 0.88
    assert _covered(n_windows=8, between=0.3, block=64) >= 0.88


def test_single_tokens_as_blocks_would_be_too_sure() -> None:
    assert _covered(n_windows=2, between=0.0, block=1) < 0.8


def test_one_block_says_nothing_of_its_error() -> None:
    found = block_bootstrap_mean([[1.0, 2.0, 3.0]], 8, 0)
    assert found.estimate == 2 and np.isnan(found.low) and np.isnan(found.standard_error)


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="n_windows, n_tokens"):
        block_bootstrap_mean([1.0, 2.0], 1, 0)
    with pytest.raises(InputError, match="block must be a whole number of at least 1"):
        block_bootstrap_mean([[1.0, 2.0]], 0, 0)
