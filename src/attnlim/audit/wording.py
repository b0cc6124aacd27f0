"""The verdict: what an audit's numbers mean and what is worth trying, in words."""

from __future__ import annotations

import json
import math

import numpy as np
import xarray as xr

from attnlim.audit.placing import where_heads
from attnlim.audit.wish_wording import wish_paragraph
from attnlim.context.phases import PHASES
from attnlim.core.intervals import IntervalArray, jackknife_mean

# Cosines this much apart are worth a word; below it a difference is called "hardly"
RHO_STEP = 0.05
# where QK-clip starts to act in published training runs: logits beyond it make a softmax brittle in low precision
LARGE_LOGIT = 100.0
# a share of heads that deserves advice of its own
MANY = 0.1
# a layer that gives the first token less has no sink worth the name
WEAK_SINK = 0.05


def verdict(dataset: xr.Dataset) -> str:
    """What the audit says, one paragraph a line: phases, sink, collapse, disagreements, wishes, what is worth trying."""
    paragraphs = [
        *(_phases(dataset), _sink(dataset), _collapse(dataset), _doubts(dataset)),
        dataset.attrs.get("applied", ""),  # runs of earlier versions do not say
        *(wish_paragraph(dataset), _advice(dataset)),
    ]
    return "\n".join(paragraph for paragraph in paragraphs if paragraph)


def phase_counts(dataset: xr.Dataset, context: int, suffix: str = "") -> dict[str, int]:
    """Heads in each phase at ``context``; "bounded" by a window shorter than it; "unmeasured" for want of a κ."""
    at = dataset.sel(context=context)
    phase, exists = at[f"phase{suffix}"].values, np.isfinite(at["entropy"].values)
    bounded = exists & _bounded(dataset, context).values[:, None]
    counts = {name: int((phase == code).sum()) for code, name in enumerate(PHASES)}
    return counts | {"unmeasured": int((exists & ~bounded & (phase < 0)).sum()), "bounded": int(bounded.sum())}


def _bounded(data: xr.Dataset, context: int) -> xr.DataArray:
    """(layer,) bool: layers in which no row sees the whole context."""
    return data["most_visible"].sel(context=context) < context


def _phases(data: xr.Dataset) -> str:
    shortest, longest = int(data.context[0]), int(data.context[-1])
    counts = phase_counts(data, longest)
    placed = sum(counts[name] for name in PHASES)
    total = sum(counts.values())
    if not placed and not counts["unmeasured"]:
        text = f"At {longest} tokens no layer sees the whole context, so no head's growth with it can be measured."
    elif not placed:
        text = (
            f"At {longest} tokens no head could be placed: κ needs attention over at least two lengths. "
            "Give several contexts, such as --context 128,512."
        )
    elif data.attrs["n_windows"] < 2:
        kappa = data["kappa"].isel(context=-1)
        text = (
            f"At {longest} tokens the median head has κ = {float(kappa.median()):.2f}, half of them between "
            f"{float(kappa.quantile(0.25)):.2f} and {float(kappa.quantile(0.75)):.2f}. One text window gives no interval, so "
            "no head is called diluted, sparse or frozen: use --windows 4 or more."
        )
    else:
        told = []
        for name in PHASES:
            inside = data["phase"].sel(context=longest).values == PHASES.index(name)
            where = where_heads(data, inside) if name in ("diluted", "frozen") and counts[name] else ""
            told.append(f"{counts[name]} {name}{where}")
        text = (
            f"At {longest} tokens, of {total} heads {', '.join(told[:-1])} and {told[-1]}. (Diluted: the number of tokens a "
            f"head attends to grows almost as fast as the context, κ above {data.attrs['diluted_above']:g}; frozen: it hardly "
            f"grows, κ below {data.attrs['frozen_below']:g}; undecided: the 95 % interval of κ reaches over a margin.)"
        )
        first = phase_counts(data, shortest)
        if longest > shortest and sum(first[name] for name in PHASES) > 0:
            text += f" At {shortest} tokens it was {', '.join(f'{first[name]} {name}' for name in PHASES)}."
    if counts["unmeasured"] > 0 and placed > 0:
        text += f" {_heads(counts['unmeasured'])} could not be placed."
    if counts["bounded"]:
        widest = int(data["most_visible"].isel(context=-1).where(_bounded(data, longest)).max())
        text += f" {_heads(counts['bounded'])} in layers that see at most {widest} tokens are not counted."
    text += f" The median head attends to {_tokens(data, longest)} tokens"
    return text + (f" at {longest} and {_tokens(data, shortest)} at {shortest}." if longest > shortest else ".")


