"""What both the page and the figures read from a phase diagram: means over draws, and where curves cross a level.

The dataset (kind ``attnlim.phase``) has the seven dimensions of :data:`DIMS`; a variable may lack those that it does
not depend on. Drawn are the variables of :data:`MEASURED` (each with NAME_simplex beside it where the closed form is
stored) and, for each set of tokens, those of :data:`TOKENS`. Two more variables are read where they are there:

- ``eta_limit`` (n_tokens, width, rho, draw): the supercritical limit of ``eta_attention``, (1-1/d)·mean(1/|x|²).
  Without it, it is (1-1/d)/q where all tokens have the norm √q, and unknown otherwise.
- ``contraction_half`` (n_tokens, width, rho, alpha, draw): λ of the simplex at ρ̂ with p = 1/2, as n → ∞.
  Without it, it is 1/(1+3ρ̂) at α = 0, and unknown otherwise.
"""

from __future__ import annotations

import math

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from attnlim.core.checks import InputError
from attnlim.core.intervals import jackknife_mean

KIND, SCHEMA = "attnlim.phase", 1
DIMS = ("n_tokens", "width", "rho", "gamma", "alpha", "causal", "draw")
MEASURED = (
    *("contraction", "fraction_contracted", "min_cosine", "worst_ratio", "eta", "eta_attention", "eta_covariance"),
    *("eta_residual", "distance", "entropy", "perplexity", "participation"),
)
TOKENS = ("rho_hat", "rho_1", "rho_2", "q_1", "q_2", "score_variance", "gamma_c", "gamma_half")
_NEEDED = ("contraction", "eta", "eta_attention", "rho_hat", "gamma_c")
_SET = ("n_tokens", "width", "rho", "draw")
# the log-odds of a self weight of .9, the upper end of the window
_ODDS = math.log(9)

Floats = NDArray[np.float64]


def checked(dataset: xr.Dataset) -> xr.Dataset:
    """``dataset`` if it is a phase diagram that can be drawn.

    Raises:
        InputError: another schema, or a missing dimension, variable or attribute.
    """
    if dataset.attrs.get("schema", SCHEMA) != SCHEMA:
        raise InputError(
            f"the report draws phase diagrams of schema {SCHEMA}, got schema {dataset.attrs['schema']}; "
            "run `attnlim phase` again with this version"
        )
    absent = [f"the dimension {name}" for name in DIMS if name not in dataset.dims or name not in dataset.coords]
    absent += [name for name in _NEEDED if name not in dataset]
    absent += [f"the attribute {name}" for name in ("tokens", "verdict", "seed", "dtype") if name not in dataset.attrs]
    if absent:
        raise InputError(f"the phase diagram lacks {', '.join(absent)}; run `attnlim phase` again")
    return dataset


def facts(dataset: xr.Dataset) -> str:
    """One line on what was measured: the tokens, how many draws of them, the rows if sampled, and the seed."""
    draws = dataset.sizes["draw"]
    attrs = dataset.attrs
    rows, n_tokens = attrs.get("rows", 0), dataset["n_tokens"]
    sampled = ""
    if 0 < rows < n_tokens.max():
        sampled = f" · {rows} sampled rows{' where n is larger' if rows >= n_tokens.min() else ''}"
    return (
        f"tokens: {attrs['tokens']} · {draws} draw{'s' if draws > 1 else ''}{sampled} · seed {attrs['seed']} · "
        f"{attrs['dtype']}"
    )


def summary(dataset: xr.Dataset) -> xr.Dataset:
    """The phase diagram averaged over draws, with what is drawn over it.

    Args:
        dataset: a phase diagram that passed :func:`checked`.

    Returns:
        Every variable of :data:`MEASURED` and :data:`TOKENS` that is there, without ``draw``, and NAME_se beside it:
        the standard error over draws, of one draw that of its sampled rows or probes, NaN where there is none.
        NAME_simplex and ``duplicates`` (the most pairs of any draw) where stored; ``window_low``, ``window_high``, ``forward_level``, ``backward_level`` and the γ
        where the measured curves first rise through them, ``forward`` and ``backward``: means over the draws, each
        at its own level, and NaN where one does not. NaN is what is not known.
    """
    dataset = _sorted(dataset)
    found: dict[str, xr.DataArray] = {}
    for names, dims in ((MEASURED, DIMS), (TOKENS, _SET)):
        for name in names:
            if name in dataset:
                found[name], found[f"{name}_se"] = _over_draws(dataset, name, dims)
    if "gamma_half" in found:
        # over all draws or not at all, as the crossings below
        found["gamma_half"] = _whole(dataset, "gamma_half", _SET).mean("draw", skipna=False)
    if "duplicates" in dataset:
        found["duplicates"] = _whole(dataset, "duplicates", DIMS).max(("gamma", "alpha", "causal", "draw"))
    for name in MEASURED:
        if f"{name}_simplex" in dataset:
            found[f"{name}_simplex"] = _whole(dataset, f"{name}_simplex", DIMS).mean("draw")
    log_n = np.log(dataset["n_tokens"].astype(float))
    log_others = np.log(dataset["n_tokens"].astype(float) - 1)
    found["window_low"] = (found["gamma_c"] * (log_others - _ODDS) / log_n).clip(min=0)
    found["window_high"] = found["gamma_c"] * (log_others + _ODDS) / log_n
    levels = {"forward": _forward_level(dataset), "backward": _backward_level(dataset)}
    for name, measured in (("forward", "contraction"), ("backward", "eta_attention")):
        found[f"{name}_level"] = levels[name].mean("draw", skipna=False)
        found[name], found[f"{name}_se"] = _crossings(_whole(dataset, measured, DIMS), levels[name])
    return xr.Dataset(found)


