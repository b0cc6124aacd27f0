"""A reading as plain data, for JSON and for tables: numbers that are not known are None."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlim.rules.comparing import Comparison
from attnlim.rules.effect_findings import begins_at, reach
from attnlim.rules.layer_kinds import LayerKind
from attnlim.rules.reading import Reading

if TYPE_CHECKING:
    import xarray as xr


def as_data(reading: Reading, positions: Sequence[int]) -> dict[str, Any]:
    """The model, the factors at each position by kind of layers, and the findings."""
    return {
        "model": reading.title,
        "model_type": reading.model_type,
        "applied_by": reading.applied_by,
        "n_layers": reading.n_layers,
        "n_heads": reading.n_heads,
        "head_dim": reading.head_dim,
        "rotary_dim": reading.rotary_dim,
        "trained_length": reading.trained_length,
        "declared_length": reading.declared_length,
        "kinds": [
            {
                "words": kind.words,
                "layers": list(kind.layers),
                "rotary": kind.rotary,
                "window": kind.window,
                "first_differs": begins_at(reading, kind),
                "logit_gap": logit_gap(reading, kind),
                "positions": factor_rows(reading, kind, positions),
            }
            for kind in reading.kinds_that_differ
        ],
        "findings": [
            {
                "kind": finding.kind,
                "severity": finding.severity,
                "sentence": finding.sentence,
                "applied": known(finding.applied),
                "meant": known(finding.meant),
                "position": finding.position,
            }
            for finding in reading.findings
        ],
    }


def factor_rows(reading: Reading, kind: LayerKind, positions: Sequence[int]) -> list[dict[str, Any]]:
    """The factors at each position on the layers of a kind; None for cos and sin where it has no rotary positions."""
    rows = []
    for position in positions:
        parts = reading.parts(position, layer=reading.layer_of(kind), head=0)
        rows.append(
            {
                "position": int(position),
                "cos_sin": known(parts.cos_sin) if kind.rotary else None,
                "softmax": known(parts.softmax),
                "query": known(parts.query),
                "logits_rotary": known(parts.logit.rotary) if kind.rotary else None,
                "logits_other": known(parts.logit.other),
            }
        )
    return rows


def logit_gap(reading: Reading, kind: LayerKind) -> float | None:
    """Δ of the rule at the end of its range, in nats; None for a rule that does not change with n."""
    return known(reading.gap(reach(reading) + 1, reading.layer_of(kind), head=0)) if reading.factors else None


def median_rows(reading: Reading, heads: xr.DataArray) -> list[dict[str, Any]]:
    """The median of :func:`attnlim.rules.distances` over the heads of each kind of layers, at each context."""
    rows = []
    for kind in reading.kinds:
        inside = [layer for layer in heads.layer.values if not kind.layers or int(layer) in kind.layers]
        for n in heads.context.values:
            values = heads.sel(context=n, layer=inside).values
            values = values[np.isfinite(values)]
            rows.append(
                {
                    "words": kind.words,
                    "context": int(n),
                    "heads": int(values.size),
                    "median": float(np.median(values)) if values.size else None,
                    "above_1": int((values > 1).sum()),
                }
            )
    return rows


def comparison_rows(found: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Where two rules part, a row for each kind of layers and dimensions."""
    return [
        {
            "where": one.words,
            "first_difference": one.first_difference,
            "largest_ratio": known(one.largest),
            "position": one.position,
            "last": one.last,
        }
        for one in found
    ]


def known(value: float) -> float | None:
    """A number for JSON, which has no NaN and no infinity."""
    return float(value) if math.isfinite(value) else None
