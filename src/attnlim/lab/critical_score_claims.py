"""Claims about what sets the law of β, and about attention by content beside windows of positions."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from attnlim.context.planted_scores import bridge_power
from attnlim.lab.critical_verdicts import in_the_end
from attnlim.lab.verdicts import CLOSE, ROUGH, Claim, Measured, at_least, exact, near, over_draws

# two orders of the same sums in float64
ROUNDING = 1e-9


def score_claims(dataset: xr.Dataset) -> list[Claim]:
    """The rows on log n against √log n, and on content against position."""
    return [log_claim(dataset), independent_claim(dataset), permuted_claim(dataset), content_claim(dataset)]


def log_claim(dataset: xr.Dataset, claimed: float = 1.0) -> Claim:
    """The power of ln n that the critical multiplier of the paper's own scores follows."""
    found = {name: dataset[f"scores_{name}"].to_numpy() for name in ("exponent", "low", "high")}
    measured = Measured(*(float(found[name][0]) for name in ("exponent", "low", "high")))
    rho, width = float(dataset.attrs["token_rho"]), int(dataset["frozen_width"][0])
    variance = float(dataset["grid_score_variance"].isel(panel=1).sel(rho=rho, method="nearest").mean())
    derived = bridge_power(int(dataset.attrs["grid_n_tokens"]), rho, width, 0.0, variance)
    return Claim(
        "log", "scores set by token geometry: β_c ∝ ln n", "Theorem 2.1, against √ln n", claimed, measured,
        near(claimed, measured, rough=ROUGH),
        f"power of ln n of the gap count b_c on the paper’s tokens, d = {width}. On a simplex it is 1 at every n; the scatter "
        f"of cosines raises β_c’s own to {derived:.3f}, and the estimator is biased up. With random scores (K^TQ = G) it gives "
        f"{found['exponent'][1]:.2f}",
    )  # fmt: skip


def independent_claim(dataset: xr.Dataset, claimed: float = 0.5) -> Claim:
    """The power of ln n for independent scores, from the exact β at which Σ A² = 1/2."""
    log_n = dataset["independent_log10_n"].to_numpy() * math.log(10)
    powers = np.diff(np.log(dataset["independent_beta"].to_numpy())) / np.diff(np.log(log_n))
    powers_of_ten = [f"10^{power:.0f}" for power in dataset["independent_log10_n"].to_numpy()]
    here = float(powers[0])
    return Claim(
        "independent", "independent scores: β ∝ √ln n", "Giorlandino and Goldt, as cited", claimed, exact(powers[-1]),
        in_the_end(near(claimed, exact(powers[-1])), abs(here - claimed) <= CLOSE),
        f"power of ln n of the β with Σ A² = 1/2, normal scores, exact, from n = {powers_of_ten[-2]} to "
        f"{powers_of_ten[-1]}; from {powers_of_ten[0]} to {powers_of_ten[1]} it is {here:.2f}. So the law of β follows from "
        "the law of the scores, not from attention",
    )  # fmt: skip


def permuted_claim(dataset: xr.Dataset, claimed: float = 0.0) -> Claim:
    """What a permutation of the tokens changes in the mean attended cosine."""
    found = {name: dataset[f"content_{name}"] for name in ("content", "content_permuted", "window", "window_permuted")}
    measured = exact(float(np.abs(found["content"] - found["content_permuted"]).max()))
    chain = {name: values.sel(chain="chain").isel(chain_beta=1).mean().item() for name, values in found.items()}
    return Claim(
        "permuted", "attention follows content: permuting the tokens changes nothing", "contrast with Longformer and Swin",
        claimed, measured, near(claimed, measured, ROUNDING),
        f"largest change of the mean attended cosine; of a window of positions it goes from {chain['window']:.2f} to "
        f"{chain['window_permuted']:.2f} on a chain of correlated tokens, n = {dataset.attrs['chain_n_tokens']}",
    )  # fmt: skip


def content_claim(dataset: xr.Dataset) -> Claim:
    """How much more alike the attended tokens are than those of a window of positions that holds as many."""
    lead = (dataset["content_content"] - dataset["content_window"]).transpose("chain", "chain_beta", "draw")
    means = lead.mean("draw").to_numpy()
    chain = int(list(dataset["chain"].to_numpy()).index("chain"))
    least = int(means[chain].argmin())
    measured = over_draws(lead.to_numpy()[chain, least])
    tokens = dataset["content_perplexity"].transpose("chain", "chain_beta", "draw").to_numpy()[chain, least].mean()
    return Claim(
        "content", "content picks more similar tokens than as wide a window", "contrast with Longformer and Swin", 0.0,
        measured, at_least(0.0, measured),
        f"lead in mean attended cosine at equal e^H on tokens made for windows, least over β, at e^H = {tokens:.1f}; on the "
        f"paper’s tokens up to {means.max():.2f}. Of all weights of its entropy softmax has the largest (Gibbs)",
    )  # fmt: skip
