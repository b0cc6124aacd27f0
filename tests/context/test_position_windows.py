"""Windows beside content attention: loops over both, all permutations, the chain's mean cosine, Gibbs, bad input."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attnlim.context import naive
from attnlim.context.position_windows import chain_tokens, compare_windows
from attnlim.context.row_focus import focus
from attnlim.context.samplers import gaussian_tokens
from attnlim.core.checks import InputError


def slow_window(y: np.ndarray, half_width: int) -> tuple[float, float]:
    """Mean number of visible tokens and mean attended cosine, in loops."""
    counts, cosines = [], []
    for i in range(len(y)):
        seen = [j for j in range(len(y)) if abs(i - j) <= half_width]
        counts.append(len(seen))
        cosines.append(sum(float(y[i] @ y[j]) for j in seen) / len(seen))
    return float(np.mean(counts)), float(np.mean(cosines))


def slow_comparison(y: np.ndarray, beta: float) -> tuple[float, float, float]:
    """Mean e^H, attended cosine of content attention and of the window, in loops."""
    perplexities, contents = [], []
    for i in range(len(y)):
        weights = naive.attention_row(y, i, beta)
        perplexities.append(math.exp(-sum(a * math.log(a) for a in weights)))
        contents.append(sum(a * float(y[i] @ y[j]) for j, a in enumerate(weights)))
    perplexity = float(np.mean(perplexities))
    windows = [slow_window(y, w) for w in range(len(y))]
    w = max(w for w in range(len(y) - 1) if windows[w][0] <= perplexity)
    share = (perplexity - windows[w][0]) / (windows[w + 1][0] - windows[w][0])
    return perplexity, float(np.mean(contents)), (1 - share) * windows[w][1] + share * windows[w + 1][1]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), n=st.integers(2, 15), beta=st.floats(0.1, 30.0))
def test_equals_the_loops(seed: int, n: int, beta: float) -> None:
    y = chain_tokens(n, 3, correlation_length=4.0, seed=seed)
    result = compare_windows(3 * y, beta, seed=seed)
    perplexity, content, window = slow_comparison(y.numpy(), beta)
    assert float(result.perplexity) == pytest.approx(perplexity, rel=1e-12)
    assert float(result.content) == pytest.approx(content, abs=1e-12)
    # the share of a window moves by the relative rounding of e^H
    assert float(result.window) == pytest.approx(window, abs=1e-11)
    assert float(result.content_permuted) == pytest.approx(content, abs=1e-12)


def test_expectation_over_permutations_is_that_over_all_of_them() -> None:
    n, beta = 6, 3.0
    y = chain_tokens(n, 3, correlation_length=3.0).numpy()
    every = [slow_comparison(y[list(order)], beta)[2] for order in itertools.permutations(range(n))]
    assert float(compare_windows(y, beta).window_permuted_expected) == pytest.approx(np.mean(every), abs=1e-12)


def test_a_window_lives_on_positions_and_content_does_not() -> None:
    betas = [5.0, 20.0, 60.0]
    result = compare_windows(chain_tokens(800, 32, correlation_length=10.0), betas, n_permutations=24, seed=1)
    np.testing.assert_allclose(result.content_permuted, result.content, rtol=1e-12)
    error = result.window_permuted_standard_error
    assert np.all(result.window - result.window_permuted > 20 * error)
    assert np.all(np.abs(result.window_permuted - result.window_permuted_expected) < 4 * error)
    assert np.all(result.content > result.window)
    assert result.half_width.shape == (3,) and result.content.shape == (3,)


def test_exchangeable_tokens_lose_nothing() -> None:
    """The negative control: in no order do these tokens resemble their neighbours more than the others."""
    result = compare_windows(gaussian_tokens(800, 32, rho=0.5), [5.0, 20.0, 60.0], n_permutations=24)
    spread = result.window_permuted_standard_error * math.sqrt(24)
    assert np.all(np.abs(result.window - result.window_permuted_expected) < 4 * spread)


def test_at_its_entropy_content_attends_to_the_largest_cosines() -> None:
    """Gibbs: content weights maximise mean cosine plus entropy/β, of each row and so of their mean."""
    x = chain_tokens(120, 4, correlation_length=20.0)
    y = x.numpy()
    for beta in (2.0, 8.0, 40.0):
        free = float(compare_windows(x, beta).content) + float(focus(x, beta).entropy.mean()) / beta
        for w in (0, 1, 3, 10, 119):
            sizes = [min(119, i + w) - max(0, i - w) + 1 for i in range(120)]
            assert slow_window(y, w)[1] + np.mean(np.log(sizes)) / beta <= free + 1e-12


def test_one_beta_a_sequence_and_both_ends_of_the_window() -> None:
    x = chain_tokens(50, 8, correlation_length=5.0)
    several = compare_windows(x, [0.0, 10.0, 1e6])
    single = compare_windows(x, 10.0)
    for name in ("perplexity", "half_width", "content", "window", "window_permuted"):
        assert float(getattr(single, name)) == pytest.approx(getattr(several, name)[1], rel=1e-14)
    # β = 0 sees all tokens, β = 10^6 itself alone: there the window is the same attention
    np.testing.assert_allclose(several.half_width[[0, 2]], [49, 0], atol=1e-9)
    np.testing.assert_allclose(several.window[[0, 2]], several.content[[0, 2]], rtol=1e-12)
    in_single = compare_windows(x.float().numpy(), [0.0, 10.0])
    # rounding of cosines at β = 10
    np.testing.assert_allclose(in_single.content, several.content[:2], atol=1e-5)
    np.testing.assert_allclose(in_single.window, several.window[:2], atol=1e-4)


def mean_cosine_of_chain(lag: int, width: int, length: float) -> float:
    u = math.exp(-lag / length)
    ratio = math.exp(special.gammaln((width + 1) / 2) - special.gammaln(width / 2))
    return float(2 * u / width * ratio**2 * special.hyp2f1(0.5, 0.5, width / 2 + 1, u * u))


@pytest.mark.parametrize("width", [1, 2, 8, 64])
def test_chain_has_the_mean_cosine_of_its_docstring_everywhere(width: int) -> None:
    length, draws = 6.0, 400
    chains = torch.stack([chain_tokens(30, width, length, seed) for seed in range(draws)])
    assert torch.allclose(chains.norm(dim=2), torch.ones(()).double(), atol=1e-14)
    for start in (0, 20):  # stationary: the first tokens are as the later ones
        for lag in (1, 5, 9):
            cosines = (chains[:, start] * chains[:, start + lag]).sum(dim=1).numpy()
            error = cosines.std(ddof=1) / math.sqrt(draws)
            assert abs(cosines.mean() - mean_cosine_of_chain(lag, width, length)) < 4 * error
    assert torch.equal(chain_tokens(10, width, length, seed=3), chains[3, :10])


class Largest(TorchDispatchMode):
    """The largest tensor that any operation returns."""

    size = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for out in result if isinstance(result, tuple) else (result,):
            if isinstance(out, Tensor):
                self.size = max(self.size, out.numel())
        return result


def test_no_n_by_n_matrix_is_held() -> None:
    n = 3000
    x = chain_tokens(n, 4, correlation_length=50.0)
    with Largest() as largest:
        result = compare_windows(x, 3.0, n_permutations=2)
    # a block of rows; the window of hundreds of tokens adds nothing
    assert largest.size <= 2**22 < n * n and result.half_width > 500


def test_bad_input_is_refused() -> None:
    x = chain_tokens(5, 3, correlation_length=2.0)
    with pytest.raises(InputError, match="beta must be .*got -1"):
        compare_windows(x, -1.0)
    with pytest.raises(InputError, match="n_permutations must be a whole number of at least 2, got 1"):
        compare_windows(x, 1.0, n_permutations=1)
    with pytest.raises(InputError, match="seed must be a whole number"):
        compare_windows(x, 1.0, seed=-1)
    with pytest.raises(InputError, match="zero norm at token 0"):
        compare_windows(0 * x, 1.0)
    for length in (0.0, -1.0, math.nan):
        with pytest.raises(InputError, match="correlation_length must be a finite number above 0"):
            chain_tokens(5, 3, length)
    with pytest.raises(InputError, match="n_tokens must be a whole number of at least 2, got 1"):
        chain_tokens(1, 3, 1.0)
    with pytest.raises(InputError, match="width must be a whole number of at least 1, got 0"):
        chain_tokens(5, 0, 1.0)
