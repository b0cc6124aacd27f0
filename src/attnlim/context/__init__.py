"""The context limit: what attention does to tokens as their number n grows at a fixed depth.

Names are loaded when they are first used, so that :mod:`attnlim.context.theory` needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlim.core.exports import lazily

if TYPE_CHECKING:
    from attnlim.context.attention_block import (
        Weights,
        block,
        identity_weights,
        random_weights,
        weights_from_projections,
    )
    from attnlim.context.bridge import Bridge, bridge_exponents, mixed_scores
    from attnlim.context.contracting import Contraction, contraction
    from attnlim.context.counterexamples import Counterexample, counterexample_pair, counterexample_smallest
    from attnlim.context.criticality import beta_c_iid, beta_c_simplex, beta_c_sphere
    from attnlim.context.gaps import critical_multiplier
    from attnlim.context.hutchinson import Estimate, jacobian_energy_estimate
    from attnlim.context.identity_layer import layer
    from attnlim.context.jacobian import JacobianEnergy, jacobian_energy
    from attnlim.context.near_simplex import assumption_two, bound_trends
    from attnlim.context.phases import PHASES, classify, focus_exponent
    from attnlim.context.position_windows import WindowComparison, chain_tokens, compare_windows
    from attnlim.context.row_focus import Focus, focus
    from attnlim.context.samplers import SAMPLERS, gaussian_tokens, half_sphere_tokens, simplex_tokens, sphere_tokens
    from attnlim.context.simulated_cascade import Cascade, cascade
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
    from attnlim.context.token_files import read_tokens
    from attnlim.context.token_geometry import TokenGeometry, geometry

_HOME = {
    "Bridge": "bridge",
    "Cascade": "simulated_cascade",
    "Contraction": "contracting",
    "Counterexample": "counterexamples",
    "Estimate": "hutchinson",
    "Focus": "row_focus",
    "JacobianEnergy": "jacobian",
    "PHASES": "phases",
    "SAMPLERS": "samplers",
    "TokenGeometry": "token_geometry",
    "Weights": "attention_block",
    "WindowComparison": "position_windows",
    "assumption_two": "near_simplex",
    "beta_c_iid": "criticality",
    "beta_c_simplex": "criticality",
    "beta_c_sphere": "criticality",
    "block": "attention_block",
    "bound_trends": "near_simplex",
    "bridge_exponents": "bridge",
    "cascade": "simulated_cascade",
    "causal_simplex_pair": "theory",
    "chain_tokens": "position_windows",
    "classify": "phases",
    "compare_windows": "position_windows",
    "contraction": "contracting",
    "counterexample_pair": "counterexamples",
    "counterexample_smallest": "counterexamples",
    "critical_gamma": "theory",
    "critical_multiplier": "gaps",
    "focus": "row_focus",
    "focus_exponent": "phases",
    "gaussian_tokens": "samplers",
    "geometry": "token_geometry",
    "half_sphere_tokens": "samplers",
    "identity_weights": "attention_block",
    "jacobian_energy": "jacobian",
    "jacobian_energy_estimate": "hutchinson",
    "layer": "identity_layer",
    "log_partition": "theory",
    "log_partition_limit": "theory",
    "mixed_scores": "bridge",
    "random_weights": "attention_block",
    "read_tokens": "token_files",
    "simplex_focus": "theory",
    "simplex_kappa": "theory",
    "simplex_limit": "theory",
    "simplex_step": "theory",
    "simplex_tokens": "samplers",
    "sphere_tokens": "samplers",
    "weights_from_projections": "attention_block",
    "window_coordinate": "theory",
    "window_width": "theory",
}

__all__ = [
    "PHASES",
    "SAMPLERS",
    "Bridge",
    "Cascade",
    "Contraction",
    "Counterexample",
    "Estimate",
    "Focus",
    "JacobianEnergy",
    "TokenGeometry",
    "Weights",
    "WindowComparison",
    "assumption_two",
    "beta_c_iid",
    "beta_c_simplex",
    "beta_c_sphere",
    "block",
    "bound_trends",
    "bridge_exponents",
    "cascade",
    "causal_simplex_pair",
    "chain_tokens",
    "classify",
    "compare_windows",
    "contraction",
    "counterexample_pair",
    "counterexample_smallest",
    "critical_gamma",
    "critical_multiplier",
    "focus",
    "focus_exponent",
    "gaussian_tokens",
    "geometry",
    "half_sphere_tokens",
    "identity_weights",
    "jacobian_energy",
    "jacobian_energy_estimate",
    "layer",
    "log_partition",
    "log_partition_limit",
    "mixed_scores",
    "random_weights",
    "read_tokens",
    "simplex_focus",
    "simplex_kappa",
    "simplex_limit",
    "simplex_step",
    "simplex_tokens",
    "sphere_tokens",
    "weights_from_projections",
    "window_coordinate",
    "window_width",
]

__getattr__ = lazily(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
