"""How Lipschitz the derivatives of the drift Γ are, in the token and in the measure: ratios measured over random pairs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnlim.core.checks import InputError, real_number, whole_number
from attnlim.core.seeds import generator
from attnlim.depth.arguments import parameters
from attnlim.depth.assignment import wasserstein
from attnlim.depth.attention_map import attended_covariance, lions_derivative
from attnlim.depth.map_ratios import random_pairs


@dataclass(frozen=True)
class DriftRatios:
    """The largest |D - D'|_F over a distance, D the derivative ∇_xΓ or ∂_μΓ, in inverse units of the tokens.

    Attributes:
        gradient_in_token: of ∇_xΓ(x, μ) in x.
        gradient_in_measure: of ∇_xΓ(x, μ) in μ, by W_2.
        lions_in_token: of ∂_μΓ(x, μ)(y) in x.
        lions_in_measure: of ∂_μΓ(x, μ)(y) in μ, by W_2.
        lions_in_place: of ∂_μΓ(x, μ)(y) in y.
    """

    gradient_in_token: float
    gradient_in_measure: float
    lions_in_token: float
    lions_in_measure: float
    lions_in_place: float


def drift_gradient(theta: Tensor, x: Tensor, points: Tensor, beta: float = 1.0) -> Tensor:
    r"""The derivative of the averaged attention map in the token.

    .. math::
        \Gamma(x, \mu, \nu) = \int O^\top V\, \gamma(\beta K^\top Q x, \mu)\, d\nu, \qquad
        \nabla_x\Gamma = \int O^\top V\, \operatorname{Cov}_{w_z\mu}\, \beta K^\top Q\, d\nu

    Source: "Uniform scaling limits of AdamW-trained transformers", section 2 and Lemma 1.

    Args:
        theta: (n_heads, 4, head_dim, width), ν as heads of equal weight.
        x: (..., width), in the unit of the points.
        points: (..., n_points, width), μ as points of equal weight.
        beta: inverse temperature, dimensionless, at least 0.

    Returns:
        (..., width, width): rows are coordinates of Γ, columns those of x.

    Raises:
        InputError: shapes or dtypes that do not fit, values that are not finite, ``beta`` below 0.

    Cost: memory n_heads·(n_points + d)·d numbers for each x.

    >>> theta = torch.ones(1, 4, 1, 1, dtype=torch.float64)
    >>> drift_gradient(theta, torch.zeros(1).double(), torch.tensor([[-1.0], [1.0]]).double()).item()
    1.0
    """
    query, value = _heads(theta, x, beta)
    covariance = attended_covariance(_queries(query, x), points[..., None, :, :])
    return (value @ covariance @ query).mean(dim=-3)


def drift_lions_derivative(theta: Tensor, x: Tensor, points: Tensor, at: Tensor, beta: float = 1.0) -> Tensor:
    r"""The derivative of the averaged attention map in the measure.

    .. math:: \partial_\mu\Gamma(x, \mu, \nu)(y) = \int O^\top V\, \partial_\mu\gamma(\beta K^\top Q x, \mu)(y)\, d\nu

    Source: as for :func:`drift_gradient`.

    Args:
        theta, x, points, beta: as for :func:`drift_gradient`.
        at: (..., n_places, width), y.

    Returns:
        (..., n_places, width, width): rows are coordinates of Γ, columns those of y.

    Raises:
        InputError: as for :func:`drift_gradient`.

    Cost: memory n_heads·n_places·d² numbers for each x.

    >>> theta = torch.ones(1, 4, 1, 1, dtype=torch.float64)
    >>> points = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    >>> drift_lions_derivative(theta, torch.zeros(1).double(), points, points).flatten().tolist()
    [1.0, 1.0]
    """
    query, value = _heads(theta, x, beta)
    derivative = lions_derivative(_queries(query, x), points[..., None, :, :], at=at[..., None, :, :])
    return (value[:, None] @ derivative).mean(dim=-4)


def drift_ratios(
    theta: Tensor, radius: float, beta: float = 1.0, n_points: int = 8, n_pairs: int = 256, seed: int = 0
) -> DriftRatios:
    r"""The largest ratios by which ∇_xΓ and ∂_μΓ move, over random pairs in a ball.

    .. math::
        \frac{|\nabla_x\Gamma(x,\mu) - \nabla_x\Gamma(x',\mu)|_F}{|x - x'|}, \quad
        \frac{|\nabla_x\Gamma(x,\mu) - \nabla_x\Gamma(x,\mu')|_F}{W_2(\mu,\mu')}, \quad \text{and so for } \partial_\mu\Gamma

    Source: Lemma 17 of "Uniform scaling limits of AdamW-trained transformers" says that they are bounded; no constant is
    claimed here. A maximum over random pairs is a lower bound of the best constant.

    Args:
        theta, beta: as for :func:`drift_gradient`.
        radius: of the ball that tokens, points and places are drawn in, above 0.
        n_points: of each measure, at least 1.
        n_pairs: at least 2; half of them are close pairs.
        seed: of the pairs.

    Returns:
        :class:`DriftRatios`.

    Raises:
        InputError: as for :func:`drift_gradient`, or a number outside its range.

    Cost: n_pairs assignments; memory about n_pairs·n_heads·(n_points + d)·d numbers.

    >>> ratios = drift_ratios(torch.zeros(1, 4, 2, 3, dtype=torch.float64), 1.0)
    >>> ratios.gradient_in_token, ratios.lions_in_measure
    (0.0, 0.0)
    """
    radius = real_number("radius", radius, above=0.0)
    n_points, n_pairs = whole_number("n_points", n_points, 1), whole_number("n_pairs", n_pairs, 2)
    width = theta.shape[-1]
    rng = generator(seed, "drift ratios", n_points, width)
    drawn = [random_pairs(rng, n_pairs, size, width, radius) for size in (1, n_points, 1)]
    (x, other_x), (mu, other_mu), (y, other_y) = [tuple(part.to(theta) for part in pair) for pair in drawn]
    x, other_x = x[:, 0], other_x[:, 0]
    between_x = torch.linalg.vector_norm(x - other_x, dim=-1)
    between_y = torch.linalg.vector_norm((y - other_y)[:, 0], dim=-1)
    between_mu = wasserstein(mu, other_mu, 2)

    def largest(change: Tensor, distance: Tensor) -> float:
        return float((torch.linalg.matrix_norm(change).flatten() / distance).max())

    gradient = drift_gradient(theta, x, mu, beta)
    lions = drift_lions_derivative(theta, x, mu, y, beta)
    return DriftRatios(
        largest(gradient - drift_gradient(theta, other_x, mu, beta), between_x),
        largest(gradient - drift_gradient(theta, x, other_mu, beta), between_mu),
        largest(lions - drift_lions_derivative(theta, other_x, mu, y, beta), between_x),
        largest(lions - drift_lions_derivative(theta, x, other_mu, y, beta), between_mu),
        largest(lions - drift_lions_derivative(theta, x, mu, other_y, beta), between_y),
    )


def _heads(theta: Tensor, x: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """βK^⊤Q and O^⊤V of every head, (n_heads, d, d) each."""
    beta = real_number("beta", beta, above=0.0, closed=True)
    heads = parameters(theta[None])
    if heads.ndim != 5 or x.shape[-1:] != heads.shape[-1:] or x.dtype != heads.dtype:
        raise InputError(
            "theta must have shape (n_heads, 4, head_dim, width) and x (..., width) of the same dtype, "
            f"got {tuple(theta.shape)} {theta.dtype} and {tuple(x.shape)} {x.dtype}"
        )
    query, key, value, output = heads[0].unbind(dim=1)
    return beta * key.mT @ query, output.mT @ value


def _queries(query: Tensor, x: Tensor) -> Tensor:
    """z of every head, (..., n_heads, d)."""
    return (query @ x[..., None, :, None])[..., 0]
