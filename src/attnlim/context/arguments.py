"""Checks of what every measurement on tokens takes: the tokens themselves and the inverse temperatures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlim.core.checks import InputError, real_number, whole_number

Beta = float | Sequence[float] | Tensor


def as_tensor(values: Tensor | np.ndarray) -> Tensor:
    """A numpy array as a tensor, sharing its memory where torch can; a tensor as it is.

    Raises:
        InputError: an array of something else than numbers of the machine's own format.

    >>> as_tensor(np.zeros(2)).dtype
    torch.float64
    """
    if not isinstance(values, np.ndarray):
        return values
    if values.dtype.kind not in "fiub" or values.dtype.itemsize > 8:
        raise InputError(f"arrays must hold numbers of at most 64 bits, got {values.dtype}; convert with astype")
    native = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    return torch.from_numpy(native if native.flags.writeable else native.copy())


def checked_tokens(x: Tensor | np.ndarray) -> Tensor:
    """The tokens as a tensor without a gradient, if every one of them has a direction.

    Args:
        x: (n, d), tensor or array, float32 or float64, finite, no token of zero norm, n ≥ 2, d ≥ 1.

    Returns:
        (n, d), sharing memory with ``x``.

    Raises:
        InputError: anything else.

    >>> checked_tokens(np.ones((2, 3))).shape
    torch.Size([2, 3])
    """
    x = as_tensor(x)
    if not isinstance(x, Tensor) or x.dtype not in (torch.float32, torch.float64) or x.layout != torch.strided:
        came = f"{x.dtype} ({x.layout})" if isinstance(x, Tensor) else type(x).__name__
        raise InputError(f"tokens must be a dense float32 or float64 tensor, got {came}; convert with torch.as_tensor")
    if x.ndim != 2 or x.shape[0] < 2 or x.shape[1] < 1:
        raise InputError(f"tokens must have shape (n, d) with n >= 2 and d >= 1, got {tuple(x.shape)}")
    x = x.detach()
    largest = x.abs().amax(dim=1)
    if not bool(torch.isfinite(largest).all()):
        raise InputError("tokens must be finite, got NaN or inf; look for an overflow where they were made")
    if bool((largest == 0).any()):
        index = int((largest == 0).nonzero()[0, 0])
        raise InputError(f"tokens must have a direction, got zero norm at token {index}; leave it out")
    return x


def unit_tokens(x: Tensor | np.ndarray) -> Tensor:
    """The tokens divided by their norms, without a gradient.

    Args:
        x: (n, d), tensor or array, float32 or float64, finite, no token of zero norm, n ≥ 2, d ≥ 1.

    Returns:
        (n, d), on the same device; right even where the squares of the entries would overflow or vanish.

    Raises:
        InputError: anything else.

    >>> unit_tokens(torch.tensor([[3e-30, 4e-30], [0.0, 2.0]])).round(decimals=6).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 1.0]]
    """
    return directions(checked_tokens(x))[0]


def directions(x: Tensor) -> tuple[Tensor, Tensor]:
    """x/|x| with its gradient, and |x|, right even where the squares of the entries would overflow or vanish.

    Args:
        x: (n, d), checked already.

    Returns:
        (n, d) and (n,).

    >>> [part.round(decimals=6).tolist() for part in directions(torch.tensor([[3.0, 4.0]], dtype=torch.float64))]
    [[[0.6, 0.8]], [5.0]]
    """
    length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    limits = torch.finfo(x.dtype)
    if bool(((length > math.sqrt(limits.tiny) / limits.eps) & (length < math.inf)).all()):
        return x / length, length[:, 0]
    # the direction does not depend on the scale, so it may count as a constant
    largest = x.detach().abs().amax(dim=1, keepdim=True)
    scaled = x / largest
    length = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return scaled / length, (length * largest)[:, 0]


def inverse_temperatures(beta: Beta, dtype: torch.dtype) -> tuple[list[float], bool]:
    """The values of ``beta`` and whether it was a single number.

    Args:
        beta: a number or a non-empty 1-D sequence, dimensionless, each value ≥ 0, its square finite in ``dtype``.

    Raises:
        InputError: no value, more than one axis, a value that is negative, NaN or too large.

    >>> inverse_temperatures(2, torch.float64), inverse_temperatures([0.0, 1.5], torch.float64)
    (([2.0], True), ([0.0, 1.5], False))
    """
    given: Any = beta.tolist() if hasattr(beta, "tolist") else beta
    single = isinstance(given, str) or not isinstance(given, Sequence)
    values: list[Any] = [given] if single else list(given)
    if not values:
        raise InputError("beta must hold at least one number, got an empty sequence; give one, such as 1.0")
    largest = math.sqrt(torch.finfo(dtype).max)  # the Jacobian has β²
    checked = [real_number("beta", value, above=0.0, closed=True) for value in values]
    for value in checked:
        real_number("beta", value, below=largest, advice=f"the tokens are {dtype}")
    return checked, single


def tile_shape(tile: tuple[int, int]) -> tuple[int, int]:
    """Rows and keys of a tile, each at least 1.

    Raises:
        InputError: anything else than two such numbers.

    >>> tile_shape((8, 16))
    (8, 16)
    """
    if not isinstance(tile, tuple | list) or len(tile) != 2:
        raise InputError(f"tile must be two numbers, rows and keys at a time, got {tile!r}; (512, 512) is usual")
    return whole_number("tile rows", tile[0], 1), whole_number("tile keys", tile[1], 1)
