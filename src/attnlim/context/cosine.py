"""The typical cosine between tokens, ρ̂, at the cost of one pass over them."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlim.core.checks import InputError

# tokens converted to float64 at a time, so that the copy stays small beside the tokens
BLOCK = 1024


def mean_cosine(x: Tensor) -> float:
    r"""Mean cosine over all pairs of different tokens.

    .. math:: \hat\rho = \frac{|\sum_i y_i|^2 - n}{n(n-1)}, \qquad y_i = x_i/|x_i|

    Source: [*derived*](../derivations.md#contraction) (the sum of all <y_i, y_j> is |Σ y_i|², and its n diagonal terms
    are 1).

    Args:
        x: (n_tokens, width), any float dtype and device; computed in float64.

    Returns:
        dimensionless, in [-1/(n-1), 1].

    Raises:
        InputError: fewer than 2 tokens, a token of zero norm, NaN or infinity.

    Cost: O(n·width) time, O(width) memory above the tokens. Precision: float64.

    >>> round(mean_cosine(torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]])), 6)   # pairs: 1, 0, 0
    0.333333
    """
    n_tokens = x.shape[0]
    if n_tokens < 2:
        raise InputError(f"a cosine between tokens needs at least 2 tokens, got {n_tokens}; give more tokens")
    if x.device.type == "mps":  # has no float64
        x = x.cpu()
    total = torch.zeros(x.shape[1], dtype=torch.float64, device=x.device)
    shortest = torch.tensor(torch.inf, dtype=torch.float64, device=x.device)
    for start in range(0, n_tokens, BLOCK):
        wide = x[start : start + BLOCK].double()
        norm = torch.linalg.vector_norm(wide, dim=1, keepdim=True)
        shortest = torch.minimum(shortest, norm.min())
        total += (wide / norm).sum(dim=0)
    square = float(total @ total)
    if not square < torch.inf:
        problem = "zero norm" if float(shortest) == 0 else "NaN or infinity"
        raise InputError(f"tokens must be finite and not zero, got a token with {problem}; leave such tokens out")
    return (square - n_tokens) / (n_tokens * (n_tokens - 1))
