"""The sample of rows: exact size, even in the logarithm, seeded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlim.audit.sampling import sample_rows
from attnlim.core.seeds import generator


@given(st.integers(2, 3000), st.integers(1, 400), st.booleans(), st.integers(0, 9))
def test_size_range_and_no_repetition(n_tokens: int, n_rows: int, causal: bool, seed: int) -> None:
    rows = sample_rows(n_tokens, n_rows, causal, generator(seed))
    assert len(rows) == min(n_rows, n_tokens)
    assert (np.diff(rows) > 0).all()
    assert rows[0] >= 0
    assert rows[-1] < n_tokens


def test_causal_rows_are_even_in_the_logarithm() -> None:
    """Above the positions that are all taken, every octave holds the same number of rows, to one."""
    rows = sample_rows(8192, 256, True, generator(0)) + 1
    octaves = [int(((rows > 8192 >> (j + 1)) & (rows <= 8192 >> j)).sum()) for j in range(6)]
    assert max(octaves) - min(octaves) <= 1
    assert min(octaves) == 28  # c·ln 2, where c (1 + ln(8192/c)) = 256 gives c = 41
    dense = rows[rows <= 32]
    np.testing.assert_array_equal(dense, np.arange(1, 33))


def test_inclusion_is_proportional_to_one_over_visible_keys() -> None:
    hits = np.zeros(400)
    n_draws = 4000
    for seed in range(n_draws):
        hits[sample_rows(400, 40, True, generator(seed, "inclusion"))] += 1
    share = hits / n_draws
    capped = share > 0.999
    scale = (40 - capped.sum()) / (1 / np.arange(1, 401))[~capped].sum()
    expected = np.where(capped, 1.0, scale / np.arange(1, 401))
    # binomial standard error of each share; 5 of them, over 400 positions
    assert (np.abs(share - expected) <= 5 * np.sqrt(expected * (1 - expected) / n_draws) + 1e-12).all()


def test_uniform_where_every_row_sees_every_key() -> None:
    gaps = np.diff(sample_rows(1000, 100, False, generator(3)))
    np.testing.assert_array_equal(gaps, 10)


@pytest.mark.parametrize("causal", [True, False])
def test_seeded(causal: bool) -> None:
    np.testing.assert_array_equal(
        sample_rows(999, 50, causal, generator(1)), sample_rows(999, 50, causal, generator(1))
    )
    assert not np.array_equal(sample_rows(999, 50, causal, generator(1)), sample_rows(999, 50, causal, generator(2)))
