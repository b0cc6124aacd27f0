"""The critical inverse temperature β_c of three laws of attention scores, in closed form.

For random scores with P(score > s) = e^{-I(s)} to leading order, the largest of n lies at I(s*) = ln n, and
the softmax freezes on the few largest where β reaches I'(s*), as in the random energy model.
"""

from __future__ import annotations

import math

from attnlim.core.checks import cosine, real_number, whole_number
from attnlim.core.numerics import exp_or_inf


def beta_c_simplex(n_tokens: int, rho: float) -> float:
    r"""β_c of a simplex row: one score 1, the others ρ.

    .. math:: \beta_c = \ln n/(1-\rho)

    Source: "Critical attention scaling", Theorem 2.1 (γ_c ln n). The gap count gives it exactly.

    Args:
        n_tokens: tokens, at least 2.
        rho: common cosine, dimensionless, in (-1/(n-1), 1).

    Returns:
        Dimensionless, above 0.

    Raises:
        InputError: an argument outside its range.

    >>> round(beta_c_simplex(100, 0.5), 6)
    9.21034
    """
    n_tokens = whole_number("n_tokens", n_tokens, 2)
    return math.log(n_tokens) / (1 - cosine(rho, n_tokens))


def beta_c_iid(n_tokens: int, sigma: float) -> float:
    r"""β_c of independent normal scores.

    .. math:: \beta_c = \sqrt{2\ln n}/\sigma

    Source: after arXiv 2605.12697; constant [*derived*](../derivations.md#random-rows) from I(s) = s²/(2σ²).

    Assumes: n scores drawn independently from N(0, σ²), large n. Above it the mean of ΣA² tends to 1 - β_c/β.

    Args:
        n_tokens: keys, at least 2.
        sigma: standard deviation of the scores, dimensionless, above 0.

    Returns:
        Dimensionless, above 0.

    Raises:
        InputError: an argument outside its range.

    >>> round(beta_c_iid(8192, 1.0), 2)
    4.25
    """
    sigma = real_number("sigma", sigma, above=0.0, advice="sigma is the standard deviation of the scores")
    return math.sqrt(2 * math.log(whole_number("n_tokens", n_tokens, 2))) / sigma


def beta_c_sphere(n_tokens: int, width: int) -> float:
    r"""β_c of the cosines between a fixed query and keys that are uniform on the sphere in R^d.

    .. math:: \beta_c = (d-1)\, z \sqrt{1 - 1/z}, \qquad z = n^{2/(d-1)}

    Tends to √(2 d ln n) for d much above ln n, where cosines are normal with variance 1/d.

    Source: after arXiv 2605.12697; [*derived*](../derivations.md#random-rows) from the tail rate I(s) = -(d-1)/2
    ln(1-s²): a cosine has the density ∝ (1-s²)^{(d-3)/2}, whose tail falls with the exponent (d-1)/2.

    Assumes: the constant in front of the tail may be dropped. It matters at small d: at d = 8, n = 8192 the
    exact tail gives 51 in place of 88.

    Args:
        n_tokens: keys, at least 2.
        width: dimension d, at least 2.

    Returns:
        Dimensionless, above 0; ``inf`` beyond the float range.

    Raises:
        InputError: an argument outside its range.

    >>> [round(beta_c_sphere(8192, width)) for width in (8, 64, 128)]
    [88, 42, 53]
    """
    n_tokens = whole_number("n_tokens", n_tokens, 2)
    width = whole_number("width", width, 2, advice="on a line there are only two directions")
    log_z = 2 * math.log(n_tokens) / (width - 1)
    return (width - 1) * exp_or_inf(log_z) * math.sqrt(-math.expm1(-log_z))
