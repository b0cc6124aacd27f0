"""The depth limit: a transformer with residual 1/(LH), trained with AdamW, as its depth L and its heads H grow.

Where things are; every file holds one idea:

- **the network**: ``network`` (forward), ``costates`` (adjoint and gradients in closed form), ``arguments``,
  ``continuous_time`` (a network as a function of t)
- **what it is given**: ``initialisation`` (laws and layouts of parameters), ``losses`` (with their derivatives in measure)
- **training**: ``optimisers`` (AdamW, blockwise AdamW, SGD in mean-field units), ``adam_bound`` (update bound and the
  compact set that holds the parameters), ``gradient_descent`` (a run, state by state)
- **the limit**: ``particles`` (for the law of the parameters), ``collocation`` (functions of t by a few nodes),
  ``collocated_flow`` (tokens and adjoint), ``limit_descent`` (its training)
- **the distance**: ``distances`` (of tokens and adjoint), ``adversarial`` (the worst inputs), ``shadows`` (of parameters),
  ``assignment`` (exact Wasserstein distances), ``splitting`` (the same heads, twice as deep)
- **why it is what it is**: ``error_parts`` (martingale and the rest), ``training_stability`` (what training passes on)
- **how fast**: ``rates`` (fitted exponents, published rates, equal products)
- **what the proof stands on**: ``attention_map`` (γ and its derivatives), ``map_ratios`` and ``drift_derivatives`` (Lipschitz
  ratios), ``growth`` (gradients and tokens over the scale of the parameters), ``diffusive`` (the L^{-1/2} residual in law)
- **against published numbers**: ``residual_mlp`` (residual perceptrons with the same kind of limit)
- ``naive``: slow twins in loops

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlim.core.exports import lazily

if TYPE_CHECKING:
    from attnlim.depth.adam_bound import adam_bound_at, adam_bound_limit, parameter_bound
    from attnlim.depth.adversarial import Adversary, adversary
    from attnlim.depth.assignment import wasserstein
    from attnlim.depth.attention_map import attended_covariance, attended_mean, lions_derivative
    from attnlim.depth.collocated_flow import LimitFlow, limit_flow
    from attnlim.depth.collocation import Nodes, gauss_nodes
    from attnlim.depth.continuous_time import ContinuousTime
    from attnlim.depth.costates import Adjoint, adjoint
    from attnlim.depth.diffusive import LawOverDepth, diffusive_factor, law_over_depth
    from attnlim.depth.distances import PathDistance, path_distance
    from attnlim.depth.drift_derivatives import DriftRatios, drift_gradient, drift_lions_derivative, drift_ratios
    from attnlim.depth.error_parts import BlockBound, ErrorStack, block_bound, error_stack
    from attnlim.depth.gradient_descent import Certificate, TrainingState, training
    from attnlim.depth.growth import GradientGrowth, StateGrowth, gradient_growth, state_growth
    from attnlim.depth.initialisation import initial_parameters
    from attnlim.depth.limit_descent import LimitState, limit_training
    from attnlim.depth.losses import FunctionLoss, Loss, MaximumMeanDiscrepancy, MomentLoss, PooledClassification
    from attnlim.depth.map_ratios import MapRatio, attended_mean_bound, attended_mean_ratio
    from attnlim.depth.network import forward
    from attnlim.depth.optimisers import SGD, AdamW, BlockwiseAdamW
    from attnlim.depth.particles import limit_particles
    from attnlim.depth.rates import (
        PUBLISHED_RATES,
        ProductSpread,
        PublishedRate,
        RateComparison,
        RateFit,
        compare_rates,
        decides,
        equal_product_spread,
        fit_rate,
    )
    from attnlim.depth.residual_mlp import (
        ResidualMlpReference,
        published_residual_mlp_error,
        residual_mlp_data,
        residual_mlp_errors,
        residual_mlp_reference,
        residual_mlp_training,
        residual_mlp_units,
    )
    from attnlim.depth.shadows import HeadDistance, ShadowHeads, head_distance
    from attnlim.depth.splitting import SplitState, merged_layers, split_coupling
    from attnlim.depth.training_stability import StabilityMeter, StabilityRatios

_HOME = {
    "AdamW": "optimisers",
    "Adjoint": "costates",
    "Adversary": "adversarial",
    "BlockBound": "error_parts",
    "BlockwiseAdamW": "optimisers",
    "Certificate": "gradient_descent",
    "ContinuousTime": "continuous_time",
    "DriftRatios": "drift_derivatives",
    "ErrorStack": "error_parts",
    "FunctionLoss": "losses",
    "GradientGrowth": "growth",
    "HeadDistance": "shadows",
    "LawOverDepth": "diffusive",
    "LimitFlow": "collocated_flow",
    "LimitState": "limit_descent",
    "Loss": "losses",
    "MapRatio": "map_ratios",
    "MaximumMeanDiscrepancy": "losses",
    "MomentLoss": "losses",
    "Nodes": "collocation",
    "PUBLISHED_RATES": "rates",
    "PathDistance": "distances",
    "PooledClassification": "losses",
    "ProductSpread": "rates",
    "PublishedRate": "rates",
    "RateComparison": "rates",
    "RateFit": "rates",
    "ResidualMlpReference": "residual_mlp",
    "SGD": "optimisers",
    "ShadowHeads": "shadows",
    "SplitState": "splitting",
    "StabilityMeter": "training_stability",
    "StabilityRatios": "training_stability",
    "StateGrowth": "growth",
    "TrainingState": "gradient_descent",
    "adam_bound_at": "adam_bound",
    "adam_bound_limit": "adam_bound",
    "adjoint": "costates",
    "adversary": "adversarial",
    "attended_covariance": "attention_map",
    "attended_mean": "attention_map",
    "attended_mean_bound": "map_ratios",
    "attended_mean_ratio": "map_ratios",
    "block_bound": "error_parts",
    "compare_rates": "rates",
    "decides": "rates",
    "diffusive_factor": "diffusive",
    "drift_gradient": "drift_derivatives",
    "drift_lions_derivative": "drift_derivatives",
    "drift_ratios": "drift_derivatives",
    "equal_product_spread": "rates",
    "error_stack": "error_parts",
    "fit_rate": "rates",
    "forward": "network",
    "gauss_nodes": "collocation",
    "gradient_growth": "growth",
    "head_distance": "shadows",
    "initial_parameters": "initialisation",
    "law_over_depth": "diffusive",
    "limit_flow": "collocated_flow",
    "limit_particles": "particles",
    "limit_training": "limit_descent",
    "lions_derivative": "attention_map",
    "merged_layers": "splitting",
    "parameter_bound": "adam_bound",
    "path_distance": "distances",
    "published_residual_mlp_error": "residual_mlp",
    "residual_mlp_data": "residual_mlp",
    "residual_mlp_errors": "residual_mlp",
    "residual_mlp_reference": "residual_mlp",
    "residual_mlp_training": "residual_mlp",
    "residual_mlp_units": "residual_mlp",
    "split_coupling": "splitting",
    "state_growth": "growth",
    "training": "gradient_descent",
    "wasserstein": "assignment",
}

__all__ = [
    "PUBLISHED_RATES",
    "SGD",
    "AdamW",
    "Adjoint",
    "Adversary",
    "BlockBound",
    "BlockwiseAdamW",
    "Certificate",
    "ContinuousTime",
    "DriftRatios",
    "ErrorStack",
    "FunctionLoss",
    "GradientGrowth",
    "HeadDistance",
    "LawOverDepth",
    "LimitFlow",
    "LimitState",
    "Loss",
    "MapRatio",
    "MaximumMeanDiscrepancy",
    "MomentLoss",
    "Nodes",
    "PathDistance",
    "PooledClassification",
    "ProductSpread",
    "PublishedRate",
    "RateComparison",
    "RateFit",
    "ResidualMlpReference",
    "ShadowHeads",
    "SplitState",
    "StabilityMeter",
    "StabilityRatios",
    "StateGrowth",
    "TrainingState",
    "adam_bound_at",
    "adam_bound_limit",
    "adjoint",
    "adversary",
    "attended_covariance",
    "attended_mean",
    "attended_mean_bound",
    "attended_mean_ratio",
    "block_bound",
    "compare_rates",
    "decides",
    "diffusive_factor",
    "drift_gradient",
    "drift_lions_derivative",
    "drift_ratios",
    "equal_product_spread",
    "error_stack",
    "fit_rate",
    "forward",
    "gauss_nodes",
    "gradient_growth",
    "head_distance",
    "initial_parameters",
    "law_over_depth",
    "limit_flow",
    "limit_particles",
    "limit_training",
    "lions_derivative",
    "merged_layers",
    "parameter_bound",
    "path_distance",
    "published_residual_mlp_error",
    "residual_mlp_data",
    "residual_mlp_errors",
    "residual_mlp_reference",
    "residual_mlp_training",
    "residual_mlp_units",
    "split_coupling",
    "state_growth",
    "training",
    "wasserstein",
]

__getattr__ = lazily(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
