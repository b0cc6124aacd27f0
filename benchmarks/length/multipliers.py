"""What the logits of a trained decoder are multiplied by when it is read: constants, and rules of :mod:`attnlim.rules`."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlim.rules import factors
from benchmarks.length.decoder import Multiplier, Shape, rope_frequencies

CONSTANTS = (0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0)
FEW_CONSTANTS = (0.7, 1.0, 1.5)
NONE = "1"
SQUARE_ROOT, LOG, FROZEN, CRITICAL, YARN = "√log", "log", "frozen log", "critical", "yarn"
RULES = (SQUARE_ROOT, LOG, FROZEN, CRITICAL)


def multipliers(name: str, n: int, trained: int, exponents: NDArray[np.float64]) -> list[Multiplier]:
    """One a layer.

    Args:
        name: a constant as a word, such as "1.2", or one of :data:`RULES` or :data:`YARN`.
        n: length that is read, for the rules that are constants.
        trained: n_0.
        exponents: (n_layers, n_heads), the power of ln n with which each head's b_c grows, for the critical rule; NaN is a
            head that is never critical, and stays as it is.
    """
    if name == CRITICAL:
        columns = [torch.tensor(np.nan_to_num(layer), dtype=torch.float32)[:, None] for layer in exponents]
        return [partial(factors.log_power, trained=trained, exponent=column) for column in columns]
    one = _one(name, n, trained)
    return [one] * len(exponents)


def _one(name: str, n: int, trained: int) -> Multiplier:
    if name == LOG:
        return partial(factors.logn, trained=trained)
    if name == SQUARE_ROOT:
        return partial(factors.log_power, trained=trained, exponent=0.5)
    if name == FROZEN:
        return partial(factors.constant, value=max(1.0, math.log(n) / math.log(trained)))
    if name == YARN:
        return partial(factors.constant, value=factors.yarn_attention_factor(n / trained) ** 2)
    return partial(factors.constant, value=float(name))


def yarn_frequencies(shape: Shape, factor: float, trained: int, fast: float = 32.0, slow: float = 1.0) -> Tensor:
    r"""Rotary frequencies stretched by parts, (head_dim/2,) radians a token.

    .. math::
        \theta' = \theta\,\big(r + (1-r)/s\big), \qquad
        r = \operatorname{clip}\Big(\frac{d_{slow} - i}{d_{slow} - d_{fast}}, 0, 1\Big)

    with d the dimension whose frequency turns ``fast`` or ``slow`` times within n_0, rounded outwards.

    Source: YaRN (arXiv 2309.00071), section 3.2, with the ramp over dimensions that its code has.
    """
    plain = rope_frequencies(shape)
    if factor <= 1:
        return plain

    def dimension(turns: float) -> float:
        return shape.head_dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(shape.rope_base))

    first = max(math.floor(dimension(fast)), 0)
    last = min(math.ceil(dimension(slow)), shape.head_dim - 1)
    slowed = ((torch.arange(len(plain)) - first) / max(last - first, 0.001)).clamp(0, 1)
    return plain * (1 - slowed + slowed / factor)
