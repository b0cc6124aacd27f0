"""Self weights of drawn tokens: made in blocks, equal to the plain softmax over all tokens at once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attnlim.context.token_geometry import geometry
from attnlim.core.seeds import generator
from attnlim.lab import critical_window
from attnlim.lab.critical_window import measure_self_weights

T = (-2.0, 0.0, 3.0)


def tokens(n_tokens: int, width: int, rho: float, draw: int, seed: int, block: int) -> np.ndarray:
    """The same tokens, all held, in float64."""
    shared = generator(seed, "self weights", n_tokens, width, draw).standard_normal(width)
    own = [
        generator(seed, "self weights", n_tokens, width, draw, start).standard_normal(
            (min(block, n_tokens - start), width), np.float32
        )
        for start in range(0, n_tokens, block)
    ]
    return (math.sqrt(rho) * shared + math.sqrt(1 - rho) * np.concatenate(own).astype(np.float64)) / math.sqrt(width)


@pytest.mark.parametrize("block", [7, 63, 1000])
def test_blocks_equal_the_plain_softmax(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    n, width, rows = 100, 24, 5
    monkeypatch.setattr(critical_window, "_BLOCK_ENTRIES", block * width)
    found = measure_self_weights(n, width, 0.4, T, rows, 1, 3)

    x = tokens(n, width, 0.4, 1, 3, block)
    y = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosines = y @ y.T
    shape = geometry(x, list(range(rows)))
    # tokens and cosines are float32, so 1-ρ̂ and v are right to a few 1e-7 of 1
    assert found["rho_hat"] == pytest.approx(shape.rho_hat, abs=1e-6)
    assert found["score_variance"] == pytest.approx(shape.score_variance, abs=1e-6)
    for k, t in enumerate(found["t"]):
        beta = (t + math.log(n)) / (1 - float(found["rho_hat"]))
        weights = np.exp(beta * (cosines - 1))
        own = (np.diag(weights) / weights.sum(axis=1))[:rows]
        # β is about 15, and an exponent right to β times a few 1e-7
        assert found["self_weight"][k] == pytest.approx(own.mean(), rel=1e-5)
        assert found["standard_error"][k] == pytest.approx(own.std(ddof=1) / math.sqrt(rows), rel=1e-4)


def test_t_is_that_of_all_tokens() -> None:
    """A single block knows its ρ̂, so t is the one asked for."""
    np.testing.assert_allclose(measure_self_weights(300, 16, 0.5, T, 4, 0, 0)["t"], T, atol=1e-5)


def test_wide_tokens_follow_the_simplex_and_narrow_ones_do_not() -> None:
    """The scatter of cosines moves p = 1/2 by (ln n)²γ²v/2 with v ∝ 1/d: small at d = 4096, not at d = 16."""
    off = []
    for width in (4096, 16):
        found = measure_self_weights(1000, width, 0.5, T, 32, 0, 0)
        off.append(np.abs(found["self_weight"] - 1 / (1 + np.exp(-found["t"]))).max())
    assert off[0] < 0.02 < 0.2 < off[1]
