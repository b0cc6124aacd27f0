"""How Lipschitz the attention map is in the measure: largest ratios that a search finds, beside the bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnlim.core.checks import InputError, real_number, whole_number
from attnlim.core.seeds import generator
from attnlim.depth.assignment import wasserstein
from attnlim.depth.attention_map import attended_mean, lions_derivative

# distance of the pair that measures a local ratio, as part of the radius: its ratio is off by the square of this
# from curvature, and by eps over this from rounding
_CLOSE = 1e-5
# first displacements of random pairs are from this part of the radius up to all of it
_FINEST = 1e-3
# step of the ascent, as part of the radius
_STRIDE = 0.05


@dataclass(frozen=True)
class MapRatio:
    """Ratios |γ(z,μ) - γ(z,μ')| / W_p(μ,μ'), dimensionless.

    Attributes:
        at_random: the largest over random pairs.
        searched: the largest after climbing from each of them, too.
        bound: what none exceeds.
    """

    at_random: float
    searched: float
    bound: float


def attended_mean_bound(radius: float, z_norm: float, p: float = 2.0) -> float:
    r"""A Lipschitz constant of γ(z, ·) in W_p over measures in a ball.

    .. math:: 1 + R|z| \quad (p = \infty), \qquad e^{2R|z|/p}\,(1 + 2R|z|) \quad (p < \infty)

    Free of the number of points and of the dimension; not exponential for p = ∞ alone. Sharp for p = 1 with many points;
    for p = ∞ the best constant from two dimensions on is √(1 + R²|z|²).

    Source: [*derived*](../depth-derivations.md#map-ratios) from Lemma 1 of "Uniform scaling limits of AdamW-trained
    transformers"; not the paper's constants.

    Args:
        radius: R, in the unit of the tokens, at least 0.
        z_norm: |z|, in its inverse, at least 0.
        p: in [1, ∞].

    Returns:
        Dimensionless, at least 1; ``inf`` beyond the float range.

    Raises:
        InputError: an argument outside its range.

    >>> attended_mean_bound(1.0, 2.0, math.inf), attended_mean_bound(1.0, 0.0)
    (3.0, 1.0)
    """
    reach = real_number("radius", radius, above=0.0, closed=True) * real_number(
        "z_norm", z_norm, above=0.0, closed=True
    )
    if not 1 <= p <= math.inf:
        raise InputError(f"p must be a number in [1, inf], got {p!r}")
    if math.isinf(p):
        return 1 + reach
    try:
        return math.exp(2 * reach / p) * (1 + 2 * reach)
    except OverflowError:
        return math.inf


def attended_mean_ratio(
    radius: float,
    z_norm: float,
    p: float = 2.0,
    n_points: int = 16,
    width: int = 2,
    n_pairs: int = 32,
    n_climbs: int = 300,
    seed: int = 0,
) -> MapRatio:
    r"""The largest ratio |γ(z,μ) - γ(z,μ')| / W_p(μ,μ') over random pairs, and after climbing from them.

    The optimal pairing of two sets moves along straight lines inside the ball, so the supremum over pairs is that of the
    local constant over single sets,

    .. math::
        \sup_{|v|=1} \Big(\frac1n \sum_j |\partial_\mu\gamma(y_j)^\top v|^{q}\Big)^{1/q}, \qquad
        \frac1p + \frac1q = 1

    which the search climbs by its gradient; a close pair along the worst displacement is then measured like any other.

    Source: [*derived*](../depth-derivations.md#map-ratios). A maximum over what was looked at is a lower bound of the
    best constant.

    Args:
        radius: R, in the unit of the tokens, above 0.
        z_norm: |z|, in its inverse, at least 0; the direction of z does not matter.
        p: in [1, ∞].
        n_points: of each measure, at least 1; the bound is approached at p < ∞ from about e^{2R|z|} on.
        width: d, at least 1.
        n_pairs: at least 2.
        n_climbs: steps of the search from each pair, at least 0.
        seed: of the pairs.

    Returns:
        :class:`MapRatio`.

    Raises:
        InputError: an argument outside its range.

    Cost: n_climbs × n_pairs gradients of the local constant, each O(n_points·d), and 2 n_pairs assignments.
    Precision: 1e-9 relative.

    >>> found = attended_mean_ratio(1.0, 1.0, math.inf, n_points=4)
    >>> found.at_random < found.searched < found.bound
    True
    """
    bound = attended_mean_bound(real_number("radius", radius, above=0.0), z_norm, p)
    n_points, width = whole_number("n_points", n_points, 1), whole_number("width", width, 1)
    n_pairs, n_climbs = whole_number("n_pairs", n_pairs, 2), whole_number("n_climbs", n_climbs, 0)
    z = torch.zeros(width, dtype=torch.float64)
    z[0] = z_norm
    rng = generator(seed, "map ratios", n_points, width)
    x, y = random_pairs(rng, n_pairs, n_points, width, radius)
    at_random = _largest_ratio(z, x, y, p)
    v = torch.from_numpy(rng.standard_normal((n_pairs, width)))
    x, v = _climbed(z, x, v / torch.linalg.vector_norm(v, dim=-1, keepdim=True), p, radius, n_climbs)
    displacement = radius * _CLOSE / 2 * _worst_displacement(z, x, v, p)
    inside = x * (1 - _CLOSE / 2)
    searched = _largest_ratio(z, inside + displacement, inside - displacement, p)
    return MapRatio(at_random, max(at_random, searched), bound)


def random_pairs(
    rng: np.random.Generator, n_pairs: int, n_points: int, width: int, radius: float
) -> tuple[Tensor, Tensor]:
    """Pairs of sets of points in a ball, (n_pairs, n_points, width) each: every other pair independent sets, the
    rest near each other at distances over three orders."""

    def points(count: int) -> Tensor:
        direction = torch.from_numpy(rng.standard_normal((count, n_points, width)))
        unit: Tensor = direction / torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
        return unit.mul(radius * torch.from_numpy(rng.random((count, n_points, 1))))

    x = points(n_pairs)
    distance = radius * _FINEST ** torch.from_numpy(rng.random((n_pairs, 1, 1)))
    y = into_ball(x + distance * points(n_pairs) / radius, radius)
    y[::2] = points(len(y[::2]))
    return x, y


def into_ball(points: Tensor, radius: float) -> Tensor:
    """The nearest points of the ball around 0."""
    norm = torch.linalg.vector_norm(points, dim=-1, keepdim=True)
    return torch.where(norm > radius, points * (radius / norm), points)


def _largest_ratio(z: Tensor, x: Tensor, y: Tensor, p: float) -> float:
    moved = torch.linalg.vector_norm(attended_mean(z, x) - attended_mean(z, y), dim=-1)
    return float((moved / wasserstein(x, y, p)).max())


def _climbed(z: Tensor, x: Tensor, v: Tensor, p: float, radius: float, n_climbs: int) -> tuple[Tensor, Tensor]:
    """The points and the direction of γ after ascent of the local constant, the best of each path."""
    conjugate = 1.0 if math.isinf(p) else math.inf if p == 1 else p / (p - 1)
    with torch.enable_grad():
        points, direction = torch.nn.Parameter(x.clone() / radius), torch.nn.Parameter(v.clone())
        ascent = torch.optim.Adam([points, direction], lr=_STRIDE, maximize=True)
        best, best_x, best_v = torch.full((len(x),), -math.inf, dtype=x.dtype), x, v
        for _ in range(n_climbs + 1):
            unit: Tensor = direction / torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
            strength = torch.linalg.vector_norm(_pulled_back(z, radius * points, unit), dim=-1)
            constant = _power_mean(strength, conjugate)
            better = (constant.detach() > best)[:, None]
            best = torch.maximum(best, constant.detach())
            best_x = torch.where(better[..., None], radius * points.detach(), best_x)
            best_v = torch.where(better, unit.detach(), best_v)
            ascent.zero_grad()
            torch.autograd.backward(constant.log().sum())
            ascent.step()
            points.data = into_ball(points.data, 1.0)
    return best_x, best_v


def _pulled_back(z: Tensor, x: Tensor, v: Tensor) -> Tensor:
    """∂_μγ(y_j)^⊤ v for every point, (..., n_points, width)."""
    return (lions_derivative(z, x).mT @ v[..., None, :, None])[..., 0]


def _worst_displacement(z: Tensor, x: Tensor, v: Tensor, p: float) -> Tensor:
    """Displacements that attain Hölder's inequality, the largest of length 1."""
    pull = _pulled_back(z, x, v)
    strength = torch.linalg.vector_norm(pull, dim=-1, keepdim=True)
    relative = strength / strength.amax(dim=-2, keepdim=True)
    unit: Tensor = pull / strength.clamp(min=torch.finfo(pull.dtype).tiny)
    # 1/(p-1) is 0 for p = ∞: all move alike
    length: Tensor = (relative == 1).to(pull) if p == 1 else relative ** (1 / (p - 1))
    return unit.mul(length)


def _power_mean(values: Tensor, power: float) -> Tensor:
    """(mean of v^power)^{1/power} over the last axis, the largest for an infinite power; values at least 0."""
    largest = values.amax(dim=-1)
    if math.isinf(power):
        return largest
    return largest * ((values / largest[..., None]) ** power).mean(dim=-1) ** (1 / power)
