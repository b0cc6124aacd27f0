"""What both the page and the figures read from an audit dataset."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import xarray
from scipy import stats

from attnlim.core.checks import InputError
from attnlim.core.ranks import rank_correlation

KIND, SCHEMA = "attnlim.audit", 1
PHASES = ("diluted", "sparse", "frozen", "undecided")

_NEEDED = (
    *("entropy", "entropy_no_sink", "perplexity", "sink_mass", "largest_logit", "kappa", "kappa_no_sink"),
    *("phase", "phase_no_sink", "rho_input", "rho_residual", "sample_log_visible", "sample_entropy"),
)


class EntropyCurve(NamedTuple):
    """Entropy over the logarithm of the number of visible tokens, averaged over text windows."""

    log_visible: np.ndarray[Any, np.dtype[np.float64]]  # (point, layer)
    entropy: np.ndarray[Any, np.dtype[np.float64]]  # (point, layer, head), nats
    rows: np.ndarray[Any, np.dtype[np.int64]]  # (point, layer), sampled rows over all windows


def checked(dataset: xarray.Dataset) -> xarray.Dataset:
    """``dataset`` if it is an audit of the schema that this version draws.

    Raises:
        InputError: another kind, another schema, or a missing variable.
    """
    kind, schema = dataset.attrs.get("kind"), dataset.attrs.get("schema")
    if kind != KIND or schema != SCHEMA:
        raise InputError(
            f"the report draws datasets of kind {KIND!r}, schema {SCHEMA}, got kind {kind!r}, schema {schema!r}; "
            "run `attnlim audit` again with this version"
        )
    absent = [name for name in _NEEDED if name not in dataset]
    if absent:
        raise InputError(f"the audit dataset lacks {', '.join(absent)}; run `attnlim audit` again")
    return dataset


def facts(dataset: xarray.Dataset) -> str:
    """One line on what was measured: the text, how much of it, and the seed."""
    attrs = dataset.attrs
    windows = f"{attrs['n_windows']} window{'s' if attrs['n_windows'] != 1 else ''}"
    return f"text: {attrs['text']}, {windows} · {attrs['rows_per_window']} rows a window · seed {attrs['seed']}"


def entropy_curve(dataset: xarray.Dataset, no_sink: bool = False) -> EntropyCurve:
    """Entropy against ln(visible tokens), one curve a head, with its points in ascending order.

    A causal model gives a point for each octave of positions at the longest context. Where every row sees the
    whole context (``kappa_source`` is ``contexts``) there is a point for each audited context instead.

    Args:
        dataset: an audit dataset.
        no_sink: entropy of the attention renormalised without the first token.

    Returns:
        The curve; points without a single sampled row are left out.
    """
    name = "sample_entropy_no_sink" if no_sink else "sample_entropy"
    if dataset.attrs["kappa_source"] == "contexts":
        chosen, point = dataset.isel(octave=0), "context"
    else:
        chosen, point = dataset.isel(context=-1, octave=slice(None, None, -1)), "octave"
    rows = chosen["sample_rows"].sum("window").transpose(point, "layer").to_numpy()
    log_visible = chosen["sample_log_visible"].mean("window").transpose(point, "layer").to_numpy()
    entropy = chosen[name].mean("window").transpose(point, "layer", "head").to_numpy()
    seen = np.isfinite(log_visible).any(axis=1)
    return EntropyCurve(log_visible[seen], entropy[seen], rows[seen].astype(np.int64))


def has_wishes(dataset: xarray.Dataset) -> bool:
    """Whether the audit measured which way each head would rather go."""
    return "sensitivity" in dataset


def decided(dataset: xarray.Dataset) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """(context, layer, head): whether the interval of a head's sensitivity lies on one side of 0."""
    low, high = (dataset[f"sensitivity_{end}"].transpose("context", "layer", "head") for end in ("low", "high"))
    return np.asarray((low > 0) | (high < 0))


def wish_ranks(dataset: xarray.Dataset, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(context,): rank correlation over heads of the sensitivity with another quantity of a head."""
    n_contexts = dataset.sizes["context"]
    pairs = ((dataset["sensitivity"].isel(context=i), dataset[name].isel(context=i)) for i in range(n_contexts))
    return np.array([rank_correlation(*pair) for pair in pairs])


def missing_reason(dataset: xarray.Dataset, name: str) -> str:
    """Why values of the variable ``name`` are NaN, in the dataset's own words; empty if nothing is recorded."""
    return str(dataset[name].attrs.get("missing", "")) if name in dataset else ""


def interval_factor(dataset: xarray.Dataset) -> float:
    """How many standard errors a 95 % interval over the text windows reaches: Student's t; NaN for one window."""
    n_windows = int(dataset.attrs["n_windows"])
    return float(stats.t.ppf(0.975, n_windows - 1)) if n_windows > 1 else math.nan
