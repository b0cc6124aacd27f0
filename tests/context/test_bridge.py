"""The bridge: loops over its scores, both ends against what is known of them, the crossing, bad input."""

import math

import numpy as np
import pytest
import torch

from attnlim.context.bias import bias_table, iid_law
from attnlim.context.bridge import bridge_exponents, mixed_scores
from attnlim.context.gaps import critical_multiplier
from attnlim.context.samplers import gaussian_tokens, simplex_tokens
from attnlim.core.checks import InputError

SIZES = [512, 1024, 2048, 4096]


def noise(width: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(width, width, dtype=torch.float64, generator=generator) / math.sqrt(width)


def test_scores_equal_the_loops() -> None:
    n, d = 7, 4
    x, g = 3 * gaussian_tokens(n, d, rho=0.5), noise(d)
    y = (x / x.norm(dim=1, keepdim=True)).numpy()
    rows, shares = [2, 5], [0.0, 0.3, 1.0]
    scores = mixed_scores(x, torch.tensor(rows), g, shares)
    assert scores.shape == (3, 2, n)
    for e, share in enumerate(shares):
        matrix = (1 - share) * np.eye(d) + share * g.numpy()
        for r, i in enumerate(rows):
            for j in range(n):
                assert float(scores[e, r, j]) == pytest.approx(float(y[j] @ matrix @ y[i]), abs=1e-14)


def test_without_noise_a_simplex_has_its_exact_multiplier() -> None:
    n, rho = 300, 0.4
    scores = mixed_scores(simplex_tokens(n, rho), torch.arange(4), noise(n), [0.0])
    wanted = torch.full((1, 4), math.log(n) / (1 - rho), dtype=torch.float64)
    # the scores round, over a gap of 0.6
    torch.testing.assert_close(critical_multiplier(scores), wanted, rtol=1e-13, atol=0)


def test_pure_noise_gives_normal_rows() -> None:
    n, d, rho = 1024, 512, 0.5
    values, spreads = [], []
    for draw in range(12):
        scores = mixed_scores(gaussian_tokens(n, d, rho, seed=draw), torch.arange(32), noise(d, draw), [1.0])[0]
        spread = scores.std(dim=1)
        values.append(float((critical_multiplier(scores) * spread).mean()))
        spreads.append(float(spread.square().mean()))
    iid = bias_table([iid_law()], [512, n], seed=3, n_rows=400)[0][1]
    error = math.hypot(iid.standard_error, np.std(values, ddof=1) / math.sqrt(12))
    assert abs(np.mean(values) - iid.mean) < 4 * error
    # |z_0|² moves the realised cosine and so the variance (1-ρ)/d by a few percent a draw
    assert np.mean(spreads) == pytest.approx((1 - rho) / d, rel=0.05)


def test_the_power_falls_from_one_to_that_of_normal_scores() -> None:
    result = bridge_exponents([0.0, 0.8, 1.0], SIZES, width=512, n_draws=10, n_rows=48, seed=1)
    iid = bias_table([iid_law()], SIZES, seed=4, n_rows=400)[1][0]
    first, crossing, last = range(3)
    assert result.exponent_low[first] > result.exponent_high[last]
    # the spread of cosines adds to 1, by v β_c²/2 of ln n with v about (1-ρ)²/d: below a tenth here
    assert 1.0 < result.exponent[first] < 1.1
    # t to standard error: 10 draws
    error = (result.exponent_high[last] - result.exponent_low[last]) / (2 * 2.262)
    assert abs(result.exponent[last] - iid.fitted) < 4 * math.hypot(error, iid.standard_error)
    assert result.exponent[crossing] > result.exponent[first]  # it rises before it falls
    assert result.critical_multiplier.shape == result.critical_multiplier_standard_error.shape == (3, 4)


def test_wider_tokens_are_nearer_to_power_one() -> None:
    narrow, wide = (bridge_exponents([0.0], SIZES, width, n_draws=4, n_rows=32).exponent[0] for width in (32, 512))
    assert 1.0 < wide < narrow - 0.1


def test_the_own_score_leads_up_to_the_crossing() -> None:
    n, d, rho = 2048, 128, 0.5
    ratio = math.sqrt((1 - rho) * d / (2 * math.log(n)))
    crossing = ratio / (1 + ratio)
    rows = torch.arange(200)
    x, g = gaussian_tokens(n, d, rho, seed=2), noise(d)
    scores = mixed_scores(x, rows, g, [0.6 * crossing, crossing, 0.5 + crossing / 2])
    leads = (scores.argmax(dim=2) == rows).double().mean(dim=1)
    assert leads[0] > 0.95 and 0.05 < leads[1] < 0.95 and leads[2] < 0.3


def test_draws_are_shared_seeded_and_counted() -> None:
    two = bridge_exponents([0.2, 0.7], [64, 256], width=16, n_draws=3, n_rows=8, seed=5)
    one = bridge_exponents([0.7], [64, 256], width=16, n_draws=3, n_rows=8, seed=5)
    assert np.array_equal(two.critical_multiplier[1:], one.critical_multiplier)
    assert (
        np.array_equal(two.exponent[1:], one.exponent) and two.exponent_low[1] < two.exponent[1] < two.exponent_high[1]
    )
    other = bridge_exponents([0.7], [64, 256], width=16, n_draws=3, n_rows=8, seed=6)
    assert not np.array_equal(one.exponent, other.exponent)
    single = bridge_exponents([0.7], [64, 256], width=16, n_draws=1, n_rows=8)
    assert np.isfinite(single.exponent).all() and np.isnan(single.exponent_low).all()
    assert np.isnan(single.critical_multiplier_standard_error).all()


def test_bad_input_is_refused() -> None:
    for epsilon in (-0.1, 1.1, math.nan):
        with pytest.raises(InputError, match=r"epsilon must be a number in \[0, 1\]"):
            bridge_exponents([epsilon], [64, 256])
    with pytest.raises(InputError, match="epsilon must hold at least one number"):
        bridge_exponents([], [64, 256])
    with pytest.raises(InputError, match="at least two different sizes"):
        bridge_exponents([0.5], [64, 64])
    with pytest.raises(InputError, match="n_tokens must be a whole number of at least 16, got 8"):
        bridge_exponents([0.5], [8, 64])
    with pytest.raises(InputError, match="n_rows must be at most the smallest n, 32, got 64"):
        bridge_exponents([0.5], [32, 64])
    with pytest.raises(InputError, match="n_draws must be a whole number of at least 1, got 0"):
        bridge_exponents([0.5], [64, 256], n_draws=0)
    with pytest.raises(InputError, match="width must be a whole number of at least 1, got 0"):
        bridge_exponents([0.5], [64, 256], width=0)
    with pytest.raises(InputError, match="rho must be"):
        bridge_exponents([0.5], [64, 256], rho=1.0)


def test_bad_arguments_of_the_scores_are_refused() -> None:
    x, rows, g = torch.eye(3, 2) + 1, [0, 2], torch.eye(2)
    with pytest.raises(InputError, match="zero norm"):
        mixed_scores(torch.zeros(3, 2), rows, g, [0.5])
    for bad in ([3], [], [1, 1]):
        with pytest.raises(InputError, match="rows must be at least 1 different indices below 3"):
            mixed_scores(x, bad, g, [0.5])
    for bad in ([-1], [0.5], [[0]]):
        with pytest.raises(InputError, match="an index in rows must be a whole number of at least 0"):
            mixed_scores(x, bad, g, [0.5])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rows must be indices of rows, got 1; give a list"):
        mixed_scores(x, 1, g, [0.5])  # type: ignore[arg-type]
    for noise in (torch.eye(3), torch.ones(2), torch.ones(2, 2, dtype=torch.complex64)):
        with pytest.raises(
            InputError, match=r"noise must be a real tensor of shape \(2, 2\) for tokens of width 2, got"
        ):
            mixed_scores(x, rows, noise, [0.5])
    with pytest.raises(InputError, match=r"noise must be a real tensor of shape \(2, 2\) .* got list"):
        mixed_scores(x, rows, g.tolist(), [0.5])  # type: ignore[arg-type]
    for value in (math.nan, math.inf, 1e39):  # the last one is beyond the float32 of the tokens
        with pytest.raises(InputError, match="noise must be finite in torch.float32, got NaN or inf"):
            mixed_scores(x, rows, torch.full((2, 2), value, dtype=torch.float64), [0.5])
    for epsilon in ([-0.1], [1.1], [math.nan], ["half"]):
        with pytest.raises(InputError, match=r"epsilon must be a number in \[0, 1\]"):
            mixed_scores(x, rows, g, epsilon)  # type: ignore[arg-type]
    for empty in ([], 0.5, "0.5"):
        with pytest.raises(InputError, match="epsilon must hold at least one number"):
            mixed_scores(x, rows, g, empty)  # type: ignore[arg-type]


def test_scores_take_arrays_and_keep_the_order_of_the_rows() -> None:
    x, g = gaussian_tokens(9, 4, 0.5), noise(4)
    both = mixed_scores(x, [5, 2], g, [0.2, 0.9])
    for rows in (np.array([5, 2]), torch.tensor([5, 2]), (5, 2)):
        assert torch.equal(mixed_scores(x.numpy(), rows, g.numpy(), np.array([0.2, 0.9])), both)  # type: ignore[arg-type]
    assert torch.equal(mixed_scores(x, [2, 5], g, [0.2, 0.9]), both.flip(1))
