"""The context limit: what attention does to tokens as their number n grows at a fixed depth.

Where things are; every file holds one idea:

- **closed forms, no torch**: ``simplex`` (a layer), ``simplex_limits`` (n → ∞, the window), ``simplex_rows`` (focus),
  ``simplex_energy`` and ``jacobian_limits`` (η), ``half_weight``, ``scaling_laws``; gathered in part by ``theory``
- **tokens**: ``samplers``, ``token_files``, ``token_geometry``, ``cosine``; Assumption 2 in ``near_simplex`` and
  ``counterexamples``
- **the layer**: ``identity_layer`` (K = Q = V = I), ``attention_block`` (weights, heads, MLP)
- **streaming kernels under it**: ``centred`` (coordinates without cancellation), ``attending`` (one pass for all β),
  ``layer_directions``, ``pair_ratios``, ``row_energies``, ``second_moments``; ``row_sample``
- **measures**: ``contracting`` (λ), ``jacobian`` (η, exact), ``hutchinson`` (η of any function, by probes),
  ``row_focus`` (tokens attended), ``phases`` and ``focus_thresholds`` (κ, γ_1, γ_2)
- **many layers**: ``simplex_layers``, ``stability`` and ``stack_jacobian`` in closed form, ``simulated_cascade``
- **rows of scores**: ``gaps`` (the gap count) and ``bias``, ``criticality`` (β_c), ``random_energy`` (n → ∞) and
  ``independent_rows`` (finite n), ``planted_scores`` and ``bridge`` (from ln n to √ln n)
- **content against windows of positions**: ``position_windows``
- **slow twins**: ``naive``; **checks of arguments**: ``arguments`` (tokens), ``simplex_arguments`` (numbers)

Names are loaded when they are first used, so that the closed forms need no torch.
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
    from attnlim.context.focus_thresholds import FocusThresholds, crossings, gamma_thresholds, simplex_gamma_thresholds
    from attnlim.context.gaps import critical_multiplier
    from attnlim.context.half_weight import half_weight_gamma
    from attnlim.context.hutchinson import Estimate, jacobian_energy_estimate
    from attnlim.context.identity_layer import layer
    from attnlim.context.independent_rows import IndependentRow, half_participation_beta, independent_row
    from attnlim.context.jacobian import JacobianEnergy, jacobian_energy
    from attnlim.context.jacobian_limits import jacobian_limit, mean_inverse_square, supercritical_jacobian_limit
    from attnlim.context.near_simplex import assumption_two, bound_trends
    from attnlim.context.phases import PHASES, classify, focus_exponent
    from attnlim.context.planted_scores import PlantedScores, bridge_beta_c, bridge_power, bridge_scores, bridge_turn
    from attnlim.context.position_windows import WindowComparison, chain_tokens, compare_windows
    from attnlim.context.random_energy import (
        concentration_limit,
        entropy_exponent,
        frozen_entropy,
        log_partition_exponent,
        log_partition_sphere,
        participation_exponent,
    )
    from attnlim.context.row_focus import Focus, focus
    from attnlim.context.samplers import SAMPLERS, gaussian_tokens, half_sphere_tokens, simplex_tokens, sphere_tokens
    from attnlim.context.scaling_laws import LAWS, Law, LawRows, beta_law, law_rows, log_n_at_threshold, scale_through
    from attnlim.context.simplex_energy import SimplexJacobian, simplex_jacobian
    from attnlim.context.simplex_layers import SimplexCascade, simplex_cascade
    from attnlim.context.simulated_cascade import Cascade, cascade
    from attnlim.context.stability import layers_to_collapse, stability_line
    from attnlim.context.stack_jacobian import SimplexStack, simplex_stack
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
    "FocusThresholds": "focus_thresholds",
    "IndependentRow": "independent_rows",
    "JacobianEnergy": "jacobian",
    "LAWS": "scaling_laws",
    "Law": "scaling_laws",
    "LawRows": "scaling_laws",
    "PHASES": "phases",
    "PlantedScores": "planted_scores",
    "SAMPLERS": "samplers",
    "SimplexCascade": "simplex_layers",
    "SimplexJacobian": "simplex_energy",
    "SimplexStack": "stack_jacobian",
    "TokenGeometry": "token_geometry",
    "Weights": "attention_block",
    "WindowComparison": "position_windows",
    "assumption_two": "near_simplex",
    "beta_c_iid": "criticality",
    "beta_c_simplex": "criticality",
    "beta_c_sphere": "criticality",
    "beta_law": "scaling_laws",
    "block": "attention_block",
    "bound_trends": "near_simplex",
    "bridge_beta_c": "planted_scores",
    "bridge_exponents": "bridge",
    "bridge_power": "planted_scores",
    "bridge_scores": "planted_scores",
    "bridge_turn": "planted_scores",
    "cascade": "simulated_cascade",
    "causal_simplex_pair": "theory",
    "chain_tokens": "position_windows",
    "classify": "phases",
    "compare_windows": "position_windows",
    "concentration_limit": "random_energy",
    "contraction": "contracting",
    "counterexample_pair": "counterexamples",
    "counterexample_smallest": "counterexamples",
    "critical_gamma": "theory",
    "critical_multiplier": "gaps",
    "crossings": "focus_thresholds",
    "entropy_exponent": "random_energy",
    "focus": "row_focus",
    "focus_exponent": "phases",
    "frozen_entropy": "random_energy",
    "gamma_thresholds": "focus_thresholds",
    "gaussian_tokens": "samplers",
    "geometry": "token_geometry",
    "half_participation_beta": "independent_rows",
    "half_sphere_tokens": "samplers",
    "half_weight_gamma": "half_weight",
    "identity_weights": "attention_block",
    "independent_row": "independent_rows",
    "jacobian_energy": "jacobian",
    "jacobian_energy_estimate": "hutchinson",
    "jacobian_limit": "jacobian_limits",
    "law_rows": "scaling_laws",
    "layer": "identity_layer",
    "layers_to_collapse": "stability",
    "log_n_at_threshold": "scaling_laws",
    "log_partition": "theory",
    "log_partition_exponent": "random_energy",
    "log_partition_limit": "theory",
    "log_partition_sphere": "random_energy",
    "mean_inverse_square": "jacobian_limits",
    "mixed_scores": "bridge",
    "participation_exponent": "random_energy",
    "random_weights": "attention_block",
    "read_tokens": "token_files",
    "scale_through": "scaling_laws",
    "simplex_cascade": "simplex_layers",
    "simplex_focus": "theory",
    "simplex_gamma_thresholds": "focus_thresholds",
    "simplex_jacobian": "simplex_energy",
    "simplex_kappa": "theory",
    "simplex_limit": "theory",
    "simplex_stack": "stack_jacobian",
    "simplex_step": "theory",
    "simplex_tokens": "samplers",
    "sphere_tokens": "samplers",
    "stability_line": "stability",
    "supercritical_jacobian_limit": "jacobian_limits",
    "weights_from_projections": "attention_block",
    "window_coordinate": "theory",
    "window_width": "theory",
}

__all__ = [
    "LAWS",
    "PHASES",
    "SAMPLERS",
    "Bridge",
    "Cascade",
    "Contraction",
    "Counterexample",
    "Estimate",
    "Focus",
    "FocusThresholds",
    "IndependentRow",
    "JacobianEnergy",
    "Law",
    "LawRows",
    "PlantedScores",
    "SimplexCascade",
    "SimplexJacobian",
    "SimplexStack",
    "TokenGeometry",
    "Weights",
    "WindowComparison",
    "assumption_two",
    "beta_c_iid",
    "beta_c_simplex",
    "beta_c_sphere",
    "beta_law",
    "block",
    "bound_trends",
    "bridge_beta_c",
    "bridge_exponents",
    "bridge_power",
    "bridge_scores",
    "bridge_turn",
    "cascade",
    "causal_simplex_pair",
    "chain_tokens",
    "classify",
    "compare_windows",
    "concentration_limit",
    "contraction",
    "counterexample_pair",
    "counterexample_smallest",
    "critical_gamma",
    "critical_multiplier",
    "crossings",
    "entropy_exponent",
    "focus",
    "focus_exponent",
    "frozen_entropy",
    "gamma_thresholds",
    "gaussian_tokens",
    "geometry",
    "half_participation_beta",
    "half_sphere_tokens",
    "half_weight_gamma",
    "identity_weights",
    "independent_row",
    "jacobian_energy",
    "jacobian_energy_estimate",
    "jacobian_limit",
    "law_rows",
    "layer",
    "layers_to_collapse",
    "log_n_at_threshold",
    "log_partition",
    "log_partition_exponent",
    "log_partition_limit",
    "log_partition_sphere",
    "mean_inverse_square",
    "mixed_scores",
    "participation_exponent",
    "random_weights",
    "read_tokens",
    "scale_through",
    "simplex_cascade",
    "simplex_focus",
    "simplex_gamma_thresholds",
    "simplex_jacobian",
    "simplex_kappa",
    "simplex_limit",
    "simplex_stack",
    "simplex_step",
    "simplex_tokens",
    "sphere_tokens",
    "stability_line",
    "supercritical_jacobian_limit",
    "weights_from_projections",
    "window_coordinate",
    "window_width",
]

__getattr__ = lazily(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
