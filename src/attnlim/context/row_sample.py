"""Which rows of an attention matrix are looked at: all, a seeded sample, or those that are named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlim.core.checks import InputError, whole_number
from attnlim.core.seeds import generator

Rows = int | Sequence[int] | Tensor | np.ndarray | None


def sampled_rows(rows: Rows, n_tokens: int, seed: int, least: int) -> Tensor | None:
    """Ascending indices of the rows, or None for all of them.

    Args:
        rows: None for all; how many to draw without replacement; or the indices themselves, counted from 0.
        n_tokens: n.
        seed: of the draw.
        least: the fewest rows that give a standard error.

    Returns:
        (n_rows,), int64, on the CPU.

    Raises:
        InputError: fewer than ``least`` or more than n rows, an index outside 0..n-1 or twice.

    >>> sampled_rows([5, 2, 3], 8, seed=0, least=2).tolist(), sampled_rows(8, 8, seed=0, least=2)
    ([2, 3, 5], None)
    """
    if rows is None:
        return None
    given: Any = rows.tolist() if hasattr(rows, "tolist") else rows
    if not isinstance(given, list | tuple | range):
        count = whole_number("rows", given, least, advice="use rows=None for all")
        if count > n_tokens:
            raise InputError(f"rows must be at most the {n_tokens} tokens, got {count}; use rows=None for all")
        if count == n_tokens:
            return None
        drawn = generator(seed, "rows", n_tokens).choice(n_tokens, count, replace=False)
        return torch.from_numpy(np.sort(drawn))
    indices = sorted(whole_number("a row index", index, 0) for index in given)
    if len(indices) < least or len(set(indices)) < len(indices) or indices[-1] >= n_tokens:
        raise InputError(
            f"rows must be at least {least} different indices below {n_tokens}, "
            f"got {len(indices)} from {indices[0] if indices else 'none'} to {indices[-1] if indices else 'none'}"
        )
    return torch.tensor(indices)
