"""Claims about figures 1 and 2 on drawn tokens: where both transitions lie, how sharp they are, what contracts."""

from __future__ import annotations

import itertools

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from attnlim.lab.verdicts import (
    CONFIRMED,
    CONTRADICTED,
    ROUGH,
    UNDECIDED,
    Claim,
    Measured,
    at_least,
    at_most,
    exact,
    near,
    over_draws,
)

Floats = NDArray[np.float64]

# the panels of the figures
ROLES = ("simplex", "wide", "middle", "narrow")
FIGURES = {
    "forward": ("λ", "λ passes 1/(1 + 3ρ̂)", "Figure 1"),
    "backward": ("η", "the attention part of η passes a quarter of its limit", "Figure 2"),
}


def plane_claims(dataset: xr.Dataset) -> list[Claim]:
    """The rows on figures 1 and 2; the panels are the simplex, then the wide, the middle and the narrow tokens."""
    return [
        *(place_claim(dataset, panel, which) for panel in (1, 2) for which in FIGURES),
        *(together_claim(dataset, panel) for panel in (1, 2)),
        apart_claim(dataset, 3),
        sharper_claim(dataset),
        contracts_claim(dataset),
        smallest_claim(dataset),
        level_claim(dataset, 2),
    ]


def place_claim(dataset: xr.Dataset, panel: int, which: str, claimed: float = 1.0) -> Claim:
    """Where one transition lies in units of 1/(1-ρ̂), as a mean over ρ of the draws' own ratios."""
    grid = dataset.isel(panel=panel)
    name, passes, figure = FIGURES[which]
    ratio = _over_rho(grid, f"grid_{which}", "grid_gamma_c")
    half = _over_rho(grid, "grid_gamma_half", "grid_gamma_c")
    measured = over_draws(ratio.mean(axis=0)) if ratio.size else _nothing()
    theory = f"; the half-weight point lies at {half.mean():.3f}" if half.size else "; there is no half-weight point"
    return Claim(
        f"{which}-{ROLES[panel]}", f"{name} crosses over at γ = 1/(1 − ρ̂), {_title(dataset, panel)}", figure,
        claimed, measured, near(claimed, measured, rough=ROUGH),
        f"γ where {passes}, over 1/(1 − ρ̂), n = {dataset.attrs['grid_n_tokens']}: {_spread(ratio)}" + theory,
    )  # fmt: skip


def together_claim(dataset: xr.Dataset, panel: int, claimed: float = 1.0) -> Claim:
    """Whether both transitions are at one γ."""
    ratio = _over_rho(dataset.isel(panel=panel), "grid_backward", "grid_forward")
    measured = over_draws(ratio.mean(axis=0)) if ratio.size else _nothing()
    return Claim(
        f"together-{ROLES[panel]}", f"forward and backward transition coincide, {_title(dataset, panel)}",
        "Figures 1 and 2", claimed, measured, near(claimed, measured, rough=ROUGH),
        f"backward over forward γ: {_spread(ratio)}",
    )  # fmt: skip


def apart_claim(dataset: xr.Dataset, panel: int, claimed: float = 1.0) -> Claim:
    """The same on narrow tokens, whose gradient may cross over nowhere: η at the forward crossing in units of its level."""
    grid = dataset.isel(panel=panel)
    gamma = grid["gamma"].to_numpy()
    forward, limit, eta = (
        grid[name].transpose("rho", "draw", ...).to_numpy() for name in ("grid_forward", "grid_eta_limit", "grid_eta_attention")
    )  # fmt: skip
    share = np.full(forward.shape, np.nan)
    for place in np.ndindex(forward.shape):
        share[place] = np.interp(forward[place], gamma, eta[place]) / (limit[place] / 4)
    share = share[np.isfinite(share).all(axis=1)]
    measured = over_draws(share.mean(axis=0)) if share.size else _nothing()
    placed = _over_rho(grid, "grid_forward", "grid_gamma_c")
    crossed = np.isfinite(grid["grid_backward"]).mean().item()
    return Claim(
        f"together-{ROLES[panel]}", f"forward and backward transition coincide, {_title(dataset, panel)}",
        "Figures 1 and 2", claimed, measured, near(claimed, measured, rough=ROUGH),
        f"η where λ crosses over, in units of its own critical value; λ crosses at {placed.mean() if placed.size else np.nan:.2f} "
        f"of 1/(1 − ρ̂), η inside γ ≤ {gamma[-1]:g} in {100 * crossed:.0f} % of the token sets: many tokens are nearly alike, and "
        "their pairs keep their angle long before a row attends to itself",
    )  # fmt: skip


def sharper_claim(dataset: xr.Dataset) -> Claim:
    """Whether the rise of λ is the steeper the larger d; 1 is as steep as a simplex at the same ρ̂."""
    found = [_sharpness(dataset.isel(panel=panel)) for panel in (1, 2, 3)]
    wide, middle, narrow = found
    told = ", ".join(f"{one.value:.2f} at {_title(dataset, i + 1)}" for i, one in enumerate(found))
    return Claim(
        "sharper", "the larger d, the sharper the transition", "Figure 1", 1.0, wide, ordered(wide, middle, narrow),
        f"sharpness, ln of the factor in γ by which λ goes from 1/4 to 3/4, the simplex's at ρ̂ over the measured one: {told}",
    )  # fmt: skip


