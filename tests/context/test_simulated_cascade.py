"""Many layers: the exact recursion on a simplex, exact Jacobians of the stack, and where the recursion fails."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnlim.context.attention_block import Weights, block, identity_weights, random_weights
from attnlim.context.hutchinson import jacobian_energy_estimate
from attnlim.context.samplers import gaussian_tokens, simplex_tokens
from attnlim.context.simplex_layers import simplex_cascade
from attnlim.context.simulated_cascade import cascade
from attnlim.context.stack_jacobian import simplex_stack
from attnlim.core.checks import InputError


def recursion(n: int, rho: float, q: float, beta: float, alpha: float, n_layers: int) -> np.ndarray:
    """(L+1, 3): ρ, 1-ρ and q of a simplex after each layer, from the formulas in plain numbers."""
    found = [(rho, 1 - rho, q)]
    for _ in range(n_layers):
        rho, apart, q = found[-1]
        p = 1 / (1 + (n - 1) * math.exp(-apart * beta))
        b, s = (1 - p) / (n - 1), 1 + (n - 1) * rho
        c = p - b + alpha * math.sqrt(q)
        product = c * c * rho + 2 * c * b * s + b * b * n * s
        found.append(
            (product / (product + c * c * apart), c * c * apart / (product + c * c * apart), product + c * c * apart)
        )
    return np.array(found)


@pytest.mark.parametrize("alpha", [0.0, 0.7])
@pytest.mark.parametrize("phase", [0.6, 1.0, 3.0])
def test_a_simplex_follows_the_recursion(phase: float, alpha: float) -> None:
    n, rho, q, n_layers = 48, 0.4, 2.0, 10
    beta = phase / (1 - rho) * math.log(n)
    result = cascade(simplex_tokens(n, rho, q=q), n_layers, beta=beta, alpha=alpha, extremes=True)
    wanted = recursion(n, rho, q, beta, alpha, n_layers)
    # rounding of the tokens, a few eps a layer, is all there is; a layer multiplies it by less than 10
    np.testing.assert_allclose(result.rho_hat, wanted[:, 0], rtol=0, atol=1e-12)
    # of 1-ρ̂, half a squared distance, its root
    np.testing.assert_allclose(np.sqrt(result.one_minus_rho_hat), np.sqrt(wanted[:, 1]), rtol=1e-11, atol=1e-15)
    for measured in (result.q, result.q_1, result.q_2):
        np.testing.assert_allclose(measured, wanted[:, 2], rtol=1e-12)
    for measured in (result.rho_1, result.rho_2):
        np.testing.assert_allclose(measured, wanted[:, 0], rtol=0, atol=1e-12)
    apart = wanted[wanted[:, 1] > 1e-20, 1]
    np.testing.assert_allclose(result.contraction_of_means[: len(apart) - 1], apart[1:] / apart[:-1], rtol=1e-9)
    assert np.isnan(result.eta).all() and np.isnan(result.eta_standard_error).all()


def test_three_phases_part_ways() -> None:
    n, rho = 256, 0.5
    final = [cascade(simplex_tokens(n, rho), 6, gamma=phase / (1 - rho)).rho_hat[-1] for phase in (0.5, 1.0, 3.0)]
    assert final[0] > 1 - 1e-12 and final[1] > 0.99 and final[2] == pytest.approx(rho, abs=1e-3)


def test_other_tokens_leave_the_recursion() -> None:
    """The negative control: a spread of cosines is what the recursion does not know."""
    n, n_layers = 256, 5
    for width, least, most in ((8, 0.05, 1.0), (4096, 0.0, 0.02)):
        x = gaussian_tokens(n, width, rho=0.5, seed=1)
        start = cascade(x, 1, beta=0.0)
        rho, q = float(start.rho_hat[0]), float(start.q[0])
        beta = 1.2 / (1 - rho) * math.log(n)
        result = cascade(x, n_layers, beta=beta)
        error = np.abs(result.rho_hat - recursion(n, rho, q, beta, 0.0, n_layers)[:, 0]).max()
        assert least <= error <= most, (width, error)


@pytest.mark.parametrize("causal", [False, True])
def test_energy_agrees_with_the_jacobian_of_the_stack(causal: bool) -> None:
    n, d, alpha = 8, 5, 0.4
    x = gaussian_tokens(n, d, rho=0.3)
    weights = [random_weights(d, 2, 3, 6, seed) for seed in range(3)]
    betas = [1.0, 4.0, 2.0]
    result = cascade(x, 3, beta=betas, alpha=alpha, causal=causal, weights=weights, probes=300, seed=2)
    assert (result.eta[0], result.eta_standard_error[0]) == (1.0, 0.0)

    def stack(x: Tensor, n_layers: int) -> Tensor:
        for own, beta in zip(weights[:n_layers], betas[:n_layers], strict=True):
            x = block(x, own, beta, alpha, causal)
        return x

    torch.testing.assert_close(result.tokens, stack(x, 3), rtol=0, atol=1e-14)
    for n_layers in (1, 2, 3):
        jacobian = torch.func.jacrev(lambda x, n_layers=n_layers: stack(x, n_layers), chunk_size=1)(x)
        exact = float(jacobian.square().sum()) / (n * d)
        assert abs(result.eta[n_layers] - exact) < 4 * result.eta_standard_error[n_layers]
        assert result.eta_standard_error[n_layers] < 0.1 * exact
    backwards = jacobian_energy_estimate(lambda x: stack(x, 3), x, probes=300, seed=2)
    error = math.hypot(backwards.standard_error, result.eta_standard_error[3])
    assert abs(backwards.value - result.eta[3]) < 4 * error


@pytest.mark.parametrize("phase", [0.6, 1.0, 3.0])
def test_energy_agrees_with_the_closed_form_on_a_simplex(phase: float) -> None:
    n, d, rho, alpha = 24, 30, 0.4, 0.3
    gamma = [phase / (1 - rho), 2.0, phase / (1 - rho)]
    exact = simplex_stack(n, 3, d, rho, gamma=gamma, q=2.0, alpha=alpha).eta
    result = cascade(simplex_tokens(n, rho, d, q=2.0), 3, gamma=gamma, alpha=alpha, probes=100)
    assert np.all(np.abs(result.eta - exact)[1:] < 4 * result.eta_standard_error[1:])
    assert np.all(result.eta_standard_error < 0.1 * exact)


def test_schedules_and_weights_mean_what_they_say() -> None:
    x = gaussian_tokens(20, 6, rho=0.5)
    result = cascade(x, 2, gamma=[1.0, 2.0], alpha=0.3)
    np.testing.assert_allclose(result.beta, [math.log(20), 2 * math.log(20)], rtol=1e-15)
    np.testing.assert_allclose(result.gamma, [1.0, 2.0], rtol=1e-15)
    by_hand = block(block(x, None, math.log(20), 0.3), None, 2 * math.log(20), 0.3)
    torch.testing.assert_close(result.tokens, by_hand, rtol=0, atol=1e-14)
    identity = cascade(x, 2, gamma=np.array([1.0, 2.0]), alpha=0.3, weights=identity_weights(6))
    torch.testing.assert_close(identity.tokens, by_hand, rtol=0, atol=1e-14)
    single = cascade(x.float(), 2, gamma=[1.0, 2.0], alpha=0.3)
    assert single.tokens.dtype == torch.float32
    np.testing.assert_allclose(single.one_minus_rho_hat, result.one_minus_rho_hat, rtol=1e-5)
    one = cascade(x, 2, beta=1.0, probes=1)
    assert np.isfinite(one.eta).all() and np.isnan(one.eta_standard_error).all()
    again, other = (cascade(x, 2, beta=1.0, probes=3, seed=seed).eta for seed in (0, 1))
    assert np.array_equal(again, cascade(x, 2, beta=1.0, probes=3, seed=0).eta) and not np.array_equal(again, other)


def of_tokens(n_layers: Any, **options: Any) -> np.ndarray:
    """(2, L+1), 1-ρ̂ and the mean squared norm, of simulated tokens."""
    found = cascade(simplex_tokens(12, 0.3, q=1.5), n_layers, **options)
    return np.array([found.one_minus_rho_hat, found.q])


def of_the_closed_form(n_layers: Any, **options: Any) -> np.ndarray:
    found = simplex_cascade(12, n_layers, 0.3, q=1.5, **options)
    return np.array([found.one_minus_rho, found.q])


SIBLINGS: list[Callable[..., np.ndarray]] = [of_tokens, of_the_closed_form]


def test_both_cascades_have_the_same_arguments_in_the_same_order() -> None:
    closed, simulated = (list(inspect.signature(one).parameters) for one in (simplex_cascade, cascade))
    common = ["n_layers", "gamma", "beta", "alpha", "normalise"]
    for names in (closed, simulated):
        assert [name for name in names if name in common] == common


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.8])
@pytest.mark.parametrize(
    "schedule",
    [
        {"gamma": 1.7}, {"beta": [3.0, 0.5, 4.0]}, {"gamma": np.array([1.0, 2.0, 0.3])},
        {"beta": torch.tensor([1.0, 2.0, 3.0])}, {"gamma": np.array(1.7)}, {"beta": range(3)},
    ],
    ids=str,
)  # fmt: skip
def test_both_cascades_do_the_same_on_a_simplex(schedule: dict[str, Any], alpha: float, normalise: bool) -> None:
    simulated, closed = (one(3, alpha=alpha, normalise=normalise, **schedule) for one in SIBLINGS)
    # rounding as in the test of the recursion
    np.testing.assert_allclose(np.sqrt(simulated), np.sqrt(closed), rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("one", SIBLINGS)
def test_both_cascades_take_and_refuse_the_same_schedules(one: Callable[..., np.ndarray]) -> None:
    np.testing.assert_allclose(one(0, gamma=2.0), [[0.7], [1.5]], rtol=1e-14)
    np.testing.assert_allclose(one(0, beta=[]), [[0.7], [1.5]], rtol=1e-14)
    for options, message in (
        ((2, {}), "give exactly one of gamma and beta, got neither"),
        ((2, {"beta": 1.0, "gamma": 1.0}), "give exactly one of gamma and beta, got both"),
        ((2, {"beta": [1.0]}), "beta must be a number or one a layer, got 1 for 2 layers"),
        ((2, {"gamma": np.array([1.0])}), "gamma must be a number or one a layer, got 1 for 2 layers"),
        ((2, {"beta": [1.0, 2.0, 3.0]}), "beta must be a number or one a layer, got 3 for 2 layers"),
        ((2, {"gamma": []}), "gamma must be a number or one a layer, got 0 for 2 layers"),
        ((0, {"gamma": [1.0]}), "gamma must be a number or one a layer, got 1 for 0 layers"),
        ((2, {"gamma": "warm"}), "gamma must be a finite number of at least 0, got 'warm'"),
        ((2, {"gamma": -1.0}), "gamma must be a finite number of at least 0, got -1"),
        ((0, {"beta": math.nan}), "beta must be a finite number of at least 0, got nan"),
        ((2, {"beta": [1.0, math.inf]}), "beta must be a finite number of at least 0, got inf"),
        ((2, {"gamma": 1e308}), "beta = gamma ln n must be a finite number, got inf"),
        ((-1, {"gamma": 1.0}), "n_layers must be a whole number of at least 0, got -1"),
        ((2, {"gamma": 1.0, "alpha": 1e101}), r"alpha must be a number in \[0, 1e\+100\], got 1e\+101"),
        ((90, {"gamma": 1.0, "alpha": 1e4}), "layer 39 of 90: the squared norm .* must be .* got inf"),
    ):
        with pytest.raises(InputError, match=message):
            one(options[0], **options[1])
    # what overflows without is right with norms that are reset
    assert one(90, gamma=1.0, alpha=1e4, normalise=True)[1, -1] == pytest.approx(1.5, rel=1e-13)


def test_norms_at_the_start_are_kept_each_its_own() -> None:
    x = gaussian_tokens(9, 4, rho=0.3) * torch.linspace(0.5, 3.0, 9, dtype=torch.float64)[:, None]
    result = cascade(x, 2, beta=[2.0, 5.0], alpha=0.7, normalise=True)
    wanted = x
    for beta in (2.0, 5.0):
        after = block(wanted, None, beta, 0.7)
        wanted = after / after.norm(dim=1, keepdim=True) * x.norm(dim=1, keepdim=True)
    torch.testing.assert_close(result.tokens, wanted, rtol=1e-13, atol=0)
    for measured in (result.q, result.q_1, result.q_2):
        np.testing.assert_allclose(measured, measured[0], rtol=1e-13)


def test_energy_of_a_stack_whose_norms_are_kept() -> None:
    n, d = 6, 4
    x = 2 * gaussian_tokens(n, d, rho=0.3, seed=4)

    def stack(tokens: Tensor) -> Tensor:
        for beta in (1.0, 4.0):
            after = block(tokens, None, beta, 0.4)
            tokens = after / after.norm(dim=1, keepdim=True) * x.norm(dim=1, keepdim=True)
        return tokens

    exact = float(torch.func.jacrev(stack, chunk_size=1)(x).square().sum()) / (n * d)
    result = cascade(x, 2, beta=[1.0, 4.0], alpha=0.4, normalise=True, probes=300, seed=1)
    assert abs(result.eta[2] - exact) < 4 * result.eta_standard_error[2] < 0.4 * exact


def test_bad_input_is_refused() -> None:
    x = gaussian_tokens(6, 3, rho=0.5)
    with pytest.raises(InputError, match=r"beta must be .*got 1e\+30; the tokens are torch.float32"):
        cascade(x.float(), 2, beta=[1.0, 1e30])
    with pytest.raises(InputError, match="the squared norm of a token must be a finite number above 0, got inf"):
        cascade(1e200 * x, 2, beta=1.0)
    opposite = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    for normalise in (False, True):
        with pytest.raises(InputError, match="layer 1 of 2: tokens must have a direction, got zero norm at token 0"):
            cascade(opposite, 2, beta=0.0, normalise=normalise)
    with pytest.raises(InputError, match="probes must be a whole number of at least 0"):
        cascade(x, 1, beta=1.0, probes=-1)
    with pytest.raises(InputError, match="weights must be for one layer or for all 2, got 3 of them"):
        cascade(x, 2, beta=1.0, weights=[identity_weights(3)] * 3)
    with pytest.raises(InputError, match="weights must fit tokens of width 3"):
        cascade(x, 2, beta=1.0, weights=identity_weights(4))
    huge = 1e200 * torch.ones(1, 1, 3, dtype=torch.float64)
    with pytest.raises(InputError, match="layer 1 of 2: tokens must be finite"):
        cascade(x, 2, beta=1.0, weights=Weights(huge, huge, huge, huge))
