"""The streaming focus against its twin, the closed form, the reference values and its own symmetries."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.context.largest_tensor import LargestTensor

from attnlim.context import naive
from attnlim.context.phases import focus_exponent
from attnlim.context.row_focus import focus
from attnlim.context.theory import simplex_focus, simplex_kappa
from attnlim.core.checks import InputError

REFERENCE = json.loads((Path(__file__).parent.parent / "reference" / "values.json").read_text())["context"]
# cosines are right to a few eps; H multiplies them by β ≤ 9, the counts by up to n·β
TOLERANCE = 1e-12


def reference_tokens(n: int, d: int, shift: float) -> np.ndarray:
    i, j = np.arange(n)[:, np.newaxis], np.arange(d)[np.newaxis, :]
    return np.asarray(np.sin(1 + 3 * i + 7 * j + shift) + 0.5 + 0.1 * np.cos(5 * i * (j + 1) + shift))


def simplex_tokens(n: int, rho: float) -> torch.Tensor:
    """n unit tokens in R^n with common cosine ρ: the symmetric square root of their Gram matrix."""
    root, offset = math.sqrt(1 - rho), math.sqrt(1 + (n - 1) * rho)
    return root * torch.eye(n, dtype=torch.float64) + (offset - root) / n


def normal_tokens(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 0.3


@pytest.mark.parametrize("case", REFERENCE)
def test_reference_values(case: dict[str, float]) -> None:
    x = reference_tokens(int(case["n"]), int(case["d"]), case["shift"])
    fast = focus(torch.from_numpy(x), case["beta"], causal=bool(case["causal"]))
    slow = naive.focus(x, case["beta"], causal=bool(case["causal"]))
    for entropy, participation in ((fast.entropy, fast.participation), (slow[0], slow[2])):
        # double-precision loops over at most 16 tokens
        assert float(entropy.mean()) == pytest.approx(case["mean_entropy_nats"], abs=1e-10)
        assert float(participation.mean()) == pytest.approx(case["mean_participation"], abs=1e-10)


@pytest.mark.parametrize("n", [7, 63, 100])
@pytest.mark.parametrize("d", [1, 3, 17])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("beta", [0.0, 3.3, 40.0])
def test_equals_its_twin(n: int, d: int, causal: bool, beta: float) -> None:
    x = normal_tokens(n, d)
    fast, slow = focus(x, beta, causal), naive.focus(x.numpy(), beta, causal)
    # β multiplies the rounding of a cosine, a few eps
    slack = TOLERANCE * (1 + beta)
    np.testing.assert_allclose(fast.entropy, slow[0], rtol=0, atol=slack)
    np.testing.assert_allclose(fast.perplexity, slow[1], rtol=slack)
    np.testing.assert_allclose(fast.participation, slow[2], rtol=slack)


@pytest.mark.parametrize("tile", [(1, 1), (7, 5), (62, 63), (63, 1), (1000, 1000)])
@pytest.mark.parametrize("causal", [False, True])
def test_the_tile_does_not_matter(tile: tuple[int, int], causal: bool) -> None:
    x, betas = normal_tokens(63, 5), [0.0, 2.0, 9.0]
    whole, tiled = focus(x, betas, causal), focus(x, betas, causal, tile=tile)
    for field in ("entropy", "perplexity", "participation"):
        torch.testing.assert_close(getattr(tiled, field), getattr(whole, field), rtol=TOLERANCE, atol=TOLERANCE)


def test_a_sequence_of_betas_stacks_single_ones() -> None:
    x, betas = normal_tokens(20, 4), [0.5, 6.0]
    for given_as in (betas, tuple(betas), torch.tensor(betas), np.array(betas)):
        stacked = focus(x, given_as)
        assert stacked.entropy.shape == (2, 20)
        for k, beta in enumerate(betas):
            torch.testing.assert_close(stacked.entropy[k], focus(x, beta).entropy, rtol=0, atol=0)
    assert focus(x, [1.0]).participation.shape == (1, 20)
    assert focus(x, torch.tensor(1.0)).participation.shape == (20,)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 30), st.floats(0, 9))
def test_permuting_rotating_and_rescaling_tokens(seed: int, n: int, beta: float) -> None:
    x = normal_tokens(n, 4, seed)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(n, generator=generator)
    turn = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64, generator=generator)).Q
    lengths = torch.rand(n, 1, dtype=torch.float64, generator=generator) + 0.1
    base, moved = focus(x, beta), focus((lengths * x @ turn)[order], beta)
    torch.testing.assert_close(moved.entropy, base.entropy[order], rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(moved.participation, base.participation[order], rtol=TOLERANCE, atol=0)


def test_order_matters_once_attention_is_causal() -> None:
    """The negative control of the permutation test."""
    x = normal_tokens(30, 4)
    order = torch.arange(29, -1, -1)
    difference = focus(x[order], 2.0, causal=True).entropy - focus(x, 2.0, causal=True).entropy[order]
    assert float(difference.abs().max()) > 0.1


@pytest.mark.parametrize("rho", [-0.01, 0.0, 0.5, 0.9])
@pytest.mark.parametrize("beta", [0.0, 4.0, 30.0])
def test_simplex_tokens_give_the_closed_form(rho: float, beta: float) -> None:
    n = 63
    full, causal = (focus(simplex_tokens(n, rho), beta, causal) for causal in (False, True))
    wanted = simplex_focus(n, rho, beta=beta)
    slack = TOLERANCE * (1 + beta)
    assert full.entropy.tolist() == pytest.approx([wanted.entropy] * n, abs=slack)
    assert full.participation.tolist() == pytest.approx([wanted.participation] * n, rel=slack)
    assert full.perplexity.tolist() == pytest.approx([wanted.perplexity] * n, rel=slack)
    rows = [simplex_focus(row, rho, beta=beta).entropy for row in range(2, n + 1)]
    assert causal.entropy.tolist() == pytest.approx([0.0, *rows], abs=slack)


@pytest.mark.parametrize("gamma", [1.0, 2.0, 2.5])
def test_exponent_measured_on_simplex_tokens_is_the_closed_form(gamma: float) -> None:
    sizes, rho = [128, 256, 512], 0.5
    entropy = [focus(simplex_tokens(n, rho), gamma * math.log(n)).entropy.mean().item() for n in sizes]
    kappa = focus_exponent(np.log(sizes), entropy)
    assert float(kappa) == pytest.approx(simplex_kappa(sizes, rho, gamma), abs=TOLERANCE * 100)


def test_single_precision() -> None:
    x = normal_tokens(100, 8)
    single, double = focus(x.float(), 5.0), focus(x, 5.0)
    assert single.entropy.dtype == torch.float32
    # β times the rounding of a cosine in 8 dimensions, 5 · 8 · 6e-8
    torch.testing.assert_close(single.entropy.double(), double.entropy, rtol=0, atol=3e-6)


def test_extreme_norms_and_temperatures() -> None:
    x = normal_tokens(12, 3)
    for size in (1e-300, 1e300):
        torch.testing.assert_close(focus(size * x, 2.0).entropy, focus(x, 2.0).entropy, rtol=0, atol=TOLERANCE)
    frozen = focus(x, 1e150)
    assert frozen.entropy.tolist() == pytest.approx([0.0] * 12, abs=1e-100)  # weights are kept at 1e-280
    assert frozen.participation.tolist() == [1.0] * 12


def test_no_gradient_and_no_change_of_the_tokens() -> None:
    x = normal_tokens(9, 3).requires_grad_()
    before = x.detach().clone()
    assert not focus(x, 1.0).entropy.requires_grad
    assert torch.equal(x.detach(), before)


def test_the_weights_are_never_held_whole() -> None:
    """Memory: three tiles at a time. No n × n tensor is ever made."""
    n = 1000
    with LargestTensor() as largest:
        focus(normal_tokens(n, 4), [1.0, 2.0], causal=True, tile=(50, 100))
    assert largest.entries == 3 * 56 * 100  # 50 rows in lanes of 7


def test_an_array_gives_what_its_tensor_gives() -> None:
    x = torch.randn(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(8))
    assert torch.equal(focus(x.numpy(), 2.0).entropy, focus(x, 2.0).entropy)


def test_bad_input_is_refused() -> None:
    good = normal_tokens(5, 3)
    for beta, came in ((-1.0, "-1"), (math.nan, "nan"), (math.inf, "inf"), ("warm", "'warm'"), (None, "None")):
        with pytest.raises(InputError, match=f"beta must be .*got {came}"):
            focus(good, beta)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"beta must be .*got nan"):
        focus(good, [1.0, math.nan])
    with pytest.raises(InputError, match="beta must hold at least one number"):
        focus(good, [])
    with pytest.raises(InputError, match=r"beta must be .*got 1e\+39; the tokens are torch.float32"):
        focus(good.float(), 1e39)
    with pytest.raises(InputError, match=r"beta must be .*got \[1.0\]"):
        focus(good, torch.ones(1, 1))
    with pytest.raises(InputError, match=r"shape \(n, d\) with n >= 2 and d >= 1, got \(1, 3\)"):
        focus(good[:1], 1.0)
    with pytest.raises(InputError, match=r"got \(5, 0\)"):
        focus(good[:, :0], 1.0)
    with pytest.raises(InputError, match=r"got \(2, 5, 3\)"):
        focus(torch.stack([good, good]), 1.0)
    with pytest.raises(InputError, match=r"float32 or float64 tensor, got torch.int64"):
        focus(torch.ones(5, 3, dtype=torch.int64), 1.0)
    with pytest.raises(InputError, match="float32 or float64 tensor, got list"):
        focus(good.tolist(), 1.0)  # type: ignore[arg-type]
    for value in (math.nan, math.inf):
        bad = good.clone()
        bad[2, 1] = value
        with pytest.raises(InputError, match="tokens must be finite"):
            focus(bad, 1.0)
    bad = good.clone()
    bad[3] = 0
    with pytest.raises(InputError, match="zero norm at token 3"):
        focus(bad, 1.0)
    with pytest.raises(InputError, match="tile rows must be a whole number of at least 1, got 0"):
        focus(good, 1.0, tile=(0, 5))


def test_sampled_rows_are_rows_of_the_whole() -> None:
    x, betas = normal_tokens(100, 5), [1.0, 6.0]
    every = focus(x, betas, causal=True)
    for rows in (20, [3, 99, 50]):
        some = focus(x, betas, True, rows, seed=4)
        torch.testing.assert_close(some.entropy, every.entropy[:, some.rows], rtol=TOLERANCE, atol=TOLERANCE)
        torch.testing.assert_close(some.participation, every.participation[:, some.rows], rtol=TOLERANCE, atol=0)


def test_close_tokens_keep_their_digits() -> None:
    """A simplex at 1 - ρ = 1e-6 in float32: a Gram matrix would leave one digit of 1 - ρ."""
    n, one_minus_rho = 64, 1e-6
    basis = torch.eye(n, dtype=torch.float64) * math.sqrt(one_minus_rho)
    x = torch.cat([basis, torch.full((n, 1), math.sqrt(1 - one_minus_rho), dtype=torch.float64)], dim=1)
    beta = math.log(n) / one_minus_rho
    exact = float(focus(x, beta).entropy[0])
    # the tokens' own float32 coordinates hold 1e-3 to six digits after the point: 1 - ρ to a few eps 1e3
    assert float(focus(x.float(), beta).entropy[0]) == pytest.approx(exact, rel=1e-3)
