"""The numbers that the page of a mean-field experiment draws, as plain lists for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from attnlim.report.json_lists import listed
from attnlim.report.meanfield_reading import DISTANCES, NETWORK, SYSTEM, errors, reference

_CHOICES = (*SYSTEM, "step", "inputs")


def page_data(dataset: xr.Dataset) -> dict[str, Any]:
    """Everything that the page draws from ``dataset``, ready for JSON.

    Args:
        dataset: an experiment that passed :func:`attnlim.report.meanfield_reading.checked`.

    Returns:
        Nested dicts and lists of strings, numbers and None. Numbers keep five significant digits, NaN is None. Errors
        are (seed, n_tokens, width, step, inputs, n_layers, n_heads) lists, what belongs to a limit is the same without
        the last two, rates have one more for the rate.
    """
    known = [name for name in DISTANCES if bool(np.isfinite(dataset[name]).any())]
    return {
        "axes": {name: listed(dataset[name].to_numpy()) for name in (*NETWORK, "step")},
        "inputs": [str(name) for name in dataset["inputs"].to_numpy()],
        "distances": [_described(dataset, name) for name in known],
        "errors": {name: _errors(dataset[name]) for name in known},
        "reference": {name: _ordered(reference(dataset, name)) for name in known},
        "fits": {
            name: {
                end or "estimate": _ordered(dataset[f"fit_{name}{end and '_' + end}"]) for end in ("", "low", "high")
            }
            for name in ("c1", "c2", "p", "q")
        },
        "rates": {
            "names": [str(name) for name in dataset["rate"].to_numpy()],
            "residual": _ordered(dataset["rate_residual"], "rate"),
            "excess_high": _ordered(dataset["rate_excess_high"], "rate"),
        },
        "bound": listed(dataset["certificate_update"].max(("n_layers", "n_heads")).transpose(*SYSTEM).to_numpy()),
    }


def _described(dataset: xr.Dataset, name: str) -> dict[str, str]:
    return {"name": name, "words": DISTANCES[name], "about": str(dataset[name].attrs.get("long_name", DISTANCES[name]))}


def _errors(values: xr.DataArray) -> dict[str, Any]:
    found = errors(values)
    return {
        name: _ordered(found[name], "n_layers", "n_heads") for name in ("estimate", "standard_error", "low", "high")
    }


def _ordered(values: xr.DataArray, *last: str) -> Any:
    return listed(values.transpose(*_CHOICES, *last).to_numpy())
