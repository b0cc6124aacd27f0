"""Figures 1 and 2 as variables: crossings are found to a small part of a step of γ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.lab.tiny_reproduction import TINY

from attnlim.context.simplex import simplex_step
from attnlim.context.simplex_energy import simplex_jacobian
from attnlim.core.cells import Arrays
from attnlim.lab.critical_planes import first_rise, plane_variables
from attnlim.lab.critical_size import FULL, GAMMA, LAPTOP, RHO
from attnlim.lab.critical_tasks import PLANES, cells


def simplex_cells(shift: float = 0.0) -> dict[str, Arrays]:
    """What the figures' cells would give if every token set were a simplex at its ρ, at γ/(1 + shift)."""
    found = {}
    for cell in cells(replace(LAPTOP, draws=1), 0):
        at = cell.arguments
        if at["part"] != PLANES:
            continue
        n, d, rho = at["n_tokens"], at["width"], at["rho"]
        gamma = [value / (1 + shift) for value in at["gamma"]]
        found[cell.key] = {
            "contraction": np.array([simplex_step(n, rho, g).one_minus_rho / (1 - rho) for g in gamma]),
            "eta_attention": np.array([simplex_jacobian(n, d, rho, g).attention for g in gamma]),
            "rho_hat": np.array(rho),
            "score_variance": np.array(0.0),
            "inverse_q_mean": np.array(1.0),
        }
    return found


def test_the_grid_is_that_of_the_paper() -> None:
    assert (len(RHO), len(GAMMA)) == (19, 41) and (RHO[0], RHO[-1], GAMMA[0]) == (0.05, 0.95, 0.0)
    assert FULL.n_tokens == 2048 and FULL.widths == (512, 32, 2) and FULL.draws == 5 and max(FULL.window_n) == 10**6
    assert sum(1 / (1 - rho) < GAMMA[-1] for rho in RHO) == 16


def test_crossings_on_a_simplex_are_at_the_threshold() -> None:
    """λ = 1/(1+3ρ) and η_A at a quarter lie at γ_c up to 1/n, and the spline finds them to a thousandth."""
    variables = plane_variables(replace(LAPTOP, draws=1), simplex_cells())
    inside = np.array(RHO) < 1 - 1 / GAMMA[-1]
    for name in ("grid_forward", "grid_backward"):
        ratio = variables[name][1][:, :, 0] / variables["grid_gamma_c"][1][:, :, 0]
        # 1/(nρ) of the threshold is what finite n does to λ, 1/1000 what the spline adds
        np.testing.assert_allclose(ratio[:, inside], 1.0, atol=1e-3 + 1 / (512 * 0.05 * 6.2))
        assert np.isnan(ratio[:, ~inside]).all()
    np.testing.assert_allclose(variables["grid_spread"][1][1, inside], variables["grid_spread_simplex"][1][1, inside])


@pytest.mark.parametrize("shift", [0.05, -0.1])
def test_a_shift_in_gamma_is_seen(shift: float) -> None:
    variables = plane_variables(replace(LAPTOP, draws=1), simplex_cells(shift))
    ratio = variables["grid_forward"][1][1] / variables["grid_forward"][1][0]
    assert np.nanmedian(ratio) == pytest.approx(1 + shift, abs=1e-3)


def test_first_rise_takes_the_first_and_ignores_falls() -> None:
    gamma = np.linspace(0, 2 * np.pi, 32)
    # a cubic spline of a sine with 31 steps a turn is right to h^4/384
    assert first_rise(gamma, -np.cos(gamma), 0.0) == pytest.approx(np.pi / 2, abs=1e-5)
    assert np.isnan(first_rise(gamma, np.cos(gamma / 2), 0.0))
    assert np.isnan(first_rise(gamma, np.full(32, np.nan), 0.0))


def test_tiny_planes_have_a_simplex_first() -> None:
    assert TINY.widths[0] == TINY.n_tokens  # so that its wide tokens have as many dimensions as the simplex
