"""Wasserstein distances between sets of equally many points of equal weight, exact: an assignment problem."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching
from torch import Tensor

from attnlim.core.checks import InputError

# n^{-p} is a number up to here for any n that fits into memory
_LARGE = 16.0


def wasserstein(x: Tensor | NDArray[Any], y: Tensor | NDArray[Any], p: float = 2.0) -> Tensor:
    r"""W_p between the empirical measures of two sets of points.

    .. math::
        W_p(\mu, \nu) = \min_\sigma \Big(\frac1n \sum_i |x_i - y_{\sigma(i)}|^p\Big)^{1/p}, \qquad
        W_\infty(\mu, \nu) = \min_\sigma \max_i |x_i - y_{\sigma(i)}|

    over permutations σ, which are the extreme points of all couplings of equal weights (Birkhoff).

    Source: "Uniform scaling limits of AdamW-trained transformers", appendix A; exactness is Birkhoff's theorem.

    Args:
        x, y: (..., n_points, width) each, tensors or arrays, any unit, float32 or float64, finite; leading axes
            broadcast.
        p: in [1, ∞], dimensionless; ``math.inf`` is the bottleneck distance.

    Returns:
        (...), float64, in the unit of the points; without a gradient.

    Raises:
        InputError: shapes that do not fit, other numbers of points in ``x`` than in ``y``, values that are not finite,
            p below 1.

    Cost: n² distances and, for every pair of sets, O(n³) at the worst; for p = ∞ about 2 log₂ n matchings of
        O(n^{2.5}).
    Precision: a few eps relative. Twin: all permutations, in the tests.

    >>> wasserstein(torch.tensor([[0.0], [1.0]]), torch.tensor([[1.0], [3.0]]), 1).item()
    1.5
    >>> wasserstein(np.zeros((2, 1)), np.array([[3.0], [-1.0]]), math.inf).item()
    3.0
    """
    if not 1 <= p <= math.inf:
        raise InputError(f"p must be a number in [1, inf], got {p!r}")
    first, second = _points("x", x), _points("y", y)
    if first.shape[-2:] != second.shape[-2:]:
        raise InputError(
            "x and y must hold equally many points of one width, "
            f"got {first.shape[-2]} and {second.shape[-2]} of {first.shape[-1]} and {second.shape[-1]}"
        )
    try:
        leading = np.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    except ValueError as reason:
        raise InputError(
            f"the leading axes of x and y must broadcast, got {first.shape[:-2]} and {second.shape[:-2]}"
        ) from reason
    first, second = (np.broadcast_to(points, leading + points.shape[-2:]) for points in (first, second))
    found = np.empty(leading)
    for index in np.ndindex(leading):
        distance = _distances(first[index], second[index])
        found[index] = _bottleneck(distance) if math.isinf(p) else _power_mean(distance, p)
    return torch.from_numpy(found)


def _points(name: str, values: Any) -> NDArray[np.float64]:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.dtype not in (np.float32, np.float64) or array.ndim < 2 or 0 in array.shape[-2:]:
        raise InputError(
            f"{name} must be float32 or float64 of shape (..., n_points, width), got {array.dtype} of {array.shape}"
        )
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite, got NaN or inf; look for where it was made")
    return array.astype(np.float64)


def _distances(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    # by differences: |x|² + |y|² - 2⟨x, y⟩ would lose half of the digits of close points
    mode = "donot_use_mm_for_euclid_dist"
    found = torch.cdist(torch.tensor(x), torch.tensor(y), compute_mode=mode)
    return np.asarray(found)


def _power_mean(distance: NDArray[np.float64], p: float) -> float:
    n = len(distance)
    pairs = linear_sum_assignment(distance)
    if p == 1:
        return float(np.mean(distance[pairs]))
    # some pairing has no distance above this, and W_p is at least 1/n of it, n^{-1/p} of it for the bottleneck
    scale = float(distance[pairs].max()) if p <= _LARGE else _bottleneck(distance)
    if scale == 0:
        return 0.0
    # a pair that alone costs more than that whole pairing is in no best one: its power need not be a number
    cost = np.minimum(distance / scale, (2 * n) ** (1 / p)) ** p
    return scale * math.pow(float(np.mean(cost[linear_sum_assignment(cost)])), 1 / p)


def _bottleneck(distance: NDArray[np.float64]) -> float:
    """The smallest distance such that pairs no farther apart contain a perfect matching, by bisection."""
    # every point has to go somewhere
    least = max(distance.min(axis=0).max(), distance.min(axis=1).max())
    candidates = np.unique(distance[distance >= least])
    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        matched = maximum_bipartite_matching(csr_matrix(distance <= candidates[middle]))
        if (matched >= 0).all():
            high = middle
        else:
            low = middle + 1
    return float(candidates[low])
