"""Lipschitz ratios of the attention map against their bound, and explicit measures that come close to it."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlim.core.checks import InputError
from attnlim.core.seeds import generator
from attnlim.depth.assignment import wasserstein
from attnlim.depth.attention_map import attended_mean, lions_derivative
from attnlim.depth.map_ratios import attended_mean_bound, attended_mean_ratio, random_pairs

ORDERS = [1, 1.5, 2, 4, math.inf]


def test_the_bound() -> None:
    assert attended_mean_bound(2.0, 1.5, math.inf) == 4
    assert attended_mean_bound(2.0, 1.5, 2) == pytest.approx(7 * math.exp(3))
    assert attended_mean_bound(2.0, 1.5, 1) == pytest.approx(7 * math.exp(6))
    assert attended_mean_bound(2.0, 0.0, 1) == attended_mean_bound(0.0, 5.0, 3) == 1
    assert attended_mean_bound(1e3, 1e3, 1) == math.inf


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    p=st.sampled_from(ORDERS),
    reach=st.floats(0.0, 6.0),
    radius=st.sampled_from([0.3, 1.0, 5.0]),
    n_points=st.integers(1, 12),
    width=st.integers(1, 4),
)
def test_no_pair_exceeds_the_bound(seed: int, p: float, reach: float, radius: float, n_points: int, width: int) -> None:
    found = attended_mean_ratio(radius, reach / radius, p, n_points, width, n_pairs=8, n_climbs=20, seed=seed)
    # the ratio of a close pair carries 1e-9 of rounding
    assert 0 <= found.at_random <= found.searched <= found.bound * (1 + 1e-9)


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("reach", [0.0, 0.5, 1.0, 2.0])
def test_the_bound_is_approached_within_an_order_of_magnitude(p: float, reach: float) -> None:
    found = attended_mean_ratio(1.0, reach, p, n_points=64, seed=1)
    assert found.bound / 10 < found.searched <= found.bound * (1 + 1e-9)
    # random pairs alone would not show it
    if reach == 2:
        assert found.at_random < found.searched / 2


def test_few_points_cannot_approach_it_and_do_not_have_to() -> None:
    """The density is at most n: at n = 4 the ratio is at most 4^{1/p}(1 + 2R|z|), far below e^{2R|z|/p}."""
    found = attended_mean_ratio(1.0, 4.0, 1, n_points=4)
    assert found.searched <= 4 * 9 and found.bound == pytest.approx(math.exp(8) * 9)


def test_nothing_depends_on_the_unit_of_the_tokens() -> None:
    for p in (1, 2, math.inf):
        one = attended_mean_ratio(1.0, 1.5, p, 6, n_climbs=40)
        other = attended_mean_ratio(8.0, 1.5 / 8, p, 6, n_climbs=40)
        assert other.at_random == pytest.approx(one.at_random, rel=1e-9)
        assert other.searched == pytest.approx(one.searched, rel=1e-6)


def local_constant(z: torch.Tensor, points: torch.Tensor, share: torch.Tensor, v: torch.Tensor, q: float) -> float:
    pull = torch.linalg.vector_norm(lions_derivative(z, points, share).mT @ v, dim=-1)
    return float(pull.max() if math.isinf(q) else (share * pull**q).sum() ** (1 / q))


def test_w1_is_sharp_for_a_small_mass_across_the_ball() -> None:
    """Mass m at the far end: the ratio tends to e^{2R|z|}(1 + 2R|z|), from below and linearly in m."""
    z, points = (
        torch.tensor([1.0, 0.0], dtype=torch.float64),
        torch.tensor([[-1.0, 0.0], [1.0, 0.0]], dtype=torch.float64),
    )
    gaps = []
    for mass in (1e-4, 1e-5):
        share = torch.tensor([1 - mass, mass], dtype=torch.float64)
        gaps.append(1 - local_constant(z, points, share, points[1], math.inf) / attended_mean_bound(1.0, 1.0, 1))
    assert 0 < gaps[1] < 1e-3 and gaps[0] / gaps[1] == pytest.approx(10, rel=0.01)


@pytest.mark.parametrize("reach", [0.3, 1.0, 3.0])
def test_w_infinity_has_the_sharp_constant_of_two_points_across_z(reach: float) -> None:
    """Two points ±Rv with v across z attain √(1 + R²|z|²), which no search exceeds."""
    z = torch.tensor([reach, 0.0], dtype=torch.float64)
    points, v = (
        torch.tensor([[0.0, 1.0], [0.0, -1.0]], dtype=torch.float64),
        torch.tensor([0.0, 1.0], dtype=torch.float64),
    )
    share = torch.tensor([0.5, 0.5], dtype=torch.float64)
    sharp = math.sqrt(1 + reach**2)
    assert local_constant(z, points, share, v, 1.0) == pytest.approx(sharp, rel=1e-14)
    found = attended_mean_ratio(1.0, reach, math.inf, n_points=8)
    assert 0.97 * sharp < found.searched <= sharp * (1 + 1e-9)


def test_the_exponential_is_needed_at_finite_p_and_not_at_infinity() -> None:
    """W_1 of a small mass breaks the bound of W_∞; points of another radius break it for the radius given."""
    found = attended_mean_ratio(1.0, 1.0, 1, n_points=64)
    assert found.searched > 3 * attended_mean_bound(1.0, 1.0, math.inf)
    assert attended_mean_ratio(3.0, 1.0, math.inf).searched > attended_mean_bound(1.0, 1.0, math.inf)


def test_a_search_climbs_and_is_reproducible() -> None:
    short, long = (attended_mean_ratio(1.0, 2.0, 2, n_climbs=n) for n in (0, 100))
    assert short.at_random == long.at_random and short.searched < long.searched
    assert attended_mean_ratio(1.0, 2.0, 2, n_climbs=100) == long
    assert attended_mean_ratio(1.0, 2.0, 2, n_climbs=100, seed=1) != long


def test_pairs_lie_in_the_ball_and_are_near_and_far() -> None:
    x, y = random_pairs(generator(0, "pairs"), 40, 5, 3, 2.0)
    assert float(torch.linalg.vector_norm(torch.stack([x, y]), dim=-1).max()) <= 2 * (1 + 1e-15)
    distance = wasserstein(x, y)
    assert float(distance[::2].min()) > 0.1 and float(distance[1::2].min()) < 0.05
    # what is measured is W_p: another order of the points does not change it
    moved = torch.linalg.vector_norm(attended_mean(x[0, 0], x) - attended_mean(x[0, 0], y.flip(1)), dim=-1)
    straight = torch.linalg.vector_norm(attended_mean(x[0, 0], x) - attended_mean(x[0, 0], y), dim=-1)
    torch.testing.assert_close(moved / wasserstein(x, y.flip(1)), straight / distance, rtol=1e-12, atol=1e-13)


def test_bad_arguments() -> None:
    with pytest.raises(InputError, match="radius"):
        attended_mean_ratio(0.0, 1.0)
    with pytest.raises(InputError, match="z_norm"):
        attended_mean_ratio(1.0, -1.0)
    with pytest.raises(InputError, match=r"\[1, inf\]"):
        attended_mean_bound(1.0, 1.0, 0.5)
    with pytest.raises(InputError, match="n_pairs"):
        attended_mean_ratio(1.0, 1.0, n_pairs=1)
