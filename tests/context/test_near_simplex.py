"""Assumption 2 over samplers, sizes and widths: verdicts, rates against extreme-value theory, exact chances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from attnlim.context.near_simplex import assumption_two, bound_trends
from attnlim.core.checks import InputError


def test_a_simplex_meets_the_assumption_at_every_size() -> None:
    table = assumption_two("simplex", [8, 32, 128], [128], rho=0.3, seeds=[0, 1])
    assert table.holds.all() and not table.reason.any()
    assert table.n_tokens.tolist() == [8, 8, 32, 32, 128, 128]
    for column, wanted in (("rho_1", 0.3), ("rho_2", 0.3), ("rho_hat", 0.3), ("q_1", 1.0), ("gamma_low", 1 / 0.7)):
        # sums of up to 128 products
        assert table[column].tolist() == pytest.approx([wanted] * 6, abs=1e-13)
    trends = bound_trends(table)
    assert trends.exponent.tolist() == pytest.approx([0.0] * 4, abs=1e-12)
    assert trends.limit.tolist() == [0.0] * 4
    assert trends.share_holding.tolist() == [1.0] * 4


def test_a_simplex_below_zero_does_not() -> None:
    table = assumption_two("simplex", [10], [10], rho=-0.1, seeds=[0])
    assert table.holds.tolist() == [False]
    assert table.reason.tolist() == ["smallest cosine -0.1 is not above 0"]
    assert table.gamma_low.tolist() == pytest.approx([1 / 1.1])


def test_duplicates_break_it() -> None:
    """On the half-sphere of one dimension every token is the same."""
    table = assumption_two("half-sphere", [4], [1], seeds=[0])
    assert table.reason.tolist() == ["6 pairs of tokens have one direction"]
    assert table.gamma_high.tolist() == [math.inf]


def test_the_half_sphere_fails_at_once() -> None:
    """Two of its tokens may be obtuse: the paper's "with high probability" cannot be meant with ρ_1 > 0."""
    table = assumption_two("half-sphere", [64, 256], [2, 8, 64, 512])
    assert not table.holds.any()
    assert (table.rho_1 < 0).all() and (table.rho_2 < 1).all()
    assert table.rho.isna().all()


@pytest.mark.parametrize("n", [2, 4, 7])
def test_chance_of_the_half_circle(n: int) -> None:
    """n uniform angles on a half-circle have all cosines above 0 if their range is below half of it."""
    seeds = range(400)
    held = assumption_two("half-sphere", [n], [2], seeds=seeds).holds.mean()
    wanted = n * 0.5 ** (n - 1) - (n - 1) * 0.5**n
    assert held == pytest.approx(wanted, abs=4 * math.sqrt(wanted * (1 - wanted) / len(seeds)))


def test_the_paper_s_sampler_meets_it_only_for_wide_tokens() -> None:
    table = assumption_two("gaussian", [64, 1024], [2, 32, 512], rho=0.5)
    held = table.groupby(["width", "n_tokens"]).holds.mean()
    assert held[2, 64] == held[2, 1024] == 0.0
    assert held[32, 1024] < 1.0
    assert held[512, 64] == held[512, 1024] == 1.0


def median_gap(n: int, d: int) -> float:
    """1 - ρ_2 of n uniform directions: half of all draws have no pair closer (pairs taken as independent)."""
    cosine = stats.beta((d - 1) / 2, (d - 1) / 2)  # of (1 + <y_i, y_j>)/2
    return float(2 * cosine.ppf(math.log(2) / (n * (n - 1) / 2)))


@pytest.mark.parametrize(("n", "d"), [(200, 2), (200, 3), (400, 8), (400, 64)])
def test_the_largest_cosine_on_a_sphere(n: int, d: int) -> None:
    table = assumption_two("sphere", [n], [d], seeds=range(100))
    for gaps in (table.one_minus_rho_2, 1 + table.rho_1):  # antipodes have the same law
        below = int((gaps < median_gap(n, d)).sum())
        assert stats.binomtest(below, 100, 0.5).pvalue > 1e-4


@pytest.mark.parametrize(("n", "d"), [(100, 2), (100, 16)])
def test_the_norms_of_gaussian_tokens(n: int, d: int) -> None:
    """At ρ = 0, d|x|² is chi-squared: the median of the least and of the largest of n of them."""
    table = assumption_two("gaussian", [n], [d], rho=0.0, seeds=range(200))
    law = stats.chi2(d, scale=1 / d)
    least, largest = law.isf(0.5 ** (1 / n)), law.ppf(0.5 ** (1 / n))
    assert stats.binomtest(int((table.q_1 < least).sum()), 200, 0.5).pvalue > 1e-4
    assert stats.binomtest(int((table.q_2 < largest).sum()), 200, 0.5).pvalue > 1e-4


@pytest.mark.parametrize(
    ("kind", "rho", "width"),
    [
        ("sphere", None, 2),
        ("half-sphere", None, 2),
        ("half-sphere", None, 3),
        ("gaussian", 0.2, 2),
        ("gaussian", 0.2, 3),
    ],
)
def test_the_bounds_move_as_extreme_values_do(kind: str, rho: float | None, width: int) -> None:
    """No bound but those on unit norms serves every n at a fixed width."""
    trends = bound_trends(assumption_two(kind, [50, 100, 200, 400, 800], [width], rho, seeds=range(24)))
    assert trends.bound.tolist() == ["one_minus_rho_2", "one_plus_rho_1", "q_1", "q_2"]
    for row in trends.itertuples():
        if row.bound == "q_2" and kind == "gaussian":  # grows like ln n, whose local power is 1/ln n and falling
            assert row.low > 0 and row.exponent < 1 / math.log(50)
        elif row.limit == 0.0:
            assert row.exponent == row.standard_error == 0.0
        else:
            # 4 standard errors, and a tenth for what the smallest sizes still lack
            assert row.exponent == pytest.approx(row.limit, rel=0.1, abs=4 * row.standard_error)
            assert row.high < 0


def test_at_large_width_the_fitted_power_is_local() -> None:
    """At d = 64 the law of the maximum gives the slope over these sizes, which is not yet the limit's -4/63."""
    sizes = [64, 256, 1024]
    trends = bound_trends(assumption_two("sphere", sizes, [64], seeds=range(16))).set_index("bound")
    wanted = np.polyfit(np.log(sizes), np.log([median_gap(n, 64) for n in sizes]), 1)[0]
    found = trends.loc["one_minus_rho_2"]
    assert found.exponent == pytest.approx(wanted, abs=4 * found.standard_error)
    assert wanted < 1.3 * found.limit < 0


def test_one_seed_gives_no_interval_and_bad_tables_are_refused() -> None:
    trends = bound_trends(assumption_two("sphere", [10, 20], [3], seeds=[0]))
    assert trends.low.isna().all() and trends.exponent.notna().all()
    with pytest.raises(InputError, match="a trend needs a table of at least two sizes"):
        bound_trends(assumption_two("sphere", [10], [3]))
    with pytest.raises(InputError, match="sizes must hold at least one number"):
        assumption_two("sphere", [], [3])
    with pytest.raises(InputError, match="seeds must hold at least one number"):
        assumption_two("sphere", [10], [3], seeds=[])
    with pytest.raises(InputError, match="sphere tokens take no rho"):
        assumption_two("sphere", [10], [3], rho=0.5)
    with pytest.raises(InputError, match="a simplex of 10 tokens spans 10 dimensions"):
        assumption_two("simplex", [10], [3], rho=0.5)
    with pytest.raises(InputError, match="level must be"):
        bound_trends(assumption_two("sphere", [10, 20], [3]), level=2.0)
