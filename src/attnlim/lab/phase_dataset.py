"""From the arrays of every cell to the dataset of a phase diagram, with the simplex at the measured cosine beside it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from attnlim.context.half_weight import half_weight_gamma
from attnlim.context.simplex import simplex_step
from attnlim.context.simplex_energy import simplex_jacobian
from attnlim.context.simplex_limits import critical_gamma, simplex_limit
from attnlim.core.cells import Arrays
from attnlim.core.symbols import lookup
from attnlim.lab.phase_cell import CONTRACTION, ETA, FOCUS
from attnlim.lab.phase_grid import SCHEMA, PhaseGrid, cell_key

DIMS = ("n_tokens", "width", "rho", "gamma", "alpha", "causal", "draw")
TOKEN_SET = ("n_tokens", "width", "rho", "draw")
MEASURED = {"contraction": tuple(CONTRACTION), "eta": tuple(ETA), "focus": FOCUS}

# what the notation table has no symbol for: (meaning, unit)
_ABOUT = {
    "contraction_standard_error": (
        "standard error of λ from sampled rows, 0 where all pairs are used",
        "dimensionless",
    ),
    "contraction_error": ("estimate of the rounding error of λ", "dimensionless"),
    "eta_standard_error": ("standard error of η from sampled rows and probes, 0 where it is exact", "dimensionless"),
    "entropy_standard_error": ("standard error of H from sampled rows, 0 where all are in", "nats"),
    "perplexity_standard_error": ("standard error of e^H from sampled rows, 0 where all are in", "tokens"),
    "participation_standard_error": ("standard error of 1/ΣA² from sampled rows, 0 where all are in", "tokens"),
    "q_mean": ("mean squared norm", "dimensionless"),
    "inverse_q_mean": ("mean of 1/|x|²", "dimensionless"),
    "duplicates": ("pairs of one direction, left out of λ", "pairs"),
    "min_cosine_before": ("smallest cosine before the layer", "dimensionless"),
    "contraction_half": ("λ of a simplex at ρ̂ with self weight 1/2, n → ∞", "dimensionless"),
    "contraction_simplex": ("λ of a simplex at ρ̂ and the mean squared norm", "dimensionless"),
    "eta_limit": ("limit of η_A where every token attends to itself, (1 - 1/d) mean(1/|x|²)", "dimensionless"),
    "eta_simplex": ("η of a simplex at ρ̂ and the harmonic mean of the squared norms", "dimensionless"),
    "eta_attention_simplex": ("its part with the weights held", "dimensionless"),
}
_MISSING = {
    "gamma_half": "NaN where there is no real solution: the cosines scatter too much",
    "contraction_half": "NaN for ρ̂ ≤ 0, where another threshold rules",
    "contraction_simplex": "NaN with a causal mask, where rows differ and it has no closed form here",
}


def assemble(grid: PhaseGrid, results: Mapping[str, Arrays]) -> xr.Dataset:
    """The dataset of a phase diagram from the arrays of its cells.

    Args:
        grid: what was asked for.
        results: what :func:`attnlim.lab.phase_cell.measure_cell` gave, by the key of each cell.

    Returns:
        A dataset of kind ``attnlim.phase`` with the seven dimensions ``DIMS``, without the verdict. What was not
        measured is NaN, and says so.
    """
    shape = tuple(len(values) for values in _coordinates(grid).values())
    variables: dict[str, Any] = {}
    for measure, names in MEASURED.items():
        for name in names:
            values = np.full(shape, np.nan)
            if measure in grid.measure:
                # focus is the same for every α, and only the first α's cells have it
                only_first = measure == "focus"
                for place, key in _places(grid, only_first):
                    n, d, r, a, c, k = place
                    values[n, d, r, :, a, c, k] = results[key][name]
                if only_first:
                    values[...] = values[:, :, :, :, :1]
            missing = {} if measure in grid.measure else {"missing": f"{measure} was not asked for"}
            variables[name] = (DIMS, values, {**_about(name), **missing})
    variables |= _token_sets(grid, results)
    dataset = xr.Dataset(
        variables,
        coords=_coordinates(grid),
        attrs={
            "kind": "attnlim.phase", "schema": SCHEMA, "tokens": grid.tokens.name, "verdict": "", "dtype": grid.dtype,
            "seed": grid.seed, "rows": grid.rows, "probes": grid.probes, "measure": ",".join(grid.measure),
            "threads": grid.threads, "device": grid.device,
        },
    )  # fmt: skip
    return dataset.assign(_theory(dataset))


def cells_table(dataset: xr.Dataset) -> pd.DataFrame:
    """One row for every token set, α, mask and γ: where it is in the grid, and everything measured and derived there."""
    frame: pd.DataFrame = dataset.to_dataframe(dim_order=list(DIMS)).reset_index()
    return frame


def _coordinates(grid: PhaseGrid) -> dict[str, Any]:
    return {
        "n_tokens": list(grid.n_tokens),
        "width": list(grid.width),
        "rho": np.array(grid.rho, dtype=np.float64),
        "gamma": np.array(grid.gamma, dtype=np.float64),
        "alpha": np.array(grid.alpha, dtype=np.float64),
        "causal": np.array(grid.causal, dtype=bool),
        "draw": list(range(grid.draws)),
    }


def _places(grid: PhaseGrid, first_alpha: bool = False) -> list[tuple[tuple[int, int, int, int, int, int], str]]:
    """The place of every cell in the arrays (γ left out), with its key."""
    axes = (grid.n_tokens, grid.width, grid.rho, grid.alpha[:1] if first_alpha else grid.alpha, grid.causal)
    places = itertools.product(*(range(len(axis)) for axis in axes), range(grid.draws))
    return [
        ((n, d, r, a, c, k), cell_key(axes[0][n], axes[1][d], axes[2][r], axes[3][a], axes[4][c], k))
        for n, d, r, a, c, k in places
    ]


def _token_sets(grid: PhaseGrid, results: Mapping[str, Arrays]) -> dict[str, Any]:
    names = ("rho_hat", "rho_1", "rho_2", "q_1", "q_2", "q_mean", "inverse_q_mean", "score_variance", "duplicates")
    found = {name: np.full(tuple(len(_coordinates(grid)[dim]) for dim in TOKEN_SET), np.nan) for name in names}
    found["min_cosine_before"] = np.full_like(found["rho_hat"], np.nan)
    for (n, d, r, a, c, k), key in _places(grid):
        if (a, c) == (0, 0):  # every cell of a token set knows it, to the same bits
            for name, values in found.items():
                values[n, d, r, k] = results[key].get(name, np.nan)
    return {name: (TOKEN_SET, values, _about(name)) for name, values in found.items()}


def _theory(dataset: xr.Dataset) -> dict[str, Any]:
    """The closed forms at every token set's own ρ̂."""
    sets = {name: dataset[name].values for name in ("rho_hat", "q_mean", "inverse_q_mean", "score_variance")}
    variables: dict[str, Any] = {}
    for names, dims, formula in (
        (("gamma_c", "gamma_half", "eta_limit"), TOKEN_SET, _of_tokens),
        (("contraction_half",), ("n_tokens", "width", "rho", "alpha", "draw"), _at_half_weight),
        (("contraction_simplex", "eta_simplex", "eta_attention_simplex"), DIMS, _at_gamma),
    ):
        axes = [dataset[dim].values.tolist() for dim in dims]
        shape = tuple(len(axis) for axis in axes)
        values = np.full((len(names), *shape), np.nan)
        for place in np.ndindex(shape):
            at = dict(zip(dims, (axis[i] for axis, i in zip(axes, place, strict=True)), strict=True))
            where = tuple(place[dims.index(dim)] for dim in TOKEN_SET)
            tokens = {name: float(of_sets[where]) for name, of_sets in sets.items()}
            # tokens that sum to 0, or that all agree, are no simplex
            if -1 / (at["n_tokens"] - 1) < tokens["rho_hat"] < 1:
                values[(slice(None), *place)] = formula(at, tokens)
        variables |= {name: (dims, part, _about(name)) for name, part in zip(names, values, strict=True)}
    return variables


