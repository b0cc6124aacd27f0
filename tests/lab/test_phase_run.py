"""A phase diagram from end to end: on a simplex it is the closed form, and the place of computation leaves no trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from attnlim.core.checks import InputError
from attnlim.lab import phase, transitions
from attnlim.lab.phase_cell import cell_seed, measure_cell
from attnlim.lab.phase_grid import make_grid

GAMMA = np.linspace(0, 4, 9)


def test_on_a_simplex_everything_is_the_closed_form(capsys: pytest.CaptureFixture[str]) -> None:
    """Rounding of β h, up to 4 ln 24 · 1, moves λ and η by some 13 eps of themselves."""
    told: list[str] = []
    found = phase(
        "simplex", [24], rho=[0.3, 0.6], gamma=GAMMA, alpha=[0.0, 0.5], dtype="float64",
        progress=lambda cell, was_stored: told.append(cell.key),
    )  # fmt: skip
    np.testing.assert_allclose(found["contraction"], found["contraction_simplex"], rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(found["eta"], found["eta_simplex"], rtol=1e-10)
    np.testing.assert_allclose(found["eta_attention"], found["eta_attention_simplex"], rtol=1e-10)
    np.testing.assert_allclose(found["rho_hat"].squeeze(), [0.3, 0.6], rtol=1e-12)
    np.testing.assert_allclose(found["perplexity"].sel(gamma=0.0), 24, rtol=1e-12)
    assert len(told) == 4 and capsys.readouterr() == ("", "")


def test_a_larger_grid_holds_the_same_numbers() -> None:
    """Causal too, and with sampled rows: seeds follow from values, not from places in the grid."""
    few = phase("gaussian", [30], [3], [0.4], GAMMA[1:3], causal=[True], draws=1, rows=7, seed=5)
    many = phase("gaussian", [20, 30], [2, 3], [0.2, 0.4], GAMMA[1:3], causal=[False, True], draws=2, rows=7, seed=5)
    same = many.sel(n_tokens=[30], width=[3], rho=[0.4], draw=[0]).isel(causal=[1])
    for name in ("contraction", "eta", "entropy", "perplexity", "participation"):
        np.testing.assert_array_equal(same[name], few[name], err_msg=name)
        np.testing.assert_array_equal(same[f"{name}_standard_error"], few[f"{name}_standard_error"], err_msg=name)
        assert (few[f"{name}_standard_error"] > 0).all(), name
    np.testing.assert_array_equal(same["rho_hat"], few["rho_hat"])
    other = phase("gaussian", [30], [3], [0.4], GAMMA[1:3], causal=[True], draws=1, rows=7, seed=6)
    assert (other["contraction"] != few["contraction"]).all()


def test_no_two_token_sets_share_a_stream() -> None:
    places = [(n, d, rho, draw) for n in (8, 16) for d in (2, 3) for rho in (0.1, float("nan")) for draw in (0, 1)]
    seeds = {cell_seed(0, what, "gaussian", *place) for what in ("tokens", "rows") for place in places}
    assert len(seeds) == 2 * len(places)


def test_a_cluster_gives_the_same_bytes() -> None:
    distributed = pytest.importorskip("distributed")
    asked = {"n_tokens": [16, 40], "width": [2, 8], "rho": [0.3], "gamma": GAMMA, "alpha": [0.0, 1.0], "draws": 2}
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
    ) as cluster:
        there = phase("gaussian", causal=[False, True], cluster=cluster.scheduler_address, **asked)
    here = phase("gaussian", causal=[False, True], threads=1, **asked)
    xr.testing.assert_identical(here, there)
    for name, values in here.variables.items():
        assert values.values.tobytes() == there[name].values.tobytes(), name


def test_tokens_from_a_file_are_its_first_rows(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, 3)) + 1
    np.save(tmp_path / "x.npy", x)
    found = phase(tmp_path / "x.npy", [20, 40], gamma=GAMMA, dtype="float64")
    first = phase(x[:20], gamma=GAMMA, dtype="float64")
    for name in ("contraction", "eta", "perplexity", "rho_hat"):
        np.testing.assert_array_equal(found[name].sel(n_tokens=[20]), first[name], err_msg=name)
    assert found.attrs["tokens"].endswith("x.npy") and np.isnan(found["rho"].values).all()


def test_duplicates_are_counted_and_said() -> None:
    x = np.random.default_rng(0).normal(size=(20, 2))
    found = phase(np.vstack([x, 2 * x[:3]]), gamma=GAMMA, dtype="float64")
    assert float(found["duplicates"].squeeze()) == 3 and np.isfinite(found["contraction"]).all()
    assert "3 pairs of tokens have one direction" in found.attrs["verdict"]


def test_wide_gaussian_tokens_cross_over_near_the_threshold() -> None:
    """At d = 256 cosines scatter by 1/16; their mean sets the threshold to a few per cent."""
    found = phase("gaussian", [256], [256], [0.3, 0.5], np.linspace(0, 4, 41), draws=2, measure=["contraction", "eta"])
    for row in transitions(found).to_dict("records"):
        assert row["gamma"] == pytest.approx(row["gamma_c"], rel=0.05)
        assert row["gamma_eta"] == pytest.approx(row["gamma_c"], rel=0.05)


def test_a_cell_is_a_pure_function_of_its_arguments() -> None:
    (cell,) = make_grid("sphere", [12], [3], gamma=GAMMA, draws=1, threads=1).cells()
    first, second = measure_cell(**cell.arguments), measure_cell(**cell.arguments)
    assert {name: a.tobytes() for name, a in first.items()} == {name: a.tobytes() for name, a in second.items()}
    assert all(a.dtype == np.float64 and a.shape in ((), (9,)) for a in first.values())


def test_a_failing_cell_names_itself() -> None:
    with pytest.raises(InputError, match=r"^cell n4-d2-alpha0-full-draw0: "):
        phase(np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [0.5, 0.0]]), gamma=GAMMA)  # one direction alone
