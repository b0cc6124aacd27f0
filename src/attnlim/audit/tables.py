"""An audit as tables: one row a layer, one row a head, and two audits side by side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import xarray as xr

from attnlim.audit.wish_wording import wish_counts, wishes
from attnlim.audit.wording import phase_counts
from attnlim.context.phases import PHASES
from attnlim.core.checks import InputError

PER_HEAD = ("context", "layer", "head")


def head_table(dataset: xr.Dataset) -> pd.DataFrame:
    """One row for every (context, layer, head) that exists: every measured quantity, phases as words.

    Columns of layers (ρ̂ of the attention's input, γ_c) are repeated on their heads. A missing value is NaN.
    """
    names = [str(name) for name, values in dataset.data_vars.items() if values.dims == PER_HEAD]
    frame = dataset[names].to_dataframe(dim_order=list(PER_HEAD)).reset_index()
    for name in ("phase", "phase_no_sink"):
        frame[name] = [PHASES[code] if code >= 0 else "" for code in frame[name]]
    layers = dataset[["rho_input", "rho_input_se", "gamma_c", "gamma_c_se"]].to_dataframe().reset_index()
    contexts = dataset[["kappa_contexts", "kappa_contexts_low", "kappa_contexts_high"]].to_dataframe().reset_index()
    frame = frame.merge(contexts, on=["layer", "head"], how="left").merge(layers, on=["context", "layer"], how="left")
    return frame[frame["entropy"].notna()].reset_index(drop=True)


def layer_table(dataset: xr.Dataset, context: int | None = None) -> pd.DataFrame:
    """One row a layer at one context (the longest by default).

    Returns:
        columns layer, rho_input (of the attention's input), gamma_c, the number of heads in each phase, the median
        and the quartiles over heads of the tokens attended, the mean attention on the first token, and the
        largest logit; where sensitivities were measured, also the heads that would rather be sharper, and softer.
    """
    at = dataset.sel(context=int(dataset.context[-1]) if context is None else context)
    phase, tokens = at["phase"].values, at["perplexity"].values
    frame = pd.DataFrame(
        {"layer": at["layer"].values, "rho_input": at["rho_input"].values, "gamma_c": at["gamma_c"].values}
    )
    for code, name in enumerate(PHASES):
        frame[name] = (phase == code).sum(axis=1)
    for name, quantile in (("tokens_low", 0.25), ("tokens_median", 0.5), ("tokens_high", 0.75)):
        frame[name] = np.nanquantile(tokens, quantile, axis=1)
    frame["sink_mass"] = np.nanmean(at["sink_mass"].values, axis=1)
    frame["largest_logit"] = np.nanmax(at["largest_logit"].values, axis=1)
    if "sensitivity" in dataset:
        wanted = wishes(dataset, int(at.context))
        frame["sharper"], frame["softer"] = ((wanted == code).sum(axis=1) for code in (0, 1))
    return frame


SETTINGS = ("text_sha256", "n_windows", "rows_per_window", "k_min", "diluted_above", "frozen_below", "dtype")


def different_settings(first: xr.Dataset, second: xr.Dataset) -> list[str]:
    """What two audits were not made alike in, in words: a difference in their numbers may come from it."""
    names = {"text_sha256": "text", "rows_per_window": "rows"}
    told = []
    for key in SETTINGS:
        one, other = first.attrs[key], second.attrs[key]
        if one != other:
            shown = (first.attrs["text"], second.attrs["text"]) if key == "text_sha256" else (one, other)
            told.append(f"{names.get(key, key)} {shown[0]} against {shown[1]}")
    return told


def compare(first: xr.Dataset, second: xr.Dataset) -> pd.DataFrame:
    """Two audits side by side: one row a quantity and context that both have.

    Args:
        first: the audit to compare from, such as an earlier checkpoint.
        second: the audit to compare to.

    Returns:
        columns context, quantity, first, second. Where both have the same layers and heads, also the number of
        heads whose κ moved beyond both intervals.

    Raises:
        InputError: they have no context in common.
    """
    shared = sorted(set(first.context.values.tolist()) & set(second.context.values.tolist()))
    if not shared:
        raise InputError(
            f"the two audits share no context: {first.context.values.tolist()} against {second.context.values.tolist()}; "
            "audit both with the same --context"
        )
    same = all(np.array_equal(first[name], second[name]) for name in ("layer", "head"))
    rows: list[tuple[int, str, float, float]] = []
    for context in shared:
        both = (first.sel(context=context), second.sel(context=context))
        counts = [phase_counts(run, context) for run in (first, second)]
        for name in (name for name in counts[0] if counts[0][name] or counts[1][name]):
            rows.append((context, f"{name} heads", *(float(count[name]) for count in counts)))
        measures: tuple[tuple[str, Callable[[xr.Dataset], xr.DataArray]], ...] = (
            ("median tokens attended", lambda run: run["perplexity"].median()),
            ("median tokens, without the first", lambda run: run["perplexity_no_sink"].median()),
            ("median κ", lambda run: run["kappa"].median()),
            ("attention on the first token", lambda run: run["sink_mass"].mean()),
            ("largest logit", lambda run: run["largest_logit"].max()),
            ("mean cosine at the embeddings", lambda run: run["rho_residual"][0]),
            ("mean cosine, largest over layers", lambda run: run["rho_residual"].max()),
        )
        for label, of in measures:
            rows.append((context, label, *(float(of(run)) for run in both)))
        if all("sensitivity" in run for run in both):
            wanted = [wish_counts(run, context) for run in (first, second)]
            for name in ("sharper", "softer"):
                rows.append((context, f"heads that would rather be {name}", *(float(count[name]) for count in wanted)))
            rows.append(
                (context, "sensitivity of all heads at once", *(float(run["sensitivity_total"]) for run in both))
            )
        # with one window there is no interval to leave, and no count of heads that did
        if same and all(bool(run["kappa_low"].notnull().any()) for run in both):
            up = float((both[1]["kappa_low"] > both[0]["kappa_high"]).sum())
            down = float((both[1]["kappa_high"] < both[0]["kappa_low"]).sum())
            rows.append((context, "heads whose κ rose beyond both intervals", np.nan, up))
            rows.append((context, "heads whose κ fell beyond both intervals", np.nan, down))
    return pd.DataFrame(rows, columns=["context", "quantity", "first", "second"])
