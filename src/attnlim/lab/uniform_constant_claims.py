"""Claims about the constants of the rate: what they do not depend on, and what they do."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import xarray as xr

from attnlim.core.intervals import jackknife
from attnlim.core.regression import slope
from attnlim.depth.rates import fit_rate
from attnlim.lab.meanfield_dataset import root_mean_square, size_table
from attnlim.lab.meanfield_system import INPUTS
from attnlim.lab.uniform_dataset import of_grid
from attnlim.lab.uniform_rate_claims import SHARE, THEOREM, half, measured_interval, own_share
from attnlim.lab.verdicts import (
    CONTRADICTED,
    QUALIFIED,
    Claim,
    at_least,
    at_most,
    near,
)

# a slope in ln N or ln d below this changes an error by less than a sixth over the range
FLAT = 0.05


def independence_claims(dataset: xr.Dataset) -> list[Claim]:
    """Constants free of N, of d, of the inputs, and the supremum over them."""
    found = [
        _constant(dataset, "tokens", "n_tokens", "N-free", "the error does not grow with N", THEOREM, "sup_tokens"),
        _constant(
            dataset, "tokens", "n_tokens", "N-free-mean", "its mean over tokens does not depend on N", THEOREM, "rms_tokens"
        ),
        _constant(
            dataset, "widths-blockwise", "width", "d-free", "under blockwise AdamW the error does not grow with d", THEOREM,
            "sup_tokens",
        ),
        _constant(
            dataset, "widths-adamw", "width", "d-adamw", "under AdamW the error does not grow with d", "ours, no theorem",
            "sup_tokens",
        ),
    ]  # fmt: skip
    return [*found, _inputs(dataset), _unseen(dataset), *_worst(dataset), _growth_over_steps(dataset)]


def _constant(dataset: xr.Dataset, grid: str, axis: str, key: str, text: str, source: str, distance: str) -> Claim:
    one = of_grid(dataset, grid).isel(seed=0, n_layers=0, n_heads=0, step=-1)
    sizes = one[axis].to_numpy()
    errors = one[distance].sel(inputs="fresh").squeeze(drop=True).transpose("init", axis).to_numpy()
    measured = measured_interval(jackknife(partial(_log_slope, sizes), errors))
    verdict = at_most(FLAT, measured)
    if verdict == CONTRADICTED and measured.high < 0.2:
        verdict = QUALIFIED
    symbol = {"n_tokens": "N", "width": "d"}[axis]
    ends = np.sqrt((errors**2).mean(axis=0))
    step = int(of_grid(dataset, grid)["step"][-1])
    return Claim(
        key, text, source, 0.0, measured, verdict,
        f"slope of ln E in ln {symbol}, {symbol} = {sizes[0]} to {sizes[-1]} after {step} steps; E goes from {ends[0]:.3g} to "
        f"{ends[-1]:.3g}{', by the supremum over more tokens' if (axis, distance) == ('n_tokens', 'sup_tokens') else ''}; "
        f"{own_share(one, distance)}",
    )  # fmt: skip


def _log_slope(sizes: np.ndarray, sets: np.ndarray) -> float:
    return float(slope(np.log(sizes), np.log((sets**2).mean(axis=0)) / 2))


def _inputs(dataset: xr.Dataset) -> Claim:
    errors = {}
    for name in INPUTS:
        one = of_grid(dataset, f"inputs-{name}").isel(seed=0, step=-1, n_tokens=0, width=0, n_layers=0, n_heads=0)
        errors[name] = one["sup_tokens"].sel(inputs="fresh").to_numpy()
    sets = np.stack(list(errors.values()), axis=1)
    measured = measured_interval(jackknife(_spread, sets))
    told = ", ".join(f"{name} {np.sqrt((values**2).mean()):.3f}" for name, values in errors.items())
    return Claim(
        "inputs", "the error is of one size for every law of the inputs", THEOREM, 2.0, measured, at_most(2.0, measured),
        f"largest over smallest of {told}; a supremum follows the longest tokens, which differ",
    )  # fmt: skip


def _spread(sets: np.ndarray) -> float:
    roots = np.sqrt((sets**2).mean(axis=0))
    return float(roots.max() / roots.min())


def _unseen(dataset: xr.Dataset) -> Claim:
    rates = of_grid(dataset, "rates").isel(seed=0, n_tokens=0, width=0, step=-1)
    values = {}
    for inputs in ("fresh", "training"):
        layers, heads, errors = size_table(rates["rms_tokens"].sel(inputs=inputs))
        values[inputs] = errors * np.sqrt(layers * heads)

    def ratio(sets: np.ndarray) -> float:
        fresh, seen = np.split(sets, 2, axis=1)
        return float(np.sqrt((fresh**2).mean() / (seen**2).mean()))

    measured = measured_interval(jackknife(ratio, np.concatenate([values["fresh"], values["training"]], axis=1)))
    return Claim(
        "unseen", "inputs that were not trained on are no farther from the limit", THEOREM, 1.0, measured,
        at_most(1.25, measured), "root mean square over tokens of fresh inputs over that of training inputs, all cells",
    )  # fmt: skip


def _worst(dataset: xr.Dataset) -> list[Claim]:
    worst = of_grid(dataset, "worst").isel(seed=0, n_tokens=0, width=0)
    found = []
    for when, step in (("start", 0), ("trained", int(worst["step"][-1]))):
        layers, heads, errors = size_table(worst["sup_tokens"].sel(step=step, inputs="worst"))
        fit = fit_rate(layers * heads, np.ones_like(heads), errors, discretisation=False, seed=int(worst["seed"]))
        measured = measured_interval(fit.p)
        of_fresh = root_mean_square(worst["sup_tokens"].sel(step=step))
        factor = float((of_fresh.sel(inputs="worst") / of_fresh.sel(inputs="fresh")).mean())
        words = "before training" if step == 0 else f"after {step} steps"
        found.append(
            Claim(
                f"uniform-{when}", f"on the worst inputs of a ball the error falls as (LH)^−1/2 {words}", THEOREM, 0.5, measured,
                half(measured),
                f"projected gradient ascent from two starts, a lower bound; {factor:.1f} times fresh inputs, on which "
                f"{own_share(worst.sel(step=[step]))}",
            )
        )  # fmt: skip
    return found


def _growth_over_steps(dataset: xr.Dataset) -> Claim:
    training = of_grid(dataset, "training").isel(seed=0, n_tokens=0, width=0).sel(inputs="training")
    errors = root_mean_square(training["sup_tokens"])
    share = (training["reference_error"].sel(distance="sup_tokens") / errors).max("step")
    judged = share.where(share <= SHARE).stack(size=("n_layers", "n_heads")).dropna("size")
    # the largest network that the limit is known well enough for; the smallest where it is for none
    sizes = [tuple(map(int, size)) for size in judged["size"].to_numpy()]
    n_layers, n_heads = max(sizes or [(int(training["n_layers"][0]), int(training["n_heads"][0]))], key=math.prod)
    one = training["sup_tokens"].sel(n_layers=n_layers, n_heads=n_heads).transpose("init", "step").to_numpy()
    measured = measured_interval(jackknife(_late_over_early, one))
    curve = np.sqrt((one**2).mean(axis=0) * n_layers * n_heads)
    told = ", ".join(
        f"{value:.1f} after {step}" for value, step in zip(curve, training["step"].to_numpy(), strict=True)
    )
    own = float(share.sel(n_layers=n_layers, n_heads=n_heads))
    return Claim(
        "constant-over-steps", "the constant grows with the number of steps", "Theorem 7, whose constants depend on τ", 1.0,
        measured, at_least(1.0, measured),
        f"E·√(LH) at L = {n_layers} and H = {n_heads} with a distant target: {told} steps; the limit's own error is at most "
        f"{100 * own:.0f} % of it",
    )  # fmt: skip


def _late_over_early(sets: np.ndarray) -> float:
    return float(np.sqrt((sets[:, -1] ** 2).mean() / (sets[:, 0] ** 2).mean()))


def both_limits_claims(dataset: xr.Dataset) -> list[Claim]:
    """What the constants do under β = γ ln N with N growing: measured here for the first time, no theorem."""
    found = []
    for gamma in dataset["focus_gamma"].to_numpy():
        one = of_grid(dataset, f"gamma-{gamma:g}").isel(seed=0, width=0, n_layers=0, n_heads=0)
        sizes, step = one["n_tokens"].to_numpy(), int(one["step"][-1])
        errors = one["rms_tokens"].sel(step=step, inputs="fresh").transpose("init", "n_tokens").to_numpy()
        measured = measured_interval(jackknife(partial(_log_slope, sizes), errors))
        focus = dataset["focus_entropy"].sel(focus_gamma=gamma).isel(focus_step=-1).mean("focus_layer").to_numpy()
        kappa = float(slope(np.log(dataset["focus_tokens"].to_numpy()), focus))
        verdict = near(0.0, measured, 0.1)
        ends = np.sqrt((errors**2).mean(axis=0))
        found.append(
            Claim(
                f"gamma-{gamma:g}", f"with β = {gamma:g} ln N the error stays of one size as N grows", "ours, no theorem", 0.0,
                measured, verdict,
                f"slope of ln of the root mean square error in ln N, N = {sizes[0]} to {sizes[-1]} after {step} steps, from "
                f"{ends[0]:.3g} to {ends[-1]:.3g}; attention there has κ = {kappa:.2f}; "
                f"{own_share(one.sel(step=step), 'rms_tokens')}",
            )
        )  # fmt: skip
    return found