def _of_tokens(at: Mapping[str, Any], tokens: Mapping[str, float]) -> tuple[float, ...]:
    half = half_weight_gamma(at["n_tokens"], tokens["rho_hat"], tokens["score_variance"])
    return critical_gamma(tokens["rho_hat"]), half, (at["width"] - 1) / at["width"] * tokens["inverse_q_mean"]


def _at_half_weight(at: Mapping[str, Any], tokens: Mapping[str, float]) -> tuple[float, ...]:
    rho = tokens["rho_hat"]
    if rho <= 0:
        return (math.nan,)
    return (simplex_limit(rho, phase="critical", q=tokens["q_mean"], alpha=at["alpha"]).one_minus_rho / (1 - rho),)


def _at_gamma(at: Mapping[str, Any], tokens: Mapping[str, float]) -> tuple[float, ...]:
    n, rho, gamma, alpha = at["n_tokens"], tokens["rho_hat"], at["gamma"], at["alpha"]
    contraction = math.nan
    if not at["causal"]:
        contraction = simplex_step(n, rho, gamma, q=tokens["q_mean"], alpha=alpha).one_minus_rho / (1 - rho)
    # the harmonic mean makes the limit above the threshold that of the tokens themselves
    q = 1 / tokens["inverse_q_mean"]
    energy = simplex_jacobian(n, at["width"], rho, gamma, q=q, alpha=alpha, causal=at["causal"])
    return contraction, energy.total, energy.attention


def _about(name: str) -> dict[str, str]:
    missing = {"missing": _MISSING[name]} if name in _MISSING else {}
    if name in _ABOUT:
        meaning, unit = _ABOUT[name]
        return {"long_name": meaning, "units": unit, **missing}
    symbol = lookup("context", name)
    return {"long_name": symbol.meaning, "symbol": symbol.symbol, "units": symbol.unit, **missing}
