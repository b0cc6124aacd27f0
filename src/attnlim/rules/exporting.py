"""What a comparison recommends, in a folder from which a model can be given it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import xarray as xr

from attnlim.core.checks import one_of
from attnlim.core.files import replacing
from attnlim.rules.attaching import attach, detach
from attnlim.rules.rescale_plan import Plan
from attnlim.rules.sidecar import FOLDER, RULE_FILE, save
from attnlim.rules.stretching import stretched_parameters
from attnlim.rules.variants import Variant, constant_variant, slope_variant

ROPE_FILE = "rope_parameters.json"


def variant_of(plan: Plan, dataset: xr.Dataset, name: str) -> Variant:
    """A variant of a finished comparison by its name, fitted ones with what was fitted.

    Raises:
        InputError: no such variant in it.
    """
    one_of("variant", name, dataset["variant"].values.tolist())
    words = str(dataset["words"].sel(variant=name).item())
    if name == "calibrated":
        return slope_variant(name, words, plan.trained, dataset["slope"].values)
    if name == "slope":
        return slope_variant(name, words, plan.trained, float(dataset.attrs["shared_slope"]))
    if name == "constant":
        return constant_variant(float(dataset.attrs["constant"]), name, words)
    return next(variant for variant in plan.variants if variant.name == name)


def export(plan: Plan, variant: Variant, folder: Path) -> list[Path]:
    """Write what a model needs to run as ``variant``: its rotary parameters, and the rule on its queries.

    What an earlier recommendation left in the folder and this one does not replace is taken away: it would be loaded with it.

    Args:
        plan: of the comparison, with its model.
        variant: one of it.
        folder: where ``attnlim/rule.json`` goes, for :func:`attnlim.rules.load`, and ``attnlim/rope_parameters.json``, for
            ``from_pretrained(..., rope_parameters=...)``.

    Returns:
        The files that were written; none for raw extrapolation.
    """
    written: list[Path] = []
    place = folder / FOLDER
    for old in (place / ROPE_FILE, place / RULE_FILE, *place.glob("parameters-*.safetensors")):
        old.unlink(missing_ok=True)
    parameters: dict[str, Any] = {}
    if variant.stretched:
        parameters = stretched_parameters(plan.model, plan.stretch, variant.cos_sin)
    if parameters:
        path = place / ROPE_FILE
        with replacing(path) as unfinished:
            unfinished.write_text(json.dumps(parameters, indent=1) + "\n", encoding="utf-8")
        written.append(path)
    if variant.rule.factors:
        attach(plan.model, variant.rule)
        try:
            written.append(save(plan.model, folder))
        finally:
            detach(plan.model)
    return written
