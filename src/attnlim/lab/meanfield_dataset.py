"""From the arrays of every cell to the dataset of a mean-field experiment, with the rates fitted to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from attnlim.core.cells import Arrays
from attnlim.core.checks import InputError
from attnlim.core.intervals import Interval
from attnlim.depth.rates import PUBLISHED_RATES, compare_rates, fit_rate
from attnlim.lab.meanfield_grid import SCHEMA, MeanfieldGrid, limit_key, network_key
from attnlim.lab.meanfield_limit import limits_apart
from attnlim.lab.meanfield_network import DISTANCES

KIND = "attnlim.meanfield"
# distances of heads from their shadows
HEADS = ("coupling", "coupling_average", "wasserstein")
SYSTEM = ("seed", "n_tokens", "width")
NETWORK = (*SYSTEM, "n_layers", "n_heads")
# the distances that the reference's own error is known for, by their names in limits_apart
REFERENCED = {"sup_tokens": "tokens", "sup_both": "both", "rms_tokens": "rms", "end_tokens": "end"}

_ABOUT = {
    "sup_tokens": "sup over nodes, sequences and tokens of |X - X̄|",
    "sup_adjoint": "sup over nodes, sequences and tokens of |a - ā|",
    "sup_both": "sup of (|X - X̄|² + |a - ā|²)^½",
    "sup_continuous": "sup of |X - X̄| over all t, with the staircase of the network",
    "rms_tokens": "sup over nodes of the root mean square of |X - X̄| over sequences and tokens",
    "end_tokens": "root mean square of |X - X̄| at t = 1",
    "coupling": "sup over layers of the root mean square of |θ - ϑ|_F over heads and their shadows",
    "coupling_average": "the same, but the root mean square over layers",
    "wasserstein": "sup over layers of W_2 between heads and shadow heads, exact",
    "end_deviation": "standard deviation of X_1 over initialisations, root mean square over fresh inputs",
    "loss": "mean over training sequences",
    "limit_loss": "loss of the limit",
    "limit_loss_error": "its own error, from two sets of particles",
    "reference_error": "own error of the limit in this distance: particles and nodes together",
    "reference_particles": "from two sets of particles",
    "reference_nodes": "from two numbers of nodes",
    "certificate_update": "largest step of Adam over its bound",
    "certificate_parameter": "largest parameter over the bound of the compact set",
}


def assemble(grid: MeanfieldGrid, results: Mapping[str, Arrays]) -> xr.Dataset:
    """The dataset of a mean-field experiment, without its verdict.

    Args:
        grid: what was asked for.
        results: the arrays of every cell by its key.

    Returns:
        A dataset of kind ``attnlim.meanfield``; distances are not squared, one an initialisation: E is their root mean
        square over ``init``.
    """
    system = grid.system
    inputs = ["fresh", "training", *(["worst"] if grid.adversarial else [])]
    coords: dict[str, Any] = {
        "seed": list(grid.seeds),
        "n_tokens": list(grid.n_tokens),
        "width": list(grid.width),
        "n_layers": list(grid.n_layers),
        "n_heads": list(grid.n_heads),
        "step": list(system.steps),
        "inputs": np.array(inputs, dtype=object),
        "init": list(range(grid.n_inits)),
        "training_step": list(range(system.n_steps + 1)),
        "distance": np.array(list(REFERENCED), dtype=object),
    }
    shape = {name: len(values) for name, values in coords.items()}
    dims = {
        **dict.fromkeys(DISTANCES, (*NETWORK, "step", "inputs", "init")),
        **dict.fromkeys(HEADS, (*NETWORK, "step", "init")),
        "end_deviation": (*NETWORK, "step"),
        "loss": (*NETWORK, "training_step", "init"),
        **dict.fromkeys(("certificate_update", "certificate_parameter"), NETWORK),
        **dict.fromkeys(("limit_loss", "limit_loss_error"), (*SYSTEM, "training_step")),
        **dict.fromkeys(
            ("reference_error", "reference_particles", "reference_nodes"), (*SYSTEM, "distance", "step", "inputs")
        ),
    }
    arrays = {name: np.full([shape[dim] for dim in of], np.nan) for name, of in dims.items()}
    for where, one in zip(np.ndindex(*(shape[name] for name in SYSTEM)), grid.systems(), strict=True):
        limits = [results[limit_key(one, name)] for name in ("a", "b", "few-nodes", "more-nodes")]
        arrays["limit_loss"][where] = limits[0]["loss"]
        arrays["limit_loss_error"][where] = np.abs(limits[0]["loss"] - limits[1]["loss"]) / math.sqrt(2)
        particles, nodes = limits_apart(one, *limits[:2]), limits_apart(one, *limits[2:])
        for i, name in enumerate(REFERENCED.values()):
            own, of_nodes = particles[name] / math.sqrt(2), nodes[name]
            arrays["reference_particles"][where][i, :, :2] = own
            arrays["reference_nodes"][where][i, :, :2] = of_nodes
            arrays["reference_error"][where][i, :, :2] = np.hypot(own, of_nodes)
        for n_layers, n_heads in grid.sizes():
            place = (*where, grid.n_layers.index(n_layers), grid.n_heads.index(n_heads))
            _place(arrays, place, results[network_key(one, n_layers, n_heads)], grid.adversarial)
    variables = {
        name: (dims[name], values, {"long_name": _ABOUT[name], "units": "dimensionless"})
        for name, values in arrays.items()
    }
    dataset = xr.Dataset(variables, coords, _attributes(grid))
    return dataset.assign(rate_variables(dataset))


def _place(arrays: dict[str, np.ndarray], place: tuple[int, ...], found: Arrays, adversarial: bool) -> None:
    for name in DISTANCES:
        arrays[name][place][:, :2] = np.sqrt(found[name])
    if adversarial:
        arrays["sup_tokens"][place][:, 2] = np.sqrt(found["worst"])
    for name in HEADS:
        arrays[name][place] = np.sqrt(found[name])
    arrays["end_deviation"][place] = np.sqrt(found["end_variance"])
    arrays["loss"][place] = found["loss"]
    arrays["certificate_update"][place], arrays["certificate_parameter"][place] = found["certificate"]


def _attributes(grid: MeanfieldGrid) -> dict[str, Any]:
    system = grid.system
    names = (
        "head_dim", "inputs", "law", "optimiser", "lr", "weight_decay", "eps", "target", "n_sequences", "n_fresh",
        "n_particles", "n_nodes",
    )  # fmt: skip
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "verdict": "",
        **{name: getattr(system, name) for name in names},
        "betas": list(system.betas),
        "beta": system.beta if grid.gamma is None else f"{grid.gamma:g} ln N",
        "dtype": "float64",
    }


FIT_NUMBERS = ("c1", "c2", "p", "q")


def rate_variables(dataset: xr.Dataset) -> dict[str, Any]:
    """Fitted exponents and published rates for each limit, step and inputs, by sup over tokens.

    ``fit_NAME``, its ``_low`` and ``_high`` for NAME of c1, c2, p, q, ``fit_residual``, and over the coordinate ``rate``
    (text) ``rate_residual``, ``rate_excess_low`` and ``rate_excess_high``. NaN where the cells are too few.
    """
    dims = (*SYSTEM, "step", "inputs")
    shape = tuple(dataset.sizes[name] for name in dims)
    n_rates = len(PUBLISHED_RATES)
    fits = {f"fit_{name}{end}": np.full(shape, np.nan) for name in FIT_NUMBERS for end in ("", "_low", "_high")}
    fits["fit_residual"] = np.full(shape, np.nan)
    rates = {name: np.full((*shape, n_rates), np.nan) for name in ("residual", "excess_low", "excess_high")}
    for place in np.ndindex(*shape):
        chosen = dataset["sup_tokens"].isel(dict(zip(dims, place, strict=True)))
        layers, heads, errors = size_table(chosen)
        if not (errors.size and (errors > 0).all()):
            continue
        seed = int(dataset["seed"][place[0]])
        try:
            fit = fit_rate(layers, heads, errors, discretisation=with_discretisation(dataset), seed=seed)
            for name in FIT_NUMBERS:
                interval: Interval = getattr(fit, name)
                for end, value in (("", interval.estimate), ("_low", interval.low), ("_high", interval.high)):
                    fits[f"fit_{name}{end}"][place] = value
            fits["fit_residual"][place] = fit.residual
            for i, row in enumerate(compare_rates(layers, heads, errors, seed=seed)):
                rates["residual"][(*place, i)] = row.residual.estimate
                rates["excess_low"][(*place, i)], rates["excess_high"][(*place, i)] = row.excess.low, row.excess.high
        except InputError:
            continue  # too few different cells for this fit
    names = np.array([rate.name for rate in PUBLISHED_RATES], dtype=object)
    return {
        **{name: (dims, values) for name, values in fits.items()},
        **{f"rate_{name}": ((*dims, "rate"), values) for name, values in rates.items()},
        "rate": ("rate", names),
    }


def size_table(values: xr.DataArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """L and H (cells,) and values (init, cells) of the networks that were trained."""
    cells = values.stack(cell=("n_layers", "n_heads")).dropna("cell", how="all").transpose("init", "cell")
    return cells["n_layers"].to_numpy(), cells["n_heads"].to_numpy(), cells.to_numpy()


def with_discretisation(dataset: xr.Dataset) -> bool:
    """Whether a term c1/L can be told from the noise: H has to vary, and L over a factor of 8."""
    layers = dataset["n_layers"].to_numpy()
    return dataset.sizes["n_heads"] > 1 and len(layers) > 2 and layers.max() >= 8 * layers.min()


def root_mean_square(values: xr.DataArray) -> xr.DataArray:
    """E: over initialisations."""
    mean: xr.DataArray = (values**2).mean("init") ** 0.5
    return mean


def cells_table(dataset: xr.Dataset) -> pd.DataFrame:
    """One row a network, step and inputs: E in every distance, its standard error, and the limit's own error."""
    columns: dict[str, xr.DataArray] = {}
    for name in DISTANCES:
        columns[name] = root_mean_square(dataset[name])
        # of the root of a mean of squares, by the delta method
        spread = (dataset[name] ** 2).std("init", ddof=1) / math.sqrt(dataset.sizes["init"])
        columns[f"{name}_standard_error"] = spread / (2 * columns[name])
    for name in HEADS:
        columns[name] = root_mean_square(dataset[name])
    for name in REFERENCED:
        columns[f"{name}_reference_error"] = dataset["reference_error"].sel(distance=name, drop=True)
    index = [*NETWORK, "step", "inputs"]
    table: pd.DataFrame = xr.Dataset(columns).to_dataframe().reset_index()[[*index, *columns]]
    # networks above --max-product were not trained
    return table.dropna(subset=["sup_tokens"]).reset_index(drop=True)


