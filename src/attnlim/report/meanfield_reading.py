"""The dataset of ``attnlim meanfield``: one flat dataset of kind ``attnlim.meanfield``.

Attributes: ``kind``, ``schema``, ``verdict`` (text, a paragraph a line), and what does not vary: ``head_dim``, ``beta`` (a
number, or text where it follows N), ``inputs`` (their law), ``optimiser``, ``lr``, ``n_particles``, ``n_nodes``; others are
shown as provenance. Text is stored as arrays of Python strings (dtype object). NaN is what is not
known: a network that was not trained, a fit with too few cells. Axes in brackets; SYSTEM is [seed, n_tokens, width] and
NETWORK is SYSTEM with [n_layers, n_heads].

- coordinates ``seed``, ``n_tokens``, ``width``, ``n_layers``, ``n_heads``, ``step`` (optimiser steps before the distance
  is taken), ``inputs`` (text: "fresh", "training", and "worst" where it was looked for), ``init``, ``training_step``,
  ``distance`` (text: those of :data:`DISTANCES` that have a reference error), ``rate`` (text, published rates)
- those of :data:`DISTANCES` [NETWORK, step, inputs, init]: between a network and its limit, not squared
- ``coupling``, ``wasserstein`` [NETWORK, step, init]: between heads and their shadows, not squared
- ``loss`` [NETWORK, training_step, init]; ``limit_loss``, ``limit_loss_error`` [SYSTEM, training_step]
- ``reference_error`` [SYSTEM, distance, step, inputs]: of the limit itself, from solving it again
- ``certificate_update`` [NETWORK]: the largest step over Adam's bound
- ``fit_NAME``, ``fit_NAME_low``, ``fit_NAME_high`` for NAME of c1, c2, p, q [SYSTEM, step, inputs]: of
  E² = (c1/L)² + (c2 L^-p H^-q)², where E is the root mean square of ``sup_tokens`` over ``init``
- ``rate_residual``, ``rate_excess_high`` [SYSTEM, step, inputs, rate]: root mean square of log E less each published
  rate's fit; and the upper end of its excess over the best of the others, below 0 where it fits best beyond chance
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from attnlim.core.checks import InputError
from attnlim.core.intervals import jackknife_mean

KIND, SCHEMA = "attnlim.meanfield", 1
SYSTEM = ("seed", "n_tokens", "width")
NETWORK = (*SYSTEM, "n_layers", "n_heads")
# what each is the distance of, in the words of a menu
DISTANCES = {
    "sup_tokens": "tokens, largest over depth",
    "sup_continuous": "tokens, largest over all t",
    "sup_adjoint": "costates, largest over depth",
    "sup_both": "tokens and costates together",
    "rms_tokens": "tokens, root mean square",
    "end_tokens": "tokens after the last layer",
}
_FITTED = ("c1", "c2", "p", "q")
_SCHEMA = {
    **dict.fromkeys(DISTANCES, (*NETWORK, "step", "inputs", "init")),
    **dict.fromkeys(("coupling", "wasserstein"), (*NETWORK, "step", "init")),
    "loss": (*NETWORK, "training_step", "init"),
    **dict.fromkeys(("limit_loss", "limit_loss_error"), (*SYSTEM, "training_step")),
    "reference_error": (*SYSTEM, "distance", "step", "inputs"),
    "certificate_update": NETWORK,
    **{f"fit_{name}{end}": (*SYSTEM, "step", "inputs") for name in _FITTED for end in ("", "_low", "_high")},
    **dict.fromkeys(("rate_residual", "rate_excess_high"), (*SYSTEM, "step", "inputs", "rate")),
}
_COORDINATES = (*NETWORK, "step", "inputs", "training_step", "distance", "rate")
_ATTRIBUTES = ("verdict", "head_dim", "beta", "inputs", "optimiser", "lr", "n_particles", "n_nodes")

Floats = NDArray[np.float64]


class Bounded(NamedTuple):
    """A number with its 95 % interval; NaN bounds where there is none."""

    estimate: float
    low: float
    high: float


class Fit(NamedTuple):
    """E² = (c1/L)² + (c2 L^-p H^-q)²; NaN is a term or a power that was not fitted."""

    c1: Bounded
    c2: Bounded
    p: Bounded
    q: Bounded

    def at(self, n_layers: ArrayLike, n_heads: ArrayLike) -> Floats:
        """E at other sizes; what was not fitted counts as 0."""
        c1, p, q = (float(np.nan_to_num(one.estimate)) for one in (self.c1, self.p, self.q))
        layers, heads = np.asarray(n_layers, dtype=np.float64), np.asarray(n_heads, dtype=np.float64)
        return np.hypot(c1 / layers, self.c2.estimate * layers**-p * heads**-q)


class Rate(NamedTuple):
    """A published rate beside the others."""

    name: str
    residual: float  # root mean square of log E less the fit
    best: bool  # beyond chance


def checked(dataset: xr.Dataset) -> xr.Dataset:
    """``dataset`` if it holds all that the sheet and the page need, with its sizes in ascending order.

    Raises:
        InputError: another schema, a missing variable, other dimensions than documented, or a missing attribute.
    """
    if dataset.attrs.get("schema", SCHEMA) != SCHEMA:
        raise InputError(
            f"the report draws mean-field experiments of schema {SCHEMA}, got schema {dataset.attrs['schema']}; "
            "run `attnlim meanfield` again with this version"
        )
    wrong = [f"the coordinate {name}" for name in _COORDINATES if name not in dataset.coords]
    wrong += [name for name, dims in _SCHEMA.items() if name not in dataset or set(dataset[name].dims) != set(dims)]
    wrong += [f"the attribute {name}" for name in _ATTRIBUTES if name not in dataset.attrs]
    if wrong:
        raise InputError(
            f"the mean-field experiment lacks, or has with other dimensions, {', '.join(wrong)}; "
            "run `attnlim meanfield` again"
        )
    return dataset.sortby([*NETWORK, "step", "training_step"])


def errors(values: xr.DataArray) -> xr.Dataset:
    """E of every network with its interval.

    Args:
        values: with the dimension ``init``, distances that are not squared.

    Returns:
        ``estimate``, the root mean square over ``init``, its ``standard_error``, and ``low`` and ``high``, the ends of
        a 95 % interval, symmetric in log E, by Student's t; without ``init``, NaN what was not measured. A distance of
        0 has no interval.
    """
    squares = jackknife_mean(values.to_numpy().astype(np.float64) ** 2, axis=values.get_axis_num("init"))
    estimate = np.sqrt(squares.estimate)
    with np.errstate(invalid="ignore", divide="ignore"):
        # of the root of a mean, by the delta method
        relative = squares.standard_error / (2 * squares.estimate)
    half = stats.t.ppf(0.975, np.maximum(squares.n_units - 1, 1)) * relative
    shape = values.isel(init=0, drop=True)
    found = {
        "estimate": estimate,
        "standard_error": estimate * relative,
        "low": estimate * np.exp(-half),
        "high": estimate * np.exp(half),
    }
    return xr.Dataset({name: shape.copy(data=array) for name, array in found.items()})


def reference(dataset: xr.Dataset, name: str) -> xr.DataArray:
    """The limit's own error in the distance of that name [SYSTEM, step, inputs]; NaN where it was not measured."""
    known = dataset["distance"].to_numpy().tolist()
    if name in known:
        return dataset["reference_error"].isel(distance=known.index(name), drop=True)
    return xr.full_like(dataset["reference_error"].isel(distance=0, drop=True), np.nan)


