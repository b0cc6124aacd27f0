"""Samplers: the simplex exactly, the random ones by their laws, and common random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from attnlim.context.samplers import (
    SAMPLERS,
    TAKES_RHO,
    draw,
    gaussian_tokens,
    half_sphere_tokens,
    simplex_tokens,
    sphere_tokens,
)
from attnlim.core.checks import InputError


def gram_error(x: Tensor, rho: float, q: float) -> float:
    wanted = q * ((1 - rho) * torch.eye(len(x), dtype=torch.float64) + rho)
    return float((x @ x.T - wanted).abs().max())


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), st.floats(0.001, 0.999), st.integers(0, 5), st.floats(1e-3, 1e3))
def test_the_gram_matrix_of_a_simplex(n: int, place: float, beyond: int, q: float) -> None:
    rho = -1 / (n - 1) + place * (1 + 1 / (n - 1))
    x = simplex_tokens(n, rho, width=n + beyond, q=q)
    assert x.shape == (n, n + beyond) and x.dtype == torch.float64
    assert not x[:, n:].any()
    # a sum of n products of entries below √q, each right to a few eps
    assert gram_error(x, rho, q) <= 8 * n * 2.3e-16 * q


@pytest.mark.parametrize("n", [2, 3, 100, 1000])
def test_simplices_at_the_ends_of_their_interval(n: int) -> None:
    below = math.nextafter(-1 / (n - 1), 1.0)
    for rho in (below, 0.0, 1e-300, 1 - 1e-12, math.nextafter(1.0, 0.0)):
        x = simplex_tokens(n, rho)
        assert bool(torch.isfinite(x).all())
        assert gram_error(x, rho, 1.0) <= 8 * n * 2.3e-16
    # nearly flat: the last token has to come out of the others' span
    assert torch.linalg.matrix_rank(simplex_tokens(n, 0.5)) == n


@pytest.mark.parametrize("rho", [0.5, 1 - 1e-6, 1 - 1e-12])
def test_differences_keep_the_digits_that_the_cosine_loses(rho: float) -> None:
    x = simplex_tokens(30, rho)
    squares = [float((x[i] - x[j]).square().sum()) / 2 for i in range(30) for j in range(i)]
    # 1 - rho itself is exact for these rho; each difference has one large entry, right to a few eps
    assert squares == pytest.approx([1 - rho] * len(squares), rel=1e-14, abs=0)


def test_a_smaller_simplex_begins_a_larger_one() -> None:
    assert torch.equal(simplex_tokens(9, 0.3)[:5, :5], simplex_tokens(5, 0.3))
    assert torch.equal(simplex_tokens(5, 0.3, width=9)[:, 5:], torch.zeros(5, 4, dtype=torch.float64))


RANDOM: dict[str, Callable[[int, int, int], Tensor]] = {
    "gaussian": lambda n, d, seed: gaussian_tokens(n, d, 0.4, seed),
    "half-sphere": half_sphere_tokens,
    "sphere": sphere_tokens,
}


@pytest.mark.parametrize("kind", RANDOM)
def test_seeds_and_common_random_numbers(kind: str) -> None:
    sample = RANDOM[kind]
    x = sample(50, 7, 3)
    assert torch.equal(x, sample(50, 7, 3))
    assert torch.equal(x[:20], sample(20, 7, 3))  # more tokens do not change the first ones
    for other in (sample(50, 7, 4), sample(50, 8, 3)[:, :7]):
        assert float((x - other).abs().max()) > 0.1


def test_the_numbers_of_gaussian_tokens_are_the_same_at_every_rho() -> None:
    own = gaussian_tokens(40, 6, 0.0)
    near, nearer = gaussian_tokens(40, 6, 0.3), gaussian_tokens(40, 6, 0.8)
    for rho, x in ((0.3, near), (0.8, nearer)):
        shared = (x - math.sqrt(1 - rho) * own) / math.sqrt(rho)
        torch.testing.assert_close(shared, shared[:1].expand_as(shared), rtol=0, atol=1e-14)


@pytest.mark.parametrize(("width", "rho"), [(2, 0.0), (16, 0.5), (128, 0.9)])
def test_moments_of_gaussian_tokens(width: int, rho: float) -> None:
    """E|x|² = 1 and E<x_i, x_j> = ρ; the unit is the draw, since z_0 is common to its tokens."""
    draws = [gaussian_tokens(40, width, rho, seed) for seed in range(300)]
    squares = np.array([float(x.square().sum(dim=1).mean()) for x in draws])
    sums = np.array([float(x.sum(dim=0).square().sum()) for x in draws])
    products = (sums - 40 * squares) / (40 * 39)
    for values, wanted in ((squares, 1.0), (products, rho)):
        assert values.mean() == pytest.approx(wanted, abs=4 * values.std(ddof=1) / math.sqrt(len(values)))


def test_the_paper_s_normal_numbers_are_not_standard() -> None:
    """The negative control of the moments: z ~ N(0, I) would give E|x|² = d."""
    assert float(gaussian_tokens(1000, 64, 0.5).square().sum(dim=1).mean()) < 2


def test_single_coordinates_have_the_law_that_they_should() -> None:
    n, d = 4000, 5
    z = gaussian_tokens(n, d, 0.0)[:, 2].numpy() * math.sqrt(d)
    first = half_sphere_tokens(n, d)[:, 0].numpy()
    second = half_sphere_tokens(n, d)[:, 1].numpy()
    any_one = sphere_tokens(n, d)[:, 4].numpy()
    marginal = stats.beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2)  # of a coordinate on the sphere
    # fixed seeds: a Kolmogorov–Smirnov p-value below 1e-4 would be a defect and not chance
    assert stats.kstest(z, "norm").pvalue > 1e-4
    assert stats.kstest(any_one, marginal.cdf).pvalue > 1e-4
    assert stats.kstest(second, marginal.cdf).pvalue > 1e-4
    assert stats.kstest(first, lambda t: 2 * marginal.cdf(t) - 1).pvalue > 1e-4
    assert stats.kstest(first, marginal.cdf).pvalue < 1e-4


@pytest.mark.parametrize("width", [2, 3, 20])
def test_mean_cosine_of_the_half_sphere(width: int) -> None:
    wanted = math.exp(2 * math.lgamma(width / 2) - 2 * math.lgamma((width + 1) / 2)) / math.pi
    n, cosines = 60, []
    for seed in range(200):
        total = half_sphere_tokens(n, width, seed).sum(dim=0).square().sum()
        cosines.append((float(total) - n) / (n * (n - 1)))
    assert np.mean(cosines) == pytest.approx(wanted, abs=4 * np.std(cosines, ddof=1) / math.sqrt(200))
    if width == 2:
        assert wanted == pytest.approx(4 / math.pi**2, rel=1e-15)


@pytest.mark.parametrize("kind", ["half-sphere", "sphere"])
def test_unit_norms(kind: str) -> None:
    x = RANDOM[kind](1000, 33, 0)
    # the norm is a sum of 33 squares, then one division
    torch.testing.assert_close(x.norm(dim=1), torch.ones(1000, dtype=torch.float64), rtol=0, atol=1e-15)


def test_a_million_tokens() -> None:
    x = draw("gaussian", 10**6, width=4, rho=0.5, seed=1)
    assert torch.equal(x[:3], draw("gaussian", 3, width=4, rho=0.5, seed=1))
    assert half_sphere_tokens(10**6, 2).shape == (10**6, 2)


def test_draw_gives_what_the_samplers_give() -> None:
    assert tuple(SAMPLERS) == ("simplex", "gaussian", "half-sphere", "sphere")
    assert torch.equal(draw("simplex", 5, 8, 0.2, 3), simplex_tokens(5, 0.2, width=8))
    assert torch.equal(draw("simplex", 5, rho=-0.2), simplex_tokens(5, -0.2))
    assert torch.equal(draw("gaussian", 5, 8, 0.2, 3), gaussian_tokens(5, 8, 0.2, seed=3))
    assert torch.equal(draw("half-sphere", 5, 8, seed=3), half_sphere_tokens(5, 8, seed=3))
    assert torch.equal(draw("sphere", 5, 8, None, 3), sphere_tokens(5, 8, seed=3))
    assert set(TAKES_RHO) < set(SAMPLERS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cube", 5), "tokens must be one of simplex, gaussian, half-sphere, sphere, got 'cube'"),
        (("simplex", 5), "simplex tokens need rho, got none"),
        (("gaussian", 5, 3), "gaussian tokens need rho, got none"),
        (("half-sphere", 5, 3, 0.5), "half-sphere tokens take no rho, got 0.5; leave it out"),
        (("sphere", 5, 3, math.nan), "sphere tokens take no rho, got nan"),
        (("gaussian", 5, None, 0.5), "gaussian tokens need a width, got none"),
        (("sphere", 5), "sphere tokens need a width"),
        (("simplex", 5, 4, 0.5), r"width must be a whole number of at least 5, got 4; a simplex of 5 tokens spans 5"),
        (("simplex", 5, 5, -0.25), r"rho must be a number in \(-0.25, 1\), got -0.25"),
        (("simplex", 5, 5, 1.0), r"rho must be a number in \(-0.25, 1\), got 1.0"),
        (("simplex", 5, 5, math.nan), "rho must be .*, got nan"),
        (("simplex", 1, 5, 0.5), "n_tokens must be a whole number of at least 2, got 1"),
        (("gaussian", 5, 3, -0.1), "rho must be a finite number of at least 0, got -0.1; the shared part"),
        (("gaussian", 5, 3, 1.0), "rho must be below 1, got 1.0; at 1 all"),
        (("gaussian", 5, 3, math.nan), "rho must be a finite number of at least 0, got nan"),
        (("gaussian", 1, 3, 0.5), "n_tokens must be a whole number of at least 2, got 1"),
        (("gaussian", 5, 0, 0.5), "width must be a whole number of at least 1, got 0"),
        (("half-sphere", 1, 3), "n_tokens must be a whole number of at least 2, got 1"),
        (("sphere", 5, 0), "width must be a whole number of at least 1, got 0"),
        (("sphere", 5, math.nan), "width must be a whole number of at least 1, got nan"),
        (("sphere", 5, 3, None, -1), "seed must be a whole number of at least 0, got -1"),
        (("simplex", 5, 5, 0.5, -1), "seed must be a whole number of at least 0, got -1"),
    ],
)
def test_bad_input_is_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        draw(*arguments)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("q", [0.0, -1.0, math.nan, math.inf])
def test_a_bad_norm_is_refused(q: float) -> None:
    with pytest.raises(InputError, match="q must be a finite number above 0"):
        simplex_tokens(4, 0.5, q=q)
