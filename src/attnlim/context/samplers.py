"""Token sets to measure on: the exact simplex, the paper's near-simplex, the half-sphere, the sphere."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from attnlim.core.checks import InputError, cosine, one_of, real_number, whole_number
from attnlim.core.seeds import generator


def simplex_tokens(n_tokens: int, rho: float, width: int | None = None, q: float = 1.0) -> Tensor:
    r"""Tokens of equal norm and equal mutual cosine, exactly.

    The Cholesky factor of their Gram matrix, in closed form: row i is √q times

    .. math::
        y_{ij} = \rho\sqrt{\frac{1-\rho}{(1+(j-1)\rho)(1+(j-2)\rho)}} \;(j < i), \qquad
        y_{ii} = \sqrt{\frac{(1-\rho)(1+(i-1)\rho)}{1+(i-2)\rho}}, \qquad y_{ij} = 0 \;(j > i)

    Nothing is random. The first tokens of a larger simplex are the smaller one, up to trailing zeros.

    Source: "Critical attention scaling", Assumption 1; the factor is [*derived*](../derivations.md#samplers).

    Assumes: nothing; for ρ inside its interval such tokens span n dimensions, so the width is at least n.

    Args:
        n_tokens: tokens, at least 2.
        rho: common cosine, dimensionless, in (-1/(n-1), 1).
        width: dimension, at least ``n_tokens``, which is the default; the rest are zeros.
        q: squared norm, dimensionless, above 0.

    Returns:
        (n_tokens, width) float64.

    Raises:
        InputError: an argument outside its range.

    Cost: O(n·width). Precision: cosines to a few eps; 1 - cosine, from differences, to a few eps of itself.

    >>> y = simplex_tokens(3, -0.25, width=4)
    >>> (y @ y.T).round(decimals=12).tolist()
    [[1.0, -0.25, -0.25], [-0.25, 1.0, -0.25], [-0.25, -0.25, 1.0]]
    """
    n_tokens = whole_number("n_tokens", n_tokens, 2)
    rho = cosine(rho, n_tokens)
    width = whole_number(
        "width",
        n_tokens if width is None else width,
        n_tokens,
        advice=f"a simplex of {n_tokens} tokens spans {n_tokens} dimensions; take fewer tokens or another sampler",
    )
    size = math.sqrt(real_number("q", q, above=0.0, advice="q is the squared norm of a token"))
    before = 1 + rho * torch.arange(-1, n_tokens - 1, dtype=torch.float64)
    # at the lower end of ρ the last entry, 1 + (n-1)ρ, may round to below 0
    upto = (1 + rho * torch.arange(n_tokens, dtype=torch.float64)).clamp_(min=0.0)
    tokens = torch.zeros(n_tokens, width, dtype=torch.float64)
    below = size * rho * ((1 - rho) / (upto * before)).sqrt_()
    tokens[:, :n_tokens] = below.expand(n_tokens, n_tokens).tril(-1)
    tokens.diagonal().copy_(size * ((1 - rho) * upto / before).sqrt_())
    return tokens


def gaussian_tokens(n_tokens: int, width: int, rho: float, seed: int = 0) -> Tensor:
    r"""The near-simplex of the paper's figures: one shared Gaussian vector, and one of each token's own.

    .. math:: x_i = \sqrt\rho\, z_0 + \sqrt{1-\rho}\, z_i, \qquad z \sim N(0, I_d/d)

    so that E|x_i|² = 1 and E⟨x_i, x_j⟩ = ρ. The cosine of a draw moves with |z_0|²: take ρ̂ of
    :func:`attnlim.context.token_geometry.geometry` for theory lines, not ρ.

    Source: "Critical attention scaling", Experiments (its summary calls the z standard, which E|x_i|² = 1 rules
    out for d > 1).

    Args:
        n_tokens: tokens, at least 2.
        width: dimension d, at least 1.
        rho: nominal cosine, dimensionless, in [0, 1).
        seed: at least 0; for one seed and width the numbers z are the same at every ρ and the first tokens the
            same at every n.

    Returns:
        (n_tokens, width) float64.

    Raises:
        InputError: an argument outside its range.

    Cost: n·width normal numbers and no second array of that size.

    >>> x = gaussian_tokens(1000, 64, rho=0.5)
    >>> x.shape, 0.8 < float(x.square().sum(dim=1).mean()) < 1.2
    (torch.Size([1000, 64]), True)
    """
    n_tokens, width = _sizes(n_tokens, width)
    rho = real_number("rho", rho, above=0.0, closed=True, advice="the shared part makes cosines positive")
    if rho >= 1:
        raise InputError(f"rho must be below 1, got {rho!r}; at 1 all Gaussian tokens would be equal")
    stream = generator(seed, "tokens", "gaussian", width)
    shared = stream.standard_normal(width)
    tokens = stream.standard_normal((n_tokens, width))
    tokens *= math.sqrt((1 - rho) / width)
    tokens += math.sqrt(rho / width) * shared
    return torch.from_numpy(tokens)


def half_sphere_tokens(n_tokens: int, width: int, seed: int = 0) -> Tensor:
    r"""Unit tokens, uniform on the half-sphere {⟨y, e⟩ > 0} around the first axis e.

    Their mean cosine follows from the width alone,

    .. math:: E\langle y_i, y_j \rangle = \frac{\Gamma(d/2)^2}{\pi\, \Gamma((d+1)/2)^2} \approx \frac{2}{\pi d}

    Source: "Critical attention scaling", after Assumption 2; the mean is [*derived*](../derivations.md#samplers).

    Args:
        n_tokens: tokens, at least 2.
        width: dimension, at least 1 (at 1 all tokens are equal).
        seed: at least 0; the first tokens are the same at every n.

    Returns:
        (n_tokens, width) float64, of norm 1.

    Raises:
        InputError: an argument outside its range.

    >>> bool((half_sphere_tokens(100, 3)[:, 0] > 0).all())
    True
    """
    tokens = _directions(n_tokens, width, seed, "half-sphere")
    np.abs(tokens[:, 0], out=tokens[:, 0])
    return torch.from_numpy(tokens)


def sphere_tokens(n_tokens: int, width: int, seed: int = 0) -> Tensor:
    r"""Unit tokens, uniform on the sphere.

    .. math:: y_i = z_i/|z_i|, \qquad z_i \sim N(0, I_d)

    Source: *ours*, the case of mean cosine 0.

    Args:
        n_tokens: tokens, at least 2.
        width: dimension, at least 1.
        seed: at least 0; the first tokens are the same at every n.

    Returns:
        (n_tokens, width) float64, of norm 1.

    Raises:
        InputError: an argument outside its range.

    >>> sphere_tokens(2, 5).norm(dim=1).round(decimals=12).tolist()
    [1.0, 1.0]
    """
    return torch.from_numpy(_directions(n_tokens, width, seed, "sphere"))


SAMPLERS: dict[str, Callable[..., Tensor]] = {
    "simplex": simplex_tokens,
    "gaussian": gaussian_tokens,
    "half-sphere": half_sphere_tokens,
    "sphere": sphere_tokens,
}
"""The samplers by the name that sweeps and the command line use."""

TAKES_RHO = ("simplex", "gaussian")
"""The samplers whose cosine is chosen; that of the others follows from the width."""


def draw(kind: str, n_tokens: int, width: int | None = None, rho: float | None = None, seed: int = 0) -> Tensor:
    """Tokens of a named kind.

    "simplex" needs ``rho`` and takes a ``width`` of at least n, which is the default; the seed has no effect.
    "gaussian" needs ``width`` and ``rho``. "half-sphere" and "sphere" need ``width`` and refuse a ``rho``: their
    mean cosine follows from the width.

    Args:
        kind: a key of :data:`SAMPLERS`.
        n_tokens: tokens, at least 2.
        width: dimension, at least 1.
        rho: cosine, dimensionless; None for the kinds that have none.
        seed: at least 0.

    Returns:
        (n_tokens, width) float64.

    Raises:
        InputError: an unknown kind, a missing or superfluous argument, or one outside its range.

    >>> draw("simplex", 4, rho=0.5).shape, draw("sphere", 4, width=2, seed=3).shape
    (torch.Size([4, 4]), torch.Size([4, 2]))
    """
    kind = one_of("tokens", kind, SAMPLERS)
    whole_number("seed", seed, 0)
    if kind in TAKES_RHO and rho is None:
        raise InputError(f"{kind} tokens need rho, got none; give their cosine, such as 0.5")
    if kind not in TAKES_RHO and rho is not None:
        raise InputError(f"{kind} tokens take no rho, got {rho!r}; leave it out, their cosine follows from the width")
    if kind == "simplex":
        return simplex_tokens(n_tokens, rho, width)  # type: ignore[arg-type]  # not None, see above
    if width is None:
        raise InputError(f"{kind} tokens need a width, got none; give their dimension, such as 64")
    return SAMPLERS[kind](n_tokens, width, seed=seed, **({} if rho is None else {"rho": rho}))


def _directions(n_tokens: int, width: int, seed: int, kind: str) -> np.ndarray:
    n_tokens, width = _sizes(n_tokens, width)
    tokens = generator(seed, "tokens", kind, width).standard_normal((n_tokens, width))
    tokens /= np.sqrt(np.einsum("ij,ij->i", tokens, tokens))[:, None]
    return tokens


def _sizes(n_tokens: int, width: int) -> tuple[int, int]:
    return whole_number("n_tokens", n_tokens, 2), whole_number("width", width, 1)
