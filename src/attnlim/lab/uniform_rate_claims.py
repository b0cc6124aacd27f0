"""Claims about the distance from the limit: its rates, and what its constants do not depend on."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from attnlim.core.intervals import Interval
from attnlim.depth.rates import equal_product_spread, fit_rate
from attnlim.lab.meanfield_dataset import root_mean_square, size_table
from attnlim.lab.uniform_dataset import of_grid
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
)

THEOREM = "Theorem 7"
# an exponent is the predicted one within this, or within two of its standard errors (95 %: half the interval)
EXPONENT = 0.05
# a limit may be off by this share of the smallest error that it judges
SHARE = 0.2


def rate_claims(dataset: xr.Dataset) -> list[Claim]:
    """Theorem 7 and its neighbours, from the grid of rates."""
    rates = of_grid(dataset, "rates").isel(seed=0, n_tokens=0, width=0)
    last = int(rates["step"][-1])
    found = []
    for when, step in (("start", 0), ("trained", last)):
        at = rates.sel(step=step, inputs="fresh")
        words = "before training" if step == 0 else f"after {step} steps"
        own = own_share(rates.sel(step=[step]))
        for name, symbol in (("p", "L"), ("q", "H")):
            measured = _fitted(at, name)
            found.append(
                Claim(
                    f"rate-{symbol}-{when}", f"the error falls as {symbol}^−1/2 {words}", "ours, sharper than Theorem 7",
                    0.5, measured, half(measured), f"fit over {_sizes(rates)}, {own}",
                )
            )  # fmt: skip
        found.append(_one_head(rates, step, when, words))
        found.append(_products(rates, step, when, words))
        found.append(_best_rate(at, when, words))
    at = rates.sel(step=last, inputs="fresh")
    measured = _fitted(at, "p")
    found.append(
        Claim(
            "theorem", "the error falls at least as fast as L^−1/3 H^−1/2", THEOREM, 1 / 3, measured, at_least(1 / 3, measured),
            "the power of L after training; that of H stands above. A faster rate is evidence here, not a proof",
        )
    )  # fmt: skip
    found += [_identity(rates), _reference_claim(rates)]
    return found


def half(measured: Measured) -> str:
    """Confirmed within the larger of a fixed margin and two standard errors; else qualified up to 1/3 and 2/3."""
    if not math.isfinite(measured.low + measured.high):
        return UNDECIDED
    margin = max(EXPONENT, (measured.high - measured.low) / 2)
    if abs(measured.value - 0.5) <= margin:
        return CONFIRMED if measured.low > 1 / 3 else UNDECIDED
    return QUALIFIED if 1 / 3 < measured.value < 2 / 3 else CONTRADICTED


def _fitted(one: xr.Dataset, name: str) -> Measured:
    return Measured(*(float(one[f"fit_{name}{end}"]) for end in ("", "_low", "_high")))


def measured_interval(interval: Interval) -> Measured:
    """An interval as a claim's number."""
    return Measured(interval.estimate, interval.low, interval.high)


def _sizes(rates: xr.Dataset) -> str:
    layers, heads = rates["n_layers"].to_numpy(), rates["n_heads"].to_numpy()
    return f"L = {layers[0]} to {layers[-1]} and H = {heads[0]} to {heads[-1]}"


def own_share(one: xr.Dataset, distance: str = "sup_tokens") -> str:
    """How much of the smallest error the limit's own error is, for a reason; the worst of what ``one`` holds."""
    share = float(_shares(one, distance).max())
    return f"the limit's own error is {100 * share:.0f} % of the smallest error"


def _shares(one: xr.Dataset, distance: str = "sup_tokens") -> xr.DataArray:
    errors = root_mean_square(one[distance]).sel(inputs="fresh")
    smallest = errors.min([name for name in ("n_layers", "n_heads") if name in errors.dims])
    share: xr.DataArray = one["reference_error"].sel(distance=distance, inputs="fresh") / smallest
    return share


def _one_head(rates: xr.Dataset, step: int, when: str, words: str) -> Claim:
    layers, heads, errors = size_table(rates["sup_tokens"].sel(step=step, inputs="fresh", n_heads=[1]))
    fit = fit_rate(layers, heads, errors, discretisation=False, seed=int(rates["seed"]))
    measured = measured_interval(fit.p)
    return Claim(
        f"one-head-{when}", f"with one head the error falls as L^−1/2 {words}, not L^−1/3", "ours, against Theorem 7", 0.5,
        measured, half(measured),
        f"H = 1 and L = {layers.min()} to {layers.max()}, without a term 1/L, {own_share(rates.sel(step=[step], n_heads=[1]))}",
    )  # fmt: skip


def _products(rates: xr.Dataset, step: int, when: str, words: str) -> Claim:
    rows = equal_product_spread(*size_table(rates["sup_tokens"].sel(step=step, inputs="fresh")))
    apart = [row for row in rows if not row.coincide]
    worst = max(rows, key=lambda row: row.ratio.estimate)
    reason = f"largest ratio in {len(rows)} products of two or three cells, its interval widened for all pairs"
    if apart:
        reason += f"; {len(apart)} differ: L·H = {', '.join(str(row.product) for row in apart)}"
    verdict = CONFIRMED if not apart else QUALIFIED if worst.ratio.estimate < 1.25 else CONTRADICTED
    return Claim(
        f"products-{when}", f"networks of equal L·H are equally far {words}", "ours, against Theorem 7", 1.0,
        measured_interval(worst.ratio), verdict, reason,
    )  # fmt: skip


def _best_rate(at: xr.Dataset, when: str, words: str) -> Claim:
    names = at["rate"].to_numpy().tolist()
    own = names.index("L^-1 + (LH)^-1/2")
    excess = Measured(
        float(at["rate_residual"][own] - np.delete(at["rate_residual"].to_numpy(), own).min()),
        float(at["rate_excess_low"][own]),
        float(at["rate_excess_high"][own]),
    )
    verdict = at_most(0.0, excess)
    residuals = ", ".join(f"{name}: {float(at['rate_residual'][i]):.3f}" for i, name in enumerate(names))
    return Claim(
        f"published-{when}", f"of four published rates L^−1 + (LH)^−1/2 fits best {words}", "ours", 0.0, excess, verdict,
        f"its root mean square of log residuals less the best of the others'; {residuals}",
    )  # fmt: skip


def _identity(rates: xr.Dataset) -> Claim:
    own = exact(float(rates["reference_error"].sel(distance="sup_tokens", inputs="fresh", step=0)))
    return Claim(
        "identity", "before training the limit of a centred law is the identity", "eqs. 17 to 22, derived", 0.0, own,
        at_most(1e-12, own), "two sets of particles with mirror images agree to rounding",
    )  # fmt: skip


def _reference_claim(rates: xr.Dataset) -> Claim:
    share = exact(float(_shares(rates).max()))
    return Claim(
        "reference", "the limit is known to a fifth of the smallest error that it judges", "ours", SHARE, share,
        at_most(SHARE, share), "two sets of particles and two numbers of nodes, the worst step",
    )  # fmt: skip
