"""Claims by which the machinery is checked: split coupling, layouts, the diffusive regime, published numbers."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from attnlim.core.regression import slope
from attnlim.depth.rates import compare_rates, fit_rate
from attnlim.lab.uniform_rate_claims import THEOREM
from attnlim.lab.verdicts import (
    CONFIRMED,
    CONTRADICTED,
    QUALIFIED,
    Claim,
    Measured,
    exact,
    near,
)


def control_claims(dataset: xr.Dataset) -> list[Claim]:
    """Split coupling, layouts, the diffusive regime and published numbers."""
    return [*_split(dataset), *_layouts(dataset), *_regimes(dataset), *_validation(dataset)]


def _split(dataset: xr.Dataset) -> list[Claim]:
    layers, errors = dataset["split_layers"].to_numpy(), dataset["split_error"]
    last = int(dataset["split_step"][-1])
    found = []
    for key, law, step, power, text in (
        ("split-start", "xavier", 0, 1.5, "without a drift the error of discretisation falls as L^−3/2"),
        ("split-off-centre", "off-centre", 0, 1.0, "with a drift it falls as 1/L"),
        ("split-trained", "xavier", last, 1.0, "training gives a drift, and it comes to fall as 1/L"),
    ):
        sets = errors.sel(split_law=law, split_step=step).transpose("split_init", "split_layers").to_numpy()
        fit = fit_rate(layers, np.ones_like(layers), sets, discretisation=False)
        measured = Measured(fit.p.estimate, fit.p.low, fit.p.high)
        between = ", ".join(
            f"{float(-slope(np.log(layers), np.log(np.sqrt((errors.sel(split_law='xavier', split_step=s).to_numpy() ** 2).mean(axis=1))))):.2f}"
            for s in dataset["split_step"].to_numpy()
        )
        found.append(
            Claim(
                key, text, "derived", power, measured, near(power, measured, 0.15, 0.5),
                f"(2L, 1) against (L, 2) of the same heads, L = {layers[0]} to {layers[-1]}, after {step} steps"
                + (f"; the powers after {', '.join(map(str, dataset['split_step'].to_numpy()))} steps are {between}" if step else ""),
            )
        )  # fmt: skip
    return found


def _layouts(dataset: xr.Dataset) -> list[Claim]:
    logs = np.log(dataset["layout_layers"].to_numpy())
    powers = {
        str(name): float(slope(logs, np.log(dataset["layouts_deviation"].sel(layout=name).to_numpy())))
        for name in dataset["layout"].to_numpy()
    }
    iid, others = exact(powers["iid"]), exact(max(powers["shared"], powers["smooth"], key=abs))
    return [
        Claim(
            "iid", "one independent head a layer averages out over depth", "section 2", -0.5, iid, near(-0.5, iid, 0.05),
            "slope of ln of the standard deviation of X_1 over initialisations in ln L, H = 1, before training",
        ),
        Claim(
            "shared", "heads that are shared or smooth over depth do not", "ours, as in earlier literature", 0.0, others,
            near(0.0, others, 0.1), f"the same; shared {powers['shared']:+.2f}, smooth {powers['smooth']:+.2f}: their limit is random",
        ),
    ]  # fmt: skip


def _regimes(dataset: xr.Dataset) -> list[Claim]:
    found = []
    logs = np.log(dataset["law_depth"].to_numpy())
    for regime, power, text in (
        ("diffusive", 0.0, "with residual L^−1/2 the law of X_1 settles with a spread that stays"),
        ("mean-field", -0.5, "with residual 1/L its spread vanishes as L^−1/2"),
    ):
        deviation = dataset["law_deviation"].sel(regime=regime).to_numpy()
        measured = exact(float(slope(logs, np.log(deviation))))
        score = float(dataset["law_mean_score"].sel(regime=regime).max())
        found.append(
            Claim(
                f"law-{regime}", text, "section 1" if power == 0 else THEOREM, power, measured, near(power, measured, 0.08),
                f"slope of ln of the standard deviation in ln L at H = 2; means agree within {score:.1f} standard errors",
            )
        )  # fmt: skip
    return found


def _validation(dataset: xr.Dataset) -> list[Claim]:
    """The published shape and constants, over the draws of data."""
    layers, hidden = (dataset[f"validation_{name}"].to_numpy() for name in ("layers", "hidden"))
    known = dataset["validation_error"].isel(validation_draw=0, validation_step=-1, repetition=0).notnull()
    grid = [
        (a, b)
        for a in layers
        for b in hidden
        if (a > 1 or b > 1) and bool(known.sel(validation_layers=a, validation_hidden=b))
    ]
    sizes_l, sizes_m = np.array([a for a, _ in grid]), np.array([b for _, b in grid])
    c1, c2, powers = [], [], []
    for draw in dataset["validation_draw"].to_numpy():
        one = dataset["validation_error"].sel(validation_draw=draw).isel(validation_step=-1)
        sets = np.stack([one.sel(validation_layers=a, validation_hidden=b).to_numpy() for a, b in grid], axis=1)
        own = compare_rates(sizes_l, sizes_m, sets)[-1]
        c1.append(own.c1.estimate)
        c2.append(own.c2.estimate / math.sqrt(10))
        powers.append(own.excess.estimate)
    noise = float(dataset["validation_noise"].isel(validation_step=-1).max())
    smallest = float(np.sqrt((dataset["validation_error"].isel(validation_step=-1) ** 2).mean("repetition")).min())
    limits = f"the reference's own noise is at most {noise / smallest:.0%} of the smallest error"
    found = []
    for key, published, values, words in (
        ("validation-noise", 0.22, c2, "the noise of the perceptrons of arXiv 2509.10167 is .22 √D/√(LM)"),
        ("validation-depth", 0.15, c1, "and their error of depth .15/L"),
    ):
        measured = Measured(float(np.median(values)), min(values), max(values))
        inside = abs(measured.value / published - 1) <= 1 / 3
        found.append(
            Claim(
                key, words, "arXiv 2509.10167, by eye on one draw", published, measured, CONFIRMED if inside else CONTRADICTED,
                f"median and range of {len(values)} draws of the data: {', '.join(f'{v:.3f}' for v in values)}; {limits}",
            )
        )  # fmt: skip
    best = exact(max(powers))
    found.append(
        Claim(
            "validation-shape", "L^−1 + (LM)^−1/2 fits them best of four rates", "arXiv 2509.10167", 0.0, best,
            CONFIRMED if best.value < 0 else QUALIFIED if min(powers) < 0 else CONTRADICTED,
            f"its root mean square less the best of the others', by draw: {', '.join(f'{value:+.3f}' for value in powers)}",
        )
    )  # fmt: skip
    return found
