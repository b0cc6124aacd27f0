"""Rank correlation against its definition, and what it does without an answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlim.core.ranks import rank_correlation

numbers = st.lists(st.integers(-50, 50), min_size=4, max_size=30, unique=True)


@given(numbers, st.randoms(use_true_random=False))
def test_it_is_that_of_the_ranks(values: list[int], random: object) -> None:
    """Without ties it is 1 - 6 Σ d²/(m(m²-1)), and a monotone function of either changes nothing."""
    other = list(values)
    random.shuffle(other)  # type: ignore[attr-defined]
    ranks = [np.argsort(np.argsort(part)) for part in (values, other)]
    m = len(values)
    wanted = 1 - 6 * float(((ranks[0] - ranks[1]) ** 2).sum()) / (m * (m**2 - 1))
    assert rank_correlation(values, other) == pytest.approx(wanted, abs=1e-12)
    assert rank_correlation(np.exp(np.array(values) / 50), other) == pytest.approx(wanted, abs=1e-12)


def test_places_that_miss_one_are_left_out() -> None:
    one, other = [[1.0, math.nan, 3.0], [2.0, 9.0, math.inf]], [[2.0, 5.0, 1.0], [1.5, math.nan, 7.0]]
    assert rank_correlation(one, other) == pytest.approx(-1.0)
    assert math.isnan(rank_correlation([1.0, 2.0, math.nan], [1.0, 2.0, 3.0]))
    assert math.isnan(rank_correlation([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]))
