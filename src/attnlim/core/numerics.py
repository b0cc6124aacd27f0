"""Scalar functions that neither overflow nor lose digits, for closed forms at n up to 10^300 and beyond."""

from __future__ import annotations

import math
import sys

_LARGEST_EXPONENT = math.log(sys.float_info.max)


def logistic(t: float) -> float:
    r"""The logistic function of ``t``.

    .. math:: \sigma(t) = 1/(1 + e^{-t})

    Args:
        t: log-odds, dimensionless, any float or ±inf.

    Returns:
        A float in [0, 1] with full relative precision down to the smallest normal number.

    >>> logistic(0.0), logistic(1e4), logistic(-1e4)
    (0.5, 1.0, 0.0)
    """
    if t >= 0:
        return 1 / (1 + math.exp(-t))
    odds = math.exp(t)
    return odds / (1 + odds)


def log_logistic(t: float) -> float:
    r"""The natural logarithm of the logistic function.

    .. math:: \ln\sigma(t) = \min(t, 0) - \ln(1 + e^{-|t|})

    Args:
        t: log-odds, dimensionless, any finite float.

    Returns:
        A float ≤ 0, in nats; right where σ(t) itself would round to 0 or to 1.

    >>> log_logistic(-1e4), log_logistic(40.0) == -math.exp(-40)
    (-10000.0, True)
    """
    return min(t, 0.0) - math.log1p(math.exp(-abs(t)))


def log_add_exp(a: float, b: float) -> float:
    r"""The logarithm of a sum of two exponentials.

    .. math:: \ln(e^a + e^b) = \max(a, b) + \ln(1 + e^{-|a-b|})

    Args:
        a, b: natural logarithms of the summands, finite.

    Returns:
        A float, in nats.

    >>> round(log_add_exp(1e5, 1e5) - 1e5, 9)
    0.693147181
    """
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


def exp_or_inf(t: float) -> float:
    """The exponential of ``t``, ``inf`` where it is beyond float64.

    ``math.exp`` raises there; a perplexity of 10^400 tokens is better told as ``inf`` beside a finite entropy.

    >>> exp_or_inf(0.0), exp_or_inf(1e3)
    (1.0, inf)
    """
    return math.exp(t) if t <= _LARGEST_EXPONENT else math.inf
