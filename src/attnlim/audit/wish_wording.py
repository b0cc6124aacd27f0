"""What an audit says of which way its heads would rather go."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from attnlim.audit.placing import where_heads
from attnlim.core.ranks import rank_correlation

WISHES = ("sharper", "softer", "undecided")
# rank correlations below and above which a phase says little, or much, of a head's wish
LITTLE, MUCH = 0.3, 0.7
# the share of the spread over heads that may be uncertainty
RELIABLE = 0.5


def wishes(dataset: xr.Dataset, context: int) -> np.ndarray:
    """(n_layers, n_heads) int: 0 sharper, its interval below 0; 1 softer, above; 2 undecided; -1 no such head."""
    at = dataset.sel(context=context)
    known = np.isfinite(at["sensitivity"].values)
    decided = np.select([at["sensitivity_high"].values < 0, at["sensitivity_low"].values > 0], [0, 1], 2)
    return np.where(known, decided, -1)


def wish_counts(dataset: xr.Dataset, context: int) -> dict[str, int]:
    """Heads that would rather be sharper or softer, and heads whose interval holds 0."""
    codes = wishes(dataset, context)
    return {name: int((codes == code).sum()) for code, name in enumerate(WISHES)}


def sum_of_sizes(at: xr.Dataset) -> tuple[float, float]:
    """Absolute sensitivities of one context added up over heads, nats, and what they would come to if every true one were 0."""
    n = int(at.attrs["n_windows"])
    # a standard error from n windows is too small on average by the factor c4 of control charts; the mean absolute value of a
    # normal error is √(2/π) of its standard deviation
    c4 = math.sqrt(2 / (n - 1)) * math.exp(math.lgamma(n / 2) - math.lgamma((n - 1) / 2)) if n > 1 else math.nan
    chance = math.sqrt(2 / math.pi) * float(at["sensitivity_se"].sum()) / c4
    return float(np.abs(at["sensitivity"]).sum()), chance


def wish_paragraph(dataset: xr.Dataset) -> str:
    """Which way heads want to go, whether together, and whether their phase says so; empty where it was not measured."""
    if "sensitivity" not in dataset:
        return ""
    longest = int(dataset.context[-1])
    at = dataset.sel(context=longest)
    if dataset.attrs["n_windows"] < 2:
        below = int((at["sensitivity"] < 0).sum())
        every = int(at["sensitivity"].notnull().sum())
        text = (
            f"At {longest} tokens the loss would fall with larger logits in {below} of {every} heads, with smaller ones in the "
            "others. One text window gives no interval, so no head's wish is decided."
        )
    else:
        text = f"{_decided(dataset, longest)} {_together(at)}"
    return f"{text}{_phase_says(dataset, longest)}"


def _decided(dataset: xr.Dataset, longest: int) -> str:
    counts, every = wish_counts(dataset, longest), wishes(dataset, longest)
    total = sum(counts.values())
    told = [
        f"{counts[name]} would rather be {name}{where_heads(dataset, every == code) if counts[name] else ''}"
        for code, name in enumerate(WISHES[:2])
    ]
    text = (
        f"At {longest} tokens, of {total} heads {told[0]}, {told[1]} and {counts['undecided']} are undecided. (Sharper: the "
        f"next token's loss falls when the head's logits grow; undecided: the 95 % interval over windows holds 0. Chance alone "
        f"would decide about {0.05 * total:.0f}.)"
    )
    shortest = int(dataset.context[0])
    if shortest < longest:
        first = wish_counts(dataset, shortest)
        text += f" At {shortest} tokens it was {first['sharper']} sharper, {first['softer']} softer."
    return text


def _together(at: xr.Dataset) -> str:
    """One factor for all heads, against what the heads want by themselves."""
    total, low, high = (float(at[f"sensitivity_total{end}"]) for end in ("", "_low", "_high"))
    alone, chance = sum_of_sizes(at)
    way = (
        "all together would rather be sharper" if high < 0 else "all together would rather be softer" if low > 0 else ""
    )
    text = (
        f"One factor on all logits moves the loss by {_signed(total)} ± {(high - low) / 2:.3f} nats a token per unit of its "
        f"logarithm{f': {way}' if way else ', which may be 0'}. The heads' own sensitivities add up to {alone:.2f} in absolute "
        f"value, where chance alone gives about {chance:.2f}"
    )
    if alone > 2 * max(abs(total), chance):
        return f"{text}: heads want different things."
    return f"{text}."


def _phase_says(dataset: xr.Dataset, longest: int) -> str:
    at = dataset.sel(context=longest)
    named = (("κ", "kappa"), ("b_c", "critical_multiplier"))
    found = {symbol: rank_correlation(at["sensitivity"], at[name]) for symbol, name in named}
    known = {symbol: value for symbol, value in found.items() if not math.isnan(value)}
    if not known:
        return ""
    told = " and ".join(f"with {symbol} by {_signed(value, 2)}" for symbol, value in known.items())
    return f" Over heads the sensitivity rank-correlates {told}: {_worth(at, max(map(abs, known.values())))}."


def _worth(at: xr.Dataset, largest: float) -> str:
    """What a rank correlation says, unless the sensitivities are too uncertain to correlate with anything."""
    noise, spread = float((at["sensitivity_se"] ** 2).mean()), float(at["sensitivity"].var())
    if not noise < RELIABLE * spread:
        return "with this few windows that cannot say whether a head's phase tells which way it wants to go"
    says = "little" if largest < LITTLE else "much" if largest > MUCH else "something, not all,"
    return f"a head's phase says {says} of which way it wants to go"


def _signed(value: float, digits: int = 3) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")
