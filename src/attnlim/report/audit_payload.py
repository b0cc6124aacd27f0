"""The numbers that the page draws, as plain lists for JSON."""

from __future__ import annotations

from typing import Any

import xarray

from attnlim.report.audit_reading import (
    PHASES,
    decided,
    entropy_curve,
    has_wishes,
    interval_factor,
    missing_reason,
    wish_ranks,
)
from attnlim.report.json_lists import listed, rounded

# with the first token -> without it; both are stored under the first name
_HEADS = (
    *("entropy", "entropy_se", "perplexity", "perplexity_se", "participation", "largest_weight", "distance"),
    *("critical_multiplier", "kappa", "kappa_low", "kappa_high", "phase", "largest_logit"),
)
_SINK = ("sink_mass", "sink_mass_se")


def page_data(dataset: xarray.Dataset) -> dict[str, Any]:
    """Everything that the page draws from ``dataset``, ready for JSON.

    Args:
        dataset: an audit dataset that passed :func:`attnlim.report.audit_reading.checked`.

    Returns:
        Nested dicts and lists of strings, numbers and None. Numbers keep five significant digits, NaN is None.
        ``heads.with`` and ``heads.without`` (the first token) hold (context, layer, head) lists by the same names.
    """
    attrs = dataset.attrs
    return {
        "contexts": [int(n) for n in dataset["context"]],
        "layers": [int(layer) for layer in dataset["layer"]],
        "heads_axis": [int(head) for head in dataset["head"]],
        "depths": [int(depth) for depth in dataset["depth"]],
        "phases": list(PHASES),
        "margins": {"diluted": float(attrs["diluted_above"]), "frozen": float(attrs["frozen_below"])},
        "kappa_source": str(attrs["kappa_source"]),
        "interval_factor": rounded(interval_factor(dataset)),
        "heads": {"with": _heads(dataset, ""), "without": _heads(dataset, "_no_sink")},
        "sink": {name: _nested(dataset, name, ("context", "layer", "head")) for name in _SINK},
        "exponent": {
            part or "value": _nested(
                dataset, f"critical_exponent{'_' if part else ''}{part}", ("context", "layer", "head")
            )
            for part in ("", "low", "high")
        },
        "kappa_contexts": {
            part or "value": _nested(dataset, f"kappa_contexts{'_' if part else ''}{part}", ("layer", "head"))
            for part in ("", "low", "high")
        },
        "wishes": _wishes(dataset) if has_wishes(dataset) else None,
        "curves": {"with": _curve(dataset, False), "without": _curve(dataset, True)},
        "rho": {
            **{name: _nested(dataset, name, ("context", "layer")) for name in _with_se("rho_input", "gamma_c")},
            **{name: _nested(dataset, name, ("context", "depth")) for name in _with_se("rho_residual")},
        },
        "missing": {
            "with": missing_reason(dataset, "kappa"),
            "without": missing_reason(dataset, "kappa_no_sink"),
            "rho": missing_reason(dataset, "rho_input") or missing_reason(dataset, "rho_residual"),
        },
    }


def _heads(dataset: xarray.Dataset, suffix: str) -> dict[str, Any]:
    return {name: _nested(dataset, _renamed(name, suffix), ("context", "layer", "head")) for name in _HEADS}


def _wishes(dataset: xarray.Dataset) -> dict[str, Any]:
    """Which way heads would rather go; ``decided`` is 1 where the interval lies on one side of 0."""
    parts = {"value": "", "low": "_low", "high": "_high"}
    return {
        **{part: _nested(dataset, f"sensitivity{end}", ("context", "layer", "head")) for part, end in parts.items()},
        "decided": decided(dataset).astype(int).tolist(),
        "total": {part: _nested(dataset, f"sensitivity_total{end}", ("context",)) for part, end in parts.items()},
        "ranks": {name: listed(wish_ranks(dataset, name)) for name in ("kappa", "critical_multiplier")},
    }


def _renamed(name: str, suffix: str) -> str:
    """``entropy_se`` -> ``entropy_no_sink_se``: the schema puts what was measured before how sure it is."""
    for tail in ("_se", "_low", "_high"):
        if name.endswith(tail):
            return name.removesuffix(tail) + suffix + tail
    return name + suffix


def _with_se(*names: str) -> list[str]:
    return [name + tail for name in names for tail in ("", "_se")]


def _curve(dataset: xarray.Dataset, no_sink: bool) -> dict[str, Any]:
    curve = entropy_curve(dataset, no_sink)
    return {
        "log_visible": listed(curve.log_visible),
        "entropy": listed(curve.entropy),
        "rows": curve.rows.tolist(),
    }


def _nested(dataset: xarray.Dataset, name: str, dims: tuple[str, ...]) -> Any:
    """The variable as nested lists, or None where an audit did not store it."""
    return listed(dataset[name].transpose(*dims).to_numpy()) if name in dataset else None
