"""Claims about near-simplices beyond the figures: Theorems 2.3 and 2.5, and Assumption 2."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy import stats

from attnlim.lab.critical_plane_claims import ROLES
from attnlim.lab.critical_series import ABOVE
from attnlim.lab.critical_verdicts import exponent
from attnlim.lab.verdicts import (
    CONFIRMED,
    CONTRADICTED,
    QUALIFIED,
    UNDECIDED,
    Claim,
    Measured,
    at_least,
    at_most,
    exact,
    near,
    over_draws,
    signed,
)


def token_claims(dataset: xr.Dataset) -> list[Claim]:
    """The rows on counterexamples, on what freezes, on η at finite width, and on what the samplers meet."""
    return [
        pair_claim(dataset),
        negative_claim(dataset),
        frozen_claim(dataset),
        normalised_claim(dataset),
        norms_claim(dataset),
        plateau_claim(dataset),
        *(held_claim(dataset, panel) for panel in (1, 2)),
        half_sphere_claim(dataset),
        bounds_claim(dataset),
    ]


def pair_claim(dataset: xr.Dataset) -> Claim:
    """The per-pair reading of Theorem 2.3, on its counterexample."""
    case = dataset.isel(example=0)
    before, after, ratio, gamma, low = (
        float(case[f"example_{name}"]) for name in ("before", "after", "ratio", "gamma", "gamma_low")
    )
    return Claim(
        "pair", "below 1/(1 − ρ_1) every angle shrinks, pair by pair", "Theorem 2.3, as summarised", 1.0, exact(ratio),
        at_most(1.0, exact(ratio)),
        f"largest (1 − cosine after)/(1 − cosine before) of a pair: between two clusters one goes from {before:.2f} to "
        f"{after:.2f} at γ = {gamma:g} < {low:.2f}, n = {dataset.attrs['pair_n_tokens']}",
    )  # fmt: skip


def negative_claim(dataset: xr.Dataset) -> Claim:
    """The smallest cosine where ρ_1 < 0, on its counterexample."""
    case = dataset.isel(example=1)
    before, after, gamma, low = (
        float(case[f"example_{name}"]) for name in ("smallest_before", "smallest_after", "gamma", "gamma_low")
    )
    return Claim(
        "smallest-negative", "below 1/(1 − ρ_1) angles shrink: the smallest cosine rises even where ρ_1 < 0",
        "Theorem 2.3, without ρ_1 > 0", before, exact(after), at_least(before, exact(after)),
        f"between two clusters it goes from {signed(before)} to {signed(after)} at γ = {gamma:g} < {low:.2f}, "
        f"n = {dataset.attrs['pair_n_tokens']}",
    )  # fmt: skip


def frozen_claim(dataset: xr.Dataset) -> Claim:
    """m_i → y_i above 1/(1-ρ_2), with the rate that the bound gives."""
    found, last = _exponent(dataset, "frozen_deviation", 0)
    bound = 1 - ABOVE
    return Claim(
        "frozen", "m_i = y_i + o(1) above 1/(1 − ρ_2)", "Theorem 2.3; rate derived", bound, found, at_most(bound, found),
        f"power of n of the largest |m_i − y_i|, which n^(1 − γ(1−ρ_2)) bounds, at γ = {ABOVE:g}/(1 − ρ_2), "
        f"d = {_first(dataset, 'frozen_width')}; it is {last:.1e} at the largest n. But 1/(1 − ρ_2) grows with n",
    )  # fmt: skip


def normalised_claim(dataset: xr.Dataset) -> Claim:
    """The Jacobian's distance from that of the normalisation, with the rate that the bound gives."""
    found, last = _exponent(dataset, "frozen_distance", 0)
    bound = 2 * (1 - ABOVE)
    return Claim(
        "normalisation", "the Jacobian tends to that of x → x/|x| above 1/(1 − ρ_2)", "Theorem 2.5; rate derived", bound,
        found, at_most(bound, found),
        f"power of n of |J − J_norm|²/(nd), bounded by n^(2 − 2γ(1−ρ_2)) up to logarithms, d = "
        f"{_first(dataset, 'frozen_width')}; it is {last:.1e} at the largest n",
    )  # fmt: skip


def norms_claim(dataset: xr.Dataset, claimed: float = 1.0) -> Claim:
    """η above 1/(1-ρ_2) over (1-1/d) mean(1/|x|²)."""
    ratio = dataset["frozen_eta_ratio"].isel(series_n=-1).transpose("draw", "frozen_width").to_numpy()
    measured = over_draws(ratio.mean(axis=1))
    return Claim(
        "eta-norms", "η → (1 − 1/d) mean(1/|x|²) above 1/(1 − ρ_2)", "Theorem 2.5; sum derived", claimed, measured,
        near(claimed, measured),
        f"ratio at γ = {ABOVE:g}/(1 − ρ_2), n = {_last(dataset, 'series_n')}, mean over d = "
        f"{_first(dataset, 'frozen_width')} and {_last(dataset, 'frozen_width')}",
    )  # fmt: skip


