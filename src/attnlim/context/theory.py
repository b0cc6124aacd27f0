"""The context limit in closed form: scalars in float64, no torch.

The work is in :mod:`~attnlim.context.simplex` (one layer at finite n), :mod:`~attnlim.context.simplex_limits`
(n → ∞, the window) and :mod:`~attnlim.context.simplex_rows` (how many tokens a row attends to).
"""

from attnlim.context.simplex import CausalPair, SimplexStep, causal_simplex_pair, simplex_step
from attnlim.context.simplex_limits import (
    SimplexLimit,
    critical_gamma,
    log_partition,
    log_partition_limit,
    simplex_limit,
    window_coordinate,
    window_width,
)
from attnlim.context.simplex_rows import SimplexFocus, simplex_focus, simplex_kappa

__all__ = [
    "CausalPair",
    "SimplexFocus",
    "SimplexLimit",
    "SimplexStep",
    "causal_simplex_pair",
    "critical_gamma",
    "log_partition",
    "log_partition_limit",
    "simplex_focus",
    "simplex_kappa",
    "simplex_limit",
    "simplex_step",
    "window_coordinate",
    "window_width",
]
