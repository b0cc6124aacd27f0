"""Small mean-field experiments with every variable of their schema, from an exact rate with noise on top."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xarray

VERDICT = (
    "The distance from the limit falls as L^−0.50 [0.47, 0.53] H^−0.50 [0.48, 0.52] after 4 steps.\n"
    "Networks of equal L·H: all 3 products coincide."
)
C1, C2, P, Q = 0.4, 2.0, 0.5, 0.5
DISTANCES = ("sup_tokens", "sup_adjoint", "sup_both", "sup_continuous", "rms_tokens", "end_tokens")
RATES = ("L^-1 + H^-1/2", "L^-1 + (log(L+1)/H)^1/2", "L^-1 + L^-1/3 H^-1/2", "L^-1 + (LH)^-1/2")
SYSTEM = ("seed", "n_tokens", "width")
NETWORK = (*SYSTEM, "n_layers", "n_heads")


def meanfield_dataset(
    n_layers: tuple[int, ...] = (4, 16, 64),
    n_heads: tuple[int, ...] = (1, 4),
    step: tuple[int, ...] = (0, 1, 4),
    n_tokens: tuple[int, ...] = (8,),
    width: tuple[int, ...] = (4,),
    seed: tuple[int, ...] = (0,),
    *,
    n_inits: int = 8,
    worst: bool = False,
    max_product: float = math.inf,
    fitted: bool = True,
    **attrs: Any,
) -> xarray.Dataset:
    """E² = (C1/L)² + (C2 L^-P H^-Q)² times 1 + step/8, which does not depend on N or d; the worst inputs are twice as bad."""
    rng = np.random.default_rng(7)
    training_step = tuple(range(max(step) + 1))
    inputs = ("fresh", "training", *(("worst",) if worst else ()))
    coords: dict[str, Any] = {
        "seed": list(seed), "n_tokens": list(n_tokens), "width": list(width), "n_layers": list(n_layers),
        "n_heads": list(n_heads), "step": list(step), "inputs": np.array(inputs, dtype=object),
        "init": list(range(n_inits)), "training_step": list(training_step),
        "distance": np.array(("sup_tokens", "sup_both", "rms_tokens", "end_tokens"), dtype=object),
        "rate": np.array(RATES, dtype=object),
    }  # fmt: skip
    size = {name: len(values) for name, values in coords.items()}

    def array(values: Any, dims: tuple[str, ...]) -> xarray.DataArray:
        whole = np.broadcast_to(values, [size[name] for name in dims]).astype(float)
        return xarray.DataArray(whole, dims=dims, coords={name: coords[name] for name in dims})

    layers, heads, steps = (xarray.DataArray(coords[name], dims=name) for name in ("n_layers", "n_heads", "step"))
    rate = np.hypot(C1 / layers, C2 * layers**-P * heads**-Q).where(layers * heads <= max_product)
    factor = xarray.DataArray([1.0, 1.0, 2.0][: len(inputs)], dims="inputs")
    variables: dict[str, xarray.DataArray] = {}
    dims = (*NETWORK, "step", "inputs", "init")
    for index, name in enumerate(DISTANCES):
        noise = array(np.exp(0.1 * rng.standard_normal([size[dim] for dim in dims])), dims)
        variables[name] = ((1 + index) * rate * factor * (1 + steps / 8) * noise).transpose(*dims)
        if worst and index:
            variables[name] = variables[name].where(noise["inputs"] != "worst")
        variables[name].attrs = {"long_name": f"about {name}", "units": "dimensionless"}
    noise = array(np.exp(0.1 * rng.standard_normal([*(size[dim] for dim in (*NETWORK, "step")), n_inits])),
                  (*NETWORK, "step", "init"))  # fmt: skip
    variables["coupling"] = (rate * steps * noise).transpose(*noise.dims)
    variables["wasserstein"] = 0.9 * variables["coupling"]
    limit = 0.2 * np.exp(-np.array(training_step, dtype=float))
    variables["limit_loss"] = array(limit, (*SYSTEM, "training_step"))
    variables["limit_loss_error"] = array(0.02 * limit, (*SYSTEM, "training_step"))
    falls = variables["limit_loss"] * (1 + rate)
    variables["loss"] = (falls * noise.isel(step=0, drop=True)).transpose(*NETWORK, "training_step", "init")
    own = 0.02 * np.array(step, dtype=float)[:, None] * np.array([1.0, 1.0, math.nan][: len(inputs)])
    variables["reference_error"] = array(own, (*SYSTEM, "distance", "step", "inputs"))
    variables["certificate_update"] = array(0.999, NETWORK)
    fit = (*SYSTEM, "step", "inputs")
    grown = ((1 + steps / 8) * factor).to_numpy() if fitted else math.nan
    for name, value in (("c1", C1 * grown), ("c2", C2 * grown), ("p", P + 0 * grown), ("q", Q + 0 * grown)):
        for end, shift in (("", 0.0), ("_low", -0.03), ("_high", 0.03)):
            variables[f"fit_{name}{end}"] = array(value + shift, fit)
    residual = np.array([0.25, 0.28, 0.14, 0.05])
    variables["rate_residual"] = array(residual if fitted else math.nan, (*fit, "rate"))
    variables["rate_excess_high"] = array(np.array([0.2, 0.2, 0.1, -0.04]) if fitted else math.nan, (*fit, "rate"))
    defaults = {
        "kind": "attnlim.meanfield", "schema": 1, "verdict": VERDICT, "dtype": "float64", "head_dim": 4, "beta": 1.0,
        "inputs": "gaussian", "law": "xavier", "optimiser": "adamw", "lr": 0.1, "weight_decay": 0.1, "n_sequences": 4,
        "n_fresh": 16, "n_particles": 1024, "n_nodes": 4,
    }  # fmt: skip
    return xarray.Dataset(
        {name: one.drop_vars(one.coords) for name, one in variables.items()}, coords, defaults | attrs
    )
