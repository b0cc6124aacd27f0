"""Lists of numbers on the command line: by commas, and as linear ranges start:stop:count."""

from __future__ import annotations

import re

import numpy as np

from attnlim.core.checks import InputError

# rounding that a decimal range must not show: 0.1:0.9:9 holds 0.3 and not 0.30000000000000004
_DIGITS = 12


def numbers(option: str, given: str) -> list[float]:
    """The numbers in "0.1,0.5" or "0:4:41", ends included, or in both together.

    Raises:
        InputError: something else stands there.

    >>> numbers("--rho", "0.1:0.9:9, 0.95")
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
    """
    found: list[float] = []
    for word in given.split(","):
        parts = [part.strip() for part in word.split(":")]
        try:
            if len(parts) == 1:
                found.append(float(parts[0]))
                continue
            start, stop, count = float(parts[0]), float(parts[1]), int(parts[2])
            if len(parts) != 3 or count < 2 or not np.isfinite([start, stop]).all():
                raise ValueError
        except (ValueError, IndexError) as reason:
            raise InputError(
                f"{option} must be numbers such as 0.1,0.5 or a range start:stop:count such as 0:4:41, got {given!r}"
            ) from reason
        found += [float(f"{value:.{_DIGITS}g}") for value in np.linspace(start, stop, count)]
    return found


def whole_numbers(option: str, given: str) -> list[int]:
    """The whole numbers in "512,2k" (k is 1024) or "100:1000:10".

    Raises:
        InputError: something else stands there.

    >>> whole_numbers("--n", "512,2k,100:300:3")
    [512, 2048, 100, 200, 300]
    """
    words = [
        re.sub(r"^\s*(\d+)k\s*$", lambda found: str(1024 * int(found[1])), word, flags=re.I)
        for word in given.split(",")
    ]
    values = numbers(option, ",".join(words))
    for value in values:
        if value != value // 1:
            raise InputError(f"{option} must be whole numbers, got {value:g} in {given!r}")
    return [int(value) for value in values]
