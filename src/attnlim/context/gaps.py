"""The gap count: at which multiplier would a row of attention scores be critical?"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attnlim.context.arguments import as_tensor
from attnlim.core.checks import InputError, whole_number


def critical_multiplier(scores: Tensor | np.ndarray, k_min: int = 10) -> Tensor:
    r"""The multiplier on a row's own scores at which the row would be critical.

    .. math::
        b_c = \max_{k \ge k_{\min}} \frac{\ln k}{z_{(1)} - z_{(k)}}, \qquad z_{(1)} \ge z_{(2)} \ge \dots

    A row with ``b_c > 1`` is called subcritical, with ``b_c < 1`` supercritical. On a simplex it is exactly
    ln n/(1-ρ); on random scores it is biased at finite n (see the documentation's table).

    Source: after arXiv 2605.12697; constants [*derived*](../derivations.md#gap-count) for this project.

    Args:
        scores: (..., n_keys), tensor or array, logits q·k times the softmax scale, dimensionless; ``-inf`` marks a hidden key.
        k_min: the smallest rank that counts, at least 2.

    Returns:
        (...), dimensionless, positive; ``inf`` where the ``k_min`` largest scores are equal, NaN where fewer
        than ``k_min`` keys are visible.

    Raises:
        InputError: ``k_min`` below 2, scores that are not floating point or have no axis, or a row that holds
            NaN or ``+inf``.

    Cost: one sort of the scores. Precision: that of the scores' dtype. Twin: ``attnlim.context.naive``.

    >>> row = torch.full((100,), 0.5, dtype=torch.float64); row[0] = 1.0
    >>> round(float(critical_multiplier(row)), 6)    # ln(100)/(1 - 0.5)
    9.21034
    """
    k_min = whole_number("k_min", k_min, 2)
    scores = as_tensor(scores)
    if not isinstance(scores, Tensor) or not scores.is_floating_point() or scores.ndim == 0:
        tensor = isinstance(scores, Tensor)
        came = f"{scores.dtype} of shape {tuple(scores.shape)}" if tensor else type(scores).__name__
        raise InputError(f"scores must be a floating-point tensor (..., n_keys), got {came}; use torch.as_tensor")
    if bool(torch.isnan(scores).any()) or bool(torch.isposinf(scores).any()):
        raise InputError("scores must be finite or -inf (hidden), got NaN or +inf; mask hidden keys with -inf")
    if scores.shape[-1] < k_min:
        return scores.new_full(scores.shape[:-1], torch.nan)
    ordered = scores.sort(dim=-1, descending=True).values
    gaps = ordered[..., :1] - ordered[..., k_min - 1 :]
    # ranks in float64: bfloat16 cannot count beyond 256, float16 not beyond 65504
    ranks = torch.arange(k_min, scores.shape[-1] + 1, dtype=torch.float64, device=scores.device)
    multiplier = (ranks.log().to(scores.dtype) / gaps).amax(dim=-1)
    enough = torch.isfinite(ordered[..., k_min - 1])
    return torch.where(enough, multiplier, torch.nan)
