"""What the small decoders read: texts apart, questions that can be answered, skips that keep the order."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.length.data import (
    FIRST_KEY,
    FIRST_VALUE,
    LEAST_PARAGRAPH,
    VOCABULARY,
    Recall,
    batch_stream,
    final_recall,
    skipped_positions,
    splits,
    training_recall,
)

from attnlim.core.checks import InputError

PARTS = ("train", "calibrate", "test")


def test_no_paragraph_is_in_two_parts() -> None:
    texts = [bytes(getattr(splits(), part).astype(np.uint8)).decode() for part in PARTS]
    paragraphs = [
        {" ".join(one.split()) for one in text.split("\n\n") if len(" ".join(one.split())) >= LEAST_PARAGRAPH}
        for text in texts
    ]
    assert all(len(one) > 30 for one in paragraphs)
    assert not paragraphs[0] & paragraphs[1] and not paragraphs[0] & paragraphs[2] and not paragraphs[1] & paragraphs[2]


def check(given: Recall) -> None:
    """Every key asked stands somewhere before, with its value behind it, at the distance that is said."""
    tokens = given.tokens
    assert tokens.min() >= 0 and tokens.max() < VOCABULARY
    for place, distance in zip(given.asked, given.distance, strict=True):
        value = place - distance
        assert distance > 0 and value >= 1
        assert FIRST_KEY <= tokens[place] < FIRST_VALUE <= tokens[value]
        assert tokens[value - 1] == tokens[place] and tokens[value] == tokens[place + 1]


def test_training_can_be_answered() -> None:
    rng = batch_stream(0, "test")
    for n, n_items in ((64, 24), (256, 40)) * 5:
        given = training_recall(splits().train, n, n_items, rng)
        check(given)
        symbols = given.tokens >= FIRST_KEY
        assert symbols.sum() == 2 * n_items and 1 <= len(given.asked) < n_items
        last = {}
        for place in np.flatnonzero((given.tokens >= FIRST_KEY) & (given.tokens < FIRST_VALUE)):
            key, value = given.tokens[place], given.tokens[place + 1]
            assert last.setdefault(key, value) == value, "a key keeps its value"


@pytest.mark.parametrize(("n", "n_pairs"), [(256, 16), (4096, 16), (4096, 256)])
def test_what_is_asked_at_the_end(n: int, n_pairs: int) -> None:
    given = final_recall(splits().test, n, n_pairs, 16, batch_stream(1, "test", n))
    check(given)
    assert len(given.tokens) == n and (given.asked == n - 32 + 2 * np.arange(16)).all()
    places = np.flatnonzero((given.tokens >= FIRST_KEY) & (given.tokens < FIRST_VALUE))
    assert len(places) == n_pairs + 16
    assert len(set(given.tokens[places[:n_pairs]])) == n_pairs, "keys differ"
    # one of each sixteenth of the depth
    depth = np.sort(given.asked - given.distance) / (n - 32)
    assert (np.abs(depth - (np.arange(16) + 0.5) / 16) < 1.1 / 16).all()


def test_too_many_pairs_are_refused() -> None:
    for n, n_pairs, n_asked in ((256, 200, 16), (8192, 400, 16), (256, 8, 16)):
        with pytest.raises(InputError, match="take fewer pairs"):
            final_recall(splits().test, n, n_pairs, n_asked, batch_stream(0, "test"))


def test_skips_show_every_distance() -> None:
    rng = batch_stream(0, "skips")
    drawn = np.stack([skipped_positions(256, 4096, rng) for _ in range(400)])
    steps = np.diff(drawn, axis=1)
    assert (steps >= 1).all() and ((steps > 1).sum(axis=1) <= 1).all()
    assert drawn.min() == 0 and 4000 < drawn.max() < 4096


def test_streams_are_named() -> None:
    first, again, other = (batch_stream(0, *path).random() for path in (("a", 1), ("a", 1), ("a", 2)))
    assert first == again != other
