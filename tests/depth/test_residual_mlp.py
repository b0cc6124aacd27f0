"""The residual network of perceptrons: automatic differentiation, invariances, its reference, its published rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from attnlim.core.checks import InputError
from attnlim.depth.rates import compare_rates, fit_rate
from attnlim.depth.residual_mlp import (
    published_residual_mlp_error,
    residual_mlp_data,
    residual_mlp_errors,
    residual_mlp_reference,
    residual_mlp_training,
    residual_mlp_units,
)


def by_autograd(u: Tensor, v: Tensor, x: Tensor, targets: Tensor, n_steps: int, lr: float) -> list[Tensor]:
    """One network, layer by layer, gradients of the loss times LM."""
    u, v = u.clone().requires_grad_(), v.clone().requires_grad_()
    n_layers, width, hidden = u.shape
    outputs = []
    for _ in range(n_steps + 1):
        now = x
        for layer in range(n_layers):
            now = now + torch.tanh(now @ u[layer] / width) @ v[layer].T / (n_layers * hidden)
        outputs.append(now.detach())
        loss = (now - targets).square().sum() / (2 * len(x) * width)
        of_u, of_v = torch.autograd.grad(loss, (u, v))
        with torch.no_grad():
            u -= lr * n_layers * hidden * of_u
            v -= lr * n_layers * hidden * of_v
    return outputs


@pytest.mark.parametrize(
    ("n_layers", "hidden", "width", "n_inputs"), [(1, 1, 1, 1), (4, 3, 5, 2), (7, 1, 2, 6), (3, 9, 4, 4)]
)
def test_training_equals_automatic_differentiation(n_layers: int, hidden: int, width: int, n_inputs: int) -> None:
    x, targets = residual_mlp_data(n_inputs, width, seed=2)
    u, v = residual_mlp_units(n_layers, hidden, width, n_replicas=3, seed=1)
    outputs = residual_mlp_training(u, v, x, targets, n_steps=12, lr=0.7 * width)
    for replica in range(3):
        alone = torch.stack(by_autograd(u[replica], v[replica], x, targets, 12, 0.7 * width))
        # sums of at most 36 products of size 1, twelve steps
        torch.testing.assert_close(outputs[:, replica], alone, rtol=1e-11, atol=1e-12)
    assert float((outputs[-1] - outputs[0]).abs().max()) > 0.1  # it did move


def test_the_usual_step_is_the_width() -> None:
    x, targets = residual_mlp_data(3, 4)
    u, v = residual_mlp_units(2, 3, 4)
    usual, given = residual_mlp_training(u, v, x, targets, 3), residual_mlp_training(u, v, x, targets, 3, lr=4)
    assert torch.equal(usual, given)


def test_the_law_of_units() -> None:
    u, v = residual_mlp_units(30, 40, 7, n_replicas=2)
    for units in (u, v):
        # of n normal entries: variance within 4 √(2/n) of itself, mean within 4 of its errors
        assert float(units.square().mean()) == pytest.approx(7, rel=4 * math.sqrt(2 / units.numel()))
        assert abs(float(units.mean())) < 4 * math.sqrt(7 / units.numel())
    assert abs(float((u * v).mean())) < 4 * 7 / math.sqrt(u.numel())
    few = residual_mlp_units(30, 40, 7)
    assert torch.equal(few[0], u[:1]) and not torch.equal(u[0], u[1])


def test_neither_inputs_nor_a_graph_are_kept() -> None:
    x, targets = residual_mlp_data(3, 4)
    u, v = (units.requires_grad_() for units in residual_mlp_units(5, 3, 4))
    before = u.detach().clone(), v.detach().clone()

    def refuse(saved: Tensor) -> Tensor:
        raise AssertionError("a tensor was saved for automatic differentiation")

    with torch.autograd.graph.saved_tensors_hooks(refuse, lambda saved: saved):
        outputs = residual_mlp_training(u, v, x, targets, 3)
    assert not outputs.requires_grad
    assert torch.equal(u, before[0]) and torch.equal(v, before[1])


def test_units_twice_are_the_same_network() -> None:
    """What lives on measures: copies of all units train alike; copies of layers are a finer network."""
    x, targets = residual_mlp_data(4, 3)
    u, v = residual_mlp_units(3, 5, 3)
    once = residual_mlp_training(u, v, x, targets, 20)
    wide = residual_mlp_training(u.repeat(1, 1, 1, 2), v.repeat(1, 1, 1, 2), x, targets, 20)
    torch.testing.assert_close(wide, once, rtol=1e-12, atol=1e-12)  # sums in another order
    deep = residual_mlp_training(u.repeat_interleave(2, 1), v.repeat_interleave(2, 1), x, targets, 20)
    assert float((deep - once).abs().max()) > 1e-3
    order = torch.randperm(5, generator=torch.Generator().manual_seed(0))
    mixed = residual_mlp_training(u[..., order], v[..., order], x, targets, 20)
    torch.testing.assert_close(mixed, once, rtol=1e-12, atol=1e-12)


def test_the_reference_is_the_mean_of_independent_networks_at_the_start() -> None:
    """Before training the limit is the identity, since V has mean zero."""
    x, targets = residual_mlp_data(6, 4)
    reference = residual_mlp_reference(8, 128, x, targets, n_steps=0, n_runs=8)
    error = float((reference.outputs[0] - x).square().mean().sqrt())
    assert error < 2 * float(reference.noise[0])  # a root mean square of 24 numbers, itself known to a quarter
    # independent units would have √(width·E tanh²/units) of noise, about half of √(width/units)
    assert float(reference.noise[0]) < 0.4 * math.sqrt(4 / (8 * 128 * 8))
    assert math.isnan(float(residual_mlp_reference(2, 2, x, targets, n_steps=0, n_runs=1).noise))


def test_the_reference_says_how_far_off_it_is() -> None:
    """Two references of other seeds and sizes agree within their errors, and wide plain networks with both."""
    x, targets = residual_mlp_data(5, 4)
    first = residual_mlp_reference(16, 128, x, targets, n_steps=30, n_runs=8, seed=1)
    second = residual_mlp_reference(32, 128, x, targets, n_steps=30, n_runs=8, seed=2)
    gap = float((first.outputs[-1] - second.outputs[-1]).square().mean().sqrt())
    expected = math.hypot(float(first.noise[-1]), float(second.noise[-1]))
    # a root mean square of 20 correlated numbers; uncorrected, 1/L would part the two by half of the correction of one
    assert 0.3 * expected < gap < 2 * expected
    assert float(first.discretisation[-1]) == pytest.approx(2 * float(second.discretisation[-1]), rel=0.35)
    plain = residual_mlp_training(*residual_mlp_units(64, 64, 4, n_replicas=6), x, targets, 30)[-1]
    away = float((plain.mean(dim=0) - second.outputs[-1]).square().mean().sqrt())
    noise = float((plain.var(dim=0) / 6).mean().sqrt())
    assert away < 2 * math.hypot(noise, float(second.noise[-1]), float(second.discretisation[-1]) / 2)


def test_errors_are_root_mean_squares() -> None:
    x, targets = residual_mlp_data(4, 3)
    reference = torch.from_numpy(np.random.default_rng(0).standard_normal((6, 4, 3)))
    errors = residual_mlp_errors(2, 3, x, targets, reference, n_replicas=2, seed=5)
    outputs = residual_mlp_training(*residual_mlp_units(2, 3, 3, 2, seed=5), x, targets, 5)
    wanted = (outputs - reference[:, None]).pow(2).sum(dim=(-2, -1)).div(12).sqrt()
    torch.testing.assert_close(errors, wanted, rtol=1e-12, atol=0)
    assert errors.shape == (6, 2)


def test_the_published_rate_comes_out() -> None:
    """A small grid after 30 steps: exponents 1/2, the sum of 1/L and (LH)^-1/2 the best of the four."""
    x, targets = residual_mlp_data()
    limit = residual_mlp_reference(64, 256, x, targets, n_steps=30, n_runs=2)
    layers, hiddens = (sizes.ravel() for sizes in np.meshgrid([4, 8, 16, 32], [4, 8, 16, 32], indexing="ij"))
    cells = [
        residual_mlp_errors(n_layers, hidden, x, targets, limit.outputs, n_replicas=8, seed=1).numpy()
        for n_layers, hidden in zip(layers.tolist(), hiddens.tolist(), strict=True)
    ]
    before, after = (np.stack([cell[step] for cell in cells], axis=1) for step in (0, 30))
    for step, errors in ((0, before), (30, after)):
        fit = fit_rate(layers, hiddens, errors)
        assert all(abs(one.estimate - 0.5) < 4 * one.standard_error < 0.15 for one in (fit.p, fit.q))
        # two routes to c1: a fit to errors of small networks, and one wide network read at two depths
        assert abs(fit.c1.estimate - 64 * float(limit.discretisation[step])) < 4 * fit.c1.standard_error
        assert float(limit.noise[step]) < errors.min() / 5
        best = min(compare_rates(layers, hiddens, errors), key=lambda row: row.residual.estimate)
        assert best.rate.name == "L^-1 + (LH)^-1/2"
    # V has mean zero at the start, so that the limit does not move and there is no error in 1/L
    assert 64 * float(limit.discretisation[0]) < 1e-3 < 0.2 < 64 * float(limit.discretisation[30])
    # E² is D·E[tanh²]/(LM) with tanh of a variable whose variance is that of an input, about 1
    start = fit_rate(layers, hiddens, before, discretisation=False)
    second = np.tanh(np.random.default_rng(0).standard_normal(100_000) * float(x.square().mean().sqrt()))
    assert start.c2.estimate == pytest.approx(math.sqrt(10 * np.mean(second**2)), rel=0.1)


def test_the_published_formula() -> None:
    assert published_residual_mlp_error(1, 1, 1) == pytest.approx(0.37, rel=1e-15)
    assert published_residual_mlp_error(316, 316, 10) == pytest.approx(0.22 * 10**0.5 / 316 + 0.15 / 316, rel=1e-14)


def test_refusals() -> None:
    x, targets = residual_mlp_data(4, 3)
    u, v = residual_mlp_units(2, 5, 3)
    with pytest.raises(InputError, match="u and v must be"):
        residual_mlp_training(u, v[:, :1], x, targets)
    with pytest.raises(InputError, match="x and targets must be .n_inputs, 3."):
        residual_mlp_training(u, v, x[:, :2], targets)
    with pytest.raises(InputError, match="share a dtype"):
        residual_mlp_training(u.float(), v.float(), x, targets)
    with pytest.raises(InputError, match="targets must be finite"):
        residual_mlp_training(u, v, x, targets * math.nan)
    with pytest.raises(InputError, match="lr must"):
        residual_mlp_training(u, v, x, targets, lr=0)
    with pytest.raises(InputError, match=r"at step \d+: the run has diverged"):
        residual_mlp_training(u, v, x, targets, lr=1e200)
    with pytest.raises(InputError, match="n_layers of a reference must be even, got 3"):
        residual_mlp_reference(3, 4, x, targets)
    with pytest.raises(InputError, match="hidden of a reference must be a power of two from 2, got 6"):
        residual_mlp_reference(2, 6, x, targets)
    with pytest.raises(InputError, match=r"reference must have shape .n_steps\+1, 4, 3."):
        residual_mlp_errors(2, 3, x, targets, x)
    with pytest.raises(InputError, match="hidden must be a whole number of at least 1, got 0"):
        residual_mlp_units(2, 0, 3)
    with pytest.raises(InputError, match="float32 or float64"):
        residual_mlp_training(u.long(), v, x, targets)
