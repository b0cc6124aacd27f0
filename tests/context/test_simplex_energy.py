"""η on a simplex: autograd at small n, the general formula in many digits at large n, causal rows, bad input."""

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch

from attnlim.context import simplex_energy as module
from attnlim.context.simplex_energy import simplex_jacobian
from attnlim.core.checks import InputError

REFERENCE = json.loads((Path(__file__).parent.parent / "reference" / "values.json").read_text())["simplex"]
PARTS = ("total", "attention", "covariance", "residual", "distance")


def simplex(n: int, width: int, rho: float, q: float) -> torch.Tensor:
    """Tokens with the Gram matrix q (ρ + (1-ρ) δ_ij), turned by a random rotation."""
    gram = np.full((n, n), rho) + (1 - rho) * np.eye(n)
    values, vectors = np.linalg.eigh(gram)
    root = vectors * np.sqrt(values) @ vectors.T
    rotation = np.linalg.qr(np.random.default_rng(7).standard_normal((width, width)))[0]
    return torch.from_numpy(math.sqrt(q) * root @ rotation[:n])


def layer(x: torch.Tensor, beta: float, alpha: float, causal: bool = False) -> torch.Tensor:
    y = x / x.norm(dim=1, keepdim=True)
    scores = beta * y @ y.T
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
    return torch.softmax(scores, 1) @ y + alpha * x


def by_autograd(n: int, width: int, rho: float, beta: float, q: float, alpha: float, causal: bool) -> list[float]:
    """η and the distance of Theorem 2.5 from torch's own Jacobian."""
    x = simplex(n, width, rho, q)
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x, beta, alpha, causal), x)
    assert isinstance(jacobian, torch.Tensor)
    y = x / x.norm(dim=1, keepdim=True)
    eye = torch.eye(width, dtype=x.dtype)
    tangent = (eye - y[:, :, None] * y[:, None, :]) / math.sqrt(q)
    wanted = torch.einsum("ij,iab->iajb", torch.eye(n, dtype=x.dtype), tangent + alpha * eye)
    return [float((matrix**2).sum()) / (n * width) for matrix in (jacobian, jacobian - wanted)]


@pytest.mark.parametrize("case", [case for case in REFERENCE if "eta_d_equals_n" in case])
def test_reference_values(case: dict[str, float]) -> None:
    n = int(case["n"])
    found = simplex_jacobian(n, n, case["rho"], gamma=case["gamma"], q=case["q"], alpha=case["alpha"])
    # the reference is a complex-step Jacobian in double precision
    assert found.total == pytest.approx(case["eta_d_equals_n"], abs=1e-10)


@pytest.mark.parametrize(("n", "width"), [(2, 2), (2, 5), (3, 3), (6, 6), (6, 9)])
@pytest.mark.parametrize("place", [0.05, 0.5, 0.97])
@pytest.mark.parametrize("beta", [0.0, 1.5, 7.0])
@pytest.mark.parametrize(("q", "alpha"), [(1.0, 0.0), (2.0, 0.7)])
@pytest.mark.parametrize("causal", [False, True])
def test_autograd(n: int, width: int, place: float, beta: float, q: float, alpha: float, causal: bool) -> None:
    rho = -1 / (n - 1) + place * (1 + 1 / (n - 1))
    total, distance = by_autograd(n, width, rho, beta, q, alpha, causal)
    found = simplex_jacobian(n, width, rho, beta=beta, q=q, alpha=alpha, causal=causal)
    # n²d² entries of rounding eps times (1 + β), each squared against a sum of order 1
    assert found.total == pytest.approx(total, rel=1e-12, abs=1e-13)
    assert found.distance == pytest.approx(distance, rel=1e-12, abs=1e-12)
    assert found.attention + found.covariance + found.residual == pytest.approx(found.total, rel=1e-15)


def general_formula(n: int, width: int, rho: float, beta: float, q: float, alpha: float) -> list[float]:
    """The formula for any tokens, row by row, with sums over equal tokens as counts: nothing is simplified."""
    rho, beta, q, alpha = (mpmath.mpf(value) for value in (rho, beta, q, alpha))
    p = 1 / (1 + (n - 1) * mpmath.exp(-(1 - rho) * beta))
    o, w, r = 1 - p, (1 - p) / (n - 1), mpmath.sqrt(q)
    own, other = p + o * rho, p * rho + w * (1 + (n - 2) * rho)  # μ_ii, μ_ij
    square = p * own + o * other  # |m|²
    trace = 1 - square - (p + o * rho**2 - own**2)
    pairs = p**2 + 2 * p * o * rho**2 + w**2 * (n - 1) * (1 + (n - 2) * rho**2)
    # |y_i|² and cross terms of Σ_k A_ik g_ik y_k = p y_i + wρ Σ y_k
    bent = p**2 + 2 * p * o * rho**2 + w**2 * rho**2 * (n - 1) * (1 + (n - 2) * rho)
    bent_m = p * own + rho * o * other
    frobenius = pairs - 2 * (p * own**2 + o * other**2) + square**2
    turned = bent - 2 * own * bent_m + own**2 * square
    f = frobenius - turned
    linear = 2 * (n - 1) * w**2 * beta * (rho * other - own)
    quadratic = (n - 1) * w**2 * beta**2 * (1 - 2 * other + square) * (1 - rho**2) + beta**2 * f
    attention = (width - 1) * (p**2 + o * w) / q
    covariance = (2 * p * beta * trace + linear + quadratic) / q + 2 * alpha * beta * trace / r
    residual = 2 * alpha * p * (width - 1) / r + alpha**2 * width
    distance = ((width - 1) * (o**2 + o * w) - 2 * o * beta * trace + linear + quadratic) / q
    parts = attention, covariance, residual
    return [float(value / width) for value in (sum(parts), *parts, distance)]


