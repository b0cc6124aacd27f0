"""Each loss's derivative in the measure against automatic differentiation, and its refusals."""

from __future__ import annotations

import math

import pytest
import torch
from tests.depth.test_network import drawn

from attnlim.core.checks import InputError
from attnlim.depth import FunctionLoss, MaximumMeanDiscrepancy, MomentLoss, PooledClassification

LOSSES = {
    "moments": MomentLoss(drawn(3, seed=5), factor=0.3, power=4.0),
    "targets": MomentLoss(drawn(4, 3, seed=5), factor=0.3, power=2.5),
    "classes": PooledClassification(drawn(6, 3, seed=6), torch.tensor([0, 5, 2, 2])),
    "discrepancy": MaximumMeanDiscrepancy(drawn(7, 3, seed=7), 0.8),
    "function": FunctionLoss(lambda x: x.sin().prod(dim=-1).sum(dim=-1)),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("equal", [True, False])
def test_derivative_in_the_measure(name: str, equal: bool) -> None:
    x = drawn(4, 5, 3).requires_grad_()
    shares = torch.full((5,), 0.2, dtype=torch.float64) if equal else torch.softmax(drawn(4, 5, seed=1), dim=-1)
    value, derivative = LOSSES[name](x, shares)
    assert value.shape == (4,) and derivative.shape == x.shape
    if name == "function":
        value = LOSSES[name].function(x)  # type: ignore[attr-defined]
    (gradient,) = torch.autograd.grad(value.sum(), x)
    torch.testing.assert_close(derivative.detach() * shares[..., None], gradient, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["moments", "discrepancy"])
def test_a_measure_is_all_that_counts(name: str) -> None:
    x, shares = drawn(5, 3), torch.tensor([0.4, 0.2, 0.2, 0.1, 0.1], dtype=torch.float64)
    split = torch.cat([x[:1], x]), torch.cat([shares[:1] / 2, shares[:1] / 2, shares[1:]])
    one, two = LOSSES[name](x, shares), LOSSES[name](*split)
    torch.testing.assert_close(one[0], two[0])
    torch.testing.assert_close(one[1], two[1][1:])


def test_discrepancy_is_zero_at_the_target_alone() -> None:
    target = drawn(7, 3, seed=7)
    equal = torch.full((7,), 1 / 7, dtype=torch.float64)
    value, derivative = MaximumMeanDiscrepancy(target)(target[[3, 1, 0, 2, 6, 5, 4]], equal)
    assert abs(float(value)) < 1e-15 and float(derivative.abs().max()) < 1e-15
    assert float(MaximumMeanDiscrepancy(target)(target + 0.1, equal)[0]) > 1e-4


def test_refusals() -> None:
    with pytest.raises(InputError, match="target must be a finite"):
        MomentLoss(torch.tensor([0.0, math.nan]))
    with pytest.raises(InputError, match="power"):
        MomentLoss(torch.zeros(2), power=1.0)
    with pytest.raises(InputError, match="labels must be integers from 0 to 2"):
        PooledClassification(torch.zeros(3, 2), torch.tensor([3]))
    with pytest.raises(InputError, match="bandwidth"):
        MaximumMeanDiscrepancy(torch.zeros(3, 2), 0.0)
    with pytest.raises(InputError, match="one number a sequence"):
        FunctionLoss(lambda x: x.sum())(torch.ones(2, 3, 4), torch.full((3,), 1 / 3))
