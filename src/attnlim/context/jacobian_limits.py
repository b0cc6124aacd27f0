"""What the Jacobian energy η of one layer tends to as n → ∞: on a simplex, and on tokens of unequal norm."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import hyp1f1

from attnlim.context.simplex_arguments import in_float_range, residual_factor
from attnlim.context.simplex_limits import simplex_limit
from attnlim.core.checks import InputError, real_number, whole_number


def jacobian_limit(
    rho: float,
    width: int,
    gamma: float | None = None,
    phase: str | None = None,
    q: float = 1.0,
    alpha: float = 0.0,
) -> float:
    r"""The limit of η on a simplex at β = γ ln n.

    .. math:: \eta \to (1 - \tfrac1d) (p_\infty/\sqrt q + \alpha)^2 + \alpha^2/d, \qquad p_\infty = 0, \tfrac12, 1

    At α = 0: 0, (1-1/d)/(4q) and (1-1/d)/q. Finite n approaches it as n^{-e} with
    e = min(2(1-γ(1-ρ)), 1) below γ_c at α = 0, 1-γ(1-ρ) below it at α > 0, γ(1-ρ)-1 above it, and as
    (ln n)²/n at γ_c, where the covariance part is the largest correction.

    Source: "Critical attention scaling", Theorem 2.4 (α = 0); the form with α > 0 and the rates are
    [*derived*](../derivations.md#energy-limits).

    Assumes: a simplex with d ≥ n. At a fixed d the covariance part does not vanish below γ_c.

    Args:
        rho: common cosine, dimensionless, in (0, 1).
        width: dimension d of a token, at least 1.
        gamma: β/ln n, dimensionless, at least 0; give exactly one of ``gamma`` and ``phase``.
        phase: "subcritical", "critical" or "supercritical".
        q: squared norm, dimensionless, above 0.
        alpha: residual factor, dimensionless, at least 0.

    Returns:
        Dimensionless.

    Raises:
        InputError: an argument outside its range, not exactly one of ``gamma`` and ``phase``, or a limit that leaves
            the float range.

    >>> [jacobian_limit(0.5, 4, phase=phase) for phase in ("subcritical", "critical", "supercritical")]
    [0.0, 0.1875, 0.75]
    """
    weight = simplex_limit(rho, gamma, phase, q, alpha).self_weight
    width = whole_number("width", width, 1)
    gain = weight / math.sqrt(q) + alpha
    return in_float_range("eta", (width - 1) / width * gain * gain + alpha * alpha * (1 / width))


def supercritical_jacobian_limit(norms_squared: ArrayLike, width: int, alpha: float = 0.0) -> float:
    r"""The limit of η on tokens of any norms, where every token attends to itself alone.

    .. math:: \eta \to \frac1n \sum_i \big[(1 - \tfrac1d) (1/|x_i| + \alpha)^2 + \alpha^2/d\big]

    Source: "Critical attention scaling", Theorem 2.5 (J_ii → (I - y_i y_i^T)/|x_i| + αI); the sum is
    [*derived*](../derivations.md#unequal-norms).

    Assumes: γ above 1/(1-ρ_2), with ρ_2 the largest cosine of two tokens.

    Args:
        norms_squared: (n,), |x_i|², dimensionless, above 0.
        width: dimension d of a token, at least 1.
        alpha: residual factor, dimensionless, at least 0.

    Returns:
        Dimensionless.

    Raises:
        InputError: no norms, a norm that is not finite and above 0, an argument outside its range, or a limit that
            leaves the float range.

    >>> supercritical_jacobian_limit([1.0, 4.0], width=2)    # half the mean of 1 and 1/4
    0.3125
    """
    squares = np.asarray(norms_squared, dtype=np.float64)
    if squares.ndim != 1 or squares.size == 0:
        raise InputError(f"norms_squared must hold one number a token, shape (n,), got shape {squares.shape}")
    if not bool((squares > 0).all() and np.isfinite(squares).all()):
        raise InputError("norms_squared must be finite and above 0; leave out tokens of zero norm")
    width, alpha = whole_number("width", width, 1), residual_factor(alpha)
    with np.errstate(over="ignore"):
        gains = (1 / np.sqrt(squares) + alpha) ** 2
        mean = float(gains.mean())
    return in_float_range("eta", (width - 1) / width * mean + alpha * alpha * (1 / width))


def mean_inverse_square(width: int, rho: float = 0.0, shared_square: float = 1.0) -> float:
    r"""The mean of 1/|x|² over the paper's Gaussian tokens x_i = √ρ z_0 + √(1-ρ) z_i, at a given |z_0|².

    .. math::
        E\big[|x|^{-2} \,\big|\, z_0\big] = \frac{d}{(1-\rho)(d-2)}\;
            {}_1F_1\big(1; \tfrac d2; -\tfrac\lambda2\big), \qquad \lambda = \frac{d\rho |z_0|^2}{1-\rho}

    At ρ = 0, which is also the mean over z_0 at any ρ, it is d/(d-2). A single set of tokens shares one z_0 and
    settles at its own value. At d = 2 it is infinite: norms near 0 are too frequent, and η has no mean above γ_c.

    Source: [*derived*](../derivations.md#unequal-norms); (d/(1-ρ))|x|² is a noncentral χ² of d degrees of freedom and
    noncentrality λ.

    Assumes: z_0 and all z_i from N(0, I/d), so that E|x|² = 1.

    Args:
        width: dimension d, at least 1.
        rho: mean cosine of the sampler, dimensionless, in [0, 1).
        shared_square: |z_0|², dimensionless, at least 0; its mean is 1.

    Returns:
        Dimensionless; ``inf`` for d ≤ 2.

    Raises:
        InputError: an argument outside its range.

    Precision: relative error about 1e-11.

    >>> mean_inverse_square(4), mean_inverse_square(2)
    (2.0, inf)
    """
    width = whole_number("width", width, 1)
    if rho != 0:
        rho = real_number(
            "rho", rho, above=0.0, below=1.0, advice="the sampler takes the square roots of rho and 1-rho"
        )
    shared_square = real_number("shared_square", shared_square, above=0.0, closed=True)
    if width <= 2:
        return math.inf
    noncentrality = width * rho * shared_square / (1 - rho)
    return width / ((1 - rho) * (width - 2)) * float(hyp1f1(1.0, width / 2, -noncentrality / 2))
