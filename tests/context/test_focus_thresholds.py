"""γ_1 and γ_2: on the simplex against a dense scan and their limit, on curves with gaps and noise."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlim.context.focus_thresholds import crossings, gamma_thresholds, simplex_gamma_thresholds
from attnlim.context.simplex_limits import critical_gamma
from attnlim.context.simplex_rows import simplex_kappa
from attnlim.core.checks import InputError

OCTAVES = [512, 1024, 2048, 4096, 8192]


@pytest.mark.parametrize("rho", [-0.001, 0.0, 0.5, 1 - 1e-12])
@pytest.mark.parametrize("sizes", [OCTAVES, [2, 3], [10**299, 10**300], [512, 10**300]])
def test_exact_kappa_has_the_levels_there(sizes: list[int], rho: float) -> None:
    if rho < 0:
        sizes = [64, 512]
    found = simplex_gamma_thresholds(sizes, rho)
    assert found.gamma_1 < found.gamma_2
    for gamma, level in ((found.gamma_1, 0.8), (found.gamma_2, 0.2)):
        # the slope of κ in γ is about ln n/γ_c, so 1e-12 of γ is at most 1e-9 in κ; rounding of H is 1e-11 there
        assert simplex_kappa(sizes, rho, gamma) == pytest.approx(level, abs=1e-8)
    # a dense scan finds no earlier crossing
    grid = np.linspace(0, found.gamma_2, 2000)
    curve = [simplex_kappa(sizes, rho, float(gamma)) for gamma in grid]
    scanned = gamma_thresholds(grid, curve)
    spacing = float(grid[1])
    assert scanned.gamma_1 == pytest.approx(found.gamma_1, abs=spacing)
    assert math.isnan(scanned.gamma_2) or scanned.gamma_2 == pytest.approx(found.gamma_2, abs=spacing)


def test_they_scale_with_the_threshold_and_meet_there() -> None:
    """H depends on γ(1-ρ) alone; both thresholds tend to γ_c as 1/ln n, from both sides."""
    for rho in (0.2, 0.9):
        here, there = simplex_gamma_thresholds(OCTAVES, rho), simplex_gamma_thresholds(OCTAVES, 0.0)
        assert here.gamma_1 / critical_gamma(rho) == pytest.approx(there.gamma_1, rel=1e-11)
        assert here.gamma_2 / critical_gamma(rho) == pytest.approx(there.gamma_2, rel=1e-11)
    logs, below, above = [], [], []
    for k in (20, 40, 80, 160):
        found = simplex_gamma_thresholds([10**k, 2 * 10**k], 0.5)
        logs.append(math.log(math.log(10**k)))
        below.append(math.log(1 - found.gamma_1 / 2))
        above.append(math.log(found.gamma_2 / 2 - 1))
    # t = (γ(1-ρ)-1) ln n at κ = .8 tends to a constant, with corrections of 1/ln n, 2 % at 10^20
    assert np.polyfit(logs, below, 1)[0] == pytest.approx(-1, abs=0.05)
    assert np.polyfit(logs, above, 1)[0] == pytest.approx(-1, abs=0.05)


@given(st.lists(st.floats(-0.5, 1.5), min_size=2, max_size=30), st.floats(-0.4, 1.4))
def test_every_fall_through_the_level_is_found(values: list[float], level: float) -> None:
    gammas = np.arange(len(values), dtype=float)
    found = crossings(gammas, values, level)
    assert len(found) == sum(a > level >= b for a, b in pairwise(values))
    # interpolation of numbers of order 1, over a drop that may be tiny: then any point between will do
    assert np.interp(found, gammas, values) == pytest.approx([level] * len(found), abs=1e-12)


def test_gaps_are_not_bridged_and_missing_crossings_are_nan() -> None:
    assert crossings([1.0, 2.0, 3.0], [1.0, math.nan, 0.1], 0.5) == []
    found = gamma_thresholds([1.0, 2.0], [0.9, 0.5])
    assert found.gamma_1 == pytest.approx(1.25, rel=1e-14)
    assert math.isnan(found.gamma_2)
    # a curve that is frozen from the start does not fall into it
    frozen = gamma_thresholds([1.0, 2.0], [0.1, 0.0])
    assert math.isnan(frozen.gamma_1) and math.isnan(frozen.gamma_2)
    # a dip and a return: the first fall counts
    assert gamma_thresholds([1.0, 2.0, 3.0, 4.0], [1.0, 0.6, 1.0, 0.0]).gamma_1 == pytest.approx(1.5, rel=1e-14)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match=r"gammas and kappa must be of one shape \(m,\)"):
        crossings([1.0, 2.0], [1.0], 0.5)
    with pytest.raises(InputError, match="strictly increasing"):
        crossings([1.0, 1.0], [1.0, 0.0], 0.5)
    with pytest.raises(InputError, match="the diluted level must be above the frozen one"):
        gamma_thresholds([1.0, 2.0], [1.0, 0.0], diluted=0.1)
    with pytest.raises(InputError, match="at least two different sizes"):
        simplex_gamma_thresholds([512], 0.5)
    with pytest.raises(InputError, match="rho must be"):
        simplex_gamma_thresholds([512, 1024], 1.0)