@pytest.mark.parametrize("n", [2, 48, 10**6, 10**160, 10**300], ids=lambda n: f"{math.log10(n):.3g}")
@pytest.mark.parametrize("one_minus_rho", [1e-12, 0.5, 1.0])
@pytest.mark.parametrize("scale", [0.0, 0.5, 0.9, 1.0, 1.1, 2.0])
@pytest.mark.parametrize("alpha", [0.0, 0.7])
@pytest.mark.parametrize("square", [True, False])
def test_many_digits(n: int, one_minus_rho: float, scale: float, alpha: float, square: bool) -> None:
    rho, width = 1 - one_minus_rho, n if square else 32
    beta = scale * math.log(n) / (1 - rho)
    # products of four weights, each down to n^{-2}, and δ² = 1e-24 beside 1
    with mpmath.workdps(80 + 9 * len(str(n))):
        exact = general_formula(n, width, rho, beta, 2.0, alpha)
    found = simplex_jacobian(n, width, rho, beta=beta, q=2.0, alpha=alpha)
    # relative error of p and 1-p: that of their exponent, (1-ρ)β and ln n rounded; up to four of them in a product
    slack = 16 * ((1 - rho) * beta + math.log(n) + 4) * 2.0**-52
    # on a plane near ρ = 1 the distance is the square of a difference of two terms of order 1
    room = 2.0**-52 if n == 2 else 1e-300
    for name, wanted in zip(PARTS, exact, strict=True):
        if name == "distance" and width < n:
            assert math.isnan(found.distance)
        else:
            assert getattr(found, name) == pytest.approx(wanted, rel=slack, abs=room), name


def test_one_minus_rho_carries_cosines_that_round_to_one() -> None:
    by_rest = simplex_jacobian(50, 64, one_minus_rho=0.25, beta=5.0, alpha=0.3)
    assert by_rest == simplex_jacobian(50, 64, 0.75, beta=5.0, alpha=0.3)
    gamma = 1.2e30
    kept = simplex_jacobian(50, 64, one_minus_rho=1e-30, gamma=gamma)
    # at fixed γ(1-ρ) all of it tends to a limit as ρ → 1; 1e-12 is that much from it
    assert kept.total == pytest.approx(simplex_jacobian(50, 64, one_minus_rho=1e-12, gamma=1.2e12).total, rel=1e-11)


def test_collapsed_tokens_share_one_gradient() -> None:
    """δ = 0: A = 1/n, so J_ij = P/(n√q) for all i, j."""
    found = simplex_jacobian(10, 16, one_minus_rho=0.0, beta=9.0, q=4.0)
    assert found.total == pytest.approx(15 / 16 / 4 / 10, rel=1e-14)
    assert found.covariance == 0


def test_blocks_of_causal_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = simplex_jacobian(50, 50, 0.3, beta=4.0, alpha=0.2, causal=True)
    for size in (1, 7, 50):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", size)
        blocks = simplex_jacobian(50, 50, 0.3, beta=4.0, alpha=0.2, causal=True)
        # sums in another order
        for name in PARTS:
            assert getattr(blocks, name) == pytest.approx(getattr(whole, name), rel=1e-13)


def test_causal_mean_tends_to_the_full_one() -> None:
    """At fixed γ = β/ln n most rows see as many tokens as the last: the difference falls with 1/ln n or faster."""
    full, causal = (
        [simplex_jacobian(n, n, 0.5, gamma=3.0, causal=causal).total for n in (10**3, 10**4, 10**5)]
        for causal in (False, True)
    )
    errors = np.abs(np.array(full) - np.array(causal))
    assert (np.diff(errors) < 0).all() and errors[-1] < 0.01


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_tokens": 1}, "n_tokens must be a whole number of at least 2, got 1"),
        ({"width": 0}, "width must be a whole number of at least 1, got 0"),
        ({"rho": -0.2}, "rho must be"),
        ({"rho": None}, "give exactly one of rho and one_minus_rho"),
        ({"gamma": None}, "got neither"),
        ({"gamma": math.nan}, "gamma must be"),
        ({"q": 0.0}, "q must be a finite number above 0"),
        ({"alpha": -1.0}, r"alpha must be a number in \[0, 1e\+100\]"),
        ({"n_tokens": 10**10, "causal": True}, "summed over its rows, at most 1000000000"),
    ],
)
def test_bad_input_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        simplex_jacobian(**{"n_tokens": 10, "width": 16, "rho": 0.5, "gamma": 1.0, **arguments})  # type: ignore[arg-type]
