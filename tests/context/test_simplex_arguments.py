"""Checks that all closed forms and measures share: one bound on the residual factor, results that leave the float range."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch

from attnlim.context import (
    block,
    cascade,
    causal_simplex_pair,
    contraction,
    jacobian_energy,
    jacobian_limit,
    layer,
    layers_to_collapse,
    simplex_cascade,
    simplex_jacobian,
    simplex_limit,
    simplex_stack,
    simplex_step,
    supercritical_jacobian_limit,
)
from attnlim.core.checks import InputError

X = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]], dtype=torch.float64)

WITH_ALPHA: dict[str, Callable[[float], object]] = {
    "block": lambda alpha: block(X, None, 1.0, alpha),
    "cascade": lambda alpha: cascade(X, 1, beta=1.0, alpha=alpha, normalise=True),
    "causal_simplex_pair": lambda alpha: causal_simplex_pair(2, 5, 0.5, 1.0, alpha=alpha),
    "contraction": lambda alpha: contraction(X, 1.0, alpha),
    "jacobian_energy": lambda alpha: jacobian_energy(X, 1.0, alpha),
    "jacobian_limit": lambda alpha: jacobian_limit(0.5, 4, gamma=1.0, alpha=alpha),
    "layer": lambda alpha: layer(X, 1.0, alpha),
    "layers_to_collapse": lambda alpha: layers_to_collapse(10, 0.5, beta=0.0, alpha=alpha, normalise=True),
    "simplex_cascade": lambda alpha: simplex_cascade(5, 1, 0.5, gamma=1.0, alpha=alpha),
    "simplex_jacobian": lambda alpha: simplex_jacobian(5, 5, 0.5, gamma=1.0, alpha=alpha),
    "simplex_limit": lambda alpha: simplex_limit(0.5, gamma=1.0, alpha=alpha),
    "simplex_stack": lambda alpha: simplex_stack(5, 1, 5, 0.5, gamma=1.0, alpha=alpha),
    "simplex_step": lambda alpha: simplex_step(5, 0.5, gamma=1.0, alpha=alpha),
    "supercritical_jacobian_limit": lambda alpha: supercritical_jacobian_limit([1.0], 4, alpha),
}


@pytest.mark.parametrize("name", WITH_ALPHA)
def test_one_bound_on_the_residual_factor(name: str) -> None:
    for alpha in (-0.1, 1.1e100, 1e200, math.inf, math.nan):
        with pytest.raises(InputError, match=r"alpha must be a number in \[0, 1e\+100\], got"):
            WITH_ALPHA[name](alpha)


@pytest.mark.parametrize("name", [name for name in WITH_ALPHA if name != "layers_to_collapse"])
def test_the_largest_residual_factor_is_taken(name: str) -> None:
    """And gives no number that is NaN or infinite; a simplex of that residual outlasts all layers."""
    found = WITH_ALPHA[name](1e100)
    for values in vars(found).values() if hasattr(found, "__dataclass_fields__") else [found]:
        if isinstance(values, float | torch.Tensor):
            assert np.isfinite(np.asarray(values)).all()


def test_results_beyond_the_float_range_are_refused() -> None:
    for call in (
        lambda: jacobian_limit(0.5, 5, phase="critical", q=1e-320),
        lambda: simplex_jacobian(5, 5, 0.5, gamma=1.0, q=1e-320),
        lambda: simplex_jacobian(5, 5, 0.5, gamma=1.0, q=1e-320, causal=True),
        lambda: supercritical_jacobian_limit([1.0, 5e-324], 3),
    ):
        with pytest.raises(InputError, match="eta must be a finite number, got inf; take alpha and q nearer to 1"):
            call()
    # a stack keeps its logarithm
    found = simplex_stack(5, 1, 5, 0.5, gamma=1.0, q=1e-320)
    assert math.isinf(found.eta[1])
    assert found.log_eta[1] == pytest.approx(
        simplex_stack(5, 1, 5, 0.5, gamma=1.0).log_eta[1] + 320 * math.log(10), rel=1e-5
    )


def test_the_checks_load_no_torch() -> None:
    code = "import sys, attnlim.context.simplex_arguments; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
