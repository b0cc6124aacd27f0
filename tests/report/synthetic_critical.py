"""A small reproduction with every variable of its schema, from the simplex' closed forms."""

from __future__ import annotations

import math

import numpy as np
import xarray

VERDICT = (
    "6 claims: 3 confirmed, 1 qualified, 1 contradicted, 1 undecided.\n"
    "Forward and backward transition lie on one line at d = 512; at d = 2 there is none."
)
CLAIMS = (
    ("λ at γ_c is 1/(1+3ρ) on a simplex", "Theorem 2.1", 0.4, 0.4001, 0.3998, 0.4004, "confirmed", "n = 10^6, ρ = 0.5"),
    ("η is (1-1/d)/4q at γ_c", "Theorem 2.4", 0.2422, 0.2431, 0.2402, 0.2460, "confirmed", "n = 10^6, d = 32"),
    ("the transition is sharp at d = 512", "Figure 1", 0.0, 1.31, 1.29, 1.33, "qualified", "It is 1.3 wide in γ at n = 1024; the width falls as 1/ln n."),
    ("below 1/(1-ρ_1) every angle shrinks", "Theorem 2.3, as summarised", 1.0, 0.9993, math.nan, math.nan, "contradicted", "One pair goes from .95 to .69."),
    ("a middle phase with sparse attention", "Theorem C.2", math.nan, math.nan, math.nan, math.nan, "undecided", "Its condition is not at hand."),
    ("ln Z/ln n has its kink at γ_c", "before Theorem 2.1", 2.0, 2.0, 2.0, 2.0, "confirmed", "n = 10^300"),
)  # fmt: skip


def self_weight(log_others: np.ndarray, rho: np.ndarray, beta: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(np.clip(log_others - (1 - rho) * beta, -700, 700)))


def critical_dataset(claims: tuple[tuple[object, ...], ...] = CLAIMS, **attrs: object) -> xarray.Dataset:
    """Four columns of which the last has no half-weight point and ratios above 1, and two draws."""
    rng = np.random.default_rng(5)
    panels, widths = ("simplex", "d = 512", "d = 32", "d = 2"), np.array([1024.0, 512.0, 32.0, 2.0])
    rho, gamma, n = np.linspace(0.05, 0.95, 19).round(3), np.linspace(0, 8, 41).round(3), 1024
    shape = (4, 19, 41, 2)
    d = widths[:, None, None]
    blur = np.array([0.0, 1.0, 1.0, 1.0])[:, None, None]
    rho_hat = np.clip(rho[None, :, None] + blur * 0.1 * rng.standard_normal((4, 19, 2)) / np.sqrt(d), 0.01, 0.97)
    at, b = rho_hat[:, :, None, :], gamma[None, None, :, None] * math.log(n)
    shifts = np.linspace(-1.5, 1.5, 7)
    weights = [self_weight(math.log(n - 1) + s * blur[..., None] * 4 / np.sqrt(d[..., None]), at, b) for s in shifts]
    ratio = np.mean([p**2 / (p**2 + (1 - p) * (1 + p) * at) for p in weights], axis=0)
    ratio = ratio + 0.2 * (d[..., None] == 2) * (gamma[None, None, :, None] > 4)
    trace = (1 - 1 / d)[..., None]
    half = 1 / (1 - rho_hat) * (1 + blur * 2 / d)
    half[3] = math.nan

    log10_n = np.array([2.0, 3.0, 6.0, 30.0, 100.0, 300.0])
    log_n = log10_n * math.log(10)
    t = np.linspace(-8, 8, 65)
    log_others = np.log1p(-np.exp(-log_n)) + log_n
    collapse = 1 / (1 + np.exp(log_others[:, None] - log_n[:, None] - t[None, :]))
    sizes = np.array([1e3, 1e5, 1e6])
    simulated_t = np.tile(np.linspace(-6, 6, 9), (3, 1))
    partition_gamma = np.linspace(0, 4, 41)
    beta = partition_gamma[None, :] * log_n[:, None]
    partition = np.logaddexp(beta, log_others[:, None] + 0.5 * beta) / log_n[:, None]

    law_log10_n = np.linspace(2, 8, 25)
    law_log_n = law_log10_n * math.log(10)
    laws = {
        "β constant": 8 + 0 * law_log_n,
        "β ∝ √ln n": 4.2 * np.sqrt(law_log_n),
        "β ∝ ln n": 2.2 * law_log_n,
        "β ∝ (ln n)²": 0.3 * law_log_n**2,
    }
    betas = np.array(list(laws.values()))
    p = self_weight(law_log_n, np.array(0.5), betas)
    entropy = (1 - p) * law_log_n - p * np.log(p) - (1 - p) * np.log1p(-p)

    columns = list(zip(*claims, strict=True)) if claims else [()] * 8
    names = ("text", "source", "predicted", "measured", "low", "high", "verdict", "reason")
    table = {
        f"claim_{name}": ("claim", np.array(values, dtype=float if 2 <= i <= 5 else object))
        for i, (name, values) in enumerate(zip(names, columns, strict=True))
    }
    grid, sets = ("panel", "rho", "gamma", "draw"), ("panel", "rho", "draw")
    simulated = ("simulated_n_tokens", "simulated_point")
    law = ("law", "law_log10_n")
    weight = 1 / (1 + np.exp(-simulated_t))
    return xarray.Dataset(
        {
            "grid_contraction": (grid, np.broadcast_to(ratio, shape).copy()),
            "grid_eta_attention": (grid, np.mean([p**2 * trace for p in weights], axis=0)),
            "grid_rho_hat": (sets, rho_hat),
            "grid_gamma_c": (sets, 1 / (1 - rho_hat)),
            "grid_gamma_half": (sets, half),
            "grid_eta_limit": (sets, np.broadcast_to(1 - 1 / d, (4, 19, 2)).copy()),
            "collapse_self_weight": (("log10_n", "window_t"), collapse),
            "simulated_t": (simulated, simulated_t),
            "simulated_self_weight": (simulated, weight),
            "simulated_self_weight_se": (simulated, 0.2 * weight * (1 - weight)),
            "partition_ratio": (("log10_n", "partition_gamma"), partition),
            "partition_limit": ("partition_gamma", np.maximum(partition_gamma, 1 + 0.5 * partition_gamma)),
            "law_rho": (law, 0.5 / (0.5 + 0.5 * p**2)),
            "law_eta": (law, p**2 * (1 - 1 / 64)),
            "law_entropy": (law, entropy),
            "law_gamma": (law, betas / law_log_n),
            **table,
        },
        coords={
            "panel": np.array(panels, dtype=object),
            "rho": rho,
            "gamma": gamma,
            "draw": [0, 1],
            "log10_n": log10_n,
            "window_t": t,
            "simulated_n_tokens": sizes,
            "partition_gamma": partition_gamma,
            "law": np.array(list(laws), dtype=object),
            "law_log10_n": law_log10_n,
        },
        attrs={
            "kind": "attnlim.reproduce.critical",
            "verdict": VERDICT,
            "seed": 0,
            "dtype": "float32",
            "tokens": "gaussian",
            "grid_n_tokens": n,
            "partition_rho": 0.5,
            "law_rho_0": 0.5,
            "law_width": 64,
            **attrs,
        },
    )
