"""Which way each head would rather go, as part of an audit: one backward pass of every context and text window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from attnlim.audit.probing import Anatomy
from attnlim.core.cells import Arrays
from attnlim.core.checks import InputError
from attnlim.core.intervals import IntervalArray, jackknife_mean
from attnlim.core.symbols import lookup
from attnlim.models.next_token import decoder_of
from attnlim.rules.head_sensitivity import sensitivity

HEAD = ("context", "layer", "head")
# a forward, a backward and a forward again, of which the attention's share is the dearer the longer the context
COST = 4.0
_ONE_WINDOW = "bounds are NaN with a single window"


def check_wishes(model: Any, parts: Anatomy) -> None:
    """Make sure, before the first window, that the model has a next-token loss and heads that answer to it.

    Raises:
        InputError: an encoder, or a model without its head.
    """
    if not all(layer.causal for layer in parts.layers):
        raise InputError(
            f"{type(model).__name__} is an encoder: it predicts no next token, so --sensitivity has nothing to take a "
            "derivative of; leave it out"
        )
    decoder_of(model)


def measure_wishes(model: Any, input_ids: Tensor, parts: Anatomy, n_octaves: int) -> Arrays:
    """One cell's arrays.

    Returns:
        ``sensitivity`` (n_octaves, n_layers, n_heads) in nats, the parts by octave of visible keys as elsewhere in the audit,
        and ``nll`` () in nats.
    """
    found = sensitivity(model, input_ids)
    if len(found.layers) != len(parts.layers):
        raise InputError(
            f"{len(found.layers)} attention layers ran with a gradient and {len(parts.layers)} without; "
            "a model whose layers depend on that cannot be audited"
        )
    octaves = np.full((n_octaves, *found.by_multiplier.shape), np.nan)
    octaves[: len(found.by_octave)] = found.by_octave
    return {"sensitivity": octaves, "nll": np.array(found.nll)}


def wish_variables(
    cells: Mapping[tuple[int, int], Arrays], contexts: Sequence[int], n_windows: int
) -> dict[str, tuple[Any, ...]]:
    """The dataset's variables: means over windows with their intervals, and the samples.

    Args:
        cells: what :func:`measure_wishes` gave, by context and window.
        contexts: in tokens, ascending.
        n_windows: the number of windows.
    """

    def gather(name: str) -> np.ndarray:
        return np.stack([[cells[n, w][name] for w in range(n_windows)] for n in contexts])

    samples, nll = gather("sensitivity"), gather("nll")
    there = np.isfinite(samples).any(axis=2)
    by_head = np.where(there, np.nansum(samples, axis=2), np.nan)  # (context, window, layer, head)
    variables: dict[str, tuple[Any, ...]] = {
        "sample_sensitivity": (("context", "window", "octave", "layer", "head"), samples, _about("sensitivity")),
        "sample_nll": (("context", "window"), nll, _about("nll")),
    }
    # heads move the loss together, so their sum has an interval of its own
    for name, dims, values in (
        ("sensitivity", HEAD, by_head),
        ("sensitivity_total", HEAD[:1], np.nansum(by_head, axis=(2, 3))),
        ("nll", HEAD[:1], nll),
    ):
        _put(variables, name, dims, jackknife_mean(values, axis=1))
    return variables


def _put(variables: dict[str, tuple[Any, ...]], name: str, dims: tuple[str, ...], found: IntervalArray) -> None:
    about = _about(name)
    units = {"units": about["units"]}
    variables[name] = (
        dims,
        found.estimate,
        {**about, "level": found.level, "method": found.method, "missing": _ONE_WINDOW},
    )
    variables[f"{name}_se"] = (dims, found.standard_error, units)
    variables[f"{name}_low"] = (dims, found.low, units)
    variables[f"{name}_high"] = (dims, found.high, units)


def _about(name: str) -> dict[str, str]:
    symbol = lookup("audit", name)
    return {"long_name": symbol.meaning, "symbol": symbol.symbol, "units": symbol.unit}
