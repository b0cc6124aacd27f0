"""How far a rule takes each head from criticality, by what an audit measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from attnlim.core.checks import InputError
from attnlim.rules.reading import Reading
from attnlim.rules.rule import Rule

if TYPE_CHECKING:
    import xarray as xr


def distances(rule: Rule, dataset: xr.Dataset, audited: Rule | None = None) -> xr.DataArray:
    r"""γ/γ_c of every head under a rule, at every context of an audit.

    .. math:: \frac{\gamma}{\gamma_c} = \frac{b(n)}{b_a(n)\, b_{c,h}(n)}

    b is the rule's factor on the logits of the last row, which sees n keys or what its layer's window holds, b_a that of the rule which the audited model applied by
    itself, and b_c the multiplier of the measured logits that makes the row critical by its gap count. For comparing rules or
    contexts: it is not the audit's phase, which comes from κ, and b_c of real rows is biased (see the manual).

    Source: [*derived*](../rules-derivations.md#critical-rule).

    Args:
        rule: the rule to judge.
        dataset: of an audit, with ``critical_multiplier`` (context, layer, head), and ``most_visible`` (context, layer), the most
            keys that a row sees, where windows are to count.
        audited: the rule of the audited model's own config; None where it had none.

    Returns:
        (context, layer, head), dimensionless; NaN where b_c is. Where rotary and other dimensions have different factors it is
        their mean, weighted by how many there are.

    Raises:
        InputError: the dataset has no b_c, or other layers than the rule's model.
    """
    if "critical_multiplier" not in dataset:
        raise InputError("the dataset has no critical_multiplier; give one of `attnlim audit`")
    layers = [int(layer) for layer in dataset["layer"].values]
    for one in (rule, audited):
        if isinstance(one, Reading) and one.n_layers is not None and max(layers) >= one.n_layers:
            raise InputError(
                f"the audit has a layer {max(layers)}, the config {one.n_layers} layers; give the audit of that model"
            )
    measured = dataset["critical_multiplier"]
    ordered = measured.transpose("context", "layer", "head")
    found = np.full(ordered.shape, math.nan)
    for place, n in enumerate(ordered["context"].values):
        for row, layer in enumerate(layers):
            keys = int(n)
            if "most_visible" in dataset:
                keys = min(keys, int(dataset["most_visible"].sel(context=n, layer=layer)))
            factor = _multiplier(rule, int(n), keys, layer) / _multiplier(audited, int(n), keys, layer)
            found[place, row] = factor / ordered.values[place, row]
    about = {"long_name": "distance from criticality under the rule", "units": "dimensionless", "symbol": "γ/γ_c"}
    return ordered.copy(data=found).assign_attrs(about).rename("criticality")


def _multiplier(rule: Rule | None, n_tokens: int, keys: int, layer: int) -> np.ndarray:
    """One number for the whole logit, or one a head."""
    if rule is None:
        return np.ones(())
    logit = rule.parts(n_tokens - 1, keys, layer=layer).logit
    share = 1.0
    if isinstance(rule, Reading) and rule.head_dim and rule.rotary_dim is not None:
        still = any(layer in kind.layers and not kind.rotary for kind in rule.kinds)
        share = 0.0 if still else rule.rotary_dim / rule.head_dim
    return np.asarray(share * logit.rotary + (1 - share) * logit.other)
