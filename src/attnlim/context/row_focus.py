"""How many tokens each row of an attention layer attends to, without ever holding the n × n weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnlim.context.arguments import Beta, inverse_temperatures, unit_tokens
from attnlim.core.checks import whole_number

# entries of a block of weights: 32 MiB in float64, while a row of 10^5 keys still shares its block with 40 others
_BLOCK_ENTRIES = 2**22


@dataclass(frozen=True)
class Focus:
    """Per row: entropy in nats, its exponential and 1/ΣA² in tokens; (n,), or (n_betas, n) for a sequence."""

    entropy: Tensor
    perplexity: Tensor
    participation: Tensor


def focus(x: Tensor | np.ndarray, beta: Beta, causal: bool = False, *, block: int | None = None) -> Focus:
    r"""How many tokens each row attends to.

    .. math::
        A_{ij} = \operatorname{softmax}_j(\beta \langle y_i, y_j \rangle),\qquad
        H_i = -\sum_j A_{ij} \ln A_{ij}, \qquad e^{H_i}, \qquad 1/\sum_j A_{ij}^2

    Source: the layer of "Critical attention scaling", section 2; the counts are this library's choice.

    Assumes: K = Q = V = I; y = x/|x| is formed here.

    Args:
        x: (n, d), tokens, tensor or array, any unit, float32 or float64; n ≥ 2, d ≥ 1, finite, no zero norm.
        beta: inverse temperature or a sequence of them, dimensionless, at least 0.
        causal: whether row i sees tokens 1..i alone.
        block: rows at a time; the default bounds the memory. It does not change the result beyond rounding.

    Returns:
        A :class:`Focus` in the dtype and on the device of ``x``, without a gradient.

    Raises:
        InputError: bad tokens, a negative, NaN or infinite ``beta``, a block below 1.

    Cost: n²(d + about 6 a beta) operations, half of it if causal; memory n·block for three blocks.
    Precision: that of the cosines, so about β eps absolute in H. Twin: :func:`attnlim.context.naive.focus`.

    >>> result = focus(torch.eye(4, dtype=torch.float64), beta=0.0)
    >>> result.perplexity.round(decimals=9).tolist(), result.participation.tolist()
    ([4.0, 4.0, 4.0, 4.0], [4.0, 4.0, 4.0, 4.0])
    """
    y = unit_tokens(x)
    betas, single = inverse_temperatures(beta, y.dtype)
    n_tokens = y.shape[0]
    rows = max(1, _BLOCK_ENTRIES // n_tokens) if block is None else whole_number("block", block, 1)
    entropy, participation = y.new_empty(2, len(betas), n_tokens)
    for start in range(0, n_tokens, rows):
        stop = min(start + rows, n_tokens)
        n_keys = stop if causal else n_tokens
        scores = y[start:stop] @ y[:n_keys].T
        hidden = None
        if causal:
            hidden = torch.ones(stop - start, n_keys, dtype=torch.bool, device=y.device).triu_(start + 1)
            scores.masked_fill_(hidden, -1.0)
        scores -= scores.amax(dim=1, keepdim=True)
        for k, value in enumerate(betas):
            weights = torch.exp(value * scores)
            if hidden is not None:
                weights.masked_fill_(hidden, 0.0)
            total = weights.sum(dim=1)
            mean_score = (weights * scores).sum(dim=1) / total
            entropy[k, start:stop] = total.log() - value * mean_score
            participation[k, start:stop] = total**2 / weights.square_().sum(dim=1)
    if single:
        entropy, participation = entropy[0], participation[0]
    return Focus(entropy, entropy.exp(), participation)
