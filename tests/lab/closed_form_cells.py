"""Cells of a phase diagram made of the simplex' own closed forms: their transition is known without measuring."""

from __future__ import annotations

import math

import numpy as np

from attnlim.context.simplex import simplex_step
from attnlim.context.simplex_energy import simplex_jacobian
from attnlim.core.cells import Arrays
from attnlim.lab.phase_cell import CONTRACTION, ETA, FOCUS
from attnlim.lab.phase_grid import PhaseGrid


def closed_form_results(grid: PhaseGrid, shift: float = 0.0, duplicates: int = 0) -> dict[str, Arrays]:
    """What ``measure_cell`` would give if each token set were a simplex at its ρ; ``shift`` moves the curves in γ."""
    found = {}
    for cell in grid.cells():
        at = cell.arguments
        n, rho = at["n_tokens"], 0.01 if math.isnan(at["rho"]) else at["rho"]
        gamma = [max(0.0, g - shift * (1 + at["draw"])) for g in at["gamma"]]
        steps = [simplex_step(n, rho, g, alpha=at["alpha"]) for g in gamma]
        energies = [simplex_jacobian(n, at["width"], rho, g, alpha=at["alpha"], causal=at["causal"]) for g in gamma]
        arrays: Arrays = {name: np.full(len(gamma), np.nan) for name in (*CONTRACTION, *ETA, *FOCUS)}
        arrays["contraction"] = np.array([step.one_minus_rho / (1 - rho) for step in steps])
        arrays["contraction_standard_error"] = arrays["contraction_error"] = np.zeros(len(gamma))
        arrays["eta"] = np.array([energy.total for energy in energies])
        arrays["eta_attention"] = np.array([energy.attention for energy in energies])
        arrays["entropy"] = np.full(len(gamma), float(at["draw"]))
        if "focus" not in at["measure"]:
            arrays = {name: values for name, values in arrays.items() if name not in FOCUS}
        of_tokens = {"rho_hat": rho, "rho_1": rho, "rho_2": rho, "score_variance": 0.0, "duplicates": duplicates}
        of_tokens |= dict.fromkeys(("q_1", "q_2", "q_mean", "inverse_q_mean"), 1.0) | {"min_cosine_before": rho}
        found[cell.key] = arrays | {name: np.array(float(value)) for name, value in of_tokens.items()}
    return found
