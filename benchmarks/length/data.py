"""What the decoders read: Python's language reference as bytes, and key-value pairs to recall amid it.

A pair is a key symbol and a value symbol, side by side. A key that comes again is followed by the same value: that is all
that says that something is to be recalled. Symbols are no bytes, so text and pairs cannot be mistaken.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlim.core.checks import InputError
from attnlim.core.seeds import generator

Ints = NDArray[np.int64]


N_BYTES, N_KEYS, N_VALUES = 256, 256, 64
FIRST_KEY, FIRST_VALUE = N_BYTES, N_BYTES + N_KEYS
VOCABULARY = N_BYTES + N_KEYS + N_VALUES
LEAST_PARAGRAPH = 40  # shorter ones, such as "See also", may come again
CALIBRATE, TEST = 0, 5  # of the topics in alphabetic order, the ones with these last digits


@dataclass(frozen=True)
class Splits:
    """Bytes of topics for training, for measuring gap counts, and for the results; no paragraph is in two of them."""

    train: Ints
    calibrate: Ints
    test: Ints
    sha256: str


@cache
def splits() -> Splits:
    """The language reference, by topics: of ten topics one is for gap counts and one for the results.

    Topics quote each other: a paragraph is kept where it comes first, so that nothing in one part is verbatim in another.
    """
    from pydoc_data.topics import topics

    seen: set[str] = set()
    parts: dict[str, list[str]] = {"train": [], "calibrate": [], "test": []}
    for number, name in enumerate(sorted(topics)):
        part = {TEST: "test", CALIBRATE: "calibrate"}.get(number % 10, "train")
        kept = []
        for paragraph in re.split(r"\n\s*\n", topics[name]):
            words = " ".join(paragraph.split())
            if len(words) >= LEAST_PARAGRAPH:
                if words in seen:
                    continue
                seen.add(words)
            kept.append(paragraph)
        parts[part].append("\n\n".join(kept))
    joined = {part: "\n\n\n".join(texts).encode() for part, texts in parts.items()}
    digest = hashlib.sha256(b"\0".join(joined.values())).hexdigest()
    return Splits(
        **{part: np.frombuffer(raw, dtype=np.uint8).astype(np.int64) for part, raw in joined.items()}, sha256=digest
    )


class Recall(NamedTuple):
    """A sequence and what is asked in it.

    Attributes:
        tokens: (n,).
        asked: (n_asked,) where the key stands whose value comes next.
        distance: (n_asked,) tokens back to its value.
    """

    tokens: Ints
    asked: Ints
    distance: Ints


def stretch(text: Ints, n: int, rng: np.random.Generator) -> Ints:
    """A stretch of the text from anywhere."""
    start = int(rng.integers(len(text) - n))
    return text[start : start + n].copy()


def training_recall(text: Ints, n: int, n_items: int, rng: np.random.Generator) -> Recall:
    """Text with ``n_items`` keys and values at random places, half of them keys that have been there before."""
    tokens = stretch(text, n, rng)
    places = np.sort(rng.choice(n // 2 - 1, n_items, replace=False)) * 2 + int(rng.integers(2))
    keys, values = rng.permutation(N_KEYS)[:n_items], rng.integers(N_VALUES, size=n_items)
    chosen: list[int] = []
    last: dict[int, int] = {}
    asked, distance = [], []
    for turn, place in enumerate(places):
        again = bool(last) and (rng.random() < 0.5 or turn == n_items - 1)
        item = int(rng.choice(list(last))) if again else len(chosen)
        if again:
            asked.append(place)
            distance.append(place - last[item] - 1)
        else:
            chosen.append(item)
        last[item] = place
        tokens[place], tokens[place + 1] = FIRST_KEY + keys[item], FIRST_VALUE + values[item]
    return Recall(tokens, np.array(asked, dtype=np.int64), np.array(distance, dtype=np.int64))


def final_recall(text: Ints, n: int, n_pairs: int, n_asked: int, rng: np.random.Generator) -> Recall:
    """Text with ``n_pairs`` pairs, evenly spread; at the end ``n_asked`` of their keys come again, from every depth.

    Raises:
        InputError: too many pairs for the length or for the keys that there are.
    """
    room = n - 2 * n_asked
    if not n_asked <= n_pairs <= min(N_KEYS, room // 2):
        raise InputError(
            f"{n_pairs} pairs, {n_asked} of them asked, do not fit into {n} tokens with {N_KEYS} keys; take fewer pairs"
        )
    tokens = stretch(text, n, rng)
    step = room / n_pairs
    places = (np.arange(n_pairs) * step + rng.random(n_pairs) * (step - 2)).astype(np.int64)
    keys, values = rng.permutation(N_KEYS)[:n_pairs] + FIRST_KEY, rng.integers(N_VALUES, size=n_pairs) + FIRST_VALUE
    tokens[places], tokens[places + 1] = keys, values
    # one from each of n_asked equal parts of the depth, in random order
    strata = np.floor((np.arange(n_asked) + rng.random(n_asked)) * n_pairs / n_asked).astype(np.int64)
    order = rng.permutation(strata)
    asked = room + 2 * np.arange(n_asked)
    tokens[asked], tokens[asked + 1] = keys[order], values[order]
    return Recall(tokens, asked, asked - places[order] - 1)


def skipped_positions(n: int, longest: int, rng: np.random.Generator) -> Ints:
    """0 … n-1 with one gap at a random place, up to ``longest``: a short sequence shows every distance of a long one.

    Source: positional skip-wise training (PoSE, arXiv 2309.10400) with two chunks.
    """
    cut, gap = int(rng.integers(1, n)), int(rng.integers(longest - n + 1))
    positions = np.arange(n)
    positions[cut:] += gap
    return positions


def batch_stream(seed: int, *path: str | int) -> np.random.Generator:
    """Named as in :func:`attnlim.core.seeds.generator`."""
    return generator(seed, "benchmarks.length", *path)