def known(dataset: xr.Dataset, name: str) -> bool:
    """Whether the variable is there and has a number."""
    return name in dataset and bool(np.isfinite(dataset[name]).any())


def crossing(gamma: Floats, values: Floats, level: Floats) -> Floats:
    """The γ at which each curve first rises through its level, linear between the grid's points.

    Args:
        gamma: (k,), ascending.
        values: (..., k); an interval with NaN at an end holds no crossing.
        level: (...).

    Returns:
        (...), NaN where a curve does not rise through its level inside the grid.

    >>> crossing(np.array([1.0, 2.0, 4.0]), np.array([[0.0, 0.2, 0.6], [0.5, 0.6, 0.7]]), np.array([0.4, 0.4]))
    array([ 3., nan])
    """
    if gamma.size < 2:
        return np.full(level.shape, np.nan)
    excess = values - level[..., None]
    rises = (excess[..., :-1] < 0) & (excess[..., 1:] >= 0)
    first = rises.argmax(axis=-1)
    below = np.take_along_axis(excess, first[..., None], axis=-1)[..., 0]
    above = np.take_along_axis(excess, first[..., None] + 1, axis=-1)[..., 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = below / (below - above)
    place = gamma[first] + share * (gamma[first + 1] - gamma[first])
    return np.where(rises.any(axis=-1), place, np.nan)


def _sorted(dataset: xr.Dataset) -> xr.Dataset:
    # the single ρ of tokens from a file may be NaN
    return dataset.sortby([name for name in ("n_tokens", "width", "rho", "gamma", "alpha") if dataset.sizes[name] > 1])


def _whole(dataset: xr.Dataset, name: str, dims: tuple[str, ...]) -> xr.DataArray:
    """The variable with exactly these dimensions, repeated along those that it does not depend on."""
    variable = dataset[name].astype(float)
    alien = set(variable.dims) - set(dims)
    if alien:
        raise InputError(
            f"{name} of a phase diagram must have dimensions among {', '.join(dims)}, got {', '.join(map(str, variable.dims))}; "
            "run `attnlim phase` again"
        )
    return variable.expand_dims({dim: dataset[dim] for dim in dims if dim not in variable.dims}).transpose(*dims)


def _over_draws(dataset: xr.Dataset, name: str, dims: tuple[str, ...]) -> tuple[xr.DataArray, xr.DataArray]:
    values = _whole(dataset, name, dims)
    mean = values.isel(draw=0, drop=True)
    if dataset.sizes["draw"] > 1:
        over = jackknife_mean(values.to_numpy(), axis=-1)
        return mean.copy(data=over.estimate), mean.copy(data=over.standard_error)
    own = f"{name}_standard_error"
    if own in dataset:
        return mean, _whole(dataset, own, dims).isel(draw=0, drop=True)
    return mean, xr.full_like(mean, np.nan)


def _forward_level(dataset: xr.Dataset) -> xr.DataArray:
    dims = ("n_tokens", "width", "rho", "alpha", "draw")
    if "contraction_half" in dataset:
        return _whole(dataset, "contraction_half", dims)
    return (1 / (1 + 3 * _whole(dataset, "rho_hat", dims))).where(dataset["alpha"] == 0)


def _backward_level(dataset: xr.Dataset) -> xr.DataArray:
    """A quarter of the limit, which is where p = 1/2."""
    if "eta_limit" in dataset:
        return _whole(dataset, "eta_limit", _SET) / 4
    if "q_1" in dataset and "q_2" in dataset:
        least, most = _whole(dataset, "q_1", _SET), _whole(dataset, "q_2", _SET)
        # rounding of float32 tokens
        equal = abs(most - least) <= 1e-5 * most
        return ((1 - 1 / dataset["width"]) * 2 / (least + most) / 4).where(equal).transpose(*_SET)
    return xr.full_like(_whole(dataset, "rho_hat", _SET), np.nan)


def _crossings(measured: xr.DataArray, level: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """The mean over draws of where each rises through its own level, and its standard error."""
    values, levels = xr.broadcast(measured, level)
    values = values.transpose(..., "draw", "gamma")
    levels = levels.isel(gamma=0, drop=True).transpose(*values.dims[:-1])
    each = crossing(values["gamma"].to_numpy().astype(float), values.to_numpy(), levels.to_numpy())
    over = jackknife_mean(each, axis=-1)
    # over all draws or not at all: those that cross inside the grid are not like the others
    error = np.where(np.isnan(each).any(axis=-1), np.nan, over.standard_error)
    mean = levels.isel(draw=0, drop=True)
    return mean.copy(data=each.mean(axis=-1)), mean.copy(data=error)
