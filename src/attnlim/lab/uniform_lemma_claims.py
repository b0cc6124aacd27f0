"""Claims of the lemmas: parameters, Adam's bound, the attention map, the parts of the error."""

from __future__ import annotations

import numpy as np
import xarray as xr

from attnlim.core.regression import slope
from attnlim.depth.adam_bound import adam_bound_limit
from attnlim.depth.rates import fit_rate
from attnlim.lab.meanfield_dataset import size_table
from attnlim.lab.uniform_dataset import of_grid
from attnlim.lab.uniform_parts import FORGETTING
from attnlim.lab.uniform_rate_claims import measured_interval
from attnlim.lab.verdicts import (
    Claim,
    Measured,
    at_least,
    at_most,
    exact,
    near,
    over_draws,
)


def parameter_claims(dataset: xr.Dataset) -> list[Claim]:
    """Lemma 6, and how fast parameters come to those of the limit."""
    found = []
    rates = of_grid(dataset, "rates").isel(seed=0, n_tokens=0, width=0)
    with np.errstate(invalid="ignore"):
        ratio = (rates["wasserstein"] / rates["coupling"]).where(rates["coupling"] > 0)
    largest = exact(float(ratio.max()))
    found.append(
        Claim(
            "coupling", "the coupling with shadow heads bounds W_2 of the heads' laws", "Lemma 6", 1.0, largest,
            at_most(1 + 1e-9, largest), "exact W_2 by assignment over the coupling's bound, the largest of all runs and steps",
        )
    )  # fmt: skip
    for key, grid, power, words in (
        ("small-eps", "rates", 0.25, "with a small eps parameters come to the limit's as (LH)^−1/4 after a step"),
        ("large-eps", "eps", 0.5, "with a large eps as (LH)^−1/2"),
    ):
        one = of_grid(dataset, grid).isel(seed=0, n_tokens=0, width=0).sel(step=1)
        layers, heads, errors = size_table(one["coupling_average"])
        fit = fit_rate(layers * heads, np.ones_like(heads), errors, discretisation=False, seed=int(one["seed"]))
        measured = measured_interval(fit.p)
        found.append(
            Claim(
                key, words, "derived: Adam's first step goes by the sign", power, measured, near(power, measured, 0.1, 0.2),
                f"root mean square over heads and layers, L·H = {(layers * heads).min()} to {(layers * heads).max()}",
            )
        )  # fmt: skip
    return found


def certificate_claims(dataset: xr.Dataset) -> list[Claim]:
    """Lemmas 26 and 43 over every run of the reproduction."""
    update = parameter = 0.0
    runs = 0
    for name in dataset.attrs["grids"]:
        one = of_grid(dataset, name)
        update = max(update, float(one["certificate_update"].max()))
        parameter = max(parameter, float(one["certificate_parameter"].max()))
        runs += int(np.isfinite(one["certificate_update"]).sum()) * one.sizes["init"]
    attained = dataset["bound_attained"].to_numpy()
    lowest = exact(float(attained.min()))
    constants = ", ".join(
        f"({names}): {value:.4f}"
        for names, value in zip(dataset["betas"].to_numpy(), dataset["bound_limit"].to_numpy(), strict=True)
    )
    return [
        Claim(
            "adam-bound", "no step of Adam is larger than C", "Lemma 43", 1.0, exact(update), at_most(1 + 1e-9, exact(update)),
            f"largest over its bound in {runs} runs; C is {constants}",
        ),
        Claim(
            "adam-attained", "the worst sequence of gradients attains C", "Lemma 43, derived", 1.0, lowest,
            near(1.0, lowest, 1e-6), "AdamW on gradients in proportion to (β_1/β_2)^−t, the smallest of three pairs of rates",
        ),
        Claim(
            "compact", "no parameter leaves max(|θ_0|, C/λ)", "Lemma 26", 1.0, exact(parameter),
            at_most(1 + 1e-9, exact(parameter)), f"largest over the bound in {runs} runs",
        ),
    ]  # fmt: skip


def proof_claims(dataset: xr.Dataset) -> list[Claim]:
    """Lemmas 1, 17, 28 to 30, 36, 38 and 40, and what follows from the scale of the parameters."""
    return [*_maps(dataset), *_stability(dataset), *_stack(dataset), *_growth(dataset)]


def _maps(dataset: xr.Dataset) -> list[Claim]:
    difference = exact(float(dataset["maps_difference"]))
    share = dataset["maps_ratio"] / dataset["maps_bound"]
    largest, reached = exact(float(share.max())), float(share.max("reach").min())
    drift = dataset["maps_drift"]
    powers = slope(np.log(dataset["scale"].to_numpy())[:, None], np.log(drift.to_numpy()), axis=0)
    lowest = exact(float(powers.min()))
    return [
        Claim(
            "lions", "the Lions derivative of γ is as printed", "Lemma 1", 0.0, difference, at_most(1e-6, difference),
            "largest relative difference from central differences with h = 1e-5, over 120 directions",
        ),
        Claim(
            "lipschitz", "γ is Lipschitz in W_p, by 1 + R|z| for p = ∞", "Lemma 1, constants derived", 1.0, largest,
            at_most(1.0, largest),
            f"largest ratio found over the bound, p = 1, 2 and ∞, R|z| up to 2; each p comes to {reached:.0%} of it or more",
        ),
        Claim(
            "drift", "the derivatives of Γ are Lipschitz", "Lemma 17", 4.0, lowest, at_least(3.8, lowest),
            "ratios are finite and vanish with the scale of the parameters: the smallest power of five; no constant is claimed",
        ),
    ]  # fmt: skip


