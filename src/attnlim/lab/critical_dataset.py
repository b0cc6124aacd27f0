"""From the arrays of every cell to the dataset of a reproduction, without its claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from attnlim.context.half_weight import half_weight_gamma
from attnlim.core.cells import Arrays
from attnlim.lab.critical_controls import EXAMPLES
from attnlim.lab.critical_curves import RHO as CURVE_RHO
from attnlim.lab.critical_curves import curve_variables
from attnlim.lab.critical_planes import panel_titles, plane_variables
from attnlim.lab.critical_size import Size
from attnlim.lab.critical_tasks import (
    CHAIN_BETA,
    CHAINS,
    REDUCED_GAMMA,
    RHO,
    SAMPLERS,
    key,
)

KIND = "attnlim.reproduce.critical"

Axes = Mapping[str, Sequence[Any]]

# the parts that are gathered as they are: by what their cells differ, in the order of their names, and what is inside
EVIDENCE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "frozen": (("frozen_width", "draw"), ("series_n",)),
    "plateau": (("plateau_width", "draw"), ("series_n",)),
    "focus": (("focus_width", "draw"), ("reduced_gamma", "series_n")),
    "example": (("example",), ()),
    "bounds": (("sampler", "bounds_width", "bounds_draw"), ("series_n",)),
    "scores": ((), ("score_noise",)),
    "independent": (("independent_log10_n",), ()),
    "content": (("chain", "draw"), ("chain_beta",)),
    "layers": ((), ("layer",)),
}


def assemble(size: Size, seed: int, results: Mapping[str, Arrays]) -> xr.Dataset:
    """The dataset that :mod:`attnlim.report.critical_reading` describes, with all evidence and no claims yet.

    Args:
        size: what was measured.
        seed: of the tokens.
        results: the arrays of every cell by its key.
    """
    axes = _axes(size)
    curves, coordinates = curve_variables()
    variables = {**plane_variables(size, results), **curves, **_window(size, results)}
    for part, (outer, inner) in EVIDENCE.items():
        variables |= _gathered(results, part, {name: axes[name] for name in outer}, inner)
    dataset = xr.Dataset(
        variables,
        coords={
            "panel": np.array(panel_titles(size), dtype=object),
            "rho": np.array(size.rho),
            "gamma": np.array(size.gamma),
            **coordinates,
            "simulated_n_tokens": np.array(size.window_n, dtype=np.float64),
            "series_n": list(size.series_n),
            "reduced_gamma": np.array(REDUCED_GAMMA),
            "score_noise": [0.0, 1.0],
            "chain_beta": np.array(CHAIN_BETA),
            **{
                name: np.array(values, dtype=object if isinstance(values[0], str) else None)
                for name, values in axes.items()
            },
        },
        attrs={
            "kind": KIND,
            "verdict": "",
            "size": size.name,
            "seed": seed,
            "dtype": "float32",
            "tokens": "gaussian",
            "grid_n_tokens": size.n_tokens,
            "partition_rho": CURVE_RHO,
            "law_rho_0": CURVE_RHO,
            "law_width": "n",
            "token_rho": RHO,
            "window_width": size.window_width,
            "pair_n_tokens": size.pair_n,
            "chain_n_tokens": size.chain_n,
        },
    )
    return dataset.assign_coords(layer=range(dataset.sizes["layer"]))


def _axes(size: Size) -> dict[str, Sequence[Any]]:
    """What the cells of a part differ by."""
    wide, middle, narrow = size.widths
    return {
        "draw": range(size.draws),
        "frozen_width": (wide, middle),
        "plateau_width": (middle, narrow),
        "focus_width": (middle, narrow),
        "example": tuple(EXAMPLES),
        "sampler": SAMPLERS,
        "bounds_width": size.widths,
        "bounds_draw": range(size.bounds_draws),
        "independent_log10_n": size.independent_log10_n,
        "chain": CHAINS,
    }


def _gathered(results: Mapping[str, Arrays], part: str, axes: Axes, inner: tuple[str, ...]) -> dict[str, Any]:
    """Every array of a part, with a dimension for each axis by which its cells differ, then those inside a cell.

    A result that is a number has no inner dimension.
    """
    lengths = tuple(len(values) for values in axes.values())
    found: dict[str, np.ndarray] = {}
    for place in np.ndindex(lengths):
        told = {name: values[i] for (name, values), i in zip(axes.items(), place, strict=True)}
        for name, values in results[key(part, **told)].items():
            found.setdefault(name, np.full((*lengths, *np.shape(values)), np.nan))[place] = values
    return {
        f"{part}_{name}": ((*axes, *inner) if values.ndim > len(axes) else tuple(axes), values)
        for name, values in found.items()
    }


def _window(size: Size, results: Mapping[str, Arrays]) -> dict[str, Any]:
    """Self weights of drawn tokens: of every draw, and their means for the sheet with the standard error over draws."""
    axes = {"simulated_n_tokens": size.window_n, "draw": range(size.draws)}
    lengths = (len(size.window_n), size.draws)
    first = results[key("window", n_tokens=size.window_n[0], width=size.window_width, draw=0)]
    found = {name: np.full((*lengths, *np.shape(values)), np.nan) for name, values in first.items()}
    half = np.full(lengths, np.nan)
    for i, n in enumerate(size.window_n):
        for k in range(size.draws):
            arrays = results[key("window", n_tokens=n, width=size.window_width, draw=k)]
            for name, values in arrays.items():
                found[name][i, k] = values
            half[i, k] = half_weight_gamma(n, float(arrays["rho_hat"]), float(arrays["score_variance"]))
    points = ("simulated_n_tokens", "simulated_point")
    many = size.draws > 1
    error = found["self_weight"].std(axis=1, ddof=1) / np.sqrt(size.draws) if many else found["standard_error"][:, 0]
    return {
        "simulated_t": (points, found["t"].mean(axis=1)),
        "simulated_self_weight": (points, found["self_weight"].mean(axis=1)),
        "simulated_self_weight_se": (points, error),
        **{
            f"drawn_{name}": ((*axes, "simulated_point"), found[name])
            for name in ("t", "self_weight", "standard_error")
        },
        **{f"drawn_{name}": (tuple(axes), found[name]) for name in ("rho_hat", "score_variance")},
        "drawn_gamma_half": (tuple(axes), half),
    }
