"""The focus exponent κ and the phase that it puts a row, a head or a layer in."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlim.core.checks import InputError, real_number
from attnlim.core.regression import slope

PHASES = ("diluted", "sparse", "frozen", "undecided")
DILUTED, SPARSE, FROZEN, UNDECIDED, UNKNOWN = 0, 1, 2, 3, -1

DILUTED_ABOVE = 0.8
FROZEN_BELOW = 0.2

# one octave of n, less 10 % for contexts such as 500 and 1000 minus a few skipped rows
LEAST_RANGE = 0.9 * math.log(2)


def focus_exponent(log_n: ArrayLike, entropy: ArrayLike, axis: int = -1) -> NDArray[np.float64]:
    r"""The focus exponent: how the number of attended tokens grows with the number of visible ones.

    .. math:: \kappa = \frac{d \ln e^H}{d \ln n}, \text{ the least-squares slope of } H \text{ on } \ln n

    Source: this library's own definition; uniform attention has κ = 1, a fixed number of tokens κ = 0.

    Assumes: a power law over the range of n; at finite n on a simplex κ may leave [0, 1].

    Args:
        log_n: (m,) or the shape of ``entropy``, ln n in nats, the abscissa of each entropy.
        entropy: (..., m, ...) with the contexts along ``axis``, nats; a NaN point is left out.
        axis: the axis of the contexts.

    Returns:
        The shape of ``entropy`` without that axis, dimensionless; NaN where fewer than two finite points are
        left, or where they span less than 0.9 ln 2 in ln n.

    Raises:
        InputError: no such axis, or a ``log_n`` of another length.

    >>> log_n = np.log([512.0, 2048.0, 8192.0])
    >>> focus_exponent(log_n, [0.5 * log_n, [1.0, np.nan, 1.0], [1.0, np.nan, np.nan]]).round(9).tolist()
    [0.5, 0.0, nan]
    """
    heights = np.asarray(entropy, dtype=np.float64)
    places = np.asarray(log_n, dtype=np.float64)
    if not -heights.ndim <= axis < heights.ndim:
        raise InputError(f"axis must name one of the {heights.ndim} axes of entropy, got {axis}")
    heights = np.moveaxis(heights, axis, -1)
    if places.ndim > 1 and places.ndim == heights.ndim:
        places = np.moveaxis(places, axis, -1)
    if places.shape not in (heights.shape, heights.shape[-1:]):
        raise InputError(
            f"log_n must have one value for each of the {heights.shape[-1]} contexts of entropy, "
            f"got shape {places.shape}; give ln n along the same axis"
        )
    return slope(places, heights, least_span=LEAST_RANGE)


def classify(
    kappa: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    diluted_above: float = DILUTED_ABOVE,
    frozen_below: float = FROZEN_BELOW,
) -> NDArray[np.int8]:
    """The phase from the interval of κ; the margins are this library's own.

    Diluted: the whole interval above ``diluted_above``. Frozen: the whole interval below ``frozen_below``.
    Sparse: the whole interval between the two, ends included. Otherwise undecided, also where the interval is NaN.

    Source: this library's own definition. The margins are not the thresholds γ_1, γ_2 of "Critical attention
    scaling", Theorem C.2.

    Args:
        kappa, low, high: one shape or broadcastable, dimensionless: the exponent and its interval's bounds.
        diluted_above, frozen_below: margins, dimensionless, frozen_below < diluted_above.

    Returns:
        The common shape, int8: an index into :data:`PHASES`, or -1 where κ itself is NaN.

    Raises:
        InputError: margins in the wrong order, shapes that do not fit, a lower bound above the upper one.

    >>> codes = classify([0.95, 0.5, 0.1, 0.5], low=[0.9, 0.3, 0.0, 0.1], high=[1.0, 0.7, 0.15, 0.9])
    >>> [PHASES[code] for code in codes]
    ['diluted', 'sparse', 'frozen', 'undecided']
    """
    diluted_above = real_number("diluted_above", diluted_above)
    frozen_below = real_number("frozen_below", frozen_below, below=diluted_above, advice="it is the lower margin")
    try:
        value, bottom, top = np.broadcast_arrays(*(np.asarray(array, dtype=np.float64) for array in (kappa, low, high)))
    except ValueError as reason:
        raise InputError(f"kappa, low and high must have one shape, got shapes that differ: {reason}") from reason
    if (bottom > top).any():
        raise InputError("low must not exceed high, got an interval upside down; swap the two arguments")
    codes = np.full(value.shape, UNDECIDED, dtype=np.int8)
    codes[bottom > diluted_above] = DILUTED
    codes[(bottom >= frozen_below) & (top <= diluted_above)] = SPARSE
    codes[top < frozen_below] = FROZEN
    codes[np.isnan(value)] = UNKNOWN
    return codes
