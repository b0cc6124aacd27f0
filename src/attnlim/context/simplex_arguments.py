"""Checks of what the closed forms on a simplex take: ρ or 1-ρ, γ or β, the norm; and of every residual factor."""

from __future__ import annotations

import math

from attnlim.core.checks import InputError, cosine, real_number


def inverse_temperature(n_tokens: int, gamma: float | None, beta: float | None) -> float:
    """β from exactly one of γ = β/ln n and β.

    Raises:
        InputError: none or both given, negative, NaN, infinite.

    >>> inverse_temperature(100, gamma=2.0, beta=None) == 2 * math.log(100)
    True
    """
    if gamma is not None and beta is not None:
        raise InputError(f"give exactly one of gamma and beta, got both: gamma={gamma!r}, beta={beta!r}")
    if beta is not None:
        return real_number("beta", beta, above=0.0, closed=True)
    if gamma is None:
        raise InputError("give exactly one of gamma and beta, got neither; beta = gamma ln n")
    product = real_number("gamma", gamma, above=0.0, closed=True) * math.log(n_tokens)
    return real_number("beta = gamma ln n", product, advice="use a smaller gamma")


def cosine_and_rest(n_tokens: int, rho: float | None, one_minus_rho: float | None) -> tuple[float, float]:
    """(ρ, 1-ρ) from exactly one of them, each with its own digits.

    Raises:
        InputError: none or both given, or no cosine that ``n_tokens`` tokens can share.

    >>> cosine_and_rest(100, 0.25, None), cosine_and_rest(100, None, 1e-30)
    ((0.25, 0.75), (1.0, 1e-30))
    """
    if (rho is None) == (one_minus_rho is None):
        raise InputError(
            f"give exactly one of rho and one_minus_rho, got rho={rho!r} and one_minus_rho={one_minus_rho!r}"
        )
    if rho is not None:
        rho = cosine(rho, n_tokens)
        return rho, 1 - rho
    apart = real_number("one_minus_rho", one_minus_rho, above=0.0, closed=True)
    return (cosine(1 - apart, n_tokens) if apart > 1 else 1 - apart), apart


def squared_norm(q: float) -> float:
    """``q`` if it can be the squared norm of a token.

    Raises:
        InputError: not a finite number above 0.

    >>> squared_norm(2)
    2.0
    """
    return real_number("q", q, above=0.0, advice="q is the squared norm of a token")


def residual_factor(alpha: float) -> float:
    """α if it is a number at least 0 whose square stays far inside the float range.

    Raises:
        InputError: anything else.

    >>> residual_factor(0)
    0.0
    """
    return real_number("alpha", alpha, above=0.0, below=1e100, closed=True)


def in_float_range(name: str, value: float) -> float:
    """A result that grows with α and 1/q or q, if float64 holds it.

    Raises:
        InputError: infinite or NaN, with what to do.

    >>> in_float_range("eta", 0.25)
    0.25
    """
    return real_number(name, value, advice="take alpha and q nearer to 1")
