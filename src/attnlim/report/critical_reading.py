"""The dataset of ``attnlim reproduce critical``: one flat dataset of kind ``attnlim.reproduce.critical``.

Attributes: ``kind``, ``verdict`` (text, a paragraph a line), ``seed``, ``dtype``, ``tokens`` (what the panels with a
width are drawn from), ``grid_n_tokens``, ``partition_rho``, ``law_rho_0``, ``law_width``. Text is stored as arrays of
Python strings (dtype object), which Zarr keeps as variable-length text. NaN is what is not known. Axes in brackets.

The grid of figures 1 and 2, a panel for the simplex, which repeats its numbers over ``draw``, and for each width:

- coordinates ``panel`` (text, the panel's title: "simplex", "d = 512"), ``rho``, ``gamma``, ``draw``
- ``grid_contraction``, ``grid_eta_attention`` [panel, rho, gamma, draw]: λ and the attention part of η
- ``grid_rho_hat``, ``grid_gamma_c``, ``grid_gamma_half``, ``grid_eta_limit`` [panel, rho, draw]: the realised ρ̂,
  1/(1-ρ̂), the half-weight point, and the supercritical limit of the attention part, (1-1/d)·mean(1/|x|²)
- ``grid_forward``, ``grid_backward`` [panel, rho, draw], may be absent: the crossings as the claims take them, by a
  cubic spline through the points of the grid

Finite n, the sheet that follows it:

- coordinates ``log10_n`` (2 to 300), ``window_t``; ``collapse_self_weight`` [log10_n, window_t]: p at
  t = (γ(1-ρ)-1) ln n on a simplex
- coordinate ``simulated_n_tokens``, dimension ``simulated_point``; ``simulated_t``, ``simulated_self_weight`` and
  ``simulated_self_weight_se`` [simulated_n_tokens, simulated_point]: the same on drawn tokens at their ρ̂
- coordinate ``partition_gamma``; ``partition_ratio`` [log10_n, partition_gamma]: ln Z/ln n at ``partition_rho``;
  ``partition_limit`` [partition_gamma]: max(γ, 1+ργ)
- coordinates ``law`` (text, its legend: "β constant", "β ∝ √ln n"), ``law_log10_n``; ``law_rho``, ``law_eta``,
  ``law_entropy`` (nats) and ``law_gamma`` [law, law_log10_n]: ρ', η, H and β/ln n of the simplex with ρ = ``law_rho_0``

The claims, on ``claim``: see :mod:`attnlim.report.claim_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from attnlim.core.checks import InputError
from attnlim.report.claim_rows import CLAIM_SCHEMA
from attnlim.report.phase_reading import crossing

KIND = "attnlim.reproduce.critical"
_GRID = {
    **dict.fromkeys(("grid_contraction", "grid_eta_attention"), ("panel", "rho", "gamma", "draw")),
    **dict.fromkeys(("grid_rho_hat", "grid_gamma_c", "grid_gamma_half", "grid_eta_limit"), ("panel", "rho", "draw")),
}
CROSSINGS = ("grid_forward", "grid_backward")
_FINITE = {
    "collapse_self_weight": ("log10_n", "window_t"),
    **dict.fromkeys(
        ("simulated_t", "simulated_self_weight", "simulated_self_weight_se"), ("simulated_n_tokens", "simulated_point")
    ),
    "partition_ratio": ("log10_n", "partition_gamma"),
    "partition_limit": ("partition_gamma",),
    **dict.fromkeys(("law_rho", "law_eta", "law_entropy", "law_gamma"), ("law", "law_log10_n")),
}
_SCHEMA = {**_GRID, **_FINITE, **CLAIM_SCHEMA}
_ATTRIBUTES = ("verdict", "seed", "dtype", "tokens", "grid_n_tokens", "partition_rho", "law_rho_0", "law_width")

Floats = NDArray[np.float64]


class Column(NamedTuple):
    """One column of figures 1 and 2: means over draws, and the curves over ρ."""

    title: str
    contraction: Floats  # (rho, gamma)
    eta_attention: Floats  # (rho, gamma)
    curves: dict[str, Floats]  # each (rho,): gamma_c, gamma_half, forward, backward
    excess: dict[str, Floats]  # forward and backward over gamma_c, less 1: each (rho,), a mean over draws


def checked(dataset: xr.Dataset) -> xr.Dataset:
    """``dataset`` if it holds all that the sheets and the table of claims need.

    Raises:
        InputError: a missing variable, other dimensions than documented, or a missing attribute.
    """
    schema = _SCHEMA | (dict.fromkeys(CROSSINGS, ("panel", "rho", "draw")) if has_crossings(dataset) else {})
    wrong = [name for name, dims in schema.items() if name not in dataset or set(dataset[name].dims) != set(dims)]
    wrong += [f"the attribute {name}" for name in _ATTRIBUTES if name not in dataset.attrs]
    if wrong:
        raise InputError(
            f"the reproduction lacks, or has with other dimensions, {', '.join(wrong)}; "
            "run `attnlim reproduce critical` again"
        )
    return dataset


def has_crossings(dataset: xr.Dataset) -> bool:
    """Whether the crossings are stored; if not, they are read from the grid, linear between its points."""
    return any(name in dataset for name in CROSSINGS)


def columns(dataset: xr.Dataset) -> list[Column]:
    """What the columns of figures 1 and 2 show.

    The forward curve is where the measured λ first rises through 1/(1+3ρ̂), the backward one where the attention part
    of η first rises through a quarter of its limit; both are NaN where that does not happen inside the grid. They are
    taken from the draws, each at its own level and set beside its own γ_c: a mean over all draws, or NaN. Where the
    dataset holds them, they are the ones that its claims were judged by.
    """
    stored = CROSSINGS if has_crossings(dataset) else ()
    dataset = dataset[[*_GRID, *stored]].sortby(["rho", "gamma"])
    return [_column(dataset.isel(panel=index)) for index in range(dataset.sizes["panel"])]


def _column(panel: xr.Dataset) -> Column:
    measured = {"forward": panel["grid_contraction"], "backward": panel["grid_eta_attention"]}
    means = {key: values.transpose("rho", "draw", "gamma").mean("draw").to_numpy() for key, values in measured.items()}
    thresholds = panel["grid_gamma_c"].transpose("rho", "draw").to_numpy()
    # over all draws or not at all: those that have a solution are not like the others
    curves = {name: panel[f"grid_{name}"].mean("draw", skipna=False).to_numpy() for name in ("gamma_c", "gamma_half")}
    excess = {}
    for key, each in _crossings(panel, measured).items():
        curves[key], excess[key] = each.mean(axis=-1), (each / thresholds - 1).mean(axis=-1)
    return Column(str(panel["panel"].item()), means["forward"], means["backward"], curves, excess)


def _crossings(panel: xr.Dataset, measured: Mapping[str, xr.DataArray]) -> dict[str, Floats]:
    """(rho, draw) for either transition, NaN where there is none: as stored, else linear between the grid's points."""
    if has_crossings(panel):
        return {key: panel[f"grid_{key}"].transpose("rho", "draw").to_numpy() for key in measured}
    gamma = panel["gamma"].to_numpy().astype(float)
    levels = {"forward": 1 / (1 + 3 * panel["grid_rho_hat"]), "backward": panel["grid_eta_limit"] / 4}
    return {
        key: crossing(
            gamma,
            values.transpose("rho", "draw", "gamma").to_numpy(),
            levels[key].transpose("rho", "draw").to_numpy(),
        )
        for key, values in measured.items()
    }


def facts(dataset: xr.Dataset) -> str:
    """One line on what was measured."""
    attrs, draws = dataset.attrs, dataset.sizes["draw"]
    return (
        f"n = {int(attrs['grid_n_tokens']):,} · tokens: {attrs['tokens']} · {draws} draw{'s' if draws > 1 else ''} "
        f"· seed {attrs['seed']} · {attrs['dtype']}"
    )
