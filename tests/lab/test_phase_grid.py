"""The grid of a phase diagram: what it holds, what it refuses before any work, and that a larger one holds the same cells."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnlim.context.samplers import SAMPLERS, TAKES_RHO
from attnlim.core.checks import InputError
from attnlim.lab.phase_grid import DEFAULT_GAMMA, DEFAULT_RHO, PhaseGrid, make_grid
from attnlim.lab.token_sources import SAMPLER_NAMES, WITH_RHO, token_source


def keys(grid: PhaseGrid) -> list[str]:
    return [cell.key for cell in grid.cells()]


def test_the_names_of_samplers_are_those_of_the_samplers() -> None:
    assert set(SAMPLER_NAMES) == set(SAMPLERS) and set(WITH_RHO) == set(TAKES_RHO)


def test_one_cell_for_each_token_set_factor_and_mask_with_every_gamma() -> None:
    grid = make_grid(
        "gaussian", [64, 32], [2, 8], [0.5, 0.1, 0.5], [2.0, 1.0], [0.5, 0.0], [True, False], draws=3, threads=1
    )
    cells = grid.cells()
    assert len(set(keys(grid))) == len(cells) == 2 * 2 * 2 * 2 * 2 * 3
    assert grid.rho == (0.1, 0.5) and grid.gamma == (1.0, 2.0) and grid.causal == (False, True)
    assert all(cell.arguments["gamma"] == (1.0, 2.0) for cell in cells)
    assert [cell.cost for cell in cells] == sorted(cell.cost for cell in cells)
    assert "n64-d8-rho0.1-alpha0.5-causal-draw2" in keys(grid)
    # focus knows no α
    assert {cell.arguments["alpha"] for cell in cells if "focus" in cell.arguments["measure"]} == {0.0}


def test_a_larger_grid_holds_the_cells_of_a_smaller_one() -> None:
    """Same names and same arguments, so the same numbers: nothing depends on a place in the grid."""
    small = make_grid("gaussian", [32], [4], [0.3], [1.0], draws=1, threads=1)
    large = make_grid("gaussian", [16, 32, 64], [2, 4], [0.1, 0.3], [1.0], draws=2, threads=1)
    (one,) = small.cells()
    (same,) = [cell for cell in large.cells() if cell.key == one.key]
    assert one.arguments == same.arguments


def test_defaults() -> None:
    grid = make_grid()
    assert grid.rho == DEFAULT_RHO and grid.gamma == DEFAULT_GAMMA and grid.gamma[-1] == 4.0
    assert grid.measure == ("contraction", "eta", "focus") and grid.threads == torch.get_num_threads()
    simplex = make_grid("simplex", [8, 16])
    assert simplex.width == (16,)
    half = make_grid("half-sphere", [8])
    assert len(half.rho) == 1 and math.isnan(half.rho[0]) and "rho" not in keys(half)[0]
    assert make_grid("sphere", [8], rows=4).measure == grid.measure


def test_a_device_of_other_machines_is_not_tried_here() -> None:
    assert make_grid("sphere", [8], device="cuda:99", elsewhere=True).device == "cuda:99"
    assert make_grid("sphere", [8], elsewhere=True).device == "cpu"


def test_tokens_of_ones_own(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    of_file = make_grid(tmp_path / "x.npy", [10, 20])
    assert of_file.width == (3,) and of_file.n_tokens == (10, 20)
    np.testing.assert_array_equal(of_file.given[10, 0], x[:10])
    of_array = make_grid(torch.from_numpy(x))
    assert of_array.n_tokens == (20,)
    np.testing.assert_array_equal(of_array.given[20, 0], x)
    changed = make_grid(np.where(np.arange(20)[:, None] == 3, x + 1, x))
    assert of_array.identity()["tokens_sha256"] != changed.identity()["tokens_sha256"]


def test_identity_is_plain_json_and_knows_what_decides_the_numbers() -> None:
    import json

    one = make_grid("half-sphere", [8], seed=1, threads=1)
    assert json.loads(json.dumps(one.identity())) == one.identity()  # the NaN of ρ would not be equal to itself
    for change in ({"seed": 2}, {"dtype": "float64"}, {"threads": 2}, {"draws": 2}, {"probes": 3}, {"alpha": [1.0]}):
        arguments: dict[str, Any] = {"seed": 1, "threads": 1} | change
        assert make_grid("half-sphere", [8], **arguments).identity() != one.identity(), change


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "one token": ({"n_tokens": [1]}, "--n must be a whole number of at least 2, got 1"),
    "no width": ({"width": [0]}, "--d must be a whole number of at least 1, got 0"),
    "no n": ({"n_tokens": []}, "--n needs at least one value, got none"),
    "negative gamma": ({"gamma": [-0.1]}, "--gamma must be a finite number of at least 0, got -0.1"),
    "gamma NaN": ({"gamma": [math.nan]}, "--gamma must be a finite number of at least 0, got nan"),
    "gamma beyond float32": ({"gamma": [1e38]}, "--gamma must be a number in \\[0, .*β is a float32"),
    "alpha": ({"alpha": [math.inf]}, "--alpha must be a finite number of at least 0, got inf"),
    "rho 1": ({"rho": [1.0]}, "--rho must be a number in .*got 1.0; gaussian tokens share a part"),
    "rho below 0": ({"rho": [-0.1]}, "--rho must be a number in .*got -0.1; gaussian"),
    "rho NaN": ({"rho": [math.nan]}, "--rho must be .*got nan"),
    "rho of a simplex": (
        {"tokens": "simplex", "n_tokens": [5], "rho": [-0.3]},
        "rho must be .*between -1/\\(n-1\\) and 1",
    ),
    "simplex in too few dimensions": (
        {"tokens": "simplex", "n_tokens": [16], "width": [8]},
        "--d must be a whole number of at least 16, got 8; a simplex of 16 tokens spans as many dimensions",
    ),
    "draws of a simplex": ({"tokens": "simplex", "draws": 2}, "simplex tokens hold no chance, so --draws must be 1"),
    "rho of a half-sphere": ({"tokens": "half-sphere", "rho": [0.5]}, "half-sphere tokens take no --rho"),
    "draws": ({"draws": 0}, "--draws must be a whole number of at least 1, got 0"),
    "seed": ({"seed": -1}, "--seed must be a whole number of at least 0, got -1"),
    "measure": ({"measure": ["lambda"]}, "--measure must be one of contraction, eta, focus, got 'lambda'"),
    "nothing to measure": ({"measure": []}, "--measure needs at least one of contraction, eta, focus"),
    "rows": ({"rows": 2}, "--rows must be a whole number of at least 3, got 2"),
    "probes": ({"probes": 1}, "--probes must be a whole number of at least 2, got 1"),
    "threads": ({"threads": 0}, "--threads must be a whole number of at least 1, got 0"),
    "dtype": ({"dtype": "float16"}, "--dtype must be one of float32, float64, got 'float16'"),
    "device": ({"device": "cuda:99"}, "--device cuda:99 cannot be used here"),
    "unknown tokens": ({"tokens": "ball"}, "--tokens must be one of simplex, gaussian, half-sphere, sphere, a .npy"),
    "missing file": ({"tokens": "missing.npy"}, "missing.npy does not exist"),
    "width of a file": ({"tokens": "missing.npy", "width": [4]}, "--d follows from the tokens of missing.npy"),
    "text without a model": ({"text": "book.txt"}, "--text is for a model to read, got it with --tokens gaussian"),
    "too few tokens": ({"tokens": np.eye(3), "n_tokens": [4]}, "tensor holds 3 tokens, got --n 4; use 3 or fewer"),
    "tokens without a direction": ({"tokens": np.zeros((3, 2))}, "zero norm at token 0"),
    "no such layer": ({"tokens": "smollm2:last"}, "hidden states are named as MODEL:LAYER"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    arguments, phrase = REFUSED[case]
    with pytest.raises(InputError, match=phrase) as caught:
        make_grid(**arguments)
    assert "\n" not in str(caught.value)


def test_numbers_are_checked_before_a_model_is_loaded() -> None:
    with pytest.raises(InputError, match="--gamma"):
        make_grid("no/such/model:3", gamma=[-1.0])
    assert token_source("no/such/model:3").kind == "model"
