"""Scaling rules: as pure functions, read from configurations, attached to models, calibrated, evaluated and exported."""

from __future__ import annotations

from attnlim.core.exports import lazily

_HOME = {
    "Factor": "rule",
    "Logit": "rule",
    "Parts": "rule",
    "Rule": "rule",
    "constant": "catalogue",
    "critical": "catalogue",
    "frozen_log": "catalogue",
    "grok": "catalogue",
    "latent_softmax": "catalogue",
    "latent_yarn": "catalogue",
    "llama4": "catalogue",
    "log_slope": "catalogue",
    "logn": "catalogue",
    "longrope": "catalogue",
    "ministral": "catalogue",
    "mscale_by_length": "catalogue",
    "none": "catalogue",
    "ssmax": "catalogue",
    "su": "catalogue",
    "swan": "catalogue",
    "yarn": "catalogue",
}
__all__ = sorted(_HOME)

__getattr__ = lazily(__name__, _HOME)
