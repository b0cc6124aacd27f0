"""The context limit: what attention does to tokens as their number n grows at a fixed depth.

Names are loaded when they are first used, so that :mod:`attnlim.context.theory` needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlim.core.exports import lazily

if TYPE_CHECKING:
    from attnlim.context.criticality import beta_c_iid, beta_c_simplex, beta_c_sphere
    from attnlim.context.gaps import critical_multiplier
    from attnlim.context.phases import PHASES, classify, focus_exponent
    from attnlim.context.row_focus import Focus, focus
    from attnlim.context.theory import (
        causal_simplex_pair,
        critical_gamma,
        log_partition,
        log_partition_limit,
        simplex_focus,
        simplex_kappa,
        simplex_limit,
        simplex_step,
        window_coordinate,
        window_width,
    )

_HOME = {
    "PHASES": "phases",
    "Focus": "row_focus",
    "beta_c_iid": "criticality",
    "beta_c_simplex": "criticality",
    "beta_c_sphere": "criticality",
    "causal_simplex_pair": "theory",
    "classify": "phases",
    "critical_gamma": "theory",
    "critical_multiplier": "gaps",
    "focus": "row_focus",
    "focus_exponent": "phases",
    "log_partition": "theory",
    "log_partition_limit": "theory",
    "simplex_focus": "theory",
    "simplex_kappa": "theory",
    "simplex_limit": "theory",
    "simplex_step": "theory",
    "window_coordinate": "theory",
    "window_width": "theory",
}

__all__ = [
    "PHASES",
    "Focus",
    "beta_c_iid",
    "beta_c_simplex",
    "beta_c_sphere",
    "causal_simplex_pair",
    "classify",
    "critical_gamma",
    "critical_multiplier",
    "focus",
    "focus_exponent",
    "log_partition",
    "log_partition_limit",
    "simplex_focus",
    "simplex_kappa",
    "simplex_limit",
    "simplex_step",
    "window_coordinate",
    "window_width",
]

__getattr__ = lazily(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
