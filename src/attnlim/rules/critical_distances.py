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

    b is the rule's factor on the logits of a row that sees n keys, b_a that of the rule which the audited model applied by
    itself, and b_c the multiplier of the measured logits that makes the row critical. Above 1 a head is sparse or frozen.

    Source: [*derived*](../rules-derivations.md#critical-rule).

    Args:
        rule: the rule to judge.
        dataset: of an audit, with ``critical_multiplier`` (context, layer, head).
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
    values = measured.transpose("context", "layer", "head").values
    factor = np.array(
        [
            [_multiplier(rule, int(n), layer) / _multiplier(audited, int(n), layer) for layer in layers]
            for n in measured.context
        ]
    )
    about = {"long_name": "distance from criticality under the rule", "units": "dimensionless", "symbol": "γ/γ_c"}
    found = measured.transpose("context", "layer", "head").copy(data=factor[:, :, None] / values)
    return found.assign_attrs(about).rename("criticality")


def _multiplier(rule: Rule | None, n_tokens: int, layer: int) -> float:
    """One number for the whole logit."""
    if rule is None:
        return 1.0
    if any(factor.per_head for factor in rule.factors):
        return math.nan
    logit = rule.parts(n_tokens - 1, n_tokens, layer=layer).logit
    turned = whole = 1
    if isinstance(rule, Reading) and rule.head_dim and rule.rotary_dim is not None:
        turned, whole = rule.rotary_dim, rule.head_dim
        if any(kind.layers and layer in kind.layers and not kind.rotary for kind in rule.kinds):
            turned = 0
    return float(logit.rotary) * turned / whole + float(logit.other) * (1 - turned / whole)
