"""Seeds: every random thing takes one, derives its stream from it by name, and records it."""

from __future__ import annotations

import hashlib

import numpy as np

from attnlim.core.checks import whole_number


def generator(seed: int, *path: str | int) -> np.random.Generator:
    """The random stream called ``path`` under ``seed``.

    Streams of different paths are independent, and a stream does not change when others are added: cells of a
    sweep can run in any order or alone.

    Args:
        seed: the run's seed, at least 0.
        path: names or numbers that say what the stream is for, such as ``("rows", 2048, 3)``.

    Raises:
        InputError: ``seed`` is not a whole number of at least 0.

    >>> float(generator(0, "rows", 512).random()) == float(generator(0, "rows", 512).random())
    True
    """
    whole_number("seed", seed, 0)
    name = "/".join(f"{type(part).__name__}:{part}" for part in path)
    digest = hashlib.sha256(name.encode()).digest()
    words = np.frombuffer(digest[:16], dtype=np.uint32)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(int(word) for word in words)))
