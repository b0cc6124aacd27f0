"""Wasserstein distances against all permutations, one dimension, and what any distance between measures obeys."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlim.core.checks import InputError
from attnlim.core.seeds import generator
from attnlim.depth.assignment import wasserstein

ORDERS = [1, 1.5, 2, 5, math.inf]


def sets(n_points: int, width: int, seed: int = 0, count: int = 2) -> np.ndarray:
    return generator(seed, "sets").standard_normal((count, n_points, width))


def by_permutations(x: np.ndarray, y: np.ndarray, p: float) -> float:
    """Every pairing."""
    costs = []
    for order in itertools.permutations(range(len(x))):
        distance = np.array([math.dist(x[i], y[j]) for i, j in enumerate(order)])
        costs.append(distance.max() if math.isinf(p) else np.mean(distance**p) ** (1 / p))
    return min(costs)


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("n_points", [1, 2, 3, 6])
@pytest.mark.parametrize("width", [1, 3])
def test_equals_the_best_of_all_pairings(p: float, n_points: int, width: int) -> None:
    for seed in range(4):
        x, y = sets(n_points, width, seed)
        assert wasserstein(x, y, p).item() == pytest.approx(by_permutations(x, y, p), rel=1e-14)


@pytest.mark.parametrize("p", ORDERS)
def test_on_a_line_sorted_points_are_paired(p: float) -> None:
    x, y = (np.sort(points, axis=0) for points in sets(40, 1))
    distance = np.abs(x - y)[:, 0]
    expected = distance.max() if math.isinf(p) else np.mean(distance**p) ** (1 / p)
    assert wasserstein(x, y, p).item() == pytest.approx(expected, rel=1e-13)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), p=st.sampled_from(ORDERS), n_points=st.integers(1, 9))
def test_is_a_distance_between_measures(seed: int, p: float, n_points: int) -> None:
    x, y, z = sets(n_points, 2, seed, 3)
    rng = generator(seed, "order")
    there = wasserstein(x, y, p).item()
    assert wasserstein(rng.permutation(x), rng.permutation(y), p).item() == pytest.approx(there, rel=1e-12)
    assert wasserstein(y, x, p).item() == pytest.approx(there, rel=1e-12)
    assert wasserstein(x, rng.permutation(x), p).item() == 0
    assert there <= (wasserstein(x, z, p) + wasserstein(z, y, p)).item() * (1 + 1e-12)
    assert wasserstein(3 * x, 3 * y, p).item() == pytest.approx(3 * there, rel=1e-12)
    assert wasserstein(np.tile(x, (2, 1)), np.tile(y, (2, 1)), p).item() == pytest.approx(there, rel=1e-9)
    shift = np.array([3.0, 4.0])
    assert wasserstein(x, x + shift, p).item() == pytest.approx(5, rel=1e-12)


def test_grows_with_p_to_the_bottleneck() -> None:
    x, y = sets(12, 2)
    values = [wasserstein(x, y, p).item() for p in (1, 1.5, 2, 5, 50, 2000, math.inf)]
    assert values == sorted(values)
    # W_p ≥ n^{-1/p} W_∞
    assert values[-2] == pytest.approx(values[-1], rel=math.log(12) / 2000)


def test_the_bottleneck_may_need_another_pairing_than_the_least_sum() -> None:
    # straight: 0.9 and 1; crossed: √2 and 0.1, a smaller sum with a longer edge
    x, y = np.array([[0.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 0.9], [1.0, 1.0]])
    assert wasserstein(x, y, math.inf).item() == pytest.approx(1.0)
    assert wasserstein(x, y, 1).item() == pytest.approx((math.sqrt(2) + 0.1) / 2)
    assert wasserstein(x, y, 20).item() == pytest.approx(((1 + 0.9**20) / 2) ** (1 / 20))


def test_close_points_keep_their_digits() -> None:
    x = sets(5, 3, count=1)[0] + 1e4
    assert wasserstein(x, x + 2.0**-20, 2).item() == pytest.approx(math.sqrt(3) * 2**-20, rel=1e-12)


def test_sizes_far_from_one() -> None:
    x, y = sets(5, 2)
    expected = wasserstein(x, y, 8).item()
    for size in (1e-60, 1e60):
        assert wasserstein(size * x, size * y, 8).item() == pytest.approx(size * expected, rel=1e-12)
    # two far clusters: powers of distances within and across are 240 orders apart
    both = [np.concatenate([points, points + 1e30]) for points in (1e-10 * x, 1e-10 * y)]
    within = wasserstein(both[0][:5], both[1][:5], 6).item()
    far = wasserstein(both[0][5:], both[1][5:], 6).item()
    assert far == 0 and wasserstein(*both, 6).item() == pytest.approx(within * 0.5 ** (1 / 6), rel=1e-12)


def test_leading_axes_broadcast() -> None:
    x, y = torch.from_numpy(sets(4, 2, 0, 3)), torch.from_numpy(sets(4, 2, 1, 2))
    for p in (2, math.inf):
        found = wasserstein(x[:, None], y, p)
        assert found.shape == (3, 2) and found.dtype == torch.float64
        assert found[2, 1].item() == wasserstein(x[2], y[1], p).item()
    assert wasserstein(x.float(), x.float()).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("x", "y", "p", "message"),
    [
        (np.zeros((3, 2)), np.zeros((4, 2)), 2, "equally many points of one width, got 3 and 4 of 2 and 2"),
        (np.zeros((3, 2)), np.zeros((3, 1)), 2, "equally many"),
        (np.zeros((2, 3, 2)), np.zeros((5, 3, 2)), 2, "broadcast"),
        (np.zeros(3), np.zeros(3), 2, "n_points, width"),
        (np.zeros((3, 2), int), np.zeros((3, 2)), 2, "float32 or float64"),
        (np.full((3, 2), math.nan), np.zeros((3, 2)), 2, "x must be finite"),
        (np.zeros((3, 2)), np.zeros((3, 2)), 0.5, r"\[1, inf\]"),
        (np.zeros((3, 2)), np.zeros((3, 2)), math.nan, r"\[1, inf\]"),
    ],
)
def test_bad_arguments(x: Any, y: Any, p: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        wasserstein(x, y, p)
