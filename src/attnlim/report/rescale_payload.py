"""The numbers that the page of a comparison of rules draws, as plain lists for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from attnlim.report.audit_reading import PHASES
from attnlim.report.json_lists import listed, rounded
from attnlim.report.rescale_reading import (
    BEYOND,
    CALIBRATED,
    LOSSES,
    NONE,
    RAW,
    WITHIN,
    absent,
    calibrated_slopes,
    companies,
    course,
    mass_on_needles,
    names_of,
    scale_ends,
    stretches,
)

_PARTS = {"estimate": "", "low": "_low", "high": "_high"}


def page_data(dataset: xr.Dataset) -> dict[str, Any]:
    """Everything that the page draws from ``dataset``, ready for JSON.

    Args:
        dataset: a comparison that passed :func:`attnlim.report.rescale_reading.checked`.

    Returns:
        Nested dicts and lists of strings, numbers and None. Numbers keep five significant digits, NaN is None. Losses are
        (variant, bucket) lists, needles (variant, needle), heads (variant, layer, head), (round, layer, head) or
        (layer, head); what the dataset does not hold is None.
    """
    names = names_of(dataset)
    buckets = [str(name) for name in dataset["bucket"].to_numpy()]
    place = {name: names.index(one) for name, one in (("raw", RAW), ("none", NONE))}
    return {
        "variants": [
            {"name": name, "words": str(words)} for name, words in zip(names, dataset["words"].to_numpy(), strict=True)
        ],
        "recommended": names.index(dataset.attrs["recommended"]),
        **place,
        "calibrated": names.index(CALIBRATED) if CALIBRATED in names else None,
        "trained": int(dataset.attrs["trained_length"]),
        "target": int(dataset.attrs["target"]),
        "buckets": buckets,
        "begins": listed(dataset["bucket_begins"].to_numpy()),
        "ends": listed(dataset["bucket_ends"].to_numpy()),
        "stretches": [buckets.index(str(name)) for name in stretches(dataset)["bucket"].to_numpy()],
        "within": buckets.index(WITHIN),
        "beyond": buckets.index(BEYOND),
        "losses": {name: _bounded(dataset, name) | {"error": _nested(dataset, f"{name}_se")} for name in LOSSES},
        "scales": _scales(dataset),
        "needles": _needles(dataset),
        "layers": listed(dataset["layer"].to_numpy()),
        "heads_axis": listed(dataset["head"].to_numpy()),
        "multiplier": _nested(dataset, "multiplier"),
        "mass": {"all": listed(mass_on_needles(dataset).to_numpy())}
        | {name: listed(mass_on_needles(dataset, name).to_numpy()) for name in companies(dataset)},
        "slope": None if (slopes := calibrated_slopes(dataset)) is None else listed(slopes.to_numpy()),
        "rounds": _rounds(dataset) if "direction" in dataset else [],
        "phases": list(PHASES),
        "audit": {
            name: _nested(dataset, f"audit_{name}")
            for name in ("phase", "kappa", "critical_multiplier", "critical_exponent")
        },
        "tried": [
            {"name": one.name, "loss": rounded(one.loss), "part": one.part, "taken": one.taken}
            for one in course(dataset)
        ],
        "absent": absent(dataset),
    }


def _needles(dataset: xr.Dataset) -> dict[str, Any]:
    return {
        "companies": companies(dataset),
        "company": [str(one) for one in dataset["needle_company"].to_numpy()],
        "depth": _nested(dataset, "needle_depth"),
        "nll": _nested(dataset, "needle_nll"),
        "found": listed(dataset["needle_found"].to_numpy().astype(np.int64)),
        "difference": _bounded(dataset, "needle_difference"),
    }


def _rounds(dataset: xr.Dataset) -> list[dict[str, Any]]:
    """What each round of the calibration measured."""
    found = []
    for index in range(dataset.sizes["round"]):
        one = dataset.isel(round=index)
        windows = one["derivative"].to_numpy()
        found.append(
            {
                "direction": _nested(one, "direction"),
                "measured": listed(windows.mean(axis=0)),
                "windows": len(windows),
                **{name: rounded(float(one[name])) for name in ("towards_layer", "towards_model", "noise")},
            }
        )
    return found


def _scales(dataset: xr.Dataset) -> dict[str, Any]:
    """The ends of the scales of differences."""
    along = stretches(dataset)
    found = {
        "beyond": [dataset[f"difference{end}"].sel(bucket=BEYOND) for end in _PARTS.values()],
        "within": [dataset[f"difference_raw{end}"].sel(bucket=WITHIN) for end in _PARTS.values()],
        "along": [along[f"difference{end}"] for end in _PARTS.values()],
        "needles": [dataset[f"needle_difference{end}"] for end in _PARTS.values()],
    }
    return {name: [rounded(end) for end in scale_ends(*parts)] for name, parts in found.items()}


def _bounded(dataset: xr.Dataset, name: str) -> dict[str, Any]:
    return {part: _nested(dataset, f"{name}{end}") for part, end in _PARTS.items()}


def _nested(dataset: xr.Dataset, name: str) -> Any:
    """The variable as nested lists, or None where the dataset does not hold it."""
    return listed(dataset[name].to_numpy()) if name in dataset else None
