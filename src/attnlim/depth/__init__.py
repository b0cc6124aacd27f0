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
- ``naive``: slow twins in loops

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlim.core.exports import lazily

if TYPE_CHECKING:
    from attnlim.depth.adam_bound import adam_bound_at, adam_bound_limit, parameter_bound
    from attnlim.depth.adversarial import Adversary, adversary
    from attnlim.depth.collocated_flow import LimitFlow, limit_flow
    from attnlim.depth.collocation import Nodes, gauss_nodes
    from attnlim.depth.continuous_time import ContinuousTime
    from attnlim.depth.costates import Adjoint, adjoint
    from attnlim.depth.distances import PathDistance, path_distance
    from attnlim.depth.error_parts import BlockBound, ErrorStack, block_bound, error_stack
    from attnlim.depth.gradient_descent import Certificate, TrainingState, training
    from attnlim.depth.initialisation import initial_parameters
    from attnlim.depth.limit_descent import LimitState, limit_training
    from attnlim.depth.losses import FunctionLoss, Loss, MaximumMeanDiscrepancy, MomentLoss, PooledClassification
    from attnlim.depth.network import forward
    from attnlim.depth.optimisers import SGD, AdamW, BlockwiseAdamW
    from attnlim.depth.particles import limit_particles
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
    "ErrorStack": "error_parts",
    "FunctionLoss": "losses",
    "HeadDistance": "shadows",
    "LimitFlow": "collocated_flow",
    "LimitState": "limit_descent",
    "Loss": "losses",
    "MaximumMeanDiscrepancy": "losses",
    "MomentLoss": "losses",
    "Nodes": "collocation",
    "PathDistance": "distances",
    "PooledClassification": "losses",
    "SGD": "optimisers",
    "ShadowHeads": "shadows",
    "SplitState": "splitting",
    "StabilityMeter": "training_stability",
    "StabilityRatios": "training_stability",
    "TrainingState": "gradient_descent",
    "adam_bound_at": "adam_bound",
    "adam_bound_limit": "adam_bound",
    "adjoint": "costates",
    "adversary": "adversarial",
    "block_bound": "error_parts",
    "error_stack": "error_parts",
    "forward": "network",
    "gauss_nodes": "collocation",
    "head_distance": "shadows",
    "initial_parameters": "initialisation",
    "limit_flow": "collocated_flow",
    "limit_particles": "particles",
    "limit_training": "limit_descent",
    "merged_layers": "splitting",
    "parameter_bound": "adam_bound",
    "path_distance": "distances",
    "split_coupling": "splitting",
    "training": "gradient_descent",
}

__all__ = [
    "SGD",
    "AdamW",
    "Adjoint",
    "Adversary",
    "BlockBound",
    "BlockwiseAdamW",
    "Certificate",
    "ContinuousTime",
    "ErrorStack",
    "FunctionLoss",
    "HeadDistance",
    "LimitFlow",
    "LimitState",
    "Loss",
    "MaximumMeanDiscrepancy",
    "MomentLoss",
    "Nodes",
    "PathDistance",
    "PooledClassification",
    "ShadowHeads",
    "SplitState",
    "StabilityMeter",
    "StabilityRatios",
    "TrainingState",
    "adam_bound_at",
    "adam_bound_limit",
    "adjoint",
    "adversary",
    "block_bound",
    "error_stack",
    "forward",
    "gauss_nodes",
    "head_distance",
    "initial_parameters",
    "limit_flow",
    "limit_particles",
    "limit_training",
    "merged_layers",
    "parameter_bound",
    "path_distance",
    "split_coupling",
    "training",
]

__getattr__ = lazily(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
