"""Where tokens of a finite width keep half of their attention to themselves: noise moves the threshold."""

from __future__ import annotations

import math

from attnlim.core.checks import real_number, whole_number


def half_weight_gamma(n_tokens: int, rho_hat: float, variance: float) -> float:
    r"""The γ at which A_ii = 1/2 where the other cosines of a row scatter.

    .. math::
        \gamma (1 - \hat\rho) = 1 + \tfrac12 \gamma^2 v \ln n, \qquad
        \gamma = \frac{2}{1 - \hat\rho + \sqrt{(1-\hat\rho)^2 - 2 v \ln n}}

    The other n tokens weigh n e^{β ρ̂ + β²v/2}, as long as their typical scores carry the sum, which ends at
    γ = √(2/(v ln n)); the smaller root always lies below that. Where (1-ρ̂)² ≤ 2 v ln n there is no real solution:
    the largest of n normal scores would reach the token's own. Cosines cannot pass 1, so measured tokens still
    have a half-weight point there, but the tail of their law sets it, and not mean and variance.

    Source: [*derived*](../derivations.md#half-weight-point); at v = 0 it is γ_c = 1/(1-ρ̂) of "Critical attention
    scaling", Theorem 2.1.

    Assumes: the other cosines of a row are about normal. For the paper's tokens of d ≥ 32 and ρ ≤ 1/2 it lies within
    6 % of the measured point at n = 1024, above it. The variance is that within a row: one that is pooled over all
    pairs also counts how the rows' means differ, and puts the point too high.

    Args:
        n_tokens: tokens, at least 2.
        rho_hat: mean cosine of two different tokens, dimensionless, in (-1, 1).
        variance: variance v of the other cosines within a row, dimensionless, at least 0.

    Returns:
        Dimensionless; NaN where there is no real solution.

    Raises:
        InputError: an argument outside its range.

    >>> half_weight_gamma(1024, 0.5, 0.0)
    2.0
    >>> half_weight_gamma(1024, 0.5, 0.1)    # d of about 4
    nan
    """
    log_n = math.log(whole_number("n_tokens", n_tokens, 2))
    gap = 1 - real_number("rho_hat", rho_hat, above=-1.0, below=1.0)
    variance = real_number("variance", variance, above=0.0, closed=True)
    excess = gap * gap - 2 * variance * log_n
    return 2 / (gap + math.sqrt(excess)) if excess > 0 else math.nan
