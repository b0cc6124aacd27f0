"""The Jacobian energy against automatic differentiation, its twin, closed forms and float64."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.context.standard_errors import claim_over_spread, range_by_chance

from attnlim.context import geometry, jacobian_energy, naive, simplex_tokens
from attnlim.context.samplers import gaussian_tokens
from attnlim.core.checks import InputError

VALUES = json.loads((Path(__file__).parents[1] / "reference" / "values.json").read_text())
PARTS = ("total", "attention", "covariance", "residual", "distance")


def reference_tokens(n: int, d: int, shift: float) -> np.ndarray:
    i, j = np.arange(n)[:, None], np.arange(d)[None, :]
    return np.asarray(np.sin(1 + 3 * i + 7 * j + shift) + 0.5 + 0.1 * np.cos(5 * i * (j + 1) + shift))


def normal_tokens(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.3


def plain_layer(x: torch.Tensor, beta: float, alpha: float, causal: bool) -> torch.Tensor:
    y = x / x.norm(dim=1, keepdim=True)
    scores = beta * y @ y.T
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return torch.softmax(scores, dim=1) @ y + alpha * x


@pytest.mark.parametrize("case", VALUES["context"])
def test_reference_values(case: dict[str, float]) -> None:
    x = reference_tokens(int(case["n"]), int(case["d"]), case["shift"])
    assert float(jacobian_energy(x, case["beta"], case["alpha"], bool(case["causal"]))) == pytest.approx(
        case["eta"], abs=1e-12
    )


@pytest.mark.parametrize("case", [case for case in VALUES["simplex"] if "eta_d_equals_n" in case])
def test_reference_simplex_at_d_equal_n(case: dict[str, float]) -> None:
    x = simplex_tokens(int(case["n"]), case["rho"], q=case["q"])
    beta = case["gamma"] * math.log(case["n"])
    assert float(jacobian_energy(x, beta, case["alpha"])) == pytest.approx(case["eta_d_equals_n"], abs=1e-12)


@pytest.mark.parametrize(("n", "d"), [(2, 1), (9, 1), (12, 2), (11, 5), (6, 13)])
@pytest.mark.parametrize("alpha", [0.0, 0.7])
@pytest.mark.parametrize("causal", [False, True])
def test_equals_automatic_differentiation(n: int, d: int, alpha: float, causal: bool) -> None:
    x = normal_tokens(n, d)  # norms differ, q is not 1
    for beta in (0.0, 2.0, 15.0):
        jacobian = torch.autograd.functional.jacobian(lambda x, beta=beta: plain_layer(x, beta, alpha, causal), x)
        eta = float(jacobian.square().sum()) / (n * d)
        scale = float(x.norm(dim=1).pow(-2).mean())
        assert float(jacobian_energy(x, beta, alpha, causal)) == pytest.approx(eta, abs=1e-13 * scale * (1 + beta) ** 2)


@pytest.mark.parametrize(("n", "d"), [(15, 1), (30, 2), (23, 5), (13, 13)])
@pytest.mark.parametrize(("alpha", "causal"), [(0.0, False), (0.4, True)])
@pytest.mark.parametrize("tile", [(512, 512), (6, 7), (1, 30)])
def test_every_part_equals_its_twin(n: int, d: int, alpha: float, causal: bool, tile: tuple[int, int]) -> None:
    """(13, 13) takes the Gram way to second moments, the others the entries."""
    x, betas = normal_tokens(n, d), [0.0, 2.0, 4.0, 6.0, 8.0]
    found = jacobian_energy(x, betas, alpha, causal, tile=tile)
    scale = float(x.norm(dim=1).pow(-2).mean())
    for k, beta in enumerate(betas):
        twin = naive.jacobian_energy(x.numpy(), beta, alpha, causal)
        for name in PARTS:
            assert getattr(found.at(k), name) == pytest.approx(twin[name], abs=1e-13 * scale * (1 + beta) ** 2), name


def test_the_parts_sum_to_the_total() -> None:
    found = jacobian_energy(normal_tokens(40, 6), 5.0, 0.3)
    assert found.attention + found.covariance + found.residual == pytest.approx(found.total, rel=1e-14)


def test_the_distance_vanishes_above_the_threshold_and_not_below() -> None:
    """Theorem 2.5: exponentially fast in γ, as 1 - p ~ n^{-(γ(1-ρ)-1)}."""
    n, rho = 64, 0.5
    x = simplex_tokens(n, rho)
    gammas = np.array([3.0, 4.0, 5.0])
    found = jacobian_energy(x, (gammas * math.log(n)).tolist())
    slope = np.polyfit(gammas, np.log(found.distance), 1)[0]
    # distance ~ ((1-p)β)², up to the logarithm: -2 (1-ρ) ln n = -4.16 a unit of γ
    assert slope == pytest.approx(-2 * (1 - rho) * math.log(n), rel=0.15)
    assert jacobian_energy(x, 0.5 * math.log(n)).distance > 0.5


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 100),
    d=st.integers(1, 40),
    rho=st.floats(0.01, 0.99),
    gamma=st.floats(0.0, 5.0),
    alpha=st.sampled_from([0.0, 0.5]),
    causal=st.booleans(),
    size=st.sampled_from([1e-15, 1.0, 1e15]),
)
def test_float32_stays_within_its_error(
    seed: int, n: int, d: int, rho: float, gamma: float, alpha: float, causal: bool, size: float
) -> None:
    x = (gaussian_tokens(n, d, rho, seed) * size).float()
    beta = gamma * math.log(n) / (1 - rho)
    found, precise = jacobian_energy(x, beta, alpha, causal), jacobian_energy(x.double(), beta, alpha, causal)
    for name in ("total", "attention", "covariance", "distance"):
        assert abs(getattr(found, name) - getattr(precise, name)) <= found.error


@pytest.mark.parametrize(("n", "d", "causal"), [(28, 28, True), (300, 512, False), (875, 65, False)])
@pytest.mark.parametrize("size", [0.5, 3.0])
def test_what_rounding_leaves_of_a_vanishing_distance(n: int, d: int, causal: bool, size: float) -> None:
    """At γ(1-ρ̂) = 15 and 30 the distance is below 1e-13, but for its rounding: what the docstring says of it."""
    x = (size * gaussian_tokens(n, d, 0.5, seed=2)).float()
    inverse_square = float(x.double().square().sum(dim=1).reciprocal().mean())
    apart = 1 - geometry(x).rho_hat
    betas = [scale * math.log(n) / apart for scale in (15.0, 30.0)]
    narrow, wide = jacobian_energy(x, betas, causal=causal), jacobian_energy(x.double(), betas, causal=causal)
    for k, beta in enumerate(betas):
        floor = 4 * (1 + beta * apart) * inverse_square
        assert abs(wide.distance[k]) < floor * torch.finfo(torch.float64).eps + 1e-3 * abs(narrow.distance[k])
        assert abs(narrow.distance[k]) < floor * torch.finfo(torch.float32).eps
        assert abs(narrow.distance[k]) < narrow.error[k]


def test_on_a_line_nothing_but_the_residual_passes() -> None:
    found = jacobian_energy(gaussian_tokens(300, 1, 0.5).float(), [2.0, 20.0], alpha=0.5)
    assert found.total.tolist() == [0.25, 0.25] and found.covariance.tolist() == [0.0, 0.0]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 30), d=st.integers(1, 6), beta=st.floats(0, 30))
def test_permuting_and_rotating_tokens(seed: int, n: int, d: int, beta: float) -> None:
    x = normal_tokens(n, d, seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    rotation, _ = torch.linalg.qr(normal_tokens(d, d, seed + 1))
    one, other = jacobian_energy(x, beta, 0.3), jacobian_energy(x[order] @ rotation, beta, 0.3)
    scale = float(x.norm(dim=1).pow(-2).mean())
    for name in PARTS:
        assert getattr(other, name) == pytest.approx(getattr(one, name), abs=1e-13 * scale * (1 + beta) ** 2)


@pytest.mark.parametrize("probes", [2, 7])
def test_probes_lie_within_their_standard_error(probes: int) -> None:
    x, betas = normal_tokens(50, 8), [3.0, 8.0]
    exact = jacobian_energy(x, betas)
    draws = [jacobian_energy(x, betas, probes=probes, seed=seed) for seed in range(60)]
    for k in range(len(betas)):
        values = np.array([draw.total[k] for draw in draws])
        errors = np.array([draw.standard_error[k] for draw in draws])
        assert abs(values.mean() - exact.total[k]) < 4 * values.std(ddof=1) / math.sqrt(60)
        low, high = range_by_chance(60, probes - 1)
        assert low < claim_over_spread(values, errors) < high
        assert draws[0].attention[k] == pytest.approx(exact.attention[k], rel=1e-12)


def test_sampled_rows_lie_within_their_standard_error() -> None:
    x, betas = gaussian_tokens(500, 8, 0.4, seed=3), [4.0, 9.0]
    exact = jacobian_energy(x, betas, 0.2)
    draws = [jacobian_energy(x, betas, 0.2, rows=50, seed=seed) for seed in range(40)]
    for k in range(len(betas)):
        values = np.array([draw.total[k] for draw in draws])
        errors = np.array([draw.standard_error[k] for draw in draws])
        assert abs(values.mean() - exact.total[k]) < 4 * values.std(ddof=1) / math.sqrt(40)
        low, high = range_by_chance(40, 49)
        assert low < claim_over_spread(values, errors) < high


def test_all_rows_as_a_sample_give_the_exact_value() -> None:
    x = normal_tokens(30, 5)
    sample = jacobian_energy(x, 4.0, rows=list(range(30)))
    assert sample.total == pytest.approx(jacobian_energy(x, 4.0).total, rel=1e-13)
    assert sample.standard_error == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [({"probes": 1}, "probes must be a whole number of at least 2"), ({"rows": 1}, "rows must be a whole number of at least 2"), ({"alpha": -1.0}, "alpha must be")],
)  # fmt: skip
def test_bad_options(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        jacobian_energy(normal_tokens(5, 3), 1.0, **options)  # type: ignore[arg-type]
