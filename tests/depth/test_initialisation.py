"""Initial parameters: the law, the layouts, the streams."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from attnlim.core.checks import InputError
from attnlim.depth import initial_parameters


def test_xavier_is_bounded_and_has_its_variance() -> None:
    theta = initial_parameters(40, 10, 4, 12)
    largest = math.sqrt(6 / 16)
    assert float(theta.abs().max()) < largest
    # of 76 800 entries: a uniform law's fourth moment gives the variance a relative standard error of √(.8/76800)
    assert float(theta.square().mean()) == pytest.approx(largest**2 / 3, rel=4 * math.sqrt(0.8 / theta.numel()))
    assert abs(float(theta.mean())) < 4 * largest / math.sqrt(3 * theta.numel())


def test_layouts() -> None:
    iid, shared, smooth = (
        initial_parameters(8, 3, 2, 4, "uniform", layout, seed=1) for layout in ("iid", "shared", "smooth")
    )
    assert len(iid[:, 0, 0, 0, 0].unique()) == 8 and torch.equal(shared, shared[:1].expand_as(shared))
    # neighbours of a smooth path differ by at most π/L times √2, and it turns into the second draw half way
    assert float((smooth[1:] - smooth[:-1]).abs().max()) <= math.sqrt(2) * math.pi / 8
    finer = initial_parameters(16, 3, 2, 4, "uniform", "smooth", seed=1)
    torch.testing.assert_close(finer[::2], smooth)  # the same path at finer steps
    many = initial_parameters(4, 5000, 1, 1, "uniform", "smooth")
    assert many.square().mean(dim=(1, 2, 3, 4)).tolist() == pytest.approx([1 / 3] * 4, rel=0.05)


def test_replicas_do_not_depend_on_their_number() -> None:
    few, many = (initial_parameters(2, 3, 2, 4, n_replicas=number, seed=3) for number in (2, 5))
    assert torch.equal(few, many[:2]) and torch.equal(few[0], initial_parameters(2, 3, 2, 4, seed=3))
    assert not torch.equal(many[3], many[4])


def test_a_law_of_ones_own() -> None:
    theta = initial_parameters(2, 3, 2, 4, law=lambda rng, shape: rng.choice([-1.0, 1.0], shape))
    assert set(theta.unique().tolist()) == {-1.0, 1.0}


def test_refusals() -> None:
    with pytest.raises(InputError, match="n_heads must"):
        initial_parameters(2, 0, 2, 4)
    with pytest.raises(InputError, match="layout must be one of iid, shared, smooth"):
        initial_parameters(2, 2, 2, 4, layout="tied")
    with pytest.raises(InputError, match="law must be one of xavier, uniform"):
        initial_parameters(2, 2, 2, 4, law="cauchy")
    with pytest.raises(InputError, match="finite numbers of shape"):
        initial_parameters(2, 2, 2, 4, law=lambda rng, shape: np.zeros(3))
