"""Law and paths under both residual factors, against the closed forms of a single token."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.depth.test_network import drawn

from attnlim.core.checks import InputError
from attnlim.depth.diffusive import LawOverDepth, diffusive_factor, law_over_depth

HEAD_DIM, WIDTH = 2, 3
X = drawn(4, WIDTH)


def joint_errors(value: np.ndarray, error: np.ndarray) -> float:
    """The largest difference between the first and the last depth in units of its standard error."""
    return float((np.abs(value[0] - value[-1]) / np.hypot(error[0], error[-1])).max())


def per_layer(n_heads: int) -> float:
    """E|O^T V x|² / |x|² of a mean over heads: d k σ⁴/H with Xavier's variance σ² = 2/(k+d)."""
    return WIDTH * HEAD_DIM * (2 / (HEAD_DIM + WIDTH)) ** 2 / n_heads


def single(regime: str, n_heads: int = 2) -> tuple[LawOverDepth, torch.Tensor]:
    x = X[:1]
    return law_over_depth(x, [2, 8, 32], n_heads, HEAD_DIM, regime, n_replicas=2000), x


@pytest.mark.parametrize("n_heads", [1, 3])
def test_the_law_has_a_limit_and_paths_do_not(n_heads: int) -> None:
    found = law_over_depth(X, [16, 64], n_heads, HEAD_DIM, n_replicas=1024)
    # at depth 16 the law is off by O(1/L), less than the errors here
    assert joint_errors(found.mean, found.mean_error) < 4
    assert joint_errors(found.deviation, found.deviation_error) < 4
    assert found.deviation.min() > 0.2 / math.sqrt(n_heads)
    # the same heads in half as many layers stay away, by as much at either depth
    assert joint_errors(found.split, found.split_error) < 4 and found.split[-1] > 0.3 / math.sqrt(n_heads)
    # with one factor they meet: twice as near at four times the depth
    assert 1.5 < found.same_factor[0] / found.same_factor[1] < 2.7


@pytest.mark.parametrize("n_heads", [1, 3])
def test_with_the_mean_field_factor_the_noise_goes_and_the_paths_meet(n_heads: int) -> None:
    found = law_over_depth(X, [16, 64], n_heads, HEAD_DIM, "mean-field", n_replicas=1024)
    assert joint_errors(found.mean, found.mean_error) < 4
    assert joint_errors(found.deviation, found.deviation_error) > 10
    np.testing.assert_allclose(found.deviation[0] / found.deviation[1], 2, rtol=0.2)
    # 4^{3/2}, the law of split networks for centred parameters
    assert 6 < found.split[0] / found.split[1] < 10
    np.testing.assert_array_equal(found.split, found.same_factor)


def test_a_centred_law_keeps_the_mean_at_every_depth() -> None:
    """The steps are martingale increments: E X_1 = x, at whatever depth and in both regimes."""
    for regime in ("diffusive", "mean-field"):
        found = law_over_depth(X, [2, 16], 1, HEAD_DIM, regime)
        assert np.abs((found.mean - X.numpy()) / found.mean_error).max() < 4
    shifted = law_over_depth(X, [2, 16], 1, HEAD_DIM, law=lambda rng, shape: rng.uniform(0, 1, shape))
    assert np.abs((shifted.mean - X.numpy()) / shifted.mean_error).max() > 10


@pytest.mark.parametrize("regime", ["diffusive", "mean-field"])
@pytest.mark.parametrize("n_heads", [1, 2])
def test_a_single_token_follows_its_closed_forms(regime: str, n_heads: int) -> None:
    """Its attention is fixed, X_1 = Π(1 + εA_r) x with A_r independent and centred: all second moments are products."""
    found, x = single(regime, n_heads)
    norm = float(x.square().sum())
    for at, depth in enumerate(found.n_layers):
        c = per_layer(n_heads) / (depth if regime == "diffusive" else depth**2)
        own = math.sqrt(2) if regime == "diffusive" else 1.0  # the deeper factor over the other one is √2, or 1
        half = depth / 2
        variance = norm * ((1 + c) ** depth - 1)
        # standard errors add up at most
        error = (2 * found.deviation[at] * found.deviation_error[at]).sum()
        assert (found.deviation[at] ** 2).sum() == pytest.approx(variance, abs=4 * error)
        same = norm * ((1 + c) ** depth - (1 + 2 * c) ** half)
        assert found.same_factor[at] == pytest.approx(math.sqrt(same), abs=4 * found.same_factor_error[at])
        split = norm * ((1 + c) ** depth + (1 + 2 * c / own**2) ** half - 2 * (1 + 2 * c / own) ** half)
        assert found.split[at] == pytest.approx(math.sqrt(split), abs=4 * found.split_error[at])


def test_errors_cover_the_spread_between_seeds() -> None:
    draws = [law_over_depth(X, [8], 1, HEAD_DIM, n_replicas=300, seed=seed) for seed in range(20)]
    for name in ("mean", "deviation", "split", "same_factor"):
        spread = np.std([getattr(draw, name) for draw in draws], axis=0, ddof=1)
        claimed = np.mean([getattr(draw, f"{name}_error") for draw in draws], axis=0)
        # the spread of 20 is itself known to 16 %; of twelve entries the mean is looked at
        assert np.mean(spread / claimed) == pytest.approx(1, abs=0.4)


def test_depths_do_not_share_their_draws_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = law_over_depth(X, [8], 1, HEAD_DIM, n_replicas=40)
    among = law_over_depth(X, [4, 8], 1, HEAD_DIM, n_replicas=40)
    np.testing.assert_array_equal(alone.mean[0], among.mean[1])
    assert among.n_layers == (4, 8) and among.mean.shape == (2, 4, WIDTH) and among.split.shape == (2,)
    monkeypatch.setattr("attnlim.depth.diffusive._BLOCK", 16)
    blocks = law_over_depth(X, [8], 1, HEAD_DIM, n_replicas=40)
    assert blocks.mean.shape == alone.mean.shape and np.isfinite(blocks.deviation).all()


def test_parameters_without_spread_have_no_noise() -> None:
    found = law_over_depth(X, [4], 1, HEAD_DIM, law=lambda rng, shape: np.zeros(shape), n_replicas=8)
    np.testing.assert_array_equal(found.mean[0], X)
    assert found.deviation.max() == 0 and found.split[0] == 0 and np.isnan(found.deviation_error).all()


def test_bad_arguments() -> None:
    assert diffusive_factor(9, 2) == pytest.approx(1 / 6)
    for depths in ([], [3], [4, 5]):
        with pytest.raises(InputError, match="depths must"):
            law_over_depth(X, depths, 1, HEAD_DIM)
    with pytest.raises(InputError, match="regime must be one of"):
        law_over_depth(X, [4], 1, HEAD_DIM, "linear")
    with pytest.raises(InputError, match="n_replicas"):
        law_over_depth(X, [4], 1, HEAD_DIM, n_replicas=1)
    with pytest.raises(InputError, match="n_heads"):
        diffusive_factor(4, 0)
