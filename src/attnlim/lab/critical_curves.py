"""Finite n in closed form: the window's collapse, the denominator, and four laws of β, for n up to 10^300."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlim.context.scaling_laws import LawRows, law_rows, scale_through
from attnlim.context.simplex import simplex_step
from attnlim.context.simplex_limits import critical_gamma, log_partition, log_partition_limit

Floats = NDArray[np.float64]

RHO = 0.5
LOG10_N = (2, 3, 4, 6, 10, 30, 100, 300)
# 65 places from -8 to 8; t = -8 needs γ ≥ 0, so n ≥ e^8 at ρ = 0.5: below that it is NaN
WINDOW_T = np.linspace(-8.0, 8.0, 65)
PARTITION_GAMMA = np.linspace(0.0, 4.0, 41)
LAW_LOG10_N = np.linspace(2.0, 12.0, 41)
LAW_LABELS = {
    "constant": "β constant",
    "sqrt-log": "β ∝ √ln n",
    "log": "β ∝ ln n",
    "log-squared": "β ∝ (ln n)²",
}
# where the four laws meet, on the threshold
LAW_MEETING = 10**4


def curve_variables() -> tuple[dict[str, Any], dict[str, Any]]:
    """The variables of the sheet on finite n that need no tokens, and their coordinates."""
    collapse = np.array([[self_weight_at(10**power, t) for t in WINDOW_T] for power in LOG10_N])
    partition = np.array([
        [log_partition(10**power, RHO, gamma) / (power * math.log(10)) for gamma in PARTITION_GAMMA] for power in LOG10_N
    ])  # fmt: skip
    sizes = [round(10**power) for power in LAW_LOG10_N]
    laws = [law(name, sizes) for name in LAW_LABELS]
    rows = ("law", "law_log10_n")
    variables = {
        "collapse_self_weight": (("log10_n", "window_t"), collapse),
        "partition_ratio": (("log10_n", "partition_gamma"), partition),
        "partition_limit": ("partition_gamma", np.array([log_partition_limit(RHO, g) for g in PARTITION_GAMMA])),
        "law_rho": (rows, np.array([found.rho for found in laws])),
        "law_eta": (rows, np.array([found.eta for found in laws])),
        "law_entropy": (rows, np.array([found.entropy for found in laws])),
        "law_gamma": (rows, np.array([found.gamma for found in laws])),
    }
    coordinates = {
        "log10_n": np.array(LOG10_N, dtype=np.float64),
        "window_t": WINDOW_T,
        "partition_gamma": PARTITION_GAMMA,
        "law": np.array(list(LAW_LABELS.values()), dtype=object),
        "law_log10_n": LAW_LOG10_N,
    }
    return variables, coordinates


def self_weight_at(n_tokens: int, t: float) -> float:
    """p of a simplex at a place t of the critical window; NaN where that would need a negative γ.

    >>> self_weight_at(10**300, 0.0), self_weight_at(100, -6.0)
    (0.5, nan)
    """
    log_n = math.log(n_tokens)
    gamma = (1 + t / log_n) * critical_gamma(RHO)
    return simplex_step(n_tokens, RHO, gamma).self_weight if gamma >= 0 else math.nan


def law(name: str, n_tokens: list[int]) -> LawRows:
    """A law of β over n, scaled so that all laws are on the threshold of a simplex at n = 10^4."""
    beta = critical_gamma(RHO) * math.log(LAW_MEETING)
    return law_rows(name, n_tokens, RHO, scale_through(name, LAW_MEETING, beta))
