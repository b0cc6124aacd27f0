"""Scaling rules: as pure functions, read from configurations, attached to models, calibrated, evaluated and exported."""

from __future__ import annotations

from attnlim.core.exports import lazily

_HOME = {
    "Comparison": "comparing",
    "Factor": "rule",
    "Finding": "findings",
    "Logit": "rule",
    "Parts": "rule",
    "Reading": "reading",
    "Rule": "rule",
    "Sensitivity": "head_sensitivity",
    "Variant": "variants",
    "applied": "reading_words",
    "attach": "attaching",
    "attached_rule": "attaching",
    "compare": "comparing",
    "constant": "catalogue",
    "critical": "catalogue",
    "detach": "attaching",
    "distances": "critical_distances",
    "fixed_variants": "variants",
    "fold": "folding",
    "from_json": "rule_json",
    "frozen_log": "catalogue",
    "grok": "catalogue",
    "latent_softmax": "catalogue",
    "latent_yarn": "catalogue",
    "llama4": "catalogue",
    "load": "sidecar",
    "log_slope": "catalogue",
    "logn": "catalogue",
    "longrope": "catalogue",
    "ministral": "catalogue",
    "mscale_by_length": "catalogue",
    "multiplier_of": "attaching",
    "none": "catalogue",
    "read": "reading",
    "rescale": "rescale_run",
    "save": "sidecar",
    "sensitivity": "head_sensitivity",
    "shrunk_gradient": "slope_steps",
    "ssmax": "catalogue",
    "stretched": "stretching",
    "su": "catalogue",
    "swan": "catalogue",
    "to_json": "rule_json",
    "yarn": "catalogue",
}
__all__ = sorted(_HOME)

__getattr__ = lazily(__name__, _HOME)
