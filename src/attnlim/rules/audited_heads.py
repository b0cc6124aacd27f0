"""From an audit's dataset to what rules need of it: by head, at its longest context."""

from __future__ import annotations

import numpy as np
import xarray as xr

from attnlim.core.checks import InputError

_NAMES = ("critical_exponent", "critical_multiplier", "kappa", "phase")


def heads_of(dataset: xr.Dataset, n_layers: int, n_heads: int) -> dict[str, np.ndarray]:
    """What an audit measured of every head of a model.

    Source: the power ζ of the critical rule is the audit's slope of ln b_c on ln ln n over positions,
    [*derived*](../rules-derivations.md#critical-rule).

    Args:
        dataset: of a finished audit.
        n_layers: of the model that it is wanted for.
        n_heads: query heads of a layer.

    Returns:
        "critical_exponent" (ζ), "critical_multiplier" (b_c) and "kappa", each (n_layers, n_heads) and dimensionless, NaN where there is
        no fit, as in layers whose window ends what a row sees; and "phase", its code, -1 where there is none.

    Raises:
        InputError: not an audit, or one of a model of another shape.
    """
    if dataset.attrs.get("kind") != "attnlim.audit" or any(name not in dataset for name in _NAMES):
        raise InputError(
            f"--audit needs a run of `attnlim audit`, got one of {dataset.attrs.get('kind')!r}; give the folder of an audit"
        )
    layers, heads = dataset["layer"].values, dataset.sizes["head"]
    if heads != n_heads or int(layers.max()) >= n_layers:
        raise InputError(
            f"the audit is of a model with {int(layers.max()) + 1} layers and {heads} heads, this one has {n_layers} and "
            f"{n_heads}; give the audit of this model"
        )
    longest = dataset.isel(context=-1)
    bounded = longest["most_visible"].values < int(dataset["context"][-1])
    found = {}
    for name in _NAMES:
        missing = -1 if name == "phase" else np.nan
        values = np.full((n_layers, n_heads), missing, dtype=longest[name].dtype)
        values[layers] = np.where(bounded[:, None], missing, longest[name].values)
        found[name] = values
    return found
