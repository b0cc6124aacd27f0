"""A cell of sampled rows: everything from the same rows, with standard errors that are those of a sample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from attnlim.context import naive
from attnlim.context.contracting import contraction
from attnlim.context.jacobian import jacobian_energy
from attnlim.context.row_sample import sampled_rows
from attnlim.core.cells import Arrays
from attnlim.lab.phase_cell import cell_seed, measure_cell

N_TOKENS, GAMMA = 40, (0.5, 2.0)
COUNTS = ("entropy", "perplexity", "participation")
TOKENS = np.random.default_rng(1).normal(size=(N_TOKENS, 3)) + 0.5


def cell(**changes: Any) -> Arrays:
    asked: dict[str, Any] = {
        "tokens": "array", "n_tokens": N_TOKENS, "width": 3, "rho": math.nan, "draw": 0, "gamma": GAMMA, "alpha": 0.0,
        "causal": False, "seed": 0, "measure": ("focus",), "dtype": "float64", "rows": 30, "probes": 0, "device": "cpu",
        "given": TOKENS,
    }  # fmt: skip
    return measure_cell(**asked | changes)


@pytest.mark.parametrize("causal", [False, True])
def test_contraction_energy_and_focus_look_at_the_same_rows(causal: bool) -> None:
    found = cell(measure=("contraction", "eta", "focus"), rows=9, seed=3, causal=causal)
    rows = sampled_rows(9, N_TOKENS, cell_seed(3, "rows", "array", N_TOKENS, 3, math.nan, 0), least=3)
    assert rows is not None
    betas = [gamma * math.log(N_TOKENS) for gamma in GAMMA]
    np.testing.assert_array_equal(found["contraction"], contraction(TOKENS, betas, causal=causal, rows=rows).value)
    np.testing.assert_array_equal(found["eta"], jacobian_energy(TOKENS, betas, causal=causal, rows=rows).total)
    for k, beta in enumerate(betas):
        for name, of_rows in zip(COUNTS, naive.focus(TOKENS, beta, causal), strict=True):
            looked_at = of_rows[rows.numpy()]
            # β times the rounding of a cosine, as in the tests of focus itself
            assert found[name][k] == pytest.approx(looked_at.mean(), rel=1e-11)
            unseen = 1 - 9 / N_TOKENS
            error = math.sqrt(unseen * looked_at.var(ddof=1) / 9)
            assert found[f"{name}_standard_error"][k] == pytest.approx(error, rel=1e-9)


def test_standard_errors_of_focus_are_how_far_samples_scatter() -> None:
    """Three quarters of the rows: without the finite population correction the error would be twice as large.

    Its square is an unbiased estimate of the variance of the mean. That variance over 200 samples is itself known to
    √(2/200) = 10 %, if the means are normal, so that 40 % is four of its standard errors.
    """
    exact = cell(rows=0)
    samples = [cell(seed=seed) for seed in range(200)]
    for name in COUNTS:
        means = np.array([one[name] for one in samples])
        squares = np.array([one[f"{name}_standard_error"] ** 2 for one in samples]).mean(axis=0)
        np.testing.assert_allclose(squares, means.var(axis=0, ddof=1), rtol=0.4, err_msg=name)
        off = (means.mean(axis=0) - exact[name]) / np.sqrt(squares / 200)
        assert (abs(off) < 4).all(), (name, off)


@pytest.mark.parametrize("rows", [0, N_TOKENS, 3 * N_TOKENS])
def test_with_all_rows_in_there_is_no_error(rows: int) -> None:
    found = cell(rows=rows)
    for name in COUNTS:
        assert (found[f"{name}_standard_error"] == 0).all(), name
        np.testing.assert_array_equal(found[name], cell(rows=0)[name])
