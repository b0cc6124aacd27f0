"""How long a forward takes on this machine, from short ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

SHORT, LONG = 256, 1024


@dataclass(frozen=True)
class Growth:
    """Seconds of a forward, a·n + b·n².

    Attributes:
        linear: a, seconds a token.
        square: b, seconds a pair.
    """

    linear: float
    square: float

    def seconds(self, n_tokens: int) -> float:
        """Of one forward."""
        return self.linear * n_tokens + self.square * n_tokens**2


def timed_growth(seconds: Callable[[int], float], longest: int, short: int = SHORT, long: int = LONG) -> Growth:
    """Time two short forwards and extend them; right to about a third.

    Args:
        seconds: runs a forward of so many tokens and says how long it took.
        longest: of interest, tokens: nothing longer is timed.
        short: tokens of one forward.
        long: of the other: the more, the better it tells what pairs cost.
    """
    sizes = sorted({min(short, longest), min(long, longest)})
    seconds(sizes[0])  # the first forward also pays for memory and kernels that later ones find ready
    # the faster of two: what else runs on the machine only ever adds
    times = [min(seconds(n), seconds(n)) for n in sizes]
    linear, square = times[0] / sizes[0], 0.0
    if len(sizes) == 2:
        square = max(0.0, (times[1] / sizes[1] - times[0] / sizes[0]) / (sizes[1] - sizes[0]))
        linear = max(0.0, times[1] / sizes[1] - square * sizes[1])
    return Growth(linear, square)
