"""Rates of convergence: exact recovery, measured coverage, published forms, equal products, bad input."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from attnlim.core.checks import InputError
from attnlim.core.intervals import Interval
from attnlim.depth.rates import PUBLISHED_RATES, RateFit, compare_rates, decides, equal_product_spread, fit_rate

L, H = (sizes.ravel() for sizes in np.meshgrid([4, 8, 16, 32, 64], [1, 2, 4, 8], indexing="ij"))
DEEP = np.array([4, 8, 16, 32, 64, 128, 256, 512, 1024])


def curve(layers: Any, heads: Any, c1: float, c2: float, p: float, q: float) -> np.ndarray:
    return np.hypot(c1 / layers, c2 * layers**-p * heads**-q)


def drawn(mean_error: np.ndarray, n_replicas: int, rng: np.random.Generator, degrees: int = 20) -> np.ndarray:
    """Errors that are norms of Gaussian vectors, so that E² is right on average."""
    return mean_error * np.sqrt(rng.chisquare(degrees, (n_replicas, len(mean_error))) / degrees)


def estimates(fit: RateFit) -> list[float]:
    return [one.estimate for one in (fit.c1, fit.c2, fit.p, fit.q)]


@pytest.mark.parametrize(
    "true",
    [(0.5, 2, 1 / 2, 1 / 2), (3, 1, 1 / 3, 1 / 2), (10, 1, 0.4, 0.6), (0, 2, 0.5, 0.45), (1e-3, 1, 0.8, 0.2)],
)
def test_recovery_without_noise(true: tuple[float, float, float, float]) -> None:
    fit = fit_rate(L, H, np.tile(curve(L, H, *true), (3, 1)), n_resamples=5)
    assert estimates(fit) == pytest.approx(true, rel=1e-6, abs=1e-12)
    assert (true[0] > 0) == (fit.c1.estimate > 0) and fit.residual < 1e-9 and fit.n_cells == 20
    np.testing.assert_allclose(fit.at(7, [3, 5]), curve(7.0, np.array([3.0, 5.0]), *true), rtol=1e-6)
    # every resample is the same
    assert fit.p.high - fit.p.low < 1e-9


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 20), st.floats(0.2, 5), st.floats(0.2, 0.75), st.floats(0.2, 0.9))
def test_recovery_anywhere(c1: float, c2: float, p: float, q: float) -> None:
    fit = fit_rate(L, H, curve(L, H, c1, c2, p, q)[None])
    assert estimates(fit) == pytest.approx([c1, c2, p, q], rel=1e-6)
    assert math.isnan(fit.p.low) and fit.p.n_units == 1  # one replica has no interval


def test_the_minimum_is_that_of_a_general_solver() -> None:
    data = drawn(curve(L, H, 2, 1, 0.4, 0.5), 6, np.random.default_rng(3))
    fit = fit_rate(L, H, data, n_resamples=2)
    wanted = 0.5 * np.log((data**2).mean(axis=0))

    def rest(z: np.ndarray) -> np.ndarray:
        return np.log(curve(L, H, *z)) - wanted

    best = min((optimize.least_squares(rest, [c, 1, p, 0.5]) for c in (0.1, 1, 10) for p in (0.3, 0.6)), key=cost)
    assert estimates(fit) == pytest.approx(best.x.tolist(), rel=1e-4)  # its own stopping rule is 1e-8 in the cost
    assert fit.residual == pytest.approx(math.sqrt(2 * best.cost / len(L)), rel=1e-7)


def cost(result: Any) -> float:
    return float(result.cost)


def test_coverage() -> None:
    """Of 95 % intervals by 40 replicas, over 250 sets of data; and a wrong exponent is not covered."""
    true, rng = (2.0, 2.0, 1 / 2, 1 / 2), np.random.default_rng(0)
    hits, third = [], []
    for seed in range(250):
        fit = fit_rate(L, H, drawn(curve(L, H, *true), 40, rng), seed=seed, n_resamples=200)
        hits.append([x.low <= t <= x.high for x, t in zip((fit.c1, fit.c2, fit.p, fit.q), true, strict=True)])
        third.append(fit.p.low <= 1 / 3)
    covered = np.mean(hits, axis=0)
    # four binomial standard errors, and 1.5 % that 200 resamples and 40 units cost (measured with 500 sets)
    assert np.abs(covered - 0.95).max() < 4 * math.sqrt(0.95 * 0.05 / 250) + 0.015
    assert np.mean(third) < 0.05


def test_the_bootstrap_error_is_the_spread_of_estimates() -> None:
    rng, fits = np.random.default_rng(1), []
    for seed in range(150):
        fits.append(fit_rate(L, H, drawn(curve(L, H, 2, 2, 0.5, 0.5), 16, rng), seed=seed, n_resamples=100))
    spread = np.std([fit.p.estimate for fit in fits], ddof=1)
    # √(15/16) for the sample's own variance; the spread of 150 is known to 1/√300
    ratio = np.mean([fit.p.standard_error for fit in fits]) / spread
    assert ratio == pytest.approx(math.sqrt(15 / 16), abs=4 / math.sqrt(300))


@pytest.mark.parametrize(("p", "said"), [(1 / 2, "1/2"), (1 / 3, "1/3"), (0.42, "neither")])
def test_the_decision_at_one_head(p: float, said: str) -> None:
    data = drawn(curve(DEEP, 1.0, 0, 3, p, 1), 16, np.random.default_rng(7))
    fit = fit_rate(DEEP, np.ones_like(DEEP), data, discretisation=False)
    assert decides(fit.p) == said
    assert math.isnan(fit.q.estimate) and math.isnan(fit.q.low) and math.isnan(fit.c1.estimate)
    assert fit.c2.low < 3 < fit.c2.high and not fit.discretisation
    # a regression line; the descent stops at steps of 1e-9
    slope, height = np.polyfit(np.log(DEEP), 0.5 * np.log((data**2).mean(axis=0)), 1)
    assert (fit.p.estimate, math.log(fit.c2.estimate)) == pytest.approx((-slope, height), rel=1e-8)


def test_what_decides_says_at_the_edges() -> None:
    def interval(low: float, high: float) -> Interval:
        return Interval(0.4, low, high, 0.1, 0.95, "", 4, 0)

    assert [
        decides(interval(*x)) for x in [(0.3, 0.6), (0.4, 0.5), (1 / 3, 0.4), (0.51, 0.6), (math.nan, math.nan)]
    ] == [
        "both",
        "1/2",
        "1/3",
        "neither",
        "both",
    ]


def test_leaving_the_discretisation_out_bends_the_exponent() -> None:
    """The control: what has a term 1/L needs it."""
    data = np.tile(curve(L, H, 6, 2, 0.5, 0.5), (2, 1))
    without = fit_rate(L, H, data, discretisation=False, n_resamples=2)
    assert without.p.estimate > 0.6 and without.residual > 0.05


def test_curvature_finds_the_terms_at_one_head_and_at_one_depth() -> None:
    one_head = fit_rate(DEEP, np.full_like(DEEP, 4), curve(DEEP, 4.0, 8, 2, 0.4, 0.5)[None])
    # the factor takes 4^-q in
    assert estimates(one_head) == pytest.approx([8, 2 * 4**-0.5, 0.4, math.nan], rel=1e-6, nan_ok=True)
    heads = 2 ** np.arange(8)
    one_depth = fit_rate(np.full_like(heads, 9), heads, curve(9.0, heads, 2, 1, 0.5, 0.4)[None])
    assert estimates(one_depth) == pytest.approx([2, 1 / 3, math.nan, 0.4], rel=1e-6, nan_ok=True)
    assert one_depth.at(9, 4) == pytest.approx(curve(9.0, 4.0, 2, 1, 0.5, 0.4), rel=1e-6)


def test_cells_in_another_order_and_unit() -> None:
    data = drawn(curve(L, H, 2, 2, 0.5, 0.5), 8, np.random.default_rng(2))
    order = np.random.default_rng(3).permutation(len(L))
    fit = fit_rate(L, H, data)
    other = fit_rate(L[order], H[order], 1e3 * data[:, order])
    # descents stop at steps of 1e-9
    for one, two, factor in zip(
        dataclasses.astuple(fit)[:4], dataclasses.astuple(other)[:4], (1e3, 1e3, 1, 1), strict=True
    ):
        assert np.array(two[:4]) == pytest.approx(factor * np.array(one[:4]), rel=1e-6)


@pytest.mark.parametrize("at", range(4))
def test_each_published_rate_is_found(at: int) -> None:
    layers, heads = L.astype(float), H.astype(float)
    mean_error = 3 / layers + 2 * PUBLISHED_RATES[at].noise(layers, heads)
    exact = compare_rates(L, H, mean_error[None])[at]
    assert (exact.c1.estimate, exact.c2.estimate) == pytest.approx((3, 2), rel=1e-6)
    assert exact.residual.estimate < 1e-9 and exact.excess.estimate < -1e-3
    rows = compare_rates(L, H, drawn(mean_error, 32, np.random.default_rng(at)), n_resamples=200)
    assert [row.excess.high < 0 for row in rows] == [k == at for k in range(4)]
    assert all(row.c1.estimate >= 0 and row.c2.estimate >= 0 for row in rows)
    assert abs(rows[at].c2.estimate - 2) < 4 * rows[at].c2.standard_error


def test_a_term_that_is_not_there_gets_zero() -> None:
    noise = 2.0 / np.sqrt(L * H)
    assert compare_rates(L, H, noise[None])[3].c1.estimate == 0
    assert [row.c2.estimate for row in compare_rates(L, H, [5.0 / L])] == [0, 0, 0, 0]


def test_equal_products() -> None:
    rng, false_alarms = np.random.default_rng(5), 0
    for _ in range(150):
        rows = equal_product_spread(L, H, drawn(2.0 / np.sqrt(L * H), 16, rng))
        false_alarms += not all(row.coincide for row in rows)
    # Bonferroni: at most 5 %, with four binomial standard errors
    assert false_alarms / 150 < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 150)
    assert [row.product for row in rows] == [8, 16, 32, 64, 128, 256]
    assert rows[0].n_layers == (4, 8) and rows[0].n_heads == (2, 1)
    assert rows[0].scaled == pytest.approx([2, 2], rel=0.2)
    assert all(row.ratio.low <= row.ratio.estimate <= row.ratio.high and row.ratio.estimate >= 1 for row in rows)


def test_products_do_not_coincide_under_another_rate() -> None:
    rows = equal_product_spread(L, H, drawn(L ** (-1 / 3) * H**-0.5, 64, np.random.default_rng(6)))
    widest = rows[3]
    assert widest.product == 64 and not widest.coincide and widest.p_value < 0.01
    # cells (8, 8) and (64, 1): the ratio is 8^(1/6)
    assert widest.ratio.low < 8 ** (1 / 6) < widest.ratio.high and widest.ratio.low > 1


def test_the_ratio_of_two_cells_by_hand() -> None:
    data = np.array([[3.0, 1.0], [3.0, 2.0], [4.0, 1.0]])
    (row,) = equal_product_spread([2, 8], [4, 1], data, level=0.9)
    squares = data**2
    left_out = [np.log(np.delete(squares, k, 0).sum(0)) / 2 for k in range(3)]
    logs = np.array([one[0] - one[1] for one in left_out])
    error = math.sqrt(2 / 3 * ((logs - logs.mean()) ** 2).sum())
    assert row.ratio.estimate == pytest.approx(math.sqrt(34 / 6), rel=1e-12)
    assert row.ratio.standard_error == pytest.approx(error * math.sqrt(34 / 6), rel=1e-12)
    assert math.log(row.ratio.high / row.ratio.estimate) / error == pytest.approx(2.919986, rel=1e-6)  # t of 2, 95 %
    assert row.scaled == pytest.approx([math.sqrt(8 * 34 / 3), math.sqrt(8 * 2)], rel=1e-12)


def test_refusals() -> None:
    good = np.ones((2, 4))
    with pytest.raises(InputError, match="errors must be .n_replicas, n_cells."):
        fit_rate([1, 2], [1, 1, 1, 1], good)
    with pytest.raises(InputError, match="n_heads must be whole numbers of at least 1"):
        fit_rate([1, 2, 3, 4], [1, 0, 1, 1], good)
    with pytest.raises(InputError, match="errors must be finite and above 0"):
        fit_rate([1, 2, 3, 4], [1, 1, 1, 1], good * [1, 1, 1, np.nan])
    with pytest.raises(InputError, match="errors must be finite and above 0"):
        compare_rates([1, 2, 3, 4], [1, 1, 1, 1], 0 * good)
    with pytest.raises(InputError, match="cells must differ in n_layers or n_heads"):
        fit_rate([4] * 4, [2] * 4, good)
    with pytest.raises(InputError, match="4 unknowns take at least as many different cells, got 3"):
        fit_rate([1, 2, 4, 4], [1, 1, 2, 2], good)
    with pytest.raises(InputError, match="n_heads must not be one power of n_layers"):
        fit_rate([1, 2, 4, 8], [1, 2, 4, 8], good)
    with pytest.raises(InputError, match="at least 3 different cells"):
        compare_rates([1, 2, 2, 2], [1] * 4, good)
    with pytest.raises(InputError, match="equal products take at least 2 replicas and 2 cells"):
        equal_product_spread([1, 2, 4, 8], [1] * 4, good)
    with pytest.raises(InputError, match="n_resamples"):
        fit_rate([1, 2, 4, 8], [1] * 4, good, n_resamples=1)
    with pytest.raises(InputError, match="level must"):
        equal_product_spread([1, 2, 4, 8], [8, 4, 2, 1], good, level=95)