def _stability(dataset: xr.Dataset) -> list[Claim]:
    lemmas = {"parameters": "Lemma 28", "depth": "Lemma 29", "gradients": "Lemma 30"}
    texts = {
        "parameters": "heads differ from their shadows by at most C times past differences of gradients",
        "depth": "t ↦ ν_t is Lipschitz",
        "gradients": "gradients differ by at most C times differences of heads, tokens and adjoint",
    }
    found = []
    ratios = dataset["stability_ratio"].sel(weight_decay=1.0)
    n_steps = ratios.sizes["stability_step"] - 1
    for name, lemma in lemmas.items():
        values = ratios.isel(stability_lemma=list(lemmas).index(name)).to_numpy()
        so_far = np.fmax.accumulate(values)
        so_far = so_far - np.nan_to_num(so_far[0])
        quarter = n_steps // 4
        late, early = float(so_far[-1] - so_far[-1 - quarter]), float(so_far[quarter])
        measured = exact(late / early if late else 0.0)
        found.append(
            Claim(
                f"stable-{name}", f"{texts[name]}, bounded over steps", lemma, 0.5, measured, at_most(0.5, measured),
                f"what the largest ratio gains in the last quarter of {n_steps} steps over the first quarter: it levels off at "
                f"{np.nanmax(values):.3g}, with a weight decay that forgets in 10 steps",
            )
        )  # fmt: skip
    largest = dataset["stability_largest"]
    with_decay, without = (largest.sel(weight_decay=decay).to_numpy() for decay in (1.0, 0.0))
    limit = max(with_decay[0], adam_bound_limit(*FORGETTING))
    measured = exact(float(with_decay.max() / limit))
    found.append(
        Claim(
            "decay", "weight decay keeps parameters in one bounded set at every step", "Remark 27", 1.0, measured,
            at_most(1.0, measured),
            f"largest |θ| over max(|θ_0|, C/λ); after {n_steps} steps it is {with_decay[-1]:.2f}, without decay {without[-1]:.2f}",
        )
    )  # fmt: skip
    return found


def _stack(dataset: xr.Dataset) -> list[Claim]:
    rest = exact(float(dataset["stack_rest"].max()))
    scores = dataset["stack_score"].to_numpy().ravel()
    score = over_draws(scores)
    doob = exact(float(dataset["stack_doob"].max()))
    products = (dataset["stack_layers"] * dataset["stack_heads"]).to_numpy().ravel()
    martingale = dataset["stack_martingale"].isel(stack_step=-1).transpose("stack_init", "stack_layers", "stack_heads")
    sets = martingale.to_numpy().reshape(martingale.sizes["stack_init"], -1)
    fit = fit_rate(products, np.ones_like(products), sets, discretisation=False)
    power = Measured(fit.p.estimate, fit.p.low, fit.p.high)
    end = dataset["stack_part"].isel(stack_step=-1, stack_layers=-1, stack_heads=-1, stack_t=-1)
    told = ", ".join(
        f"{name} {float(end.sel(part=name)):.2g}" for name in ("martingale", "time_shift", "propagated", "parameters")
    )
    return [
        Claim(
            "stack", "martingale, time shift, propagation and parameters sum to the error", "Lemma 40", 0.0, rest,
            at_most(1e-10, rest), f"largest difference at any node; of the largest network at t = 1: {told.replace('_', ' ')}",
        ),
        Claim(
            "martingale", "increments of M have mean zero over initialisations", "Lemma 38", 1.0, score,
            near(1.0, score, 0.3, 0.6),
            "mean square of standard scores over layers, tokens and coordinates, over sizes and steps; scores of 16 "
            f"initialisations have {15 / 13:.2f} by Student's law",
        ),
        Claim(
            "doob", "the mean of max |M|² is at most 4 times that of |M_L|²", "Doob's inequality", 4.0, doob, at_most(4.0, doob),
            "the largest over sequences, tokens, sizes and steps",
        ),
        Claim(
            "block", "sup |M| falls at least as fast as the blocks' L^−1/3 H^−1/2", "Lemma 36", 1 / 3, power, at_least(1 / 3, power),
            "power of L·H after training: what the proof loses to blocks of depth is not seen in M itself",
        ),
    ]  # fmt: skip


def _growth(dataset: xr.Dataset) -> list[Claim]:
    slopes = dataset["growth_slope"].to_numpy()
    cubic = exact(float(slopes[np.abs(slopes[:2] - 3).argmax()]))
    plain, normed, ceiling = (dataset[f"growth_{name}"].to_numpy() for name in ("plain", "normed", "ceiling"))
    share, steady = exact(float((plain / ceiling).max())), exact(float(normed.max() / normed.min()))
    return [
        Claim(
            "cubic", "gradients of Q and K grow as the cube of the parameters' scale", "section 1, derived", 3.0, cubic,
            near(3.0, cubic, 0.02), f"at small scale; those of V and O by the power {slopes[2]:.2f} and {slopes[3]:.2f}",
        ),
        Claim(
            "gronwall", "tokens grow at most exponentially with depth", "Grönwall, derived", 1.0, share, at_most(1.0, share),
            f"largest token over the product of layers' norms, parameters 1 to 16 times as large; it grows {plain[-1] / plain[0]:.3g} times",
        ),
        Claim(
            "post-norm", "with post-norm they do not grow", "section 1", 1.0, steady, near(1.0, steady, 0.02),
            "largest over smallest of the same; post-norm is an extension to which the theorem does not apply",
        ),
    ]  # fmt: skip
