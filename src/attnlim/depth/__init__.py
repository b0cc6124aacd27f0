"""The depth limit: a transformer with residual 1/(LH), trained with AdamW, as its depth L and its heads H grow.

Where things are; every file holds one idea:

- **the network**: ``network`` (forward), ``costates`` (adjoint and gradients in closed form), ``arguments``
- **what it is given**: ``initialisation`` (laws and layouts of parameters), ``losses`` (with their derivatives in measure)
- **training**: ``optimisers`` (AdamW, blockwise AdamW, SGD in mean-field units), ``adam_bound`` (update bound and the
  compact set that holds the parameters), ``gradient_descent`` (a run, state by state)
- ``naive``: slow twins in loops

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlim.core.exports import lazily

if TYPE_CHECKING:
    from attnlim.depth.adam_bound import adam_bound_at, adam_bound_limit, parameter_bound
    from attnlim.depth.costates import Adjoint, adjoint
    from attnlim.depth.gradient_descent import Certificate, TrainingState, training
    from attnlim.depth.initialisation import initial_parameters
    from attnlim.depth.losses import (
        FunctionLoss,
        Loss,
        MaximumMeanDiscrepancy,
        MomentLoss,
        PooledClassification,
    )
    from attnlim.depth.network import forward
    from attnlim.depth.optimisers import SGD, AdamW, BlockwiseAdamW

_HOME = {
    "AdamW": "optimisers",
    "Adjoint": "costates",
    "BlockwiseAdamW": "optimisers",
    "Certificate": "gradient_descent",
    "FunctionLoss": "losses",
    "Loss": "losses",
    "MaximumMeanDiscrepancy": "losses",
    "MomentLoss": "losses",
    "PooledClassification": "losses",
    "SGD": "optimisers",
    "TrainingState": "gradient_descent",
    "adam_bound_at": "adam_bound",
    "adam_bound_limit": "adam_bound",
    "adjoint": "costates",
    "forward": "network",
    "initial_parameters": "initialisation",
    "parameter_bound": "adam_bound",
    "training": "gradient_descent",
}

__all__ = [
    "SGD",
    "AdamW",
    "Adjoint",
    "BlockwiseAdamW",
    "Certificate",
    "FunctionLoss",
    "Loss",
    "MaximumMeanDiscrepancy",
    "MomentLoss",
    "PooledClassification",
    "TrainingState",
    "adam_bound_at",
    "adam_bound_limit",
    "adjoint",
    "forward",
    "initial_parameters",
    "parameter_bound",
    "training",
]

__getattr__ = lazily(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
