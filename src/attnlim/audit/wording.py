"""The verdict: what an audit's numbers mean and what is worth trying, in words."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np
import xarray as xr

from attnlim.context.phases import PHASES
from attnlim.core.intervals import IntervalArray, jackknife_mean

# Cosines this much apart are worth a word; below it a difference is called "hardly"
RHO_STEP = 0.05
# where QK-clip starts to act in published training runs: logits beyond it make a softmax brittle in low precision
LARGE_LOGIT = 100.0
# a share of heads that deserves advice of its own
MANY = 0.1
# so many heads of a phase are named one by one
FEW = 6
# a layer that gives the first token less has no sink worth the name
WEAK_SINK = 0.05


def verdict(dataset: xr.Dataset) -> str:
    """What the audit says, one paragraph a line: phases, sink, collapse, disagreements, what is worth trying."""
    paragraphs = [_phases(dataset), _sink(dataset), _collapse(dataset), _doubts(dataset), _advice(dataset)]
    return "\n".join(paragraph for paragraph in paragraphs if paragraph)


def phase_counts(dataset: xr.Dataset, context: int, suffix: str = "") -> dict[str, int]:
    """Heads in each phase at ``context``, and those that could not be placed ("unmeasured")."""
    phase = dataset[f"phase{suffix}"].sel(context=context).values
    exists = np.isfinite(dataset["entropy"].sel(context=context).values)
    counts = {name: int((phase == code).sum()) for code, name in enumerate(PHASES)}
    return counts | {"unmeasured": int((exists & (phase < 0)).sum())}


def _phases(data: xr.Dataset) -> str:
    shortest, longest = int(data.context[0]), int(data.context[-1])
    counts = phase_counts(data, longest)
    n_heads = sum(counts.values())
    if counts["unmeasured"] == n_heads:
        return (
            f"At {longest} tokens no head could be placed: κ needs attention over at least two lengths. "
            "Give several contexts, such as --context 128,512."
        )
    told = []
    for name in PHASES:
        where = _where(data, longest, name) if name in ("diluted", "frozen") and counts[name] else ""
        told.append(f"{counts[name]} {name}{where}")
    text = f"At {longest} tokens, of {n_heads} heads {', '.join(told[:-1])} and {told[-1]}"
    text += f"; {counts['unmeasured']} could not be placed." if counts["unmeasured"] else "."
    text += (
        " (Diluted: the number of tokens a head attends to grows almost as fast as the context, κ above "
        f"{data.attrs['diluted_above']:g}; frozen: it hardly grows, κ below {data.attrs['frozen_below']:g}; "
        "undecided: the 95 % interval of κ reaches over a margin.)"
    )
    if longest > shortest:
        first = phase_counts(data, shortest)
        if first["unmeasured"] < n_heads:
            before = ", ".join(f"{first[name]} {name}" for name in PHASES)
            text += f" At {shortest} tokens it was {before}."
        text += (
            f" The median head attends to {_tokens(data, longest)} tokens at {longest}"
            f" and {_tokens(data, shortest)} at {shortest}."
        )
    else:
        text += f" The median head attends to {_tokens(data, longest)} tokens."
    return text


def _sink(data: xr.Dataset) -> str:
    longest = int(data.context[-1])
    mass = data["sink_mass"].mean(["layer", "head"])
    text = f"The first token takes {_percent(float(mass[-1]))} of all attention"
    if data.sizes["context"] > 1:
        text += f" ({_percent(float(mass[0]))} at {int(data.context[0])} tokens)"
    text += _onset(data["sink_mass"].sel(context=longest).mean("head").values, data.layer.values)
    strong = int((data["sink_mass"].sel(context=longest) > 0.5).sum())
    text += (
        f"; {_heads(strong)} {'gives' if strong == 1 else 'give'} it more than half of theirs."
        if strong
        else "; no head gives it more than half."
    )
    counts = phase_counts(data, longest, "_no_sink")
    if sum(counts[name] for name in PHASES):
        text += (
            f" Without it the median head attends to {_tokens(data, longest, '_no_sink')} tokens; counted that way "
            f"{counts['diluted']} are diluted, {counts['sparse']} sparse, {counts['frozen']} frozen."
        )
    return text


def _onset(mass: np.ndarray, layers: np.ndarray) -> str:
    """Where the sink begins, if it is all but absent up to a layer and strong from there on."""
    for first in range(1, len(mass)):
        before, after = mass[:first].max(), mass[first:].mean()
        if before < WEAK_SINK and mass[first] >= WEAK_SINK and after > 3 * WEAK_SINK:
            return f", next to nothing before layer {layers[first]} and {_percent(float(after))} from there on"
    return ""


def _heads(n: int) -> str:
    return f"{n} head" if n == 1 else f"{n} heads"


def _collapse(data: xr.Dataset) -> str:
    rho = data["sample_rho_residual"].values  # (context, window, depth)
    profile = rho[-1].mean(axis=0)
    peak = int(np.argmax(profile))
    text = f"Between tokens the mean cosine goes from {profile[0]:.2f} at the embeddings to {profile[-1]:.2f} after the last layer"
    if profile[peak] > profile[-1] + RHO_STEP:
        text += f", with {profile[peak]:.2f} before layer {peak}"
    if len(rho) == 1:
        return text + ". One context cannot say whether they come together with length: give several."
    # a window is its own control: how much more alike its tokens are deep down, and at the longest context
    with_depth = jackknife_mean(rho[-1][:, peak] - rho[-1][:, 0], axis=0)
    with_length = jackknife_mean((rho[-1] - rho[0]).mean(axis=1), axis=0)
    text += (
        f"; from {int(data.context[0])} to {int(data.context[-1])} tokens it moves by {_signed(with_length)}, "
        "averaged over layers. "
    )
    deep, long = _grows(with_depth), _grows(with_length)
    if "unclear" in (deep, long):
        known = {"depth": deep, "length": long}
        parts = [f"{_GROWTH[answer]} with {what}" for what, answer in known.items()]
        return text + f"Tokens {' and '.join(parts)}."
    return text + _COLLAPSE[deep == "yes", long == "yes"]


_GROWTH = {
    "yes": "come together",
    "no": "hardly come together",
    "unclear": "may or may not come together (too few windows)",
}
_COLLAPSE = {
    (True, True): "Tokens come together with depth and with length.",
    (True, False): "Tokens come together with depth, hardly with length: this is depth collapse, not length collapse.",
    (False, True): "Tokens come together with length, hardly with depth: this is length collapse.",
    (False, False): "Tokens come together neither with depth nor with length.",
}


def _grows(change: IntervalArray) -> str:
    """Whether a cosine grows by more than ``RHO_STEP``: yes, no, or unclear from these windows."""
    low, high = float(change.low), float(change.high)
    if low > 0 and float(change.estimate) > RHO_STEP:
        return "yes"
    return "no" if high < 2 * RHO_STEP and float(change.estimate) <= RHO_STEP else "unclear"


def _doubts(data: xr.Dataset) -> str:
    longest = data.isel(context=-1)
    told = []
    skipped = json.loads(data.attrs["skipped"])
    if skipped:
        kinds = ", ".join(sorted({entry["what"] for entry in skipped}))
        told.append(f"{len(skipped)} layers without softmax attention ({kinds}) were skipped.")
    windowed = data["sliding_window"].values
    if (windowed > 0).any():
        told.append(
            f"{int((windowed > 0).sum())} layers see at most {int(windowed.max())} tokens (sliding window); "
            "their κ is that of the growing part."
        )
    below, above = longest["kappa"] < data.attrs["frozen_below"], longest["kappa"] > data.attrs["diluted_above"]
    clash = int(
        ((longest["critical_multiplier"] > 1) & below).sum() + ((longest["critical_multiplier"] < 1) & above).sum()
    )
    if clash:
        told.append(
            f"The gap count disagrees with κ on {_heads(clash)} (b_c above 1 where κ is low, or below 1 where it is high)."
        )
    if data.attrs["kappa_source"] == "positions" and data.sizes["context"] > 1:
        apart = (data["kappa_contexts_low"] > longest["kappa_high"]) | (
            data["kappa_contexts_high"] < longest["kappa_low"]
        )
        if int(apart.sum()):
            told.append(
                f"κ over contexts and κ over positions do not agree within their intervals on {_heads(int(apart.sum()))}."
            )
    return " ".join(told)


def _advice(data: xr.Dataset) -> str:
    longest = int(data.context[-1])
    counts = phase_counts(data, longest)
    n_heads = sum(counts.values())
    told = []
    if counts["diluted"] > MANY * n_heads:
        told.append(
            f"before going beyond {longest} tokens, compare a logit factor of ln n/ln {longest} on the diluted heads "
            "with none, on held-out text"
        )
    if counts["frozen"] > MANY * n_heads:
        told.append(
            "try logit factors on both sides of 1 (0.9 and 1.1, say) on the frozen heads: they read as few tokens as ever"
        )
    logit = data["largest_logit"].isel(context=-1)
    if float(logit.max()) > LARGE_LOGIT:
        layer, head = np.unravel_index(int(np.nanargmax(logit.values)), logit.shape)
        told.append(
            f"look at layer {int(data.layer[layer])}, head {int(data['head'][head])}: its largest logit is {float(logit.max()):.0f}, "
            f"beyond the {LARGE_LOGIT:.0f} that QK-clip holds training runs to"
        )
    if counts["undecided"] > n_heads / 3:
        have, held = int(data.attrs["n_windows"]), int(data.attrs["windows_in_text"])
        more = f"--windows {min(4 * have, held)}" if held >= 2 * have else f"--windows {4 * have} with a longer --text"
        told.append(f"{more} to place more of the undecided heads")
    if not told:
        return f"Nothing here asks for another attention scaling up to {longest} tokens."
    return f"Worth trying: {'; '.join(told)}. A head's phase alone does not say whether it gains from sharpening: measure it."


def _where(data: xr.Dataset, context: int, name: str) -> str:
    """Where the heads of a phase are: each by name while they are few, else the layers that hold most of them."""
    inside = data["phase"].sel(context=context).values == PHASES.index(name)
    labels = data.layer.values
    if inside.sum() <= FEW:
        names = (f"{labels[i]}.{data['head'].values[j]}" for i, j in np.argwhere(inside))
        return f" (layer.head {', '.join(names)})"
    per_layer = inside.sum(axis=1)
    layers = np.flatnonzero(per_layer)
    if len(layers) <= 3:
        return f" (layer {_list([str(labels[i]) for i in layers])})"
    low, high = _densest(per_layer)
    return f" ({int(per_layer[low : high + 1].sum())} of them in layers {labels[low]}–{labels[high]})"


def _densest(per_layer: np.ndarray) -> tuple[int, int]:
    """The shortest run of layers that holds at least half of the heads."""
    n, half = len(per_layer), per_layer.sum() / 2
    for length in range(1, n + 1):
        for low in range(n - length + 1):
            if per_layer[low : low + length].sum() >= half:
                return low, low + length - 1
    return 0, n - 1


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _tokens(data: xr.Dataset, context: int, suffix: str = "") -> str:
    value = float(data[f"perplexity{suffix}"].sel(context=context).median())
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.1f} %"


def _signed(change: IntervalArray) -> str:
    value = f"{float(change.estimate):+.2f}".replace("-", "−")
    half = (float(change.high) - float(change.low)) / 2
    return value if math.isnan(half) else f"{value} ± {half:.2f}"