def _sink(data: xr.Dataset) -> str:
    longest = int(data.context[-1])
    free = data.isel(layer=~_bounded(data, longest).values)  # where the first token is in sight
    if not free.sizes["layer"]:
        return ""
    mass = free["sink_mass"].mean(["layer", "head"])
    text = f"The first token takes {_percent(float(mass[-1]))} of all attention"
    if data.sizes["context"] > 1:
        text += f" ({_percent(float(mass[0]))} at {int(data.context[0])} tokens)"
    text += _onset(free["sink_mass"].sel(context=longest).mean("head").values, free.layer.values)
    strong = int((free["sink_mass"].sel(context=longest) > 0.5).sum())
    gives = "gives" if strong == 1 else "give"
    text += (
        f"; {_heads(strong)} {gives} it more than half of theirs." if strong else "; no head gives it more than half."
    )
    text += f" Without it the median head attends to {_tokens(free, longest, '_no_sink')} tokens"
    counts = phase_counts(data, longest, "_no_sink")
    if sum(counts[name] for name in PHASES) and data.attrs["n_windows"] > 1:
        *most, last = (f"{counts[name]} {name}" for name in PHASES)
        return text + f"; counted that way there are {', '.join(most)} and {last}."
    return text + "."


def _onset(mass: np.ndarray, layers: np.ndarray) -> str:
    """Where the sink begins, if it is all but absent up to a layer and strong from there on."""
    for first in range(1, len(mass)):
        before, after = mass[:first].max(), mass[first:].mean()
        if before < WEAK_SINK and mass[first] >= WEAK_SINK and after > 3 * WEAK_SINK:
            return f", next to nothing before layer {layers[first]} and {_percent(float(after))} from there on"
    return ""


