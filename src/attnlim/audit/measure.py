"""The audit: a forward of every context and text window, watched, summarised and put into words."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import xarray as xr

import attnlim
from attnlim.audit.assemble import MEANS, SCHEMA, Margins, assemble, summarise_rows
from attnlim.audit.head_wishes import COST, check_wishes, measure_wishes, wish_variables
from attnlim.audit.probing import Anatomy, anatomy, probe
from attnlim.audit.sampling import sample_rows
from attnlim.audit.wording import verdict
from attnlim.context.phases import DILUTED_ABOVE, FROZEN_BELOW
from attnlim.core.cells import Arrays, Cell, run_cells
from attnlim.core.checks import InputError, real_number, whole_number
from attnlim.core.seeds import generator
from attnlim.models.forward_cost import forward_cost
from attnlim.models.loading import fingerprint, trained_length
from attnlim.models.text import Text, Windows, cut_windows, read_text
from attnlim.rules.attaching import attached_rule
from attnlim.rules.reading import read
from attnlim.rules.reading_words import applied
from attnlim.rules.rescale_plan import check_rescalable

# what is known of a model comes from a forward of this many tokens
ANATOMY_TOKENS = 8
SHORTEST_CONTEXT = 16
# plotly.js inside the report, the figure, the table, and some air
REPORT_BYTES = 10 * 2**20

Progress = Callable[[Cell, bool], None]


@dataclass(frozen=True)
class AuditResult:
    """What an audit found.

    Attributes:
        dataset: labelled results over contexts, layers and heads; see the documentation's table of variables.
        verdict: what they mean and what is worth trying, in words.
    """

    dataset: xr.Dataset
    verdict: str

    def __repr__(self) -> str:
        sizes = ", ".join(f"{self.dataset.sizes[name]} {name}s" for name in ("context", "layer", "head"))
        return f"AuditResult of {self.dataset.attrs['model']} ({sizes})\n{self.verdict}"


@dataclass(frozen=True)
class Plan:
    """Everything that decides an audit's numbers, checked before the first forward.

    Attributes:
        model: the model, in evaluation mode.
        windows: where the text windows begin.
        contexts: in tokens, ascending.
        n_rows: sampled rows of a window.
        seed: of the row sample.
        k_min: smallest rank of the gap count.
        margins: of the phases.
        parts: the model's anatomy.
        attributes: provenance kept with the data.
        sensitivity: whether to measure which way each head would rather go.
    """

    model: Any
    windows: Windows
    contexts: tuple[int, ...]
    n_rows: int
    seed: int
    k_min: int
    margins: Margins
    parts: Anatomy
    attributes: dict[str, Any]
    sensitivity: bool = False

    def cells(self) -> list[Cell]:
        """One cell for every context and window, short contexts first; then one each for its sensitivity."""
        places = [(n, w) for n in self.contexts for w in range(len(self.windows.starts))]
        costs = {n: forward_cost(self.model, n) for n in self.contexts}
        probing = [Cell(f"context-{n}-window-{w}", {"n_tokens": n, "window": w}, costs[n]) for n, w in places]
        return probing + [
            Cell(f"sensitivity-{n}-window-{w}", {"n_tokens": n, "window": w, "wishes": True}, COST * costs[n])
            for n, w in places
            if self.sensitivity
        ]

    def bytes_on_disk(self) -> int:
        """What the run folder and its cells take at most: float64 samples of every cell, twice, and the report."""
        heads = len(self.parts.layers) * max(layer.n_heads for layer in self.parts.layers)
        cells = len(self.contexts) * len(self.windows.starts)
        samples = 8 * cells * (len(MEANS) + self.sensitivity) * self.contexts[-1].bit_length() * heads
        return 3 * samples + REPORT_BYTES

    def identity(self) -> dict[str, Any]:
        """What a resumed run must share with the one that was interrupted."""
        kept = {name: value for name, value in self.attributes.items() if name != "model"}
        windows = self.windows
        ids = hashlib.sha256(windows.tokens.numpy().tobytes() + repr((windows.prefix, windows.suffix)).encode())
        return {
            **kept,
            "attnlim": attnlim.__version__,
            "schema": SCHEMA,
            "torch": torch.__version__,
            "tokens_sha256": ids.hexdigest(),
            "contexts": list(self.contexts),
            "model_fingerprint": fingerprint(self.model),
            "diluted_above": self.margins.diluted_above,
            "frozen_below": self.margins.frozen_below,
            "threads": torch.get_num_threads(),
            **({"sensitivity": True} if self.sensitivity else {}),
        }


def audit(
    model: Any,
    tokenizer: Any,
    text: Text | str | None = None,
    contexts: Sequence[int] = (512, 2048, 8192),
    *,
    n_windows: int = 4,
    n_rows: int = 256,
    seed: int = 0,
    k_min: int = 10,
    diluted_above: float = DILUTED_ABOVE,
    frozen_below: float = FROZEN_BELOW,
    name: str | None = None,
    note: str = "",
    sensitivity: bool = False,
    progress: Progress = lambda cell, was_stored: None,
) -> AuditResult:
    """Measure what attention does in ``model`` as the context grows.

    Args:
        model: a transformers decoder or encoder, with or without a head; put into evaluation mode, else unchanged.
        tokenizer: its tokenizer.
        text: what to run it on; None takes the language reference inside CPython.
        contexts: lengths in tokens, special tokens included, each at least 16 and within the trained length.
        n_windows: text windows of every context; they are the units of all intervals.
        n_rows: attention rows looked at in each window, exact over all visible keys.
        seed: of the row sample.
        k_min: smallest rank that counts in the gap count, at least 2.
        diluted_above: a head is diluted where κ's 95 % interval lies above, dimensionless.
        frozen_below: a head is frozen where it lies below.
        name: the model's name in the verdict; None takes the config's.
        note: what a reader must know of the weights.
        sensitivity: measure too which way each head would rather go, by one backward pass a window; needs a causal language
            model with its head.
        progress: told of every finished cell.

    Returns:
        An :class:`AuditResult`.

    Raises:
        InputError: bad sizes, a text shorter than the contexts need, a context beyond the trained positions, a
            model whose attention cannot be hooked, NaN in its hidden states, ``sensitivity`` of an encoder or without a head.

    Source: κ, its phases and margins are *ours*; b_c after arXiv 2605.12697; γ_c from *Critical attention
    scaling*, Theorem 2.1.
    """
    plan = make_plan(
        model,
        tokenizer,
        read_text(None) if text is None else text if isinstance(text, Text) else Text("text", text),
        contexts,
        n_windows=n_windows,
        n_rows=n_rows,
        seed=seed,
        k_min=k_min,
        margins=Margins(diluted_above, frozen_below),
        name=name or getattr(model.config, "_name_or_path", "") or type(model).__name__,
        note=note,
        sensitivity=sensitivity,
    )
    return run_plan(plan, progress=progress)


def make_plan(
    model: Any,
    tokenizer: Any,
    text: Text,
    contexts: Sequence[int],
    *,
    n_windows: int,
    n_rows: int,
    seed: int,
    k_min: int,
    margins: Margins,
    name: str,
    note: str,
    sensitivity: bool = False,
) -> Plan:
    """Check everything that an audit needs; arguments and errors as for :func:`audit`."""
    check_numbers(n_windows, n_rows, seed, k_min, margins)
    sizes = _check_contexts(model, contexts)
    windows = cut_windows(tokenizer, text, n_windows, sizes[-1])
    model.eval()
    parts = anatomy(model, windows.ids(0, ANATOMY_TOKENS))
    if sensitivity:
        check_wishes(model, parts)
    attributes = {
        "model": name,
        "model_note": note,
        "model_class": type(model).__name__,
        "text": text.name,
        "text_sha256": text.sha256,
        "n_windows": n_windows,
        "windows_in_text": windows.most(sizes[-1]),
        "rows_per_window": n_rows,
        "seed": seed,
        "k_min": k_min,
        "trained_length": trained_length(model) or 0,
        "attention": model.config._attn_implementation,
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
        "device": str(next(model.parameters()).device),
        "applied": _applied(model, sizes[-1]),
        "not_to_rescale": _not_to_rescale(model, name) if sensitivity else "",
    }
    return Plan(model, windows, sizes, n_rows, seed, k_min, margins, parts, attributes, sensitivity)


def check_numbers(n_windows: int, n_rows: int, seed: int, k_min: int, margins: Margins) -> None:
    """What can be refused before a model is loaded.

    Raises:
        InputError: a number out of its range, or margins in the wrong order.
    """
    whole_number("--windows", n_windows, 1)
    whole_number("--rows", n_rows, 1)
    whole_number("--seed", seed, 0)
    whole_number("--k-min", k_min, 2)
    top = real_number("--diluted-above", margins.diluted_above)
    real_number("--frozen-below", margins.frozen_below, below=top, advice=f"it lies below --diluted-above, {top:g}")


def run_plan(
    plan: Plan, cells_folder: Path | None = None, progress: Progress = lambda cell, was_stored: None
) -> AuditResult:
    """Run an audit's cells, those that ``cells_folder`` does not hold yet, and put the result together."""
    n_octaves = plan.contexts[-1].bit_length()
    causal = all(layer.causal for layer in plan.parts.layers)

    def work(n_tokens: int, window: int, wishes: bool = False) -> Arrays:
        ids = plan.windows.ids(window, n_tokens)
        if wishes:
            return measure_wishes(plan.model, ids, plan.parts, n_octaves)
        rows = sample_rows(n_tokens, plan.n_rows, causal, generator(plan.seed, "rows", n_tokens, window))
        found = probe(plan.model, ids, torch.from_numpy(rows), plan.parts, k_min=plan.k_min)
        return summarise_rows(found, plan.parts, n_octaves)

    probed: dict[tuple[int, int], Arrays] = {}
    wished: dict[tuple[int, int], Arrays] = {}
    for cell, arrays in run_cells(plan.cells(), work, cells_folder, progress):
        found = wished if "wishes" in cell.arguments else probed
        found[cell.arguments["n_tokens"], cell.arguments["window"]] = arrays
    n_windows = len(plan.windows.starts)
    dataset = assemble(probed, plan.contexts, n_windows, plan.parts, plan.margins, plan.attributes)
    if plan.sensitivity:
        dataset = dataset.assign(wish_variables(wished, plan.contexts, n_windows))
    words = verdict(dataset)
    return AuditResult(dataset.assign_attrs(verdict=words), words)


def _applied(model: Any, context: int) -> str:
    """What multiplies the logits already, by the config and by an attached rule."""
    try:
        told = applied(read(model.config.to_dict()), context)
    except InputError as reason:  # what the audit measures does not hang on it
        told = f"What the config applies could not be read: {reason}."
    rule = attached_rule(model)
    return told if rule is None else f"{told} The rule {rule.name!r} is attached on top of it."


def _not_to_rescale(model: Any, name: str) -> str:
    """Why `attnlim rescale` would refuse the model; empty where it takes it."""
    try:
        check_rescalable(model, name)
    except InputError as reason:
        return str(reason)
    return ""


def _check_contexts(model: Any, contexts: Sequence[int]) -> tuple[int, ...]:
    if not contexts:
        raise InputError("--context needs at least one length, such as 512,2048")
    sizes = tuple(sorted({whole_number("--context", n, SHORTEST_CONTEXT) for n in contexts}))
    trained = trained_length(model)
    if trained is not None and sizes[-1] > trained:
        raise InputError(
            f"context {sizes[-1]} is beyond the {trained} positions that this model was trained for; "
            f"use --context {trained} or less"
        )
    return sizes
