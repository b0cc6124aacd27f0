"""Hutchinson's estimator: exact Jacobians, its own standard error, the variance formulas, stopping, bad input."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnlim.context import jacobian_energy, naive
from attnlim.context.attention_block import block, random_weights
from attnlim.context.hutchinson import Estimate, jacobian_energy_estimate
from attnlim.context.samplers import simplex_tokens
from attnlim.context.simplex_energy import simplex_jacobian
from attnlim.core.checks import InputError


def tokens(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def jacobian(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """(nd, nd), all at once: the twin."""
    return torch.func.jacrev(function, chunk_size=1)(x).reshape(x.numel(), x.numel())


def stack(x: Tensor) -> Tensor:
    for seed in range(3):
        x = block(x, random_weights(4, 2, 3, 8, seed), 2.0, alpha=0.5, causal=True)
    return x


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "paper": lambda x: block(x, None, 3.0),
    "paper, causal, residual": lambda x: block(x, None, 3.0, 0.7, causal=True),
    "heads and MLP": lambda x: block(x, random_weights(4, 3, 2, 6), 5.0, 0.2),
    "stack": stack,
}


@pytest.mark.parametrize("distribution", ["rademacher", "gaussian"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_its_own_standard_error_of_the_exact_jacobian(name: str, distribution: str) -> None:
    x = tokens(9, 4)
    exact = float(jacobian(FUNCTIONS[name], x).square().sum()) / x.numel()
    estimate = jacobian_energy_estimate(FUNCTIONS[name], x, probes=200, seed=3, distribution=distribution)
    assert estimate.n_probes == 200 and 0 < estimate.standard_error < 0.1 * exact
    assert abs(estimate.value - exact) < 4 * estimate.standard_error


REFERENCE = json.loads((Path(__file__).parent.parent / "reference" / "values.json").read_text())["context"]


@pytest.mark.parametrize("case", REFERENCE)
def test_within_its_error_of_the_reference(case: dict[str, Any]) -> None:
    i, j = np.arange(case["n"])[:, None], np.arange(case["d"])[None, :]
    x = np.sin(1 + 3 * i + 7 * j + case["shift"]) + 0.5 + 0.1 * np.cos(5 * i * (j + 1) + case["shift"])
    estimate = jacobian_energy_estimate(
        lambda x: block(x, None, case["beta"], case["alpha"], case["causal"]), x, accuracy=0.02, max_probes=4096
    )
    assert estimate.accuracy_reached is True
    assert abs(estimate.value - case["eta"]) < 4 * estimate.standard_error


@pytest.mark.parametrize("causal", [False, True])
def test_within_its_error_of_the_loops(causal: bool) -> None:
    x = tokens(10, 4, seed=5)
    exact = naive.jacobian_energy(x.numpy(), 4.0, 0.3, causal)["total"]
    estimate = jacobian_energy_estimate(lambda x: block(x, None, 4.0, 0.3, causal), x, probes=200)
    assert abs(estimate.value - exact) < 4 * estimate.standard_error < 0.2 * exact


@pytest.mark.parametrize("phase", [0.5, 1.0, 2.0])
def test_within_its_error_of_the_closed_form_on_a_simplex(phase: float) -> None:
    n, d, rho = 64, 80, 0.5
    beta = phase / (1 - rho) * math.log(n)
    exact = simplex_jacobian(n, d, rho, beta=beta, q=2.0, alpha=0.1).total
    estimate = jacobian_energy_estimate(lambda x: block(x, None, beta, 0.1), simplex_tokens(n, rho, d, q=2.0))
    assert abs(estimate.value - exact) < 4 * estimate.standard_error < 0.2 * exact


@pytest.mark.parametrize("distribution", ["rademacher", "gaussian"])
def test_variance_of_a_probe_is_what_the_docstring_says(distribution: str) -> None:
    x = tokens(6, 3)
    function = FUNCTIONS["paper, causal, residual"]
    gram = jacobian(function, x)
    gram = gram @ gram.T
    diagonal = float(gram.diagonal().square().sum()) if distribution == "rademacher" else 0.0
    wanted = 2 * (float(gram.square().sum()) - diagonal) / x.numel() ** 2
    probes = 2000
    estimate = jacobian_energy_estimate(function, x, probes=probes, distribution=distribution)
    # a sample variance is off by √((k-1)/m) relatively, k the kurtosis of a probe: 3 and 5 here
    assert estimate.standard_error**2 * probes == pytest.approx(wanted, rel=4 * math.sqrt(5 / probes))


def test_signs_are_exact_where_the_rows_are_orthogonal_and_normal_probes_are_not() -> None:
    x = tokens(5, 3)
    scale = torch.linspace(1, 2, 15, dtype=torch.float64).reshape(5, 3)
    exact = float(scale.square().mean())
    signs = jacobian_energy_estimate(lambda x: scale * x, x, probes=2)
    assert signs.value == pytest.approx(exact, rel=1e-15) and signs.standard_error < 1e-15
    normal = jacobian_energy_estimate(lambda x: scale * x, x, probes=2, distribution="gaussian")
    assert abs(normal.value - exact) > 1e-3


def test_the_standard_error_covers_and_halves_with_four_times_the_probes() -> None:
    x = tokens(7, 4)
    function = FUNCTIONS["heads and MLP"]
    exact = float(jacobian(function, x).square().sum()) / x.numel()
    scores = []
    errors: dict[int, list[float]] = {16: [], 64: []}
    for seed in range(60):
        for probes, found in errors.items():
            estimate = jacobian_energy_estimate(function, x, probes=probes, seed=seed)
            found.append(estimate.standard_error)
        scores.append((estimate.value - exact) / estimate.standard_error)
    # 60 standardised deviations: mean 0 ± 1/√60, mean square 1 ± √(2/60)
    assert abs(np.mean(scores)) < 4 / math.sqrt(60)
    assert abs(np.mean(np.square(scores)) - 1) < 4 * math.sqrt(2 / 60)
    # a standard error from m probes scatters by about 1/√(2m), 60 of them by that over √60
    assert np.mean(errors[16]) / np.mean(errors[64]) == pytest.approx(2, rel=4 / math.sqrt(2 * 16 * 60) + 0.02)


def test_accuracy_is_reached_or_said_not_to_be() -> None:
    x = tokens(8, 4)
    function = FUNCTIONS["paper"]
    reached = jacobian_energy_estimate(function, x, accuracy=0.03)
    assert reached.accuracy_reached is True
    assert reached.standard_error <= 0.03 * reached.value and 8 < reached.n_probes < 1024
    capped = jacobian_energy_estimate(function, x, accuracy=0.03, max_probes=reached.n_probes // 2)
    assert capped.accuracy_reached is False and capped.n_probes == reached.n_probes // 2
    assert capped.standard_error > 0.03 * capped.value
    # the same sequence of probes, whoever asked for how many
    again = jacobian_energy_estimate(function, x, probes=reached.n_probes)
    assert (again.value, again.standard_error) == (reached.value, reached.standard_error)
    assert again.accuracy_reached is None
    exact = jacobian_energy_estimate(lambda x: 3 * x, x, accuracy=1e-6)
    assert exact.n_probes == 8 and exact.accuracy_reached is True


def test_the_seed_decides_and_is_recorded() -> None:
    x = tokens(6, 3)
    first, same, other = (jacobian_energy_estimate(FUNCTIONS["paper"], x, probes=4, seed=seed) for seed in (1, 1, 2))
    assert first == same and first.value != other.value and (first.seed, other.seed) == (1, 2)
    single = jacobian_energy_estimate(FUNCTIONS["paper"], x, probes=1)
    assert math.isnan(single.standard_error) and float(single) == single.value
    assert isinstance(single, Estimate) and jacobian_energy_estimate(FUNCTIONS["paper"], x).n_probes == 32


def test_tokens_stay_as_they_were_and_a_part_may_carry_no_gradient() -> None:
    x = tokens(6, 3)
    before = x.clone()
    with torch.no_grad():
        estimate = jacobian_energy_estimate(lambda x: torch.cat([x[:3], torch.zeros_like(x[3:])]), x, probes=3)
    assert torch.equal(x, before) and not x.requires_grad
    assert (estimate.value, estimate.standard_error) == (0.5, 0.0)
    single = jacobian_energy_estimate(FUNCTIONS["paper"], x.float().numpy(), probes=3)
    # rounding of the tokens and of the products, at β = 3
    assert single.value == pytest.approx(jacobian_energy_estimate(FUNCTIONS["paper"], x, probes=3).value, rel=1e-5)


def test_bad_input_is_refused() -> None:
    x = tokens(5, 3)
    with pytest.raises(InputError, match="at most one of probes and accuracy, got both: 4 and 0.1"):
        jacobian_energy_estimate(block_one, x, probes=4, accuracy=0.1)
    with pytest.raises(InputError, match="probes must be a whole number of at least 1, got 0"):
        jacobian_energy_estimate(block_one, x, probes=0)
    for accuracy in (0.0, -1.0, math.nan):
        with pytest.raises(InputError, match="accuracy must be a finite number above 0"):
            jacobian_energy_estimate(block_one, x, accuracy=accuracy)
    with pytest.raises(InputError, match="max_probes must be a whole number of at least 2, got 1"):
        jacobian_energy_estimate(block_one, x, accuracy=0.1, max_probes=1)
    with pytest.raises(InputError, match="distribution must be one of rademacher, gaussian, got 'uniform'"):
        jacobian_energy_estimate(block_one, x, distribution="uniform")
    with pytest.raises(InputError, match="seed must be a whole number"):
        jacobian_energy_estimate(block_one, x, seed=-1)
    with pytest.raises(InputError, match="zero norm at token 0"):
        jacobian_energy_estimate(block_one, 0 * x)
    with pytest.raises(InputError, match=r"tokens' shape \(5, 3\), got \(4, 3\)"):
        jacobian_energy_estimate(lambda x: x[1:], x)
    with pytest.raises(InputError, match=r"tokens' shape \(5, 3\), got list"):
        jacobian_energy_estimate(lambda x: list(x), x)  # type: ignore[arg-type, return-value]
    with pytest.raises(InputError, match="must return finite numbers, got NaN or inf"):
        jacobian_energy_estimate(lambda x: x / 0, x)
    with pytest.raises(InputError, match="must carry a gradient, got none"):
        jacobian_energy_estimate(lambda x: x.detach(), x)
    with pytest.raises(InputError, match="gradient must be finite"):
        jacobian_energy_estimate(lambda x: (x - x.detach()).sqrt(), x)


def block_one(x: Tensor) -> Tensor:
    return block(x, None, 1.0)


@pytest.mark.parametrize("causal", [False, True])
def test_within_its_error_of_the_exact_formula(causal: bool) -> None:
    x = tokens(40, 8)
    exact = float(jacobian_energy(x, 4.0, 0.3, causal))
    estimate = jacobian_energy_estimate(lambda x: block(x, None, 4.0, 0.3, causal), x)
    assert abs(estimate.value - exact) < 4 * estimate.standard_error
