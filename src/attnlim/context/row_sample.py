"""Which rows of an attention matrix are looked at: all, a seeded sample, or those that are named.

``rows`` means the same wherever it is asked for: the tokens that attend, each of them to all that it sees. A number draws
a simple random sample, without replacement and the same for every measure of one seed and n, so that a mean over it
has a standard error. Rows that are named are a choice; how far their mean lies from that of all rows, no formula can
tell, and the standard error is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlim.core.checks import InputError, whole_number
from attnlim.core.seeds import generator

Rows = int | Sequence[int] | Tensor | np.ndarray | None


def sampled_rows(rows: Rows, n_tokens: int, seed: int, least: int, name: str = "rows") -> Tensor | None:
    """Ascending indices of the rows, or None for all of them.

    Args:
        rows: None for all; how many to draw without replacement; or the indices themselves, counted from 0.
        n_tokens: n.
        seed: of the draw.
        least: the fewest rows that are allowed.
        name: of the argument, for what is refused.

    Returns:
        (n_rows,), int64, on the CPU.

    Raises:
        InputError: fewer than ``least`` or more than n rows, an index outside 0..n-1 or twice.

    >>> sampled_rows([5, 2, 3], 8, seed=0, least=2).tolist(), sampled_rows(8, 8, seed=0, least=2)
    ([2, 3, 5], None)
    """
    if rows is None:
        return None
    given = _plain(rows)
    if isinstance(given, list | tuple | range):
        return torch.tensor(sorted(named_rows(given, n_tokens, least, name)))
    count = whole_number(name, given, least, advice=f"use {name}=None for all")
    if count > n_tokens:
        raise InputError(f"{name} must be at most the {n_tokens} tokens, got {count}; use {name}=None for all")
    if count == n_tokens:
        return None
    drawn = generator(seed, "rows", n_tokens).choice(n_tokens, count, replace=False)
    return torch.from_numpy(np.sort(drawn))


def named_rows(rows: Rows, n_tokens: int, least: int, name: str = "rows") -> list[int]:
    """Indices of rows in the order in which they are named.

    Raises:
        InputError: no list of indices, fewer than ``least``, one outside 0..n-1 or twice.

    >>> named_rows(torch.tensor([5, 2]), 8, least=1)
    [5, 2]
    """
    given = _plain(rows)
    if not isinstance(given, list | tuple | range):
        raise InputError(f"{name} must be indices of rows, got {given!r}; give a list, such as [0, 1]")
    indices = [whole_number(f"an index in {name}", index, 0) for index in given]
    if len(indices) < least or len(set(indices)) < len(indices) or max(indices) >= n_tokens:
        came = f"{len(indices)} from {min(indices)} to {max(indices)}" if indices else "none"
        raise InputError(f"{name} must be at least {least} different indices below {n_tokens}, got {came}")
    return indices


def unseen_share(rows: Rows, n_tokens: int) -> float:
    r"""The finite-population factor of the variance of a mean over the rows.

    .. math:: 1 - r/n

    Args:
        rows: as :func:`sampled_rows` takes them, checked already.
        n_tokens: n.

    Returns:
        For r drawn rows that factor; 0 for all rows; NaN for fewer that are named.

    >>> unseen_share(2, 8), unseen_share([1, 5], 8), unseen_share(range(8), 8), unseen_share(None, 8)
    (0.75, nan, 0.0, 0.0)
    """
    if rows is None:
        return 0.0
    given = _plain(rows)
    if isinstance(given, list | tuple | range):
        return 0.0 if len(given) == n_tokens else math.nan
    return 1 - float(given) / n_tokens


def _plain(rows: Rows) -> Any:
    return rows.tolist() if isinstance(rows, Tensor | np.ndarray | np.generic) else rows
