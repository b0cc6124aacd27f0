"""What a long forward takes, from two short ones."""

from __future__ import annotations

import pytest

from attnlim.models.forward_time import LONG, SHORT, timed_growth


def test_a_square_law_is_found_again() -> None:
    asked: list[int] = []

    def seconds(n_tokens: int) -> float:
        asked.append(n_tokens)
        return 1e-3 * n_tokens + 2e-7 * n_tokens**2

    growth = timed_growth(seconds, 8192)
    assert set(asked) == {SHORT, LONG}
    assert growth.seconds(16384) == pytest.approx(1e-3 * 16384 + 2e-7 * 16384**2)
    asked.clear()
    assert timed_growth(seconds, 8192, 512, 4096).seconds(32768) == pytest.approx(1e-3 * 32768 + 2e-7 * 32768**2)
    assert set(asked) == {512, 4096}


def test_nothing_longer_than_asked_for_is_timed() -> None:
    asked: list[int] = []

    def seconds(n_tokens: int) -> float:
        asked.append(n_tokens)
        return 1e-3 * n_tokens

    growth = timed_growth(seconds, 300, 512, 4096)
    assert set(asked) == {300} and growth.seconds(600) == pytest.approx(0.6) and growth.square == 0


def test_the_fastest_of_two_counts_and_the_first_of_all_does_not() -> None:
    times = iter([9.0, 2.0, 1.0, 4.0, 5.0])
    growth = timed_growth(lambda n_tokens: next(times), 8192, 100, 200)
    assert growth.seconds(100) == pytest.approx(1.0) and growth.seconds(200) == pytest.approx(4.0)
