"""Exact means over rows of independent scores: two keys by two-fold quadrature, draws, identities, the half point."""

import math

import numpy as np
import pytest
from scipy import integrate, special

from attnlim.context.criticality import beta_c_iid
from attnlim.context.independent_rows import half_participation_beta, independent_row
from attnlim.core.checks import InputError


@pytest.mark.parametrize("beta", [0.3, 2.0, 9.0])
def test_two_normal_keys_by_one_integral(beta: float) -> None:
    """With two keys everything depends on the difference of the scores, which is N(0, 2)."""

    def mean(function: object) -> float:
        assert callable(function)
        density = lambda u: math.exp(-u * u / 4) / math.sqrt(4 * math.pi)  # noqa: E731
        return float(2 * integrate.quad(lambda u: density(u) * function(beta * u), 0, 40, epsabs=1e-13, limit=400)[0])

    row = independent_row(2, beta, sigma=1.0)
    # ln Z = β(s+s')/2 + ln 2cosh(βu/2), whose first part has mean 0
    assert row.log_partition == pytest.approx(mean(lambda t: t / 2 + math.log1p(math.exp(-t))), abs=1e-10)
    assert row.concentration == pytest.approx(mean(lambda t: (1 + math.tanh(t / 2) ** 2) / 2), abs=1e-10)
    assert row.entropy == pytest.approx(
        mean(lambda t: math.log1p(math.exp(-t)) + t * math.exp(-t) / (1 + math.exp(-t))), abs=1e-10
    )
    assert row.annealed_log_partition == pytest.approx(math.log(2) + beta * beta / 2, rel=1e-12)


@pytest.mark.parametrize(
    ("n", "beta", "sigma", "width"),
    [(64, 3.0, 0.7, None), (512, 7.0, 1.0, None), (300, 20.0, None, 8), (64, 5.0, None, 2), (256, 60.0, None, 64)],
)
def test_draws(n: int, beta: float, sigma: float | None, width: int | None) -> None:
    generator = np.random.default_rng(21)
    n_rows = 3000
    if sigma is not None:
        scores = sigma * generator.standard_normal((n_rows, n))
    else:
        assert width is not None
        keys = generator.standard_normal((n_rows, n, width), dtype=np.float32)
        scores = (keys[..., 0] / np.linalg.norm(keys, axis=-1)).astype(np.float64)
    logits = beta * scores
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    log_z = np.log(weights.sum(axis=1)) + logits.max(axis=1)
    weights /= weights.sum(axis=1, keepdims=True)
    row = independent_row(n, beta, sigma, width)
    assert row.error < 1e-12
    drawn = (log_z, log_z - (weights * logits).sum(axis=1), (weights**2).sum(axis=1))
    for values, exact in zip(drawn, (row.log_partition, row.entropy, row.concentration), strict=True):
        assert values.mean() == pytest.approx(exact, abs=4 * values.std(ddof=1) / math.sqrt(n_rows))


@pytest.mark.parametrize("width", [2, 3, 8, 512])
@pytest.mark.parametrize("beta", [0.5, 30.0])
def test_mean_of_z_on_the_sphere_is_a_bessel_function(width: int, beta: float) -> None:
    """E e^{βs} = Γ(d/2) (2/β)^{d/2-1} I_{d/2-1}(β)."""
    order = width / 2 - 1
    if width == 512:
        # its series: Σ (β²/4)^k / (k! (d/2)_k)
        k = np.arange(200)
        terms = k * math.log(beta**2 / 4) - special.gammaln(k + 1) - special.gammaln(k + width / 2)
        exact = float(np.logaddexp.reduce(terms) + special.gammaln(width / 2))
    else:
        exact = special.gammaln(width / 2) + order * math.log(2 / beta) + math.log(special.ive(order, beta)) + beta
    row = independent_row(100, beta, width=width)
    assert row.annealed_log_partition == pytest.approx(math.log(100) + exact, abs=1e-11)
    # Jensen, and the entropy between 0 and ln n
    assert row.log_partition <= row.annealed_log_partition
    assert 0 <= row.entropy <= math.log(100)


