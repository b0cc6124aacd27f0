"""Nodes of t: exact on polynomials, and the orders that theory gives to collocated flows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnlim.core.checks import InputError
from attnlim.depth import gauss_nodes


@pytest.mark.parametrize("n_nodes", [1, 2, 5, 9])
def test_polynomials_are_exact(n_nodes: int) -> None:
    nodes, at = gauss_nodes(n_nodes), np.linspace(0, 1, 7)
    for power in range(n_nodes):
        values = torch.from_numpy(nodes.t**power)
        # rounding grows with the inverse of the Vandermonde matrix, below 100 here
        np.testing.assert_allclose(nodes.interpolation(at) @ values, at**power, atol=1e-13)
        np.testing.assert_allclose(nodes.integral(at) @ values, at ** (power + 1) / (power + 1), atol=1e-13)
    # at the end Gauss nodes integrate twice the degree, and not one more
    whole = [float(nodes.integral(1.0)[0] @ torch.from_numpy(nodes.t**power)) for power in range(2 * n_nodes + 1)]
    np.testing.assert_allclose(whole[:-1], 1 / np.arange(1, 2 * n_nodes + 1), atol=1e-14)
    assert abs(whole[-1] - 1 / (2 * n_nodes + 1)) > 1e-14 or n_nodes > 8


@pytest.mark.parametrize("at", [-0.1, 1.1, np.nan])
def test_times_outside(at: float) -> None:
    with pytest.raises(InputError, match=r"t must lie in \[0, 1\]"):
        gauss_nodes(3).integral(at)
    with pytest.raises(InputError, match="n_nodes"):
        gauss_nodes(0)
