"""The residual perceptrons of arXiv 2509.10167: published numbers that the couplings and fits must find again."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from attnlim.core.cells import Arrays
from attnlim.depth.residual_mlp import residual_mlp_data, residual_mlp_errors, residual_mlp_reference

# gradient steps, and those at which errors are kept
N_STEPS, KEPT = 100, (0, 100)
REPETITIONS = 5


def reference(seed: int, n_layers: int, hidden: int, n_runs: int) -> Arrays:
    """Outputs of the limit: ``outputs`` (steps+1, inputs, width), ``noise`` and ``discretisation`` (steps+1,)."""
    x, targets = residual_mlp_data(seed=seed)
    found = residual_mlp_reference(n_layers, hidden, x, targets, N_STEPS, n_runs=n_runs, seed=seed)
    return {name: np.asarray(getattr(found, name)) for name in ("outputs", "noise", "discretisation")}


def errors(seed: int, n_layers: int, hidden: int, reference: Mapping[str, np.ndarray]) -> Arrays:
    """``error`` (KEPT, repetitions), root mean squares over outputs, of networks of one size."""
    x, targets = residual_mlp_data(seed=seed)
    outputs = torch.from_numpy(reference["outputs"])
    found = residual_mlp_errors(n_layers, hidden, x, targets, outputs, n_replicas=REPETITIONS, seed=seed)
    return {"error": found[list(KEPT)].numpy()}