@pytest.mark.parametrize("n", [2, 10**6, 10**300], ids=lambda n: f"{math.log10(n):.3g}")
def test_without_scores_rows_are_uniform(n: int) -> None:
    for row in (independent_row(n, 0.0, sigma=1.0), independent_row(n, 0.0, width=5)):
        assert row.log_partition == pytest.approx(math.log(n), rel=1e-12)
        assert row.entropy == pytest.approx(math.log(n), rel=1e-12)
        assert row.concentration == pytest.approx(1 / n, rel=1e-10)
        assert row.annealed_log_partition == pytest.approx(math.log(n), rel=1e-12)


def test_many_dimensions_are_normal_scores() -> None:
    width = 10**8
    found = independent_row(500, 3.0 * math.sqrt(width), width=width)
    normal = independent_row(500, 3.0, sigma=1.0)
    # the kurtosis of a cosine differs from 3 by -6/d
    assert (found.log_partition, found.entropy, found.concentration) == pytest.approx(
        (normal.log_partition, normal.entropy, normal.concentration), rel=1e-6
    )


def test_entropy_is_ln_z_minus_its_slope() -> None:
    """H = ln Z - β d(ln Z)/dβ, by a central difference of the first integral."""
    for arguments in ({"sigma": 0.5}, {"width": 24}):
        beta, step = 6.0, 1e-3
        sides = [independent_row(1000, beta + side, **arguments).log_partition for side in (-step, step)]  # type: ignore[arg-type]
        row = independent_row(1000, beta, **arguments)  # type: ignore[arg-type]
        # truncation step²·β·(ln Z)'''/6, below 1e-6
        assert row.entropy == pytest.approx(row.log_partition - beta * (sides[1] - sides[0]) / (2 * step), abs=1e-6)


def test_half_participation_point_and_its_limit() -> None:
    for arguments in ({"sigma": 1.0}, {"sigma": 1e-3}, {"width": 64}):
        at = half_participation_beta(500, **arguments)  # type: ignore[arg-type]
        assert independent_row(500, at, **arguments).concentration == pytest.approx(0.5, abs=1e-9)  # type: ignore[arg-type]
    assert half_participation_beta(500, sigma=1e-3) == pytest.approx(
        1e3 * half_participation_beta(500, sigma=1.0), rel=1e-9
    )
    ratios = [half_participation_beta(n, sigma=1.0) / beta_c_iid(n, 1.0) for n in (10**4, 10**12, 10**40)]
    assert ratios[0] < ratios[1] < ratios[2] < 2
    # 2 - ln(4π ln n)/(2 ln n) to first order, and 1/3 of that to the next
    log_n = 40 * math.log(10)
    assert 2 - ratios[2] == pytest.approx(math.log(4 * math.pi * log_n) / (2 * log_n), rel=0.35)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="give exactly one of sigma and width"):
        independent_row(10, 1.0)
    with pytest.raises(InputError, match="give exactly one of sigma and width"):
        half_participation_beta(10, sigma=1.0, width=4)
    with pytest.raises(InputError, match="sigma must be"):
        independent_row(10, 1.0, sigma=0.0)
    with pytest.raises(InputError, match="width must be a whole number of at least 2, got 1"):
        independent_row(10, 1.0, width=1)
    with pytest.raises(InputError, match="at most 10\\^300 keys"):
        independent_row(10**400, 1.0, sigma=1.0)
    with pytest.raises(InputError, match="beta must need at most 1000000 nodes"):
        independent_row(10, 1e6, sigma=1.0)
    with pytest.raises(InputError, match="the squares of two weights sum to at least 1/2"):
        half_participation_beta(2, sigma=1.0)