def rates_table(dataset: xr.Dataset) -> pd.DataFrame:
    """One row a limit, step and inputs: the fitted powers in words, the smallest E, the limit's own error, the best of
    the published rates where its lead is beyond chance."""
    rows = []
    smallest = root_mean_square(dataset["sup_tokens"]).min(("n_layers", "n_heads"))
    dims = (*SYSTEM, "step", "inputs")
    for place in np.ndindex(*(dataset.sizes[name] for name in dims)):
        at = dict(zip(dims, place, strict=True))
        one = dataset.isel(at)
        best = one["rate"].to_numpy()[one["rate_excess_high"].to_numpy() < 0]
        rows.append(
            {
                **{name: one[name].item() for name in dims},
                "p": power_words(one, "p"),
                "q": power_words(one, "q"),
                "smallest": float(smallest.isel(at)),
                "reference": float(one["reference_error"].sel(distance="sup_tokens")),
                "best": best[0].removeprefix("L^-1 + ") if len(best) else "–",
            }
        )
    return pd.DataFrame(rows)


def power_words(one: xr.Dataset, name: str) -> str:
    """A fitted power with its interval; a dash where there is none.

    >>> power_words(xr.Dataset({"fit_p": 0.512, "fit_p_low": 0.47, "fit_p_high": 0.551}), "p")
    '−0.51 [−0.55, −0.47]'
    """
    value, low, high = (-float(one[f"fit_{name}{end}"]) for end in ("", "_low", "_high"))
    return "–" if math.isnan(value) else f"{value:.2f} [{high:.2f}, {low:.2f}]".replace("-", "−")
