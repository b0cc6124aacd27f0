"""Limits of η with the measured rate of approach; unequal norms; the mean of 1/|x|² by quadrature and by draws."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate

from attnlim.context.jacobian_limits import jacobian_limit, mean_inverse_square, supercritical_jacobian_limit
from attnlim.context.simplex_energy import simplex_jacobian
from attnlim.core.checks import InputError

LARGE_SIZES = [10**k for k in (40, 60, 80)]
SMALL_SIZES = [10**k for k in (7, 8, 9)]


@pytest.mark.parametrize("width", [2, 48, 10**300])
@pytest.mark.parametrize("q", [0.5, 2.0])
def test_theorem_without_residual(width: int, q: float) -> None:
    limits = [jacobian_limit(0.3, width, phase=phase, q=q) for phase in ("subcritical", "critical", "supercritical")]
    share = 1 - 1 / width
    assert limits == pytest.approx([0.0, share / (4 * q), share / q], rel=1e-14)


@pytest.mark.parametrize(
    ("gamma", "alpha", "rate", "sizes"),
    [
        (0.5, 0.0, -1.0, LARGE_SIZES),  # the other tokens' share, 1/n, is the larger part
        (1.4, 0.0, -0.6, LARGE_SIZES),  # p² ~ n^{-2(1-γ/2)}
        (1.0, 0.7, -0.5, SMALL_SIZES),  # p
        (3.0, 0.0, -0.5, SMALL_SIZES),  # 1-p
        (3.0, 0.7, -0.5, SMALL_SIZES),
    ],
)
def test_rate_of_approach(gamma: float, alpha: float, rate: float, sizes: list[int]) -> None:
    errors = [
        abs(simplex_jacobian(n, n, 0.5, gamma, alpha=alpha).total - jacobian_limit(0.5, n, gamma, alpha=alpha))
        for n in sizes
    ]
    slope = float(np.polyfit([math.log(n) for n in sizes], np.log(errors), 1)[0])
    # the next order is smaller by n^{-1/5} at 10^40 and by ln n · n^{-1/2} = 0.005 at 10^7, the largest n weighs as much
    assert slope == pytest.approx(rate, abs=0.01)


def test_at_the_threshold_the_covariance_part_is_the_last_to_go() -> None:
    """n = d = 48, q = 2: .160 against .122; the excess falls as (ln n)²/n k = ln n."""
    found = simplex_jacobian(48, 48, 0.5, gamma=2.0, q=2.0)
    assert (round(found.total, 3), round(jacobian_limit(0.5, 48, gamma=2.0, q=2.0), 3)) == (0.160, 0.122)
    assert found.covariance > 0.5 * (found.total - jacobian_limit(0.5, 48, gamma=2.0, q=2.0))
    n = 10**8
    excess = simplex_jacobian(n, n, 0.5, gamma=2.0, q=2.0).total - jacobian_limit(0.5, n, gamma=2.0, q=2.0)
    k = math.log(n)
    # at p = 1/2: k²ρ/16 + k(1+ρ/2)/2 of the covariance part and 1/2 of the weights; 1e-7 is left of 0.125
    assert excess * n * 2 == pytest.approx(k * k / 32 + 5 * k / 8 + 0.5, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_unequal_norms_against_autograd_at_a_large_beta(alpha: float) -> None:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(6, 5, generator=generator, dtype=torch.float64)

    def layer(x: torch.Tensor) -> torch.Tensor:
        y = x / x.norm(dim=1, keepdim=True)
        return torch.softmax(2000.0 * y @ y.T, 1) @ y + alpha * x

    jacobian = torch.autograd.functional.jacobian(layer, x)
    assert isinstance(jacobian, torch.Tensor)
    limit = supercritical_jacobian_limit((x**2).sum(1).numpy(), 5, alpha)
    # all cosines are below 0.95, so the other weights are at most e^{-100}
    assert float((jacobian**2).sum()) / 30 == pytest.approx(limit, rel=1e-12)


def test_equal_norms_are_the_simplex() -> None:
    found = supercritical_jacobian_limit(np.full(7, 2.5), 9, 0.4)
    assert found == pytest.approx(jacobian_limit(0.2, 9, phase="supercritical", q=2.5, alpha=0.4), rel=1e-14)


@pytest.mark.parametrize("width", [3, 4, 32, 512])
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0, 1.4])
def test_mean_inverse_square_by_quadrature(width: int, rho: float, shared: float) -> None:
    """1/χ² = ∫ e^{-tχ²} dt; with u = 1/(1+2t) its mean is ½ ∫ u^{d/2-2} e^{-λ(1-u)/2} du, smooth in √u."""
    half = width * rho * shared / (1 - rho) / 2

    def integrand(v: float) -> float:
        return v ** (width - 3) * math.exp(-half * (1 - v * v))

    value, error = integrate.quad(integrand, 0, 1, points=[max(0.0, 1 - 20 / (half + width))], epsabs=0, epsrel=1e-12)
    wanted = width / (1 - rho) * value
    assert mean_inverse_square(width, rho, shared) == pytest.approx(wanted, rel=1e-10 + 2 * error / value)


def test_mean_inverse_square_of_drawn_tokens() -> None:
    """d = 32, ρ = .5: .86 (1-1/d included) belongs to one draw with |z_0|² = 1.35, 1.03 is the mean over draws."""
    generator = np.random.default_rng(4)
    width, rho = 32, 0.5
    z_0 = generator.standard_normal(width) / math.sqrt(width)
    x = math.sqrt(rho) * z_0 + math.sqrt((1 - rho) / width) * generator.standard_normal((40000, width))
    inverse = 1 / (x**2).sum(axis=1)
    error = inverse.std(ddof=1) / math.sqrt(len(inverse))
    assert inverse.mean() == pytest.approx(mean_inverse_square(width, rho, float(z_0 @ z_0)), abs=4 * error)
    assert 31 / 32 * mean_inverse_square(width) == pytest.approx(31 / 30, rel=1e-12)
    assert 31 / 32 * mean_inverse_square(width, rho, 1.35) == pytest.approx(0.86, abs=0.005)


def test_in_the_plane_the_mean_is_infinite() -> None:
    assert mean_inverse_square(2, 0.9, 1.0) == math.inf
    # the control: sample means at d = 2 keep growing with the number of draws, about as ln(draws)
    draws = np.random.default_rng(5).standard_normal((10**6, 2))
    inverse = 2 / (draws**2).sum(axis=1)
    assert inverse.mean() > inverse[:100].mean() + 2


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="give exactly one of gamma and phase"):
        jacobian_limit(0.5, 4)
    with pytest.raises(InputError, match="width must be"):
        jacobian_limit(0.5, 0, gamma=1.0)
    with pytest.raises(InputError, match="norms_squared must be finite and above 0"):
        supercritical_jacobian_limit([1.0, 0.0], 4)
    with pytest.raises(InputError, match=r"norms_squared must hold one number a token, shape \(n,\), got shape \(0,\)"):
        supercritical_jacobian_limit([], 4)
    with pytest.raises(InputError, match="alpha must be"):
        supercritical_jacobian_limit([1.0], 4, alpha=math.nan)
    with pytest.raises(InputError, match="rho must be"):
        mean_inverse_square(4, -0.1)
    with pytest.raises(InputError, match="shared_square must be"):
        mean_inverse_square(4, 0.1, -1.0)