def _collapse(data: xr.Dataset) -> str:
    rho = data["sample_rho_residual"].values  # (context, window, depth)
    gamma_c = data["gamma_c"].isel(context=-1)
    top = int(np.argmax(gamma_c.values))
    reach = (
        f" γ_c = 1/(1 - ρ̂) of the attention's own input goes from {float(gamma_c[0]):.2f} in layer {int(data.layer[0])} to "
        f"{float(gamma_c[top]):.2f} in layer {int(data.layer[top])}."
    )
    if not rho.shape[2]:
        return reach.strip()
    profile = rho[-1].mean(axis=0)
    late = rho[-1][:, rho.shape[2] // 2 :].mean(axis=1)  # a fixed half: to pick the largest would find growth anywhere
    text = (
        f"Between tokens the mean cosine goes from {profile[0]:.2f} at the embeddings to {late.mean():.2f} over the later "
        f"half of the layers ({profile[-1]:.2f} after the last)"
    )
    if len(rho) == 1:
        return f"{text}. One context cannot say whether they come together with length: give several.{reach}"
    # a window is its own control: how much more alike its tokens are deep down, and at the longest context
    with_depth = jackknife_mean(late - rho[-1][:, 0], axis=0)
    with_length = jackknife_mean((rho[-1] - rho[0]).mean(axis=1), axis=0)
    kappa = float(data["kappa"].isel(context=-1).median())
    focus = "" if math.isnan(kappa) else f", while the median head's tokens attended grow as n^{kappa:.2f}"
    text += (
        f"; from {int(data.context[0])} to {int(data.context[-1])} tokens it moves by {_signed(with_length)}, averaged over "
        f"layers{focus}. "
    )
    return f"{text}{_COLLAPSE[_grows(with_depth), _grows(with_length)]}{reach}"


_COLLAPSE = {
    ("yes", "yes"): "Tokens come together with depth and with length.",
    ("yes", "no"): "Tokens come together with depth, hardly with length: this is depth collapse, not length collapse.",
    ("no", "yes"): "Tokens come together with length, hardly with depth: this is length collapse.",
    ("no", "no"): "Tokens come together neither with depth nor with length.",
    ("yes", "unclear"): "Tokens come together with depth; whether with length too, these windows do not tell.",
    ("no", "unclear"): "Tokens hardly come together with depth; whether with length, these windows do not tell.",
    ("unclear", "yes"): "Tokens come together with length; whether with depth too, these windows do not tell.",
    ("unclear", "no"): "Tokens hardly come together with length; whether with depth, these windows do not tell.",
    ("unclear", "unclear"): "Whether tokens come together with depth or with length, these windows do not tell.",
}


def _grows(change: IntervalArray) -> str:
    """Whether a cosine grows by more than ``RHO_STEP``: yes, no, or unclear from these windows."""
    low, high = float(change.low), float(change.high)
    if low > 0 and float(change.estimate) > RHO_STEP:
        return "yes"
    return "no" if high < 2 * RHO_STEP and float(change.estimate) <= RHO_STEP else "unclear"


def _doubts(data: xr.Dataset) -> str:
    bounded = _bounded(data, int(data.context[-1])).values
    longest = data.isel(context=-1, layer=~bounded)
    told = []
    skipped = json.loads(data.attrs["skipped"])
    if skipped:
        kinds = ", ".join(sorted({entry["what"] for entry in skipped}))
        told.append(f"Skipped, for want of softmax attention: {_count(len(skipped), 'layer')} ({kinds}).")
    low, high = longest["kappa"] < data.attrs["frozen_below"], longest["kappa"] > data.attrs["diluted_above"]
    b_c = longest["critical_multiplier"]
    clash = int((((b_c > 1) & low) | ((b_c < 1) & high)).sum())
    if clash:
        told.append(
            f"The gap count disagrees with κ on {_heads(clash)} (b_c above 1 where κ is low, or below 1 where it is high)."
        )
    if data.attrs["kappa_source"] == "positions" and data.sizes["context"] > 1:
        over_contexts = data.isel(layer=~bounded)
        apart = int(
            (
                (over_contexts["kappa_contexts_low"] > longest["kappa_high"])
                | (over_contexts["kappa_contexts_high"] < longest["kappa_low"])
            ).sum()
        )
        if apart:
            told.append(f"κ over contexts and κ over positions do not agree within their intervals on {_heads(apart)}.")
    return " ".join(told)


def _advice(data: xr.Dataset) -> str:
    longest = int(data.context[-1])
    counts = phase_counts(data, longest)
    placed = sum(counts[name] for name in PHASES)
    measured = "sensitivity" in data
    told = []
    # runs of earlier versions do not say whether rescale takes the model
    if measured and not data.attrs.get("not_to_rescale", ""):
        target = 2 * int(data.attrs["trained_length"] or longest)
        told.append(
            f"`attnlim rescale MODEL --target {target} --rule calibrate`, which moves each head the way it wants to go beyond the "
            "trained length and judges it on other text"
        )
    if data.attrs["n_windows"] > 1:
        if counts["diluted"] > MANY * placed:
            told.append(
                f"before going beyond {longest} tokens, compare a logit factor of ln n/ln {longest} on the diluted heads "
                "with none, on held-out text"
            )
        if counts["frozen"] > MANY * placed and not measured:
            told.append(
                "try logit factors on both sides of 1 (0.9 and 1.1, say) on the frozen heads: they read as few tokens as ever"
            )
        if counts["undecided"] > placed / 3:
            have, held = int(data.attrs["n_windows"]), int(data.attrs["windows_in_text"])
            more = (
                f"--windows {min(4 * have, held)}" if held >= 2 * have else f"--windows {4 * have} with a longer --text"
            )
            told.append(f"{more} to place more of the undecided heads")
    # a soft cap keeps large logits from the softmax
    logit = data["largest_logit"].isel(context=-1).where(data["softcap"].isnull())
    if float(logit.max()) > LARGE_LOGIT:
        layer, head = np.unravel_index(int(np.nanargmax(logit.values)), logit.shape)
        told.append(
            f"look at layer {int(data.layer[layer])}, head {int(data['head'][head])}: its largest logit is "
            f"{float(logit.max()):.0f}, beyond the {LARGE_LOGIT:.0f} that QK-clip holds training runs to"
        )
    if told:
        ask = "" if measured else " A head's phase alone does not say whether it gains from sharpening: measure it."
        return f"Worth trying: {'; '.join(told)}.{ask}"
    if not placed or data.attrs["n_windows"] < 2:
        return ""
    return f"Nothing here asks for another attention scaling up to {longest} tokens."


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _heads(n: int) -> str:
    return _count(n, "head")


def _tokens(data: xr.Dataset, context: int, suffix: str = "") -> str:
    value = float(data[f"perplexity{suffix}"].sel(context=context).median())
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.1f} %"


def _signed(change: IntervalArray) -> str:
    value = f"{float(change.estimate):+.2f}".replace("-", "−")
    half = (float(change.high) - float(change.low)) / 2
    return value if math.isnan(half) else f"{value} ± {half:.2f}"
