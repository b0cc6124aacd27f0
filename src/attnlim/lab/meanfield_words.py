"""What a mean-field experiment found, in words."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from attnlim.core.checks import InputError
from attnlim.core.intervals import BOOTSTRAP, Interval
from attnlim.depth.rates import decides, equal_product_spread
from attnlim.lab.meanfield_dataset import power_words, root_mean_square, size_table

# a limit that is off by more than this share of the smallest error cannot judge it
SHARE = 0.2


def verdict(dataset: xr.Dataset) -> str:
    """One paragraph a line: the rate, equal products, the reference, the certificates."""
    first = dataset.isel(seed=0, n_tokens=0, width=0).sel(inputs="fresh")
    paragraphs = [_rate(first), _products(first), _reference(dataset), _independence(dataset), _bounds(dataset)]
    return "\n".join(line for line in paragraphs if line)


def _rate(one: xr.Dataset) -> str:
    told = []
    for step in one["step"].to_numpy():
        at = one.sel(step=step)
        powers = [f"{symbol}^{power_words(at, name)}" for name, symbol in (("p", "L"), ("q", "H")) if _known(at, name)]
        if powers:
            told.append(f"{' '.join(powers)} after {counted(step)}")
    if not told:
        sizes = f"{one.sizes['n_layers']} depths and {one.sizes['n_heads']} numbers of heads"
        return f"No rate was fitted: {sizes} are too few for the exponents of L and H."
    text = f"The distance from the limit falls as {', '.join(told)} (95 % intervals over initialisations)."
    last = one.isel(step=-1)
    if _known(last, "p"):
        estimate, low, high = (float(last[f"fit_p{end}"]) for end in ("", "_low", "_high"))
        interval = Interval(estimate, low, high, math.nan, 0.95, BOOTSTRAP, one.sizes["init"], None)
        text += {
            "1/2": " The exponent of L is 1/2, not the 1/3 that is proven.",
            "1/3": " The exponent of L is the proven 1/3, not 1/2.",
            "both": " These sizes do not tell 1/2 from 1/3 for L.",
            "neither": " The exponent of L is neither 1/2 nor 1/3.",
        }[decides(interval)]
    return text


def _known(one: xr.Dataset, name: str) -> bool:
    return bool(np.isfinite(one[f"fit_{name}"]))


def _products(one: xr.Dataset) -> str:
    told = []
    for step in one["step"].to_numpy():
        try:
            rows = equal_product_spread(*size_table(one["sup_tokens"].sel(step=step)))
        except InputError:
            return ""
        apart = [row for row in rows if not row.coincide]
        worst = max(row.ratio.estimate for row in rows)
        told.append(
            f"after {counted(step)} {'all ' if len(rows) > 1 else 'the '}{counted(len(rows), 'product coincides', 'products coincide')} "
            f"(largest ratio {worst:.2f})"
            if not apart
            else f"after {counted(step)} {len(apart)} of {counted(len(rows), 'product', 'products')} differ "
            f"(largest ratio {worst:.2f})"
        )
    return f"Networks of equal L·H: {'; '.join(told)}."


def _reference(dataset: xr.Dataset) -> str:
    told = []
    smallest = root_mean_square(dataset["sup_tokens"]).sel(inputs="fresh").min(("n_layers", "n_heads"))
    own = dataset["reference_error"].sel(distance="sup_tokens", inputs="fresh")
    share = (own / smallest).max(("seed", "n_tokens", "width"))
    for step in dataset["step"].to_numpy():
        told.append(f"{100 * float(share.sel(step=step)):.0f} % after {counted(step)}")
    text = f"The limit's own error, as a share of the smallest error that it judges: {', '.join(told)}."
    if float(share.max()) > SHARE:
        need = dataset.attrs["n_particles"] * (float(share.max()) / SHARE) ** 2
        text += f" More than a fifth is too much: give --particles {math.ceil(need / 1000) * 1000}, or leave large networks out."
    return text


def _independence(dataset: xr.Dataset) -> str:
    """How the scaled error depends on N and d, where they vary."""
    scaled = root_mean_square(dataset["sup_tokens"]).sel(inputs="fresh")
    scaled = scaled * (scaled["n_layers"] * scaled["n_heads"]) ** 0.5
    logs = xr.apply_ufunc(np.log, scaled).mean(("n_layers", "n_heads", "seed"))
    told = []
    for name, symbol in (("n_tokens", "N"), ("width", "d")):
        if dataset.sizes[name] > 1:
            ends = logs.isel({name: [0, -1]}).mean([other for other in ("n_tokens", "width") if other != name])
            factors = xr.apply_ufunc(np.exp, ends.isel({name: 1}) - ends.isel({name: 0}))
            low, high = dataset[name].to_numpy()[[0, -1]]
            words = ", ".join(
                f"{float(factors.sel(step=s)):.2f} after {counted(s)}" for s in dataset["step"].to_numpy()
            )
            told.append(f"From {symbol} = {low} to {high} the error changes by a factor of {words}.")
    return " ".join(told)


def _bounds(dataset: xr.Dataset) -> str:
    update, parameter = (float(dataset[f"certificate_{name}"].max()) for name in ("update", "parameter"))
    if math.isnan(update):
        return "No bound holds for this optimiser's step."
    within = f", parameters up to {parameter:.2f} of the compact set's" if math.isfinite(parameter) else ""
    return f"Every step stayed inside Adam's bound (at most {update:.4f} of it){within}."


def counted(number: int, one: str = "step", many: str = "steps") -> str:
    """
    >>> counted(1), counted(4)
    ('1 step', '4 steps')
    """
    return f"{number} {one if number == 1 else many}"