def fit_of(one: xr.Dataset) -> Fit | None:
    """The fit of one limit, step and inputs; None where there is none."""
    parts = [Bounded(*(float(one[f"fit_{name}{end}"]) for end in ("", "_low", "_high"))) for name in _FITTED]
    fit = Fit(*parts)
    return fit if np.isfinite(fit.c2.estimate) else None


def rates(one: xr.Dataset) -> list[Rate]:
    """The published rates of one limit, step and inputs; none where the cells are too few."""
    columns = (one[name].to_numpy() for name in ("rate", "rate_residual", "rate_excess_high"))
    return [
        Rate(str(name), float(residual), bool(excess < 0))
        for name, residual, excess in zip(*columns, strict=True)
        if np.isfinite(residual)
    ]


def cells(values: xr.DataArray) -> xr.DataArray:
    """The networks that were trained, one after the other on ``cell``, which knows ``n_layers`` and ``n_heads``."""
    return values.stack(cell=("n_layers", "n_heads")).dropna("cell", how="all")


def facts(dataset: xr.Dataset, *, first: bool = False) -> str:
    """One line on what was measured; of the first seed, N and d alone, or of all."""
    attrs, inits = dataset.attrs, dataset.sizes["init"]
    sizes = {
        name: ", ".join(str(value) for value in dataset[name].to_numpy()[: 1 if first else None].tolist())
        for name in SYSTEM
    }
    beta = attrs["beta"] if isinstance(attrs["beta"], str) else f"{float(attrs['beta']):g}"
    return (
        f"N = {sizes['n_tokens']} · d = {sizes['width']} · k = {attrs['head_dim']} · β = {beta} · {attrs['inputs']} tokens · "
        f"{attrs['optimiser']}, learning rate {float(attrs['lr']):g} · {inits} initialisation{'s' if inits > 1 else ''} · "
        f"limit of {int(attrs['n_particles']):,} particles at {attrs['n_nodes']} nodes · seed {sizes['seed']}"
    )


def counted_steps(step: int) -> str:
    """
    >>> counted_steps(1), counted_steps(4)
    ('1 step', '4 steps')
    """
    return f"{step} step{'s' if step != 1 else ''}"
