"""A small phase diagram with every variable of the schema, from the simplex' closed forms blurred by the width."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import xarray

DIMS = ("n_tokens", "width", "rho", "gamma", "alpha", "causal", "draw")
SETS = ("n_tokens", "width", "rho", "draw")
RHOS = tuple(np.linspace(0.05, 0.95, 19).round(3))
GAMMAS = tuple(np.linspace(0.0, 8.0, 41).round(3))
VERDICT = (
    "At 1024 tokens the transition lies at γ = 2.1 where ρ = 0.5, 4 % above 1/(1 − ρ̂), and is 1.3 wide.\n"
    "At d = 2 there is no half-weight point. Draw it again with `attnlim report runs/phase`."
)
# how far the log-odds of a row's self weight scatter at width 1
BLUR = 4.0


def self_weight(n: np.ndarray, rho: np.ndarray, gamma: np.ndarray, shift: float = 0.0) -> np.ndarray:
    return 1 / (1 + (n - 1) * np.exp(-(1 - rho) * gamma * np.log(n) - shift))


def contraction(n: np.ndarray, rho: np.ndarray, p: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    b = (1 - p) / (n - 1)
    c = p - b + alpha
    s = 1 + (n - 1) * rho
    return c**2 / (c**2 + 2 * c * b * s + b**2 * n * s)


def half_weight(n: float, rho: float, variance: float) -> float:
    """The smaller root of γ(1-ρ) = 1 + γ² v ln(n)/2, NaN without one."""
    a, b = variance * math.log(n) / 2, 1 - rho
    inside = b**2 - 4 * a
    return (b - math.sqrt(inside)) / (2 * a) if inside >= 0 and a > 0 else math.nan


def phase_dataset(
    n_tokens: Sequence[int] = (256, 1024),
    width: Sequence[int] = (2, 32, 512),
    rho: Sequence[float] = RHOS,
    gamma: Sequence[float] = GAMMAS,
    alpha: Sequence[float] = (0.0,),
    causal: Sequence[bool] = (False,),
    draws: int = 4,
    tokens: str = "gaussian",
    verdict: str = VERDICT,
) -> xarray.Dataset:
    """Every variable of the schema; the smallest width has no half-weight point and ratios above 1."""
    rng = np.random.default_rng(3)
    shape = (*(len(values) for values in (n_tokens, width, rho, gamma, alpha, causal)), draws)
    coords = {
        "n_tokens": list(n_tokens),
        "width": list(width),
        "rho": list(rho),
        "gamma": list(gamma),
        "alpha": list(alpha),
        "causal": list(causal),
        "draw": list(range(draws)),
    }
    grid = dict(
        zip(DIMS, np.meshgrid(*(np.asarray(v, dtype=float) for v in coords.values()), indexing="ij"), strict=True)
    )
    n, d, gammas, alphas = (grid[name] for name in ("n_tokens", "width", "gamma", "alpha"))

    set_shape = tuple(shape[DIMS.index(name)] for name in SETS)
    sets = {name: grid[name][:, :, :, 0, 0, 0, :] for name in SETS}
    spread = 0.12 * rng.standard_normal(set_shape) / np.sqrt(sets["width"])
    rho_hat = np.clip(sets["rho"] * (1 - 0.5 / sets["width"]) + spread, 0.0, 0.97)
    variance = (1 - rho_hat) ** 2 / sets["width"]
    halves = np.vectorize(half_weight)(sets["n_tokens"], rho_hat, 0.3 * variance)
    at = rho_hat[:, :, :, None, None, None, :] + 0 * n

    blur = BLUR / np.sqrt(d)
    shifts = np.linspace(-1.5, 1.5, 7)
    weights = [self_weight(n, at, gammas, shift * blur) for shift in shifts]
    noise = 1 + 0.01 * rng.standard_normal(shape)
    measured = np.mean([contraction(n, at, p, alphas) for p in weights], axis=0) * noise
    measured = np.where(d <= 2, measured + 0.25 * (gammas > 3) * (at > 0.3), measured)
    trace = 1 - 1 / d
    attention = np.mean([(p**2 + (1 - p) ** 2 / (n - 1)) * trace for p in weights], axis=0) * noise
    covariance = (gammas * np.log(n) * (1 - at) / d) ** 2 * np.mean([p * (1 - p) for p in weights], axis=0)
    residual = alphas**2 + 2 * alphas * trace * np.mean(weights, axis=0)
    own = np.mean(weights, axis=0)
    entropy = (1 - own) * np.log(n)
    cells = {
        "contraction": measured,
        "contraction_standard_error": 0.004 * measured,
        "contraction_error": np.full(shape, 1e-7),
        "fraction_contracted": np.clip(1 - 0.5 * own, 0, 1),
        "min_cosine": at - 0.3 * (1 - own),
        "worst_ratio": 1 + measured,
        "duplicates": np.zeros(shape, dtype=int),
        "eta": attention + covariance + residual,
        "eta_attention": attention,
        "eta_covariance": covariance,
        "eta_residual": residual,
        "eta_standard_error": 0.01 * attention,
        "distance": (1 - own) ** 2,
        "entropy": entropy,
        "entropy_standard_error": 0.02 * entropy,
        "perplexity": np.exp(entropy),
        "perplexity_standard_error": 0.05 * np.exp(entropy),
        "participation": 1 / (own**2 + (1 - own) ** 2 / (n - 1)),
        "participation_standard_error": 0.1 / (own**2 + (1 - own) ** 2 / (n - 1)),
    }
    exact = self_weight(n, at, gammas)
    theory = {
        "contraction_simplex": contraction(n, at, exact, alphas),
        "eta_simplex": (exact**2 + (1 - exact) ** 2 / (n - 1)) * trace + alphas**2 + 2 * alphas * trace * exact,
    }
    token_sets = {
        "rho_hat": rho_hat,
        "rho_1": rho_hat - 3 * np.sqrt(variance),
        "rho_2": np.minimum(rho_hat + 3 * np.sqrt(variance), 1),
        "q_1": np.ones(set_shape),
        "q_2": np.ones(set_shape),
        "score_variance": variance,
        "min_cosine_before": rho_hat - 3 * np.sqrt(variance),
        "gamma_c": 1 / (1 - rho_hat),
        "gamma_half": halves,
    }
    without_causal = tuple(name for name in DIMS if name != "causal")
    return xarray.Dataset(
        {name: (DIMS, values) for name, values in cells.items()}
        | {name: (without_causal, values[:, :, :, :, :, 0, :]) for name, values in theory.items()}
        | {name: (SETS, values) for name, values in token_sets.items()},
        coords=coords,
        attrs={"kind": "attnlim.phase", "tokens": tokens, "verdict": verdict, "dtype": "float32", "seed": 0},
    )


def run_record() -> dict[str, object]:
    """What run.json would hold."""
    return {
        "command": "attnlim phase --tokens gaussian --n 256,1024 --d 2,32,512",
        "arguments": {"tokens": "gaussian", "n": [256, 1024], "d": [2, 32, 512]},
        "version": "0.2.0",
        "git_commit": None,
        "seeds": {"tokens": 0},
        "environment": {"python": "3.11.9", "packages": {"torch": "2.13.0"}},
        "started": "2026-11-29T10:00:00+00:00",
        "finished": "2026-11-29T10:01:30+00:00",
        "seconds": 90.25,
        "status": "finished",
    }
