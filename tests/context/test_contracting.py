"""The contraction against its twin, closed forms and float64; its sample, its invariances, its refusals."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.context.largest_tensor import LargestTensor
from tests.context.standard_errors import claim_over_spread, range_by_chance

from attnlim.context import contraction, naive, simplex_step, simplex_tokens
from attnlim.context.samplers import gaussian_tokens, half_sphere_tokens, sphere_tokens
from attnlim.core.checks import InputError

CASES = json.loads((Path(__file__).parents[1] / "reference" / "values.json").read_text())["context"]
FIELDS = ("value", "fraction_contracted", "min_cosine", "min_cosine_before", "worst_ratio")


def reference_tokens(n: int, d: int, shift: float) -> np.ndarray:
    i, j = np.arange(n)[:, None], np.arange(d)[None, :]
    return np.asarray(np.sin(1 + 3 * i + 7 * j + shift) + 0.5 + 0.1 * np.cos(5 * i * (j + 1) + shift))


def normal_tokens(n: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    shifted = torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.3
    return shifted.to(dtype)


@pytest.mark.parametrize("case", CASES)
def test_reference_values(case: dict[str, float]) -> None:
    x = reference_tokens(int(case["n"]), int(case["d"]), case["shift"])
    found = contraction(x, case["beta"], case["alpha"], bool(case["causal"]))
    assert float(found) == pytest.approx(case["contraction"], abs=1e-12)
    assert naive.contraction(x, case["beta"], case["alpha"], bool(case["causal"]))["value"] == pytest.approx(
        case["contraction"], abs=1e-12
    )


@pytest.mark.parametrize(("n", "d"), [(3, 1), (20, 1), (63, 5), (100, 2), (31, 40)])
@pytest.mark.parametrize(("alpha", "causal"), [(0.0, False), (0.4, True)])
@pytest.mark.parametrize("tile", [(512, 512), (13, 17), (1, 1000)])
def test_equals_its_twin(n: int, d: int, alpha: float, causal: bool, tile: tuple[int, int]) -> None:
    x = normal_tokens(n, d)
    if d > 1:
        x[1], x[2] = 2 * x[0], 3 * x[0]  # three pairs of one direction
    betas = [1.0, 3.0, 5.0, 30.0]
    found = contraction(x, betas, alpha, causal, tile=tile)
    for k, beta in enumerate(betas):
        twin = naive.contraction(x.numpy(), beta, alpha, causal)
        for name in FIELDS:
            if name == "fraction_contracted" and beta == 30.0:
                continue  # frozen: ratios are 1 up to rounding, which falls on either side
            # double precision, as a share of the largest ratio for it and of 1 for the others
            assert getattr(found.at(k), name) == pytest.approx(twin[name], rel=1e-11, abs=1e-12), name
        assert found.duplicates[k] == twin["duplicates"] and (d == 1 or found.duplicates[k] == 3)
        sums = contraction(x, beta, alpha, causal, tile=tile, each_pair=False)
        assert sums.value == pytest.approx(twin["value"], rel=1e-11, abs=1e-12)
        assert math.isnan(sums.worst_ratio) and sums.worst_pair == (-1, -1)
        i, j = found.worst_pair[k]
        y = x / torch.linalg.vector_norm(x, dim=1, keepdim=True)
        assert i < j and float(y[i] @ y[j]) < 1


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0, 2.5, 4.0])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_on_a_simplex(gamma: float, alpha: float) -> None:
    n, rho = 60, 0.5
    found = contraction(simplex_tokens(n, rho), gamma * math.log(n), alpha)
    step = simplex_step(n, rho, gamma=gamma, alpha=alpha)
    assert found.value == pytest.approx(step.one_minus_rho / (1 - rho), rel=1e-12)
    assert found.min_cosine == pytest.approx(step.rho, abs=1e-13)


def test_two_dimensions_where_pairs_coincide() -> None:
    """n = 4096 on a circle: the closest pairs are 1e-7 apart, which a float32 Gram matrix cannot tell from 0."""
    n = 4096
    x = gaussian_tokens(n, 2, 0.5, seed=0).float()
    betas = [gamma * math.log(n) for gamma in (0.5, 2.0, 5.0)]
    y = torch.nn.functional.normalize(x)
    gram = y @ y.T
    assert int((gram.fill_diagonal_(0) >= 1).sum()) > 1000  # where the plain program divides by 0
    found, precise = contraction(x, betas), contraction(x.double(), betas)
    assert found.duplicates.tolist() == precise.duplicates.tolist() == [0, 0, 0]
    for k in range(len(betas)):
        assert abs(found.value[k] - precise.value[k]) < found.error[k] < 1e-3
        assert found.worst_ratio[k] == pytest.approx(precise.worst_ratio[k], rel=1e-2)
    # and float64 against differences in a loop over rows
    wide = x.double().numpy()
    before = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    scores = betas[1] * (before @ before.T)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    after = (weights / weights.sum(axis=1, keepdims=True)) @ before
    after /= np.linalg.norm(after, axis=1, keepdims=True)
    total = 0.0
    for i in range(n - 1):
        total += float((((after[i] - after[i + 1 :]) ** 2).sum(1) / ((before[i] - before[i + 1 :]) ** 2).sum(1)).sum())
    assert precise.value[1] == pytest.approx(total / (n * (n - 1) / 2), rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(3, 150),
    d=st.integers(1, 40),
    rho=st.floats(0.01, 0.99),
    gamma=st.floats(0.0, 5.0),
    alpha=st.sampled_from([0.0, 0.5]),
    causal=st.booleans(),
    size=st.sampled_from([1e-30, 1.0, 1e3]),
    each_pair=st.booleans(),
)
def test_float32_stays_within_its_error(
    seed: int, n: int, d: int, rho: float, gamma: float, alpha: float, causal: bool, size: float, each_pair: bool
) -> None:
    x = (gaussian_tokens(n, d, rho, seed) * size).float()
    beta = gamma * math.log(n) / (1 - rho)
    if d == 1 and bool((x > 0).all() | (x < 0).all()):
        with pytest.raises(InputError, match="two different directions"):
            contraction(x, beta, alpha, causal)
        return
    found = contraction(x, beta, alpha, causal, each_pair=each_pair)
    precise = contraction(x.double(), beta, alpha, causal)
    assert found.duplicates == precise.duplicates
    if math.isnan(precise.value):  # on a line as many tokens to the left as to the right are mapped to 0
        assert math.isnan(found.value)
        return
    assert abs(found.value - precise.value) <= found.error


@pytest.mark.parametrize("seed", range(30))
def test_few_pairs_that_make_up_the_value(seed: int) -> None:
    """Causal means point anywhere, so a pair that was close before has a ratio of thousands."""
    x = sphere_tokens(60, 3, seed).float()
    precise = contraction(x.double(), 0.0, causal=True)
    for each_pair in (True, False):
        found = contraction(x, 0.0, causal=True, each_pair=each_pair)
        assert abs(found.value - precise.value) <= found.error < 2e-2 * found.value


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(3, 40), d=st.integers(2, 6), beta=st.floats(0.1, 30))
def test_permuting_and_rotating_tokens(seed: int, n: int, d: int, beta: float) -> None:
    x = normal_tokens(n, d, seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    rotation, _ = torch.linalg.qr(normal_tokens(d, d, seed + 1))
    one, other = contraction(x, beta, 0.3), contraction(x[order] @ rotation, beta, 0.3)
    for name in ("value", "min_cosine", "worst_ratio"):
        assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-9, abs=1e-12)


def test_the_causal_contraction_depends_on_the_order() -> None:
    """Negative control of the test above."""
    x = normal_tokens(30, 4)
    found = contraction(x.flip(0), 3.0, causal=True).value
    assert found != pytest.approx(contraction(x, 3.0, causal=True).value, rel=1e-3)


def test_sampled_rows_lie_within_their_standard_error() -> None:
    x, betas, n_draws = gaussian_tokens(600, 16, 0.4, seed=3), [4.0, 9.0, 14.0], 40
    exact = contraction(x, betas)
    assert exact.standard_error.tolist() == [0.0, 0.0, 0.0]
    draws = [contraction(x, betas, rows=60, seed=seed) for seed in range(n_draws)]
    for k in range(len(betas)):
        values = np.array([draw.value[k] for draw in draws])
        errors = np.array([draw.standard_error[k] for draw in draws])
        assert abs(values.mean() - exact.value[k]) < 4 * values.std(ddof=1) / math.sqrt(n_draws)
        low, high = range_by_chance(n_draws, 59)
        assert low < claim_over_spread(values, errors) < high


def test_all_rows_as_a_sample_give_the_exact_value() -> None:
    x = normal_tokens(40, 5)
    exact, sample = contraction(x, 4.0), contraction(x, 4.0, rows=list(range(40)))
    for name in ("value", "fraction_contracted", "min_cosine", "worst_ratio", "worst_pair", "duplicates", "n_pairs"):
        assert getattr(sample, name) == pytest.approx(getattr(exact, name), rel=1e-12), name
    assert sample.standard_error == 0.0
    assert contraction(x, 4.0, rows=40).value == exact.value


def test_a_million_close_pairs() -> None:
    """Two tight clusters: a quarter of all pairs are closer than a thousandth of the typical distance."""
    x = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype=torch.float64).repeat(40, 1)
    x += 1e-5 * normal_tokens(80, 3, seed=2)
    found, twin = contraction(x, 3.0, 0.2), naive.contraction(x.numpy(), 3.0, 0.2)
    # the tokens themselves hold differences of 1e-5 to 1e-11
    assert found.value == pytest.approx(twin["value"], rel=1e-9)
    narrow = contraction(x.float(), 3.0, 0.2)
    assert abs(narrow.value - contraction(x.float().double(), 3.0, 0.2).value) <= narrow.error


def test_the_number_of_threads_changes_no_bit() -> None:
    x, betas = gaussian_tokens(300, 8, 0.5).float(), [1.0, 5.0]
    before = torch.get_num_threads()
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(contraction(x, betas, tile=(32, 64)))
        assert torch.get_num_threads() == threads
    torch.set_num_threads(before)
    for name, values in vars(results[0]).items():
        assert np.array_equal(values, getattr(results[1], name)) and np.array_equal(values, getattr(results[2], name))


def test_a_token_that_is_mapped_to_zero_has_no_direction() -> None:
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    found = contraction(x, [0.0, 1.0])
    assert math.isnan(found.value[0]) and found.worst_pair[0].tolist() == [-1, -1]
    assert math.isnan(found.fraction_contracted[0])
    assert math.isfinite(found.value[1])


def test_float_of_a_sequence_is_refused() -> None:
    with pytest.raises(TypeError, match="2 values"):
        float(contraction(normal_tokens(5, 2), [1.0, 2.0]))


@pytest.mark.parametrize(
    ("rows", "message"),
    [(2, "rows must be a whole number of at least 3"), (99, "at most the 50 tokens"), ([1, 1, 2], "different"), ([1, 2, 50], "below 50"), ([], "at least 3"), (2.5, "rows must be")],
)  # fmt: skip
def test_bad_rows(rows: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        contraction(half_sphere_tokens(50, 3), 1.0, rows=rows)  # type: ignore[arg-type]


def test_one_direction_alone() -> None:
    with pytest.raises(InputError, match="two different directions"):
        contraction(torch.ones(4, 3), 1.0)


def test_a_uniform_grid_equals_its_twin() -> None:
    """Weights along a rising uniform grid follow from each other by products."""
    x, betas = normal_tokens(40, 5), [0.5 * k for k in range(40)]
    found = contraction(x, betas)
    for k in (0, 1, 7, 16, 39):
        assert found.value[k] == pytest.approx(naive.contraction(x.numpy(), betas[k])["value"], rel=1e-12, abs=1e-12)
    fine = [0.001 * k for k in range(1001)]
    narrow, wide = contraction(x.float(), fine), contraction(x.float().double(), fine)
    assert (abs(narrow.value - wide.value) <= narrow.error).all()


def test_exact_duplicates_in_two_dimensions() -> None:
    x = gaussian_tokens(4096, 2, 0.5, seed=1).float()
    x[100], x[200:203] = x[99], 2 * x[300]  # one pair, and four of one direction: six pairs
    assert contraction(x, 10.0).duplicates == 7


def test_large_residuals_do_not_overflow() -> None:
    x = normal_tokens(5, 3)
    # the layer is the identity, up to a direction's share of 1e-90
    assert contraction(x, 2.0, alpha=1e90).value == pytest.approx(1, rel=1e-12)
    assert contraction(1e160 * x, 2.0, alpha=0.5).value == pytest.approx(1, rel=1e-12)
    with pytest.raises(InputError, match="overflow"):
        contraction(1e300 * x, 2.0, alpha=1e20)


def test_equal_rows_have_no_worst_pair_of_one_token() -> None:
    assert contraction(torch.eye(2, dtype=torch.float64), 0.0).worst_pair == (0, 1)


def test_the_pairs_are_never_held_whole() -> None:
    n = 1000
    with LargestTensor() as largest:
        contraction(normal_tokens(n, 4), [1.0, 2.0], tile=(50, 100))
    assert largest.entries <= 3 * 56 * 100


def test_frozen_pairs_do_not_count_as_contracted_or_not_by_their_rounding() -> None:
    """Deep in the frozen phase ratios are 1 to all digits; counting those below 1 would count noise."""
    x = gaussian_tokens(300, 64, 0.5, seed=1)
    gammas = [2.0, 10.0, 20.0]
    betas = [gamma * math.log(300) for gamma in gammas]
    narrow, wide = contraction(x.float(), betas).fraction_contracted, contraction(x, betas).fraction_contracted
    assert narrow[0] == pytest.approx(wide[0], abs=1e-3) and wide[0] > 0.99
    assert narrow[1] < 0.01 and narrow[2] == 0.0 and wide[2] < 0.01
