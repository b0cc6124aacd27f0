"""From the samples of every context and window to the audit's dataset: means, errors, exponents, phases."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from attnlim.audit.probing import Anatomy, Probed
from attnlim.audit.statistics import ROW_STATISTICS
from attnlim.context.phases import DILUTED_ABOVE, FROZEN_BELOW, LEAST_RANGE, PHASES, UNKNOWN, classify
from attnlim.core.cells import Arrays
from attnlim.core.intervals import IntervalArray, jackknife_mean
from attnlim.core.regression import slope
from attnlim.core.symbols import lookup

SCHEMA = 1
# κ over positions is fitted over this many octaves of visible keys: down to a sixteenth of the context
POSITION_OCTAVES = 4
MAXIMA = ("largest_logit", "largest_logit_no_sink")
MEANS = (
    *(name for base in ROW_STATISTICS for name in (base, f"{base}_no_sink") if name not in MAXIMA),
    "sink_mass",
)


@dataclass(frozen=True)
class Margins:
    """Where the phases begin, in κ; both are this project's own choice."""

    diluted_above: float = DILUTED_ABOVE
    frozen_below: float = FROZEN_BELOW


def summarise_rows(found: Probed, parts: Anatomy, n_octaves: int) -> Arrays:
    """One cell's arrays: the rows of one forward of one sequence, averaged within octaves of visible keys.

    Octave j holds the rows that see more than top/2^(j+1) and at most top/2^j keys, where top is the most that any
    row of the layer sees; octave 0 is "the sample at n".

    Returns:
        each of ``MEANS`` (n_octaves, n_layers, n_heads), ``MAXIMA`` (n_layers, n_heads), ``log_visible`` and
        ``n_rows`` (n_octaves, n_layers), ``most_visible`` (n_layers,), ``rho_input`` (n_layers,), ``rho_residual`` (n_depths,); NaN where
        there is no row or no such head.
    """
    n_layers, n_heads = len(parts.layers), max(layer.n_heads for layer in parts.layers)
    arrays = {name: np.full((n_octaves, n_layers, n_heads), np.nan) for name in MEANS}
    arrays |= {name: np.full((n_layers, n_heads), np.nan) for name in MAXIMA}
    arrays["log_visible"] = np.full((n_octaves, n_layers), np.nan)
    arrays["n_rows"] = np.zeros((n_octaves, n_layers), dtype=np.int64)
    arrays["most_visible"] = np.array([counts[0] for counts in found.most_visible])
    for place, layer in enumerate(parts.layers):
        statistics = {name: value.cpu().numpy() for name, value in found.statistics[place][0].items()}
        visible = found.visible[place][0].cpu().numpy()
        octave = np.floor(np.log2(found.most_visible[place][0] / visible)).astype(int)
        for j in range(n_octaves):
            inside = octave == j
            arrays["n_rows"][j, place] = inside.sum()
            if not inside.any():
                continue
            arrays["log_visible"][j, place] = np.log(visible[inside]).mean()
            for name in MEANS:
                arrays[name][j, place, : layer.n_heads] = _mean(statistics[name][:, inside])
        for name in MAXIMA:
            arrays[name][place, : layer.n_heads] = np.fmax.reduce(statistics[name], axis=1)
    arrays["rho_input"] = np.array([cosines[0] for cosines in found.rho_input])
    arrays["rho_residual"] = np.array([cosines[0] for cosines in found.rho_residual])
    return arrays


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean over the last axis without NaN; NaN where nothing else is there."""
    there = ~np.isnan(values)
    total: np.ndarray = np.where(there, values, 0.0).sum(axis=-1)
    count = there.sum(axis=-1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def assemble(
    cells: Mapping[tuple[int, int], Arrays],
    contexts: Sequence[int],
    n_windows: int,
    parts: Anatomy,
    margins: Margins,
    attributes: Mapping[str, Any],
) -> xr.Dataset:
    """The audit's dataset from the arrays of every (context, window).

    Every mean and slope is taken within a window first; windows are the units of the intervals.

    Args:
        cells: what :func:`summarise_rows` gave, by context and window.
        contexts: in tokens, ascending.
        n_windows: the number of windows.
        parts: the model's anatomy.
        margins: where the phases begin.
        attributes: provenance to keep with the data.
    """

    def gather(name: str) -> np.ndarray:
        return np.stack([[cells[n, w][name] for w in range(n_windows)] for n in contexts])

    samples = {
        name: gather(name)
        for name in (*MEANS, *MAXIMA, "log_visible", "n_rows", "most_visible", "rho_input", "rho_residual")
    }
    causal = all(layer.causal for layer in parts.layers)
    source = "positions" if causal else "contexts"
    head = ("context", "layer", "head")
    variables: dict[str, Any] = {}

    for name in MEANS:
        values = samples[name]
        variables[f"sample_{name}"] = (("context", "window", "octave", "layer", "head"), values, _about(name))
        at_n = jackknife_mean(values[:, :, 0], axis=1)
        variables[name] = (head, at_n.estimate, _about(name))
        variables[f"{name}_se"] = (head, at_n.standard_error, {"units": _about(name)["units"]})
    for name in MAXIMA:
        variables[name] = (head, np.fmax.reduce(samples[name], axis=1), _about(name))
    variables["sample_log_visible"] = (("context", "window", "octave", "layer"), samples["log_visible"])
    variables["sample_rows"] = (("context", "window", "octave", "layer"), samples["n_rows"])

    most_visible = samples["most_visible"].max(axis=1)
    variables["most_visible"] = (
        ("context", "layer"),
        most_visible,
        {"long_name": "most keys that a row sees", "units": "tokens"},
    )
    # within a window that is shorter than the context nothing can grow with the context
    bounded = (most_visible < np.array(contexts)[:, None])[..., None]

    log_visible = samples["log_visible"][..., None]
    for suffix in ("", "_no_sink"):
        entropy = samples[f"entropy{suffix}"]
        by_position = _over_positions(log_visible, entropy, LEAST_RANGE)
        by_context = _over_contexts(log_visible, entropy, LEAST_RANGE)
        kappa = jackknife_mean(by_position if causal else by_context, axis=1)
        _put(variables, f"kappa{suffix}", head, kappa, _missing(source))
        phase = classify(kappa.estimate, kappa.low, kappa.high, margins.diluted_above, margins.frozen_below)
        variables[f"phase{suffix}"] = (
            head,
            np.where(bounded, np.int8(UNKNOWN), phase),
            {
                "flag_values": "[0,1,2,3]",
                "flag_meanings": " ".join(PHASES),
                "missing": "-1 where κ is NaN, or where no row of the layer sees the whole context",
            },
        )
        whole = jackknife_mean(by_context[-1], axis=0)
        _put(variables, f"kappa_contexts{suffix}", ("layer", "head"), whole, _missing("contexts"))

    # which power of ln n the gap count follows: the slope of ln b_c on ln ln n
    with np.errstate(divide="ignore", invalid="ignore"):
        log_log, log_multiplier = np.log(log_visible), np.log(samples["critical_multiplier"])
    fit = _over_positions if causal else _over_contexts
    exponent = jackknife_mean(fit(log_log, log_multiplier, 0.0), axis=1)
    _put(variables, "critical_exponent", head, exponent, _missing(source))

    for name, dims in (("rho_input", ("context", "layer")), ("rho_residual", ("context", "depth"))):
        variables[f"sample_{name}"] = ((dims[0], "window", dims[1]), samples[name], _about(name))
        rho = jackknife_mean(samples[name], axis=1)
        variables[name] = (dims, rho.estimate, _about(name))
        variables[f"{name}_se"] = (dims, rho.standard_error)
    gamma_c = jackknife_mean(1 / (1 - samples["rho_input"]), axis=1)
    variables["gamma_c"] = (("context", "layer"), gamma_c.estimate, _about("gamma_c"))
    variables["gamma_c_se"] = (("context", "layer"), gamma_c.standard_error)

    variables["sliding_window"] = ("layer", [layer.sliding_window or 0 for layer in parts.layers])
    variables["softcap"] = ("layer", [np.nan if layer.softcap is None else layer.softcap for layer in parts.layers])
    skipped = [{"layer": number, "name": name, "what": what} for number, name, what in parts.skipped]
    return xr.Dataset(
        variables,
        coords={
            "context": list(contexts),
            "layer": [layer.layer for layer in parts.layers],
            "head": np.arange(max(layer.n_heads for layer in parts.layers)),
            "depth": np.arange(samples["rho_residual"].shape[-1]),
            "window": np.arange(n_windows),
            "octave": np.arange(samples["log_visible"].shape[2]),
        },
        attrs={
            "kind": "attnlim.audit",
            "schema": SCHEMA,
            "causal": int(causal),
            "kappa_source": source,
            "diluted_above": margins.diluted_above,
            "frozen_below": margins.frozen_below,
            "skipped": json.dumps(skipped),
            **attributes,
        },
    )


def _over_positions(x: np.ndarray, y: np.ndarray, least_span: float) -> np.ndarray:
    """(context, window, layer, head): slopes over the octaves of each forward."""
    return slope(x[:, :, :POSITION_OCTAVES], y[:, :, :POSITION_OCTAVES], axis=2, least_span=least_span)


def _over_contexts(x: np.ndarray, y: np.ndarray, least_span: float) -> np.ndarray:
    """(context, window, layer, head): slopes over the samples at all contexts up to each."""
    fits = [slope(x[: i + 1, :, 0], y[: i + 1, :, 0], axis=0, least_span=least_span) for i in range(len(x))]
    return np.stack(fits)


def _put(variables: dict[str, Any], name: str, dims: tuple[str, ...], found: IntervalArray, missing: str) -> None:
    about = {**_about(name), "level": found.level, "method": found.method, "missing": missing}
    variables[name] = (dims, found.estimate, about)
    variables[f"{name}_low"] = (dims, found.low, {"units": "dimensionless"})
    variables[f"{name}_high"] = (dims, found.high, {"units": "dimensionless"})


def _missing(source: str) -> str:
    grow = "the visible keys did not grow by a factor of about two over the fitted samples"
    first = "; the shortest context has no shorter one to grow from" if source == "contexts" else ""
    return f"NaN where {grow}{first}; bounds are NaN with a single window"


def _about(name: str) -> dict[str, str]:
    symbol = lookup("audit", name.removesuffix("_no_sink"))
    without = ", without the first token" if name.endswith("_no_sink") else ""
    return {"long_name": f"{symbol.meaning}{without}", "symbol": symbol.symbol, "units": symbol.unit}