def ordered(*falling: Measured) -> str:
    """Whether numbers fall from one to the next, by their whole intervals.

    >>> ordered(exact(1.0), Measured(0.6, 0.5, 0.7), exact(0.1)), ordered(exact(1.0), Measured(0.6, 0.2, 1.2))
    ('confirmed', 'undecided')
    """
    pairs = list(itertools.pairwise(falling))
    if all(first.low > second.high for first, second in pairs):
        return CONFIRMED
    return CONTRADICTED if any(first.high < second.low for first, second in pairs) else UNDECIDED


def contracts_claim(dataset: xr.Dataset) -> Claim:
    """λ below 1/(1-ρ_1), on all token sets with ρ_1 > 0."""
    below, grid = _below(dataset)
    values = grid["grid_contraction"].to_numpy()[below]
    measured = exact(values.max()) if values.size else _nothing()
    share = grid["grid_fraction_contracted"].to_numpy()[below]
    least = f", least share of pairs that contract {share.min():.3f}" if share.size else ""
    return Claim(
        "contracts", "below 1/(1 − ρ_1) angles shrink: on average, λ < 1", "Theorem 2.3, Figure 1", 1.0, measured,
        at_most(1.0, measured),
        f"largest λ of {int(below.sum())} places of the grid with ρ_1 > 0 and 0 < γ < 1/(1 − ρ_1){least}",
    )  # fmt: skip


def smallest_claim(dataset: xr.Dataset) -> Claim:
    """The smallest cosine below 1/(1-ρ_1), on all token sets with ρ_1 > 0."""
    below, grid = _below(dataset)
    rise = (grid["grid_min_cosine"] - grid["grid_min_cosine_before"]).transpose(*grid["grid_contraction"].dims)
    values = rise.to_numpy()[below]
    measured = exact(values.min()) if values.size else _nothing()
    return Claim(
        "smallest", "below 1/(1 − ρ_1) angles shrink: the smallest cosine rises where ρ_1 > 0", "Theorem 2.3; derived", 0.0,
        measured, at_least(0.0, measured), f"least rise at {int(below.sum())} places of the grid; it follows from convexity",
    )  # fmt: skip


def level_claim(dataset: xr.Dataset, panel: int, claimed: float = 0.0) -> Claim:
    """How far η far above the threshold is from 1 - 1/d, on tokens whose squared norms are 1 on average."""
    top = float(dataset["gamma"].max())
    shares = {}
    for index in (1, 2, 3):
        grid = dataset.isel(panel=index)
        d = _width(dataset, index)
        eta = grid["grid_eta"].isel(gamma=-1).transpose("rho", "draw").to_numpy() / (1 - 1 / d)
        far = (grid["grid_gamma_c"].transpose("rho", "draw").to_numpy() <= top / 2).all(axis=1)
        shares[index] = np.abs(eta[far] - 1)
    share = shares[panel]
    measured = over_draws(share.mean(axis=0)) if share.size else _nothing()
    others = ", ".join(
        f"{shares[i].mean() if shares[i].size else np.nan:.2g} at {_title(dataset, i)}" for i in shares if i != panel
    )
    return Claim(
        "eta-level", f"η → 1 − 1/d for large γ, {_title(dataset, panel)}", "Figure 2", claimed, measured,
        near(claimed, measured, rough=ROUGH),
        f"mean relative difference at γ = {top:g}, where 1/(1 − ρ̂) ≤ {top / 2:g}; {others}. The limit is "
        "(1 − 1/d) mean(1/|x|²), which moves with the z_0 of a draw and has no mean at d = 2",
    )  # fmt: skip


def _below(dataset: xr.Dataset) -> tuple[NDArray[np.bool_], xr.Dataset]:
    """Where on the grid of drawn tokens ρ_1 > 0 and 0 < γ < 1/(1-ρ_1)."""
    grid = dataset.isel(panel=slice(1, None))
    rho_1, gamma = grid["grid_rho_1"], grid["gamma"]
    below = (rho_1 > 0) & (gamma > 0) & (gamma < 1 / (1 - rho_1).clip(min=1e-300))
    return below.transpose(*grid["grid_contraction"].dims).to_numpy(), grid


def _over_rho(grid: xr.Dataset, above: str, below: str) -> Floats:
    """(rho, draw), the ratio of two places at every ρ where all draws have it."""
    return _whole((grid[above] / grid[below]).transpose("rho", "draw").to_numpy())


def _sharpness(grid: xr.Dataset) -> Measured:
    """ln of the factor that the simplex needs over ln of the measured one, a mean over ρ for each draw."""
    simplex, measured = (
        grid[name].transpose("rho", "draw").to_numpy() for name in ("grid_spread_simplex", "grid_spread")
    )
    share = _whole(np.log(simplex) / np.log(measured))
    return over_draws(share.mean(axis=0)) if share.size else _nothing()


def _whole(values: Floats) -> Floats:
    """The ρ at which all draws have a value: those that have one are not like the others."""
    known: Floats = values[np.isfinite(values).all(axis=1)]
    return known


def _spread(ratio: Floats) -> str:
    if not ratio.size:
        return "no ρ where all draws have it"
    means = ratio.mean(axis=1)
    return f"median {np.median(means):.3f}, from {means.min():.3f} to {means.max():.3f} over {len(means)} ρ"


def _title(dataset: xr.Dataset, panel: int) -> str:
    return str(dataset["panel"].to_numpy()[panel])


def _width(dataset: xr.Dataset, panel: int) -> int:
    return int(_title(dataset, panel).removeprefix("d = "))


def _nothing() -> Measured:
    return Measured(np.nan, np.nan, np.nan)
