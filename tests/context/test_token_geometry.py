"""The geometry of token sets against a double loop, exact cases, invariances and high precision."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.context.largest_tensor import LargestTensor
from tests.context.standard_errors import claim_over_spread, range_by_chance

from attnlim.context.cosine import mean_cosine
from attnlim.context.row_sample import sampled_rows
from attnlim.context.samplers import draw, gaussian_tokens, simplex_tokens, sphere_tokens
from attnlim.context.token_geometry import TokenGeometry, geometry
from attnlim.core.checks import InputError


def slow_geometry(x: np.ndarray) -> TokenGeometry:
    """The twin: every pair in a double loop, in float64."""
    n, width = x.shape
    y = x / np.linalg.norm(x, axis=1, keepdims=True)
    rows, distances = [], []
    for i in range(n):
        rows.append([float(y[i] @ y[j]) for j in range(n) if j != i])
        distances += [float(np.sum((y[i] - y[j]) ** 2)) / 2 for j in range(i)]
    cosines = np.array(rows)
    squares = [float(row @ row) for row in x]
    return TokenGeometry(
        rho_hat=float(cosines.mean()),
        rho_1=float(cosines.min()),
        rho_2=1 - min(distances),
        one_minus_rho_2=min(distances),
        q_1=min(squares),
        q_2=max(squares),
        score_variance=float(np.mean([np.var(row) for row in cosines])),
        score_variance_standard_error=0.0,
        duplicates=sum(distance < 1e-29 for distance in distances),
        n_tokens=n,
        width=width,
        n_pairs=n * (n - 1) // 2,
    )


def same(found: TokenGeometry, wanted: TokenGeometry, tolerance: float = 1e-13) -> None:
    for name, value in vars(wanted).items():
        # cosines are right to a few eps; none of these numbers is above about 10
        assert getattr(found, name) == pytest.approx(value, rel=tolerance, abs=tolerance), name


def normal_tokens(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 0.3


@pytest.mark.parametrize("n", [2, 3, 63, 100])
@pytest.mark.parametrize("d", [1, 2, 17])
def test_equals_its_twin(n: int, d: int) -> None:
    x = normal_tokens(n, d)
    same(geometry(x), slow_geometry(x.numpy()))
    same(geometry(x.numpy()), slow_geometry(x.numpy()))


@pytest.mark.parametrize("tile", [1, 7, 62, 63, 1000])
@pytest.mark.parametrize("anchors", [None, 3, range(63)])
def test_the_tile_does_not_matter(tile: int, anchors: range | int | None) -> None:
    x = normal_tokens(63, 2)
    same(geometry(x, anchors, tile=tile), geometry(x, anchors))


def test_the_whole_gram_matrix_is_never_held() -> None:
    with LargestTensor() as largest:
        geometry(normal_tokens(1000, 2), tile=50)
    assert largest.entries == 2500


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 30), st.integers(2, 6))
def test_permuting_rotating_and_rescaling(seed: int, n: int, d: int) -> None:
    x = normal_tokens(n, d, seed)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(n, generator=generator)
    turn = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=generator)).Q
    base, moved = geometry(x), geometry((x @ turn)[order])
    same(moved, base)
    scaled = geometry(100 * x)
    assert (scaled.q_1, scaled.q_2) == pytest.approx((1e4 * base.q_1, 1e4 * base.q_2), rel=1e-13)
    assert (scaled.rho_1, scaled.rho_2) == pytest.approx((base.rho_1, base.rho_2), abs=1e-13)


@pytest.mark.parametrize("rho", [-0.04, 0.0, 0.7])
def test_a_simplex_has_no_spread(rho: float) -> None:
    found = geometry(simplex_tokens(25, rho, q=2.5))
    assert (found.rho_hat, found.rho_1, found.rho_2) == pytest.approx((rho, rho, rho), abs=1e-14)
    assert (found.q_1, found.q_2) == pytest.approx((2.5, 2.5), rel=1e-14)
    assert found.score_variance < 1e-30
    assert (found.n_pairs, found.duplicates) == (300, 0)


def test_the_mean_cosine_is_that_of_the_audit() -> None:
    x = gaussian_tokens(200, 16, 0.4)
    assert geometry(x).rho_hat == pytest.approx(mean_cosine(x), abs=1e-14)


def test_the_variance_is_within_rows() -> None:
    """Two clusters of unequal size: rows differ in their mean, and that is not in the variance."""
    n_a, n_b, within, between = 6, 3, 0.8, 0.2
    gram = np.full((9, 9), between)
    gram[:n_a, :n_a] = gram[n_a:, n_a:] = within
    np.fill_diagonal(gram, 1.0)
    found = geometry(np.linalg.cholesky(gram))
    share_a, share_b = (n_a - 1) / 8, (n_b - 1) / 8  # of a row's other tokens, those in its cluster
    spread = (within - between) ** 2
    wanted = spread * (n_a * share_a * (1 - share_a) + n_b * share_b * (1 - share_b)) / 9
    assert found.score_variance == pytest.approx(wanted, rel=1e-13)
    every = gram[~np.eye(9, dtype=bool)]
    assert every.var() > 1.1 * wanted


@pytest.mark.parametrize("exponent", [-3, -6, -9, -12, -14])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_two_tokens_that_nearly_coincide(exponent: int, dtype: torch.dtype) -> None:
    """1 - ρ_2 down to 1e-28, where the cosine is 1 in either precision; the truth from 60 digits."""
    x = normal_tokens(40, 2).to(dtype)
    x[7] = torch.tensor([1.0, 0.0], dtype=dtype)
    x[23] = torch.tensor([1.0, 10.0**exponent], dtype=dtype)
    found = geometry(x)
    with mpmath.workdps(60):
        ratio = mpmath.mpf(float(x[23, 1]))
        wanted = float(1 - 1 / mpmath.sqrt(1 + ratio**2))
    # the Gram matrix down to 1e-6, which leaves 1e-16/1e-6; differences below
    assert found.one_minus_rho_2 == pytest.approx(wanted, rel=1e-8, abs=0)
    assert found.rho_2 == 1 - found.one_minus_rho_2
    assert found.duplicates == 0


def test_the_closest_pair_of_many_on_a_circle() -> None:
    n = 3000
    angles = np.sort(np.random.default_rng(5).uniform(0, 2 * np.pi, n))
    gap = float(np.diff(np.append(angles, angles[0] + 2 * np.pi)).min())
    x = torch.from_numpy(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    found = geometry(x[torch.randperm(n, generator=torch.Generator().manual_seed(0))])
    # an angle of 1e-6 between entries that are rounded to 1e-16
    assert found.one_minus_rho_2 == pytest.approx(2 * math.sin(gap / 2) ** 2, rel=1e-8, abs=0)


def test_single_precision_gives_what_double_gives() -> None:
    """At d = 2 a float32 Gram matrix has pairs of cosine 1; the tokens themselves are exact in float64."""
    x = sphere_tokens(2000, 2).float()
    assert geometry(x) == geometry(x.double())
    y = x / x.norm(dim=1, keepdim=True)
    assert float((1 - (y @ y.T).fill_diagonal_(0.0)).min()) <= 0 < geometry(x).one_minus_rho_2


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(1e-5, 1e5), st.integers(1, 9))
def test_one_direction_at_two_lengths_is_a_duplicate(seed: int, scale: float, d: int) -> None:
    x = normal_tokens(6, d + 1, seed)
    x[4] = scale * x[1]
    found = geometry(x)
    assert found.duplicates == 1
    assert (found.rho_2, found.one_minus_rho_2) == (1.0, 0.0)


def test_duplicates_are_pairs() -> None:
    x = normal_tokens(50, 3)
    x[10:14] = x[3]
    x[40] = x[41]
    assert geometry(x, tile=8).duplicates == 10 + 1
    assert geometry(x, anchors=[3, 40, 41]).duplicates == 4 + 1
    assert geometry(torch.ones(30, 4)).duplicates == 435
    x[41] = -x[40]
    assert geometry(x).duplicates == 10
    assert geometry(x).rho_1 == pytest.approx(-1.0, abs=1e-15)


def test_tokens_that_have_all_come_together() -> None:
    """What a subcritical layer leaves: every pair is near 1, and every tile is looked at by differences."""
    found = geometry(simplex_tokens(300, 1 - 1e-10), tile=64)
    assert found.one_minus_rho_2 == pytest.approx(1 - (1 - 1e-10), rel=1e-12, abs=0)
    assert found.duplicates == 0


def test_anchors_are_the_pairs_with_an_end_among_them() -> None:
    x, anchors = normal_tokens(40, 3), [31, 2, 17]
    y = x / x.norm(dim=1, keepdim=True)
    cosines = (y @ y.T).numpy()
    others = [[cosines[i, j] for j in range(40) if j != i] for i in anchors]
    for given_as in (anchors, np.array(anchors), torch.tensor(anchors)):
        found = geometry(x, given_as)
        assert (found.rho_1, found.rho_2) == pytest.approx((np.min(others), np.max(others)), abs=1e-14)
        variances = np.array([np.var(row) for row in others])
        assert found.score_variance == pytest.approx(variances.mean(), abs=1e-14)
        assert math.isnan(found.score_variance_standard_error)
        assert found.n_pairs == 3 * 39 - 3
        assert (found.rho_hat, found.q_1) == (geometry(x).rho_hat, geometry(x).q_1)
    assert math.isnan(geometry(x, 1).score_variance_standard_error)
    drawn = sampled_rows(3, 40, seed=2, least=1)
    assert drawn is not None
    variances = np.array([np.delete(cosines[i], i).var() for i in drawn.tolist()])
    error = math.sqrt(variances.var(ddof=1) / 3 * (1 - 3 / 40))
    assert geometry(x, 3, seed=2).score_variance_standard_error == pytest.approx(error, rel=1e-11)
    assert geometry(x, 5) == geometry(x, 5) != geometry(x, 5, seed=1)
    same(geometry(x, 40), geometry(x))


def test_drawn_anchors_estimate_the_variance() -> None:
    x, draws = draw("gaussian", 500, 8, 0.5), 100
    exact = geometry(x)
    found = [geometry(x, 50, seed=seed) for seed in range(draws)]
    values = np.array([one.score_variance for one in found])
    assert values.mean() == pytest.approx(exact.score_variance, abs=4 * values.std(ddof=1) / math.sqrt(draws))
    low, high = range_by_chance(draws, 49)
    assert low < claim_over_spread(values, np.array([one.score_variance_standard_error for one in found])) < high
    assert all(exact.rho_1 <= one.rho_1 and one.rho_2 <= exact.rho_2 for one in found)


def test_no_gradient_and_no_change_of_the_tokens() -> None:
    x = normal_tokens(9, 3).requires_grad_()
    before = x.detach().clone()
    assert isinstance(geometry(x).rho_1, float)
    assert torch.equal(x.detach(), before)


def test_bad_input_is_refused() -> None:
    good = normal_tokens(5, 3)
    with pytest.raises(InputError, match=r"shape \(n, d\) with n >= 2"):
        geometry(good[:1])
    with pytest.raises(InputError, match="float32 or float64"):
        geometry(good.half())
    with pytest.raises(InputError, match="float32 or float64 tensor, got list"):
        geometry(good.tolist())  # type: ignore[arg-type]
    bad = good.clone()
    bad[3] = 0
    with pytest.raises(InputError, match="zero norm at token 3"):
        geometry(bad)
    bad[3, 1] = math.nan
    with pytest.raises(InputError, match="must be finite"):
        geometry(bad)
    with pytest.raises(InputError, match="tile must be a whole number of at least 1, got 0"):
        geometry(good, tile=0)
    with pytest.raises(InputError, match="anchors must be a whole number of at least 1, got 0"):
        geometry(good, 0)
    with pytest.raises(InputError, match="anchors must be at most the 5 tokens, got 6; use anchors=None for all"):
        geometry(good, 6)
    for anchors in ([0.5], [[0, 1]], [-1]):
        with pytest.raises(InputError, match="an index in anchors must be a whole number of at least 0"):
            geometry(good, anchors)  # type: ignore[arg-type]
    for indices in ([], [0, 5], [2, 2]):
        with pytest.raises(InputError, match="anchors must be at least 1 different indices below 5"):
            geometry(good, indices)
