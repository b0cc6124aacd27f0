"""What a phase diagram says: where the transition lies, how wide it is, and how far from the closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from attnlim.context.simplex_limits import simplex_limit
from attnlim.core.intervals import jackknife_mean
from attnlim.report.phase_reading import crossing

# below this cosine λ = 1/(1+3ρ̂) is so near to 1 that where a curve passes it says little; half way is taken instead
LEAST_COSINE = 0.1
# how wide a transition is: from this share of its whole rise to that
LOW, HIGH = 0.1, 0.9
# an estimate of the rounding error of λ above this share of λ deserves a word, unless λ is as good as 0
ROUNDED, NOTHING = 0.01, 1e-3

Floats = NDArray[np.float64]

GROUP = ("n_tokens", "width", "rho", "alpha", "causal")


def transitions(dataset: xr.Dataset) -> pd.DataFrame:
    """Where contraction and gradient cross over, one row a kind of token set, α and mask.

    Every draw has its own crossing, linear between the points of the grid; the row holds their mean and its standard
    error. It is NaN where a draw does not cross inside the grid.

    Args:
        dataset: a phase diagram.

    Returns:
        columns ``GROUP``; rho_hat and gamma_c = 1/(1-ρ̂); gamma_half, the half-weight point; gamma, where λ rises
        through that of a simplex at self weight 1/2, 1/(1+3ρ̂) for α = 0 (through half of its rise for ρ̂ below 0.1),
        its standard error gamma_se, and gamma_simplex, where the closed form at ρ̂ does; spread, the change of γ from
        a tenth to nine tenths of the rise of λ, spread_se and spread_simplex; gamma_eta and gamma_eta_se, where the
        attention part of η rises through a quarter of its limit.
    """
    gamma = dataset["gamma"].values.astype(float)
    rows = []
    for i, n in enumerate(dataset["n_tokens"].values):
        for j, d in enumerate(dataset["width"].values):
            for r, rho in enumerate(dataset["rho"].values):
                for a, alpha in enumerate(dataset["alpha"].values):
                    for c, causal in enumerate(dataset["causal"].values):
                        at = dataset.isel(n_tokens=i, width=j, rho=r, alpha=a, causal=c)
                        row = dict(zip(GROUP, (int(n), int(d), float(rho), float(alpha), bool(causal)), strict=True))
                        rows.append(row | _row(at.transpose("draw", "gamma", ...), gamma, float(alpha)))
    return pd.DataFrame(rows)


def verdict(dataset: xr.Dataset) -> str:
    """What the phase diagram says, one paragraph a line: where and how wide, over the cosines, the gradient, doubts."""
    if dataset.sizes["gamma"] < 2:
        return "A single γ shows no transition: give several, such as --gamma 0:4:41."
    table = transitions(dataset)
    main = table[(table["alpha"] == table["alpha"].min()) & (table["causal"] == table["causal"].min())]
    told = [_where(dataset, main), _over_cosines(main), _gradient(main), _variants(table, main), _doubts(dataset, main)]
    return "\n".join(paragraph for paragraph in told if paragraph)


def shown_cosine(table: pd.DataFrame) -> float:
    """The ρ to quote: of those where most widths have their transition inside the grid, the one in the middle.

    >>> shown_cosine(pd.DataFrame({"rho": [0.1, 0.5, 0.9], "gamma": [1.1, 2.0, math.nan]}))
    0.5
    """
    cosines = sorted(table["rho"].unique())
    if len(cosines) == 1:
        return float(cosines[0])
    found = table["gamma"].notna().groupby(table["rho"]).sum()
    middle = (len(cosines) - 1) / 2
    return float(max(cosines, key=lambda rho: (found[rho], -abs(cosines.index(rho) - middle))))


def _row(at: xr.Dataset, gamma: Floats, alpha: float) -> dict[str, float]:
    rho_hat, q = at["rho_hat"].values, at["q_mean"].values
    level, floor = np.empty_like(rho_hat), np.empty_like(rho_hat)
    for k, rho in enumerate(rho_hat):
        floor[k] = _floor(float(rho), float(q[k]), alpha)
        near_0 = not rho >= LEAST_COSINE
        level[k] = (1 + floor[k]) / 2 if near_0 else at["contraction_half"].values[k]
    measured, simplex = at["contraction"].values, at["contraction_simplex"].values
    rise = [crossing(gamma, measured, floor + share * (1 - floor)) for share in (LOW, HIGH)]
    rise_simplex = [crossing(gamma, simplex, floor + share * (1 - floor)) for share in (LOW, HIGH)]
    backward = crossing(gamma, at["eta_attention"].values, at["eta_limit"].values / 4)
    found: dict[str, float] = {}
    for name, values in (
        ("rho_hat", rho_hat),
        ("gamma_c", at["gamma_c"].values),
        ("gamma_half", at["gamma_half"].values),
        ("gamma", crossing(gamma, measured, level)),
        ("gamma_simplex", crossing(gamma, simplex, level)),
        ("spread", rise[1] - rise[0]),
        ("spread_simplex", rise_simplex[1] - rise_simplex[0]),
        ("gamma_eta", backward),
    ):
        found[name] = float(np.mean(values))
        if name in ("gamma", "spread", "gamma_eta"):
            error = jackknife_mean(values).standard_error
            found[f"{name}_se"] = float(error) if math.isfinite(found[name]) else math.nan
    return found


def _floor(rho: float, q: float, alpha: float) -> float:
    """λ far below the threshold, which only the residual branch keeps above 0."""
    if alpha == 0 or not 0 < rho < 1:
        return 0.0
    return simplex_limit(rho, phase="subcritical", q=q, alpha=alpha).one_minus_rho / (1 - rho)


def _where(dataset: xr.Dataset, main: pd.DataFrame) -> str:
    """For each number of tokens: where the transition lies and how wide it is, widest tokens first."""
    if not dataset["contraction"].notnull().any():
        return ""
    sentences = []
    rho = shown_cosine(main)
    for n, part in _at(main, rho).groupby("n_tokens"):
        rows = part.sort_values("width", ascending=False).to_dict("records")
        at = f"{n} tokens" if math.isnan(rho) else f"{n} tokens and ρ = {rho:g}"
        widths = f" for d = {_and([str(row['width']) for row in rows])}" if len(rows) > 1 else ""
        if all(math.isnan(row["gamma"]) for row in rows):
            low, high = float(dataset["gamma"].min()), float(dataset["gamma"].max())
            lies = f"lies outside γ = {low:g} … {high:g}{widths}"
        else:
            lies = f"lies at γ = {_and([_number(row['gamma'], row['gamma_se']) for row in rows])}{widths}"
        threshold = _and([_number(row["gamma_c"]) for row in rows])
        wide = _and([_number(row["spread"], row["spread_se"]) for row in rows])
        simplex = _and([_number(row["spread_simplex"]) for row in rows])
        sentences.append(
            f"At {at} the transition {lies}, where 1/(1 − ρ̂) = {threshold}; contraction λ takes Δγ = {wide} from a tenth "
            f"to nine tenths of its rise, the closed form at ρ̂ {simplex}."
        )
    return " ".join(sentences)


def _over_cosines(main: pd.DataFrame) -> str:
    """How far the transition is from 1/(1-ρ̂) and from the half-weight point over the whole grid of cosines."""
    if main["rho"].nunique() < 2 or not main["gamma"].notna().any():
        return ""
    told = []
    for d, part in reversed(list(main.groupby("width"))):
        part = part[part["gamma"].notna()]
        if not len(part):
            continue
        text = f"{_percent(part['gamma'] / part['gamma_c'] - 1)} at d = {d}"
        half = part[part["gamma_half"].notna()]
        if len(half):
            text += f" (from the half-weight point {_percent(half['gamma'] / half['gamma_half'] - 1)})"
        else:
            text += " (no half-weight point)"
        told.append(text)
    return f"Over all ρ the measured transition is off 1/(1 − ρ̂) by a median of {_and(told)}."


def _gradient(main: pd.DataFrame) -> str:
    """Where the backward transition is."""
    rows = _at(main, shown_cosine(main)).sort_values(["n_tokens", "width"], ascending=False).to_dict("records")
    rows = [row for row in rows if row["n_tokens"] == rows[0]["n_tokens"] and math.isfinite(row["gamma_eta"])]
    if not rows:
        return ""
    told = _and([_number(row["gamma_eta"], row["gamma_eta_se"]) for row in rows])
    widths = f" for d = {_and([str(row['width']) for row in rows])}" if len(rows) > 1 else ""
    return (
        f"Backwards, at {rows[0]['n_tokens']} tokens, the attention part of η passes a quarter of its limit at "
        f"γ = {told}{widths}."
    )


def _variants(table: pd.DataFrame, main: pd.DataFrame) -> str:
    """Other residual factors and masks, at the most and widest tokens."""
    last = _at(table, shown_cosine(main))
    last = last[(last["n_tokens"] == last["n_tokens"].max()) & (last["width"] == last["width"].max())]
    told = []
    for row in last.to_dict("records"):
        if row["alpha"] == main["alpha"].min() and row["causal"] == main["causal"].min():
            continue
        name = ", ".join(
            [f"α = {row['alpha']:g}"] * (table["alpha"].nunique() > 1)
            + ["causal" if row["causal"] else "full"] * (table["causal"].nunique() > 1)
        )
        told.append(f"{_number(row['gamma'], row['gamma_se'])} ({name})")
    if not told:
        return ""
    return f"At {last['n_tokens'].max()} tokens and d = {last['width'].max()} it lies otherwise at γ = {_and(told)}."


def _doubts(dataset: xr.Dataset, main: pd.DataFrame) -> str:
    told = []
    outside = main[main["gamma"].isna()]
    if dataset["contraction"].notnull().any() and len(outside):
        top = float(dataset["gamma"].max())
        beyond = int((outside["gamma_c"] > top).sum())
        told.append(
            f"{len(outside)} of {len(main)} transitions lie outside the grid of γ"
            + (f", {beyond} of them with 1/(1 − ρ̂) above its end {top:g}" if beyond else "")
        )
    doubles = int(np.nansum(dataset["duplicates"].values))
    if doubles:
        told.append(f"{doubles} pairs of tokens have one direction and are left out of λ")
    contraction = dataset["contraction"].values
    share = (dataset["contraction_error"].values[contraction > NOTHING] / contraction[contraction > NOTHING]).max(
        initial=0
    )
    if share > ROUNDED:
        told.append(f"rounding may move λ by {100 * share:.0f} %, use --dtype float64")
    if dataset.sizes["draw"] == 1 and dataset.attrs["tokens"] in ("gaussian", "half-sphere", "sphere"):
        sampled = any(bool((dataset[name] > 0).any()) for name in dataset if str(name).endswith("_standard_error"))
        which = "the standard errors of one draw are those of its sampled rows or probes alone"
        told.append(f"{which if sampled else 'one draw has no standard error'}, use --draws 4")
    return f"To bear in mind: {'; '.join(told)}." if told else ""


def _at(table: pd.DataFrame, rho: float) -> pd.DataFrame:
    return table[table["rho"].isna()] if math.isnan(rho) else table[table["rho"] == rho]


def _number(value: float, error: float = math.nan) -> str:
    """Two digits behind the point, three where the error asks for it; a dash where there is no number."""
    if math.isnan(value):
        return "–"
    digits = 3 if 0 < error < 0.01 else 2
    return f"{value:.{digits}f}" + (f" ± {error:.{digits}f}" if math.isfinite(error) and error > 0 else "")


def _percent(shares: pd.Series[float]) -> str:
    return f"{100 * float(shares.abs().median()):.1f} %"


def _and(words: Sequence[str]) -> str:
    """The words as a list in a sentence.

    >>> _and(["a"]), _and(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
