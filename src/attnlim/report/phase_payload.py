"""The numbers that the page of a phase diagram draws, as plain lists for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from attnlim.core.checks import extra
from attnlim.core.symbols import lookup
from attnlim.report.json_lists import listed, rounded
from attnlim.report.phase_reading import TOKENS, known, summary
from attnlim.report.planes import OVER, OVER_FROM, palette, scale_top
from attnlim.report.quantities import QUANTITIES, Quantity

_CHOICES = ("n_tokens", "width", "alpha", "causal")
_SHADES = 16


def page_data(dataset: xr.Dataset) -> dict[str, Any]:
    """Everything that the page draws from ``dataset``, ready for JSON.

    Args:
        dataset: a phase diagram that passed :func:`attnlim.report.phase_reading.checked`.

    Returns:
        Nested dicts and lists of strings, numbers and None. Numbers keep five significant digits, NaN is None.
        Measured values are (n_tokens, width, alpha, causal, rho, gamma) lists, crossings the same without gamma,
        what belongs to a set of tokens is (n_tokens, width, rho).
    """
    means = summary(dataset)
    there = [quantity for name, quantity in QUANTITIES.items() if known(means, name)]
    sets = [name for name in TOKENS if name in means]
    shades = extra("matplotlib.colors", "report").to_hex
    return {
        "axes": {name: listed(means[name].to_numpy()) for name in ("n_tokens", "width", "rho", "gamma", "alpha")},
        "masks": [bool(value) for value in means["causal"].to_numpy()],
        "draws": dataset.sizes["draw"],
        "palette": [shades(palette()(place)) for place in np.linspace(0, 1, _SHADES)],
        "over": {"colour": OVER, "factor": OVER_FROM},
        "quantities": [_described(quantity, means) for quantity in there],
        "values": {quantity.name: _cells(means, quantity.name) for quantity in there},
        "errors": {
            quantity.name: _cells(means, f"{quantity.name}_se")
            for quantity in there
            if known(means, f"{quantity.name}_se")
        },
        "simplex": {
            quantity.name: _cells(means, f"{quantity.name}_simplex")
            for quantity in there
            if known(means, f"{quantity.name}_simplex")
        },
        "crossings": {name: _cells(means, name, "rho") for name in ("forward", "backward")},
        "crossing_errors": {name: _cells(means, f"{name}_se", "rho") for name in ("forward", "backward")},
        "levels": {name: _cells(means, f"{name}_level", "rho") for name in ("forward", "backward")},
        "sets": {name: _sets(means, name) for name in (*sets, "window_low", "window_high")},
        "set_errors": {name: _sets(means, f"{name}_se") for name in sets if known(means, f"{name}_se")},
        "duplicates": _sets(means, "duplicates") if "duplicates" in means else None,
        "symbols": {name: lookup("context", name).symbol for name in sets},
    }


def _described(quantity: Quantity, means: xr.Dataset) -> dict[str, Any]:
    # λ keeps its end; the parts of η follow the tokens' norm
    top = (
        1.0 if quantity.name in ("contraction", "fraction_contracted") else scale_top([means[quantity.name].to_numpy()])
    )
    return {
        "name": quantity.name,
        "words": quantity.words,
        "symbol": quantity.symbol,
        "about": quantity.about,
        "top": rounded(top) if quantity.bounded else None,
        "crossing": quantity.crossing,
        "logarithmic": quantity.logarithmic,
    }


def _cells(means: xr.Dataset, name: str, *last: str) -> Any:
    dims = (*_CHOICES, *(last or ("rho", "gamma")))
    values = means[name]
    values = values.expand_dims({dim: means[dim] for dim in dims if dim not in values.dims})
    return listed(values.transpose(*dims).to_numpy())


def _sets(means: xr.Dataset, name: str) -> Any:
    return listed(means[name].transpose("n_tokens", "width", "rho").to_numpy())
