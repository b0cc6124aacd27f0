"""The critical window on up to 10^6 drawn tokens, which are made in blocks and never all held."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from attnlim.core.cells import Arrays
from attnlim.core.seeds import generator

# numbers of a block of tokens: 8 MiB in float32
_BLOCK_ENTRIES = 2**21


def measure_self_weights(
    n_tokens: int, width: int, rho: float, t: Sequence[float], rows: int, draw: int, seed: int
) -> Arrays:
    r"""Self weights of some rows of the paper's tokens around the critical window.

    .. math::
        A_{ii} = \Big(\sum_j e^{-\beta(1 - \langle y_i, y_j \rangle)}\Big)^{-1}, \qquad
        \beta = \frac{t + \ln n}{1 - \hat\rho}

    The tokens x_i = √ρ z_0 + √(1-ρ) z_i are exchangeable, so the first rows are a sample as good as any. β is set by
    the ρ̂ of the first block of tokens; the t that is returned is that of all of them.

    Source: *derived*, as :func:`attnlim.context.window_coordinate`.

    Args:
        n_tokens: tokens, at least 2.
        width: dimension d, at least 2.
        rho: nominal cosine, dimensionless, in [0, 1).
        t: (m,), nats, above -ln n: where to measure, up to the ρ̂ of the first block.
        rows: rows that are looked at, the first ones, at least 2; at most n and a block.
        draw: which token set, from 0.
        seed: at least 0.

    Returns:
        float64: t (m,) and self_weight (m,), the mean over rows, with its standard_error over them; rho_hat () and
        score_variance (), the variance of the other cosines within a row, mean over rows.

    Cost: 2 n·d·rows operations and n·d normal numbers; memory some 30 MiB.
    Precision: cosines are float32, so that a weight is right to about β·10^-7 of itself.
    """
    size = max(rows, _BLOCK_ENTRIES // width)
    starts = list(range(0, n_tokens, size))
    shared = generator(seed, "self weights", n_tokens, width, draw).standard_normal(width)

    def unit(start: int) -> Tensor:
        count = min(size, n_tokens - start)
        own = generator(seed, "self weights", n_tokens, width, draw, start).standard_normal((count, width), np.float32)
        own *= np.float32(math.sqrt((1 - rho) / width))
        own += (math.sqrt(rho / width) * shared).astype(np.float32)
        y = torch.from_numpy(own)
        return y.div_(torch.linalg.vector_norm(y, dim=1, keepdim=True))

    first = unit(0)
    chosen = first[:rows].clone()
    apart = 1 - _mean_cosine(first.sum(dim=0, dtype=torch.float64), len(first))
    betas = [(place + math.log(n_tokens)) / apart for place in t]
    del first

    # allocated once: results that stay between large blocks keep the allocator from using their memory again
    total = torch.zeros(width, dtype=torch.float64)
    partition = torch.zeros(len(betas), rows, dtype=torch.float64)
    once, twice = torch.zeros(2, rows, dtype=torch.float64)
    for start in starts:
        y = unit(start)
        total += y.sum(dim=0, dtype=torch.float64)
        distance = torch.mm(chosen, y.T).neg_().add_(1)
        if start == 0:
            distance.diagonal().zero_()  # a token and itself, up to rounding
        part = torch.empty_like(distance)
        for k, beta in enumerate(betas):
            torch.mul(distance, -beta, out=part).exp_()
            partition[k] += part.sum(dim=1, dtype=torch.float64)
        once += distance.sum(dim=1, dtype=torch.float64)
        twice += distance.square_().sum(dim=1, dtype=torch.float64)
    rho_hat, weights = _mean_cosine(total, n_tokens), 1 / partition
    others = n_tokens - 1
    return {
        "t": np.array([beta * (1 - rho_hat) - math.log(n_tokens) for beta in betas]),
        "self_weight": weights.mean(dim=1).numpy(),
        "standard_error": (weights.std(dim=1) / math.sqrt(rows)).numpy(),
        "rho_hat": np.array(rho_hat),
        "score_variance": np.array(float((twice / others - (once / others).square()).mean())),
    }


def _mean_cosine(total: Tensor, count: int) -> float:
    """ρ̂ of ``count`` unit tokens from their sum."""
    return (float(total @ total) - count) / (count * (count - 1))
