"""From an audit's dataset to what a rule needs of it: the power of ln n that b_c of every head follows."""

from __future__ import annotations

import numpy as np
import xarray as xr

from attnlim.core.checks import InputError


def critical_powers(dataset: xr.Dataset, n_layers: int, n_heads: int) -> np.ndarray:
    """(n_layers, n_heads) ζ: the slope of ln b_c on ln ln n over the positions of the audit's longest context.

    Source: [*derived*](../rules-derivations.md#critical-rule).

    Args:
        dataset: of a finished audit.
        n_layers: of the model that the rule is for.
        n_heads: query heads of a layer.

    Returns:
        Dimensionless; NaN where the audit has no fit, as in layers whose window ends what a row sees.

    Raises:
        InputError: not an audit, or one of a model of another shape.
    """
    if dataset.attrs.get("kind") != "attnlim.audit" or "critical_exponent" not in dataset:
        raise InputError(
            f"the critical rule needs a run of `attnlim audit`, got one of {dataset.attrs.get('kind')!r}; give its folder"
        )
    layers, heads = dataset["layer"].values, dataset.sizes["head"]
    if heads != n_heads or int(layers.max()) >= n_layers:
        raise InputError(
            f"the audit is of a model with {int(layers.max()) + 1} layers and {heads} heads, this one has {n_layers} and "
            f"{n_heads}; give the audit of this model"
        )
    powers = np.full((n_layers, n_heads), np.nan)
    longest = dataset.isel(context=-1)
    bounded = longest["most_visible"].values < int(dataset["context"][-1])
    powers[layers] = np.where(bounded[:, None], np.nan, longest["critical_exponent"].values)
    return powers
