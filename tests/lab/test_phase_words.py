"""Where the transition is, in numbers and words, on diagrams whose transition is known in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.optimize import brentq
from tests.lab.closed_form_cells import closed_form_results

from attnlim.context.simplex import simplex_step
from attnlim.context.simplex_limits import window_width
from attnlim.lab.phase_dataset import assemble
from attnlim.lab.phase_grid import make_grid
from attnlim.lab.phase_words import shown_cosine, transitions, verdict

FINE = np.linspace(0, 6, 601)


def diagram(shift: float = 0.0, duplicates: int = 0, **grid: Any) -> xr.Dataset:
    asked: dict[str, Any] = {
        "tokens": "gaussian",
        "n_tokens": [1024],
        "width": [8],
        "rho": [0.5],
        "gamma": FINE,
        "draws": 1,
    }
    asked |= grid
    made = make_grid(threads=1, **asked)
    return assemble(made, closed_form_results(made, shift, duplicates))


def root(contraction: Callable[[float], float], level: float) -> float:
    return float(brentq(lambda gamma: contraction(gamma) - level, 1e-6, 12))


def test_crossings_are_those_of_the_curve() -> None:
    """Linear between points 0.01 apart: a curve of width 0.5 is off by less than (0.01/0.5)² of it, 2e-4."""
    (row,) = transitions(diagram()).to_dict("records")

    def contraction(gamma: float) -> float:
        return simplex_step(1024, 0.5, gamma).one_minus_rho / 0.5

    assert row["gamma"] == pytest.approx(root(contraction, 0.4), abs=2e-4) == pytest.approx(row["gamma_simplex"])
    assert row["gamma"] == pytest.approx(2.0, abs=0.01)  # ln(n-1)/ln n and the 1/n of the level
    assert row["spread"] == pytest.approx(root(contraction, 0.9) - root(contraction, 0.1), abs=4e-4)
    assert row["spread_simplex"] == row["spread"] and math.isnan(row["spread_se"])
    # λ and the self weight rise together, though not at the same rate
    assert 0.5 < row["spread"] / window_width(1024, 0.5) < 2
    # a quarter of the limit is p² = 1/4
    assert row["gamma_eta"] == pytest.approx(row["gamma_c"], abs=0.01)


def test_a_shifted_curve_is_found_where_it_was_shifted_to() -> None:
    """The negative control: measured and closed form part by exactly the shift, and draws give its standard error."""
    (row,) = transitions(diagram(shift=0.1, draws=3)).to_dict("records")
    assert row["gamma"] - row["gamma_simplex"] == pytest.approx(0.2, abs=1e-9)  # the mean of 0.1, 0.2 and 0.3
    assert row["gamma_se"] == pytest.approx(0.1 / math.sqrt(3), abs=1e-9)
    assert row["spread"] == pytest.approx(row["spread_simplex"], abs=1e-9)


def test_the_residual_branch_lifts_the_floor() -> None:
    """With α > 0 λ begins above a tenth; the rise is counted from there."""
    rows = transitions(diagram(alpha=[0.0, 1.0])).to_dict("records")
    assert [row["alpha"] for row in rows] == [0.0, 1.0]
    assert all(row["gamma"] == pytest.approx(2.0, abs=0.02) for row in rows)
    assert all(0.3 < row["spread"] < 1.5 for row in rows)


def test_outside_the_grid_there_is_no_number() -> None:
    found = diagram(rho=[0.5, 0.9], gamma=np.linspace(0, 4, 81))
    below, above = transitions(found).to_dict("records")
    assert math.isfinite(below["gamma"]) and math.isnan(above["gamma"]) and math.isnan(above["spread"])
    assert "1 of 2 transitions lie outside the grid of γ, 1 of them with 1/(1 − ρ̂) above its end 4" in verdict(found)


def test_small_cosines_take_half_of_the_rise() -> None:
    (row,) = transitions(diagram(tokens="half-sphere", rho=None)).to_dict("records")
    at_half = root(lambda gamma: simplex_step(1024, 0.01, gamma).one_minus_rho / 0.99, 0.5)
    assert row["gamma"] == pytest.approx(at_half, abs=2e-4)


def test_the_sentence_gives_place_threshold_and_width() -> None:
    said = verdict(diagram(width=[2, 8], draws=2)).split("\n")
    assert said[0].startswith(
        "At 1024 tokens and ρ = 0.5 the transition lies at γ = 2.00 and 2.00 for d = 8 and 2, where 1/(1 − ρ̂) = 2.00 "
        "and 2.00; contraction λ takes Δγ = 1.00 and 1.00 from a tenth to nine tenths of its rise, the closed form at ρ̂ 1.00 "
    )
    assert said[1].startswith(
        "Backwards, at 1024 tokens, the attention part of η passes a quarter of its limit at γ = 2.00"
    )
    assert len(said) == 2


def test_the_words_tell_what_is_doubtful() -> None:
    found = diagram(rho=[0.3, 0.5], alpha=[0.0, 0.5], causal=[False, True], duplicates=3)
    found["contraction_error"][:] = 0.5
    text = verdict(found)
    assert "one draw has no standard error, use --draws 4" in text
    assert "6 pairs of tokens have one direction and are left out of λ" in text
    assert "use --dtype float64" in text
    assert (
        "At 1024 tokens and d = 8 it lies otherwise at γ = " in text
        and "(α = 0, causal), " in text
        and " (α = 0.5, full)" in text
    )
    assert "Over all ρ the measured transition is off 1/(1 − ρ̂) by a median of 0." in text
    assert all(len(paragraph) < 600 for paragraph in text.split("\n"))


def test_sampled_rows_give_one_draw_an_error_that_is_not_that_of_draws() -> None:
    found = diagram()
    assert "one draw has no standard error, use --draws 4" in verdict(found)
    found["entropy_standard_error"][:] = 0.1
    assert "the standard errors of one draw are those of its sampled rows or probes alone, use --draws 4" in verdict(
        found
    )
    assert "standard error" not in verdict(diagram(draws=2))


def test_what_was_not_measured_is_not_talked_about() -> None:
    only_eta = diagram(measure=["eta"])
    only_eta["contraction"][:] = np.nan
    assert verdict(only_eta).startswith("Backwards, at 1024 tokens")
    assert "A single γ shows no transition" in verdict(diagram(gamma=[1.0]))


def test_the_cosine_shown_is_the_middle_one_of_those_inside() -> None:
    table = pd.DataFrame({"rho": [0.1, 0.5, 0.9] * 2, "gamma": [1.0, math.nan, math.nan, 1.0, 2.0, math.nan]})
    assert shown_cosine(table) == 0.1
    assert math.isnan(shown_cosine(pd.DataFrame({"rho": [math.nan], "gamma": [1.0]})))
