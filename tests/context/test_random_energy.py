"""The random energy model: its limits from the exact rows at n up to 10^300, their rates, the sphere."""

import math

import numpy as np
import pytest

from attnlim.context.criticality import beta_c_iid, beta_c_sphere
from attnlim.context.independent_rows import independent_row
from attnlim.context.random_energy import (
    concentration_limit,
    entropy_exponent,
    frozen_entropy,
    log_partition_exponent,
    log_partition_sphere,
    participation_exponent,
)
from attnlim.core.checks import InputError

SIZES = [10**k for k in (20, 80, 300)]


@pytest.mark.parametrize("ratio", [1.5, 2.0, 3.0])
def test_concentration_above_the_threshold_and_its_correction(ratio: float) -> None:
    excess, predicted = [], []
    for n in SIZES:
        log_n = math.log(n)
        found = independent_row(n, ratio * beta_c_iid(n, 1.0), sigma=1.0).concentration
        excess.append(found - concentration_limit(ratio))
        predicted.append(math.log(4 * math.pi * log_n) / (4 * log_n) / ratio)
    # the next order, 1/ln n beside ln(4π ln n)/4 · 1/ln n, is 1/3 of it at 10^20 and 1/6 at 10^300
    assert excess == pytest.approx(predicted, rel=0.35)
    assert excess[2] == pytest.approx(predicted[2], rel=0.2)
    assert excess[0] > excess[1] > excess[2] > 0


def test_concentration_below_the_threshold_vanishes_as_a_power() -> None:
    for ratio in (0.3, 0.5):
        sums = [independent_row(n, ratio * beta_c_iid(n, 1.0), sigma=1.0).concentration for n in SIZES]
        assert concentration_limit(ratio) == 0
        # the mean of ΣA² follows Z(2β)/Z(β)² up to b = 1/2, with a factor 1/2 at b = 1/2 itself
        slope = np.polyfit([math.log(n) for n in SIZES], np.log(sums), 1)[0]
        assert slope == pytest.approx(-participation_exponent(ratio), abs=2e-3)


@pytest.mark.parametrize("ratio", [0.0, 0.4, 0.9, 1.2, 2.5])
def test_free_energy_and_entropy(ratio: float) -> None:
    errors_z, errors_h = [], []
    for n in SIZES:
        log_n = math.log(n)
        row = independent_row(n, ratio * beta_c_iid(n, 1.0), sigma=1.0)
        errors_z.append(abs(row.log_partition / log_n - log_partition_exponent(ratio)))
        errors_h.append(abs(row.entropy / log_n - entropy_exponent(ratio)))
    # above β_c ln Z loses b ln(4π ln n)/2 and H is of order 1: ln ln n/ln n of ln n; below they fall faster
    log_n = math.log(SIZES[-1])
    assert errors_z[-1] <= max(ratio * math.log(4 * math.pi * log_n) / 2, 3) / log_n
    assert errors_h[-1] <= max(3.0, min(frozen_entropy(max(ratio, 1.0)), 6.0)) / log_n
    assert errors_z[-1] <= errors_z[0] and errors_h[-1] <= errors_h[0] + 1e-14


@pytest.mark.parametrize("ratio", [2.0, 3.0])
def test_frozen_rows_keep_a_finite_entropy(ratio: float) -> None:
    gaps = [frozen_entropy(ratio) - independent_row(n, ratio * beta_c_iid(n, 1.0), sigma=1.0).entropy for n in SIZES]
    # β_c of finite n is lower by ln(4π ln n)/(4 ln n), which acts through the slope of the entropy in m = β_c/β
    slope = (frozen_entropy(1 / (1 / ratio + 1e-6)) - frozen_entropy(1 / (1 / ratio - 1e-6))) / 2e-6
    predicted = [slope / ratio * math.log(4 * math.pi * math.log(n)) / (4 * math.log(n)) for n in SIZES]
    assert gaps == pytest.approx(predicted, rel=0.35)
    assert gaps[2] == pytest.approx(predicted[2], rel=0.2)
    assert frozen_entropy(1.0) == math.inf


def test_counts_disagree_between_the_halves() -> None:
    """At b = 3/4: Σ A² has left the saddle of Z(2β) for the end of the scores."""
    assert participation_exponent(0.75) == pytest.approx(2 * 0.25**2, rel=1e-14)
    assert participation_exponent(0.25) == pytest.approx(1 - 2 / 16, rel=1e-14)
    assert entropy_exponent(0.75) > participation_exponent(0.75)
    assert participation_exponent(1.0) == 0 and entropy_exponent(1.0) == 0


@pytest.mark.parametrize("factor", [0.25, 0.5, 0.9, 1.0, 1.3])
def test_sphere_is_the_exact_row_at_large_n_and_d(factor: float) -> None:
    """ln n/d fixed: what is left out grows only as ln ln n."""
    relative = []
    for k in (10, 40, 160):
        n, width = 10**k, 8 * k
        beta = factor * beta_c_sphere(n, width)
        row = independent_row(n, beta, width=width)
        relative.append(abs(log_partition_sphere(n, width, beta) / row.log_partition - 1))
    assert relative[0] > relative[1] > relative[2]
    assert relative[2] < 0.02


def test_sphere_joins_and_reduces() -> None:
    at = beta_c_sphere(5000, 40)
    sides = [log_partition_sphere(5000, 40, at * (1 + side)) for side in (-1e-9, 1e-9)]
    # continuous with a continuous slope s*, so they differ by 2e-9 β_c s*
    assert sides[1] - sides[0] == pytest.approx(2e-9 * at * math.sqrt(1 - 5000 ** (-2 / 39)), rel=1e-4)
    assert log_partition_sphere(5000, 40, 0.0) == pytest.approx(math.log(5000), rel=1e-15)
    # many dimensions: normal scores of variance 1/d
    d = 10**9
    beta = 0.5 * beta_c_iid(5000, 1 / math.sqrt(d))
    assert log_partition_sphere(5000, d, beta) / math.log(5000) == pytest.approx(log_partition_exponent(0.5), rel=1e-6)
    # a plane at a large β: 1 - s² = s/β keeps its digits
    assert log_partition_sphere(10**9, 2, 1e8) == pytest.approx(
        9 * math.log(10) + 0.5 * math.log(1e-8) + 1e8 * (1 - 0.5e-8), rel=1e-15
    )


def test_bad_input_is_refused() -> None:
    for function in (
        concentration_limit,
        participation_exponent,
        entropy_exponent,
        log_partition_exponent,
        frozen_entropy,
    ):
        with pytest.raises(InputError, match="beta_ratio must be a finite number of at least 0"):
            function(-0.1)
    with pytest.raises(InputError, match="width must be a whole number of at least 2, got 1"):
        log_partition_sphere(10, 1, 1.0)
    with pytest.raises(InputError, match="beta must be"):
        log_partition_sphere(10, 3, math.nan)
