"""Cells put together: every number at its place, closed forms at the measured cosine, gaps that say why they are."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from tests.lab.closed_form_cells import closed_form_results

from attnlim.context.simplex import simplex_step
from attnlim.context.simplex_energy import simplex_jacobian
from attnlim.lab.phase_dataset import DIMS, TOKEN_SET, assemble, cells_table
from attnlim.lab.phase_grid import make_grid

GRID = make_grid(
    "gaussian", [16, 64], [2, 3, 4], [0.1, 0.6], [0.0, 1.0, 2.5], [0.0, 0.7], [False, True], draws=2, threads=1
)


def test_every_number_is_at_its_place() -> None:
    """Numbers that are made of their coordinates, put together in another order than they were asked for."""
    results = closed_form_results(GRID)
    shuffled = {key: results[key] for key in np.random.default_rng(0).permutation(list(results))}
    found = assemble(GRID, shuffled)
    assert found.equals(assemble(GRID, results))
    assert tuple(found["contraction"].dims) == DIMS and tuple(found["rho_hat"].dims) == TOKEN_SET
    at = {"n_tokens": 64, "width": 3, "rho": 0.6, "alpha": 0.7, "draw": 1}
    step = simplex_step(64, 0.6, 2.5, alpha=0.7)
    assert float(found["contraction"].sel(**at, causal=False, gamma=2.5)) == step.one_minus_rho / 0.4
    energy = simplex_jacobian(64, 3, 0.6, 2.5, alpha=0.7, causal=True)
    assert float(found["eta"].sel(**at, causal=True, gamma=2.5)) == energy.total
    assert float(found["rho_hat"].sel(n_tokens=16, width=2, rho=0.1, draw=0)) == 0.1


def test_closed_forms_meet_what_is_measured_on_a_simplex() -> None:
    found = assemble(GRID, closed_form_results(GRID))
    full = found.sel(causal=False)
    np.testing.assert_array_equal(full["contraction_simplex"], full["contraction"])
    np.testing.assert_array_equal(found["eta_simplex"], found["eta"])
    np.testing.assert_array_equal(found["eta_attention_simplex"], found["eta_attention"])
    np.testing.assert_allclose(found["gamma_c"].sel(rho=0.6), 2.5, rtol=1e-15)
    np.testing.assert_array_equal(found["gamma_half"], found["gamma_c"])  # without spread they are one
    np.testing.assert_allclose(found["contraction_half"].sel(rho=0.6, alpha=0.0), 1 / 2.8, rtol=1e-15)
    np.testing.assert_allclose(found["eta_limit"].sel(width=4), 0.75)


def test_focus_of_the_first_factor_holds_for_all() -> None:
    results = closed_form_results(GRID)
    found = assemble(GRID, results)
    assert found["entropy"].notnull().all()
    assert (found["entropy"].sel(draw=1) == 1).all() and (found["entropy"].sel(draw=0) == 0).all()
    for cell in results.values():
        if "perplexity" in cell:
            cell["perplexity_standard_error"] = np.array([0.1, 0.2, 0.3])
    errors = assemble(GRID, results)["perplexity_standard_error"]
    np.testing.assert_array_equal(
        errors.transpose(..., "gamma"), np.broadcast_to([0.1, 0.2, 0.3], (2, 3, 2, 2, 2, 2, 3))
    )


def test_a_gap_is_nan_and_says_why() -> None:
    grid = make_grid("gaussian", [16], [2], [0.5], [1.0], measure=["eta"], causal=[True], threads=1)
    found = assemble(grid, closed_form_results(grid))
    for name in ("contraction", "entropy", "entropy_standard_error"):
        assert found[name].isnull().all() and "was not asked for" in found[name].attrs["missing"]
    assert "missing" not in found["eta"].attrs and found["eta"].notnull().all()
    assert found["contraction_simplex"].isnull().all() and "causal" in found["contraction_simplex"].attrs["missing"]


@pytest.mark.parametrize("rho_hat", [-1 / 15, 1.0, math.nan])
def test_tokens_that_are_no_simplex_have_no_closed_form(rho_hat: float) -> None:
    grid = make_grid("gaussian", [16], [2], [0.5], [1.0], threads=1)
    results = closed_form_results(grid)
    for arrays in results.values():
        arrays["rho_hat"] = np.array(rho_hat)
    found = assemble(grid, results)
    for name in ("gamma_c", "gamma_half", "eta_limit", "contraction_half", "contraction_simplex", "eta_simplex"):
        assert found[name].isnull().all(), name


def test_a_table_with_a_row_for_every_number() -> None:
    found = assemble(GRID, closed_form_results(GRID))
    table = cells_table(found)
    assert len(table) == 2 * 3 * 2 * 3 * 2 * 2 * 2 and list(table.columns[:7]) == list(DIMS)
    row = table.query("n_tokens == 64 and width == 3 and rho == 0.6 and gamma == 1 and alpha == 0 and draw == 1").iloc[
        0
    ]
    at = found.sel(n_tokens=64, width=3, rho=0.6, gamma=1.0, alpha=0.0, draw=1, causal=bool(row["causal"]))
    for name in ("contraction", "eta", "rho_hat", "gamma_c", "contraction_simplex"):
        np.testing.assert_equal(row[name], float(at[name]))


def test_attributes_are_plain() -> None:
    found = assemble(GRID, closed_form_results(GRID))
    assert found.attrs["kind"] == "attnlim.phase" and json.loads(json.dumps(found.attrs)) == found.attrs
    assert all(variable.attrs["long_name"] and variable.attrs["units"] for variable in found.data_vars.values())
