"""The gap count: exact on a simplex, equal to its twin, invariant, masked, honest about bad input."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlim.context import naive
from attnlim.context.criticality import beta_c_simplex
from attnlim.context.gaps import critical_multiplier
from attnlim.core.checks import InputError

EPS = 2.0**-52


def normal_scores(*shape: int, seed: int = 3) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("n", [10, 63, 100, 8192])
@pytest.mark.parametrize("rho", [-1e-4, 0.0, 0.3, 0.999])
def test_exact_on_a_simplex(n: int, rho: float) -> None:
    row = torch.full((n,), rho, dtype=torch.float64)
    row[n // 2] = 1.0
    # a logarithm, a difference that is exact to half an eps of 1, a quotient
    assert float(critical_multiplier(row)) == pytest.approx(beta_c_simplex(n, rho), rel=4 * EPS)


@pytest.mark.parametrize("n", [7, 10, 63, 100])
@pytest.mark.parametrize("k_min", [2, 10])
def test_equals_its_twin(n: int, k_min: int) -> None:
    scores = normal_scores(3, 2, n)
    scores[0, 1, n // 2 :] = -math.inf
    came = critical_multiplier(scores, k_min=k_min)
    assert came.shape == (3, 2)
    for index in np.ndindex(3, 2):
        wanted = naive.critical_multiplier(scores[index].numpy(), k_min=k_min)
        assert float(came[index]) == pytest.approx(wanted, rel=4 * EPS, nan_ok=True)


@given(st.integers(0, 10**6), st.floats(0.01, 100), st.floats(-50, 50))
def test_order_and_offset_do_not_matter_and_scale_divides(seed: int, scale: float, offset: float) -> None:
    scores = normal_scores(50, seed=seed)
    base = float(critical_multiplier(scores, k_min=5))
    shuffled = scores[torch.randperm(50, generator=torch.Generator().manual_seed(seed))]
    assert float(critical_multiplier(shuffled, k_min=5)) == base
    moved = float(critical_multiplier(scores * scale + offset, k_min=5))
    # the offset rounds scores of size 3·scale + 50 to eps of that; the decisive gap is at least ln(5)/(base·scale)
    slack = 8 * EPS * (1 + (5 * scale + 50) * base / (scale * math.log(5)))
    assert moved == pytest.approx(base / scale, rel=slack)


def test_hidden_keys_do_not_count() -> None:
    scores = normal_scores(40)
    padded = torch.cat([scores, torch.full((60,), -math.inf, dtype=torch.float64)])
    assert float(critical_multiplier(padded)) == float(critical_multiplier(scores))


def test_ties_give_infinity_and_too_few_keys_nan() -> None:
    row = torch.zeros(30)
    assert float(critical_multiplier(row)) == math.inf
    row[9:] = -math.inf
    assert math.isnan(float(critical_multiplier(row)))
    assert torch.isnan(critical_multiplier(torch.full((2, 12), -math.inf))).all()
    assert torch.isnan(critical_multiplier(torch.zeros(2, 9))).all()
    assert critical_multiplier(torch.zeros(0, 12)).shape == (0,)


def test_half_precision_counts_beyond_its_own_integers() -> None:
    """float16 ends at 65504: a rank above it must not become infinite."""
    n = 70_000
    row = torch.full((n,), 0.5, dtype=torch.float16)
    row[0] = 1.0
    # ln n/0.5 is rounded once to 11 bits and once more in the quotient
    assert float(critical_multiplier(row)) == pytest.approx(2 * math.log(n), rel=2 * 2.0**-11)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="k_min must be a whole number of at least 2, got 1"):
        critical_multiplier(torch.zeros(20), k_min=1)
    with pytest.raises(InputError, match=r"scores must be finite or -inf.*got NaN or \+inf"):
        critical_multiplier(torch.tensor([0.0, math.nan]))
    with pytest.raises(InputError, match=r"got NaN or \+inf"):
        critical_multiplier(torch.tensor([0.0, math.inf]))
    with pytest.raises(InputError, match=r"scores must be a floating-point tensor .* got torch.int64 of shape"):
        critical_multiplier(torch.arange(20))
    with pytest.raises(InputError, match=r"scores must be a floating-point tensor .* got list"):
        critical_multiplier([1.0, 2.0])  # type: ignore[arg-type]
