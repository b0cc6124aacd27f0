"""How closed forms become verdicts: limits by extrapolation, fitted exponents, and what is in sight at a real n."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from attnlim.core.regression import slope
from attnlim.lab.verdicts import CLOSE, CONFIRMED, CONTRADICTED, QUALIFIED, Measured, exact, near

# a closed form that is extrapolated to its limit has to meet it to this
LIMIT = 1e-3
# a fitted exponent has to meet the derived one to this: what the rate leaves out is smaller by up to 1/ln n alone
EXPONENT = 0.05
# numbers of tokens from which limits are extrapolated, and the one at which a limit should be in sight
EXTRAPOLATED_FROM = (10**6, 10**9, 10**12)
REAL_N = 10**6


def in_the_end(limit: str, here: bool) -> str:
    """A limit that is confirmed but out of sight at a real number of tokens is qualified.

    >>> in_the_end("confirmed", False), in_the_end("contradicted", True)
    ('qualified', 'contradicted')
    """
    return QUALIFIED if limit == CONFIRMED and not here else limit


def exponent(n_tokens: ArrayLike, values: ArrayLike) -> np.ndarray:
    """The power of n that values follow along their last axis.

    >>> exponent([10, 100], [1.0, 0.1]).round(9).tolist()
    -1.0
    """
    with np.errstate(divide="ignore"):
        return slope(np.log(np.asarray(n_tokens, dtype=np.float64)), np.log(np.asarray(values, dtype=np.float64)))


@dataclass(frozen=True)
class Extrapolated:
    """A closed form followed to n → ∞.

    Attributes:
        limit: with the change from one extrapolation to the next as its error.
        exponent: e of n^-e (ln n)^k, fitted to the distance from the limit that is claimed.
        here: the value at n = 10^6.
    """

    limit: Measured
    exponent: float
    here: float


def extrapolated(
    value: Callable[[int], float],
    claimed: float,
    rate: float,
    log_power: int = 0,
    n_tokens: tuple[int, int, int] = EXTRAPOLATED_FROM,
) -> Extrapolated:
    r"""A closed form at n → ∞ by Richardson's extrapolation along its derived rate.

    .. math:: v(n) \approx v_\infty + C\, n^{-e} (\ln n)^k

    Args:
        value: v, of a number of tokens.
        claimed: v_∞ as it is claimed.
        rate: e, as derived.
        log_power: k, as derived.
        n_tokens: three sizes, ascending; two neighbours give a limit.

    >>> found = extrapolated(lambda n: 2 + 3 / n**0.5, 2.0, 0.5)
    >>> round(found.limit.value, 9), round(found.exponent, 6)
    (2.0, 0.5)
    """
    logs = np.log(np.array(n_tokens, dtype=np.float64))
    values = np.array([value(n) for n in n_tokens])
    scale = np.exp(-rate * logs) * logs**log_power
    limits = (values[1:] * scale[:-1] - values[:-1] * scale[1:]) / (scale[:-1] - scale[1:])
    with np.errstate(divide="ignore"):
        fitted = -slope(logs, np.log(np.abs(values - claimed)) - log_power * np.log(logs))
    return Extrapolated(exact(limits[1], abs(limits[1] - limits[0])), float(fitted), value(REAL_N))


def limit_verdict(claimed: float, found: Extrapolated, rate: float) -> str:
    """Limit and rate have to be those that are claimed; confirmed if the limit is also in sight at n = 10^6."""
    verdict = near(claimed, found.limit, LIMIT)
    if verdict == CONFIRMED and not abs(found.exponent - rate) <= EXPONENT:
        verdict = CONTRADICTED
    return in_the_end(verdict, abs(found.here - claimed) <= CLOSE)