def plateau_claim(dataset: xr.Dataset, claimed: float = 0.0) -> Claim:
    """η below γ_c at a fixed width."""
    eta = dataset["plateau_eta"].transpose("plateau_width", "draw", "series_n").to_numpy()
    measured = over_draws(eta[-1, :, -1])
    middle = eta[0].mean(axis=0)
    return Claim(
        "plateau", f"η → 0 below γ_c, d = {_last(dataset, 'plateau_width')}", "Theorem 2.4 and Figure 2 at fixed d",
        claimed, measured, near(claimed, measured),
        f"half-sphere tokens of norm 1 at γ_c/2: {eta[-1, :, 0].mean():.3f} at n = {_first(dataset, 'series_n')}, "
        f"{measured.value:.3f} at n = {_last(dataset, 'series_n')}. The part through the weights stays, about "
        f"(γ ln n (1−ρ))²/d²; at d = {_first(dataset, 'plateau_width')} η is {middle[0]:.3f} and {middle[-1]:.3f}: d has "
        "to grow faster than ln n",
    )  # fmt: skip


def held_claim(dataset: xr.Dataset, panel: int) -> Claim:
    """Assumption 2 with ρ_1 > 0 on the token sets of the figures."""
    rho_1 = dataset["grid_rho_1"].isel(panel=panel).transpose("rho", "draw").to_numpy()
    holds = rho_1 > 0
    rho = dataset["rho"].to_numpy()
    every = [float(value) for value, row in zip(rho, holds, strict=True) if row.all()]
    title = str(dataset["panel"].to_numpy()[panel])
    least = f"in every draw from ρ = {min(every):g} on" if every else "at no ρ in every draw"
    return Claim(
        f"assumption-{ROLES[panel]}", f"the paper’s sampler meets Assumption 2 with ρ_1 > 0, {title}",
        "Assumption 2, Experiments", 1.0, share(holds), held(holds),
        f"share of {holds.size} token sets of the figures, n = {dataset.attrs['grid_n_tokens']}: {least}; more tokens widen "
        "the bounds",
    )  # fmt: skip


def half_sphere_claim(dataset: xr.Dataset) -> Claim:
    """Assumption 2 with ρ_1 > 0 on the half-sphere."""
    found = dataset.sel(sampler="half-sphere")
    holds = found["bounds_holds"].to_numpy() > 0
    smallest = found["bounds_rho_1"].isel(series_n=-1).mean("bounds_draw")
    told = ", ".join(f"{signed(float(smallest.sel(bounds_width=d)))} at d = {int(d)}" for d in dataset["bounds_width"])
    return Claim(
        "assumption-half-sphere", "half-sphere tokens meet Assumption 2 with ρ_1 > 0 with high probability",
        "after Assumption 2", 1.0, share(holds), held(holds),
        f"share of {holds.size} token sets. The mean cosine is about 2/(πd), the spread 1/√d: the smallest of "
        f"n = {_last(dataset, 'series_n')} tokens is {told}",
    )  # fmt: skip


def bounds_claim(dataset: xr.Dataset, claimed: float = 0.0) -> Claim:
    """Whether one ρ_2 < 1 serves every n: the power of n that 1-ρ_2 follows."""
    found = dataset.sel(sampler="half-sphere").transpose("bounds_width", "bounds_draw", "series_n", ...)
    powers = exponent(dataset["series_n"].to_numpy(), found["bounds_one_minus_rho_2"].to_numpy())
    measured = over_draws(powers[1])
    middle, wide = int(dataset["bounds_width"][1]), int(dataset["bounds_width"][0])
    return Claim(
        "bounds", f"one ρ_2 < 1 serves every n at a fixed d = {middle}", "Assumption 2", claimed, measured,
        near(claimed, measured),
        f"power of n of 1 − ρ_2 on the half-sphere, derived −4/(d−1) = {signed(-4 / (middle - 1), 3)} as n → ∞; "
        f"{signed(powers[0].mean(), 3)} at d = {wide}. So 1/(1 − ρ_2) grows without bound: at a fixed d no γ freezes all rows",
    )  # fmt: skip


def share(holds: np.ndarray) -> Measured:
    """The share of token sets that meet a condition, with its 95 % interval (Clopper and Pearson).

    >>> [round(value, 3) for value in share(np.array([True, True, False, True]))]
    [0.75, 0.194, 0.994]
    """
    count, total = int(holds.sum()), int(holds.size)
    found = stats.binomtest(count, total).proportion_ci(0.95)
    return Measured(count / total, float(found.low), float(found.high))


def held(holds: np.ndarray) -> str:
    """Confirmed where all token sets meet a condition, contradicted where none does, else qualified.

    >>> held(np.array([True, False])), held(np.array([], dtype=bool))
    ('qualified', 'undecided')
    """
    if not holds.size:
        return UNDECIDED
    if holds.all():
        return CONFIRMED
    return QUALIFIED if holds.any() else CONTRADICTED


def _exponent(dataset: xr.Dataset, name: str, width: int) -> tuple[Measured, float]:
    """The power of n of a quantity over the series, and its mean at the largest n."""
    values = dataset[name].transpose(..., "draw", "series_n").to_numpy()[width]
    return over_draws(exponent(dataset["series_n"].to_numpy(), values)), float(values[:, -1].mean())


def _first(dataset: xr.Dataset, name: str) -> int:
    return int(dataset[name].to_numpy()[0])


def _last(dataset: xr.Dataset, name: str) -> int:
    return int(dataset[name].to_numpy()[-1])
