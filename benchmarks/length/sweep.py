"""A trained decoder read at many lengths under many multipliers: text, recall, and what the heads do meanwhile."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from attnlim.core.cells import Arrays, Cell, run_cells
from attnlim.core.regression import slope
from benchmarks.length.data import batch_stream, final_recall, splits
from benchmarks.length.decoder import Decoder, Multiplier
from benchmarks.length.multipliers import (
    CONSTANTS,
    CRITICAL,
    FEW_CONSTANTS,
    LOG,
    RULES,
    YARN,
    multipliers,
    yarn_frequencies,
)
from benchmarks.length.rows import RowWatch, octaves
from benchmarks.length.train import LONGEST, TRAINED, Spec, decoder, trained

Floats = NDArray[np.float64]

# pairs: as many at every length, or as many as the length can hold of one pair in 16 tokens
TASKS = ("few", "crowded")
SPACING, N_ASKED = 16, 16
LAST = 128  # tokens whose NLL is compared between lengths: the same ones
GAP_SHORTEST, GAP_ROWS = 32, 16


@dataclass(frozen=True)
class Reading:
    """How much is read.

    Attributes:
        lengths: of the contexts, the first one as trained.
        n_windows: of text.
        n_recalls: sequences of each task.
        n_rows: of a window, whose attention is looked at.
    """

    lengths: tuple[int, ...] = tuple(TRAINED * 2**k for k in range(int(math.log2(LONGEST / TRAINED)) + 1))
    n_windows: int = 8
    n_recalls: int = 6
    n_rows: int = 16

    @property
    def key(self) -> str:
        """Fit for a file name."""
        return f"{self.n_windows}-{self.n_recalls}-{self.n_rows}"


def arms(spec: Spec) -> tuple[str, ...]:
    """How positions are read: as trained, and for distances that training has not shown also as YaRN stretches them."""
    return ("rope unseen", "rope unseen, yarn") if spec.positions == "rope unseen" else (spec.positions,)


def names(spec: Spec, n: int) -> tuple[str, ...]:
    """The multipliers and rules under which a decoder is read at a length; within n_0 every rule is 1."""
    constants: tuple[float, ...] = CONSTANTS
    rules: tuple[str, ...] = RULES if spec.parametrisation == "softmax" else (CRITICAL,)
    if spec.positions == "rope unseen":
        constants, rules = FEW_CONSTANTS, (LOG, YARN)
    return tuple(f"{value:g}" for value in constants) + (rules if n > TRAINED else ())


def gap_counts(spec: Spec, reading: Reading, work: Path | None) -> Arrays:
    """b_c of every head over octaves of visible keys, on text of its own, and the power of ln n that it follows.

    Returns:
        ``log_n`` (octave,), ``critical_multiplier`` (octave, n_layers, n_heads): medians over rows, as a row whose highest
        keys are equal (equal bytes, without positions) has b_c = inf; ``exponent`` (n_layers, n_heads): the slope of ln b_c
        on ln ln n from n_0 on, NaN where a median is not finite.
    """
    model = model_of(spec, work)
    text, longest = splits().calibrate, reading.lengths[-1]
    n_windows = min(reading.n_windows, len(text) // longest)
    groups = octaves(longest, GAP_SHORTEST)
    rows = [group[np.linspace(0, len(group) - 1, GAP_ROWS).round().astype(int)] for group in groups]
    sums = []
    for window in range(n_windows):
        watch = RowWatch(torch.from_numpy(np.concatenate(rows)), gaps=True)
        start = window * (len(text) // n_windows)
        with torch.inference_mode():
            model(torch.from_numpy(text[start : start + longest])[None], watch=watch)
        sums.append(watch.layers("critical_multiplier")[:, 0])
    each = np.stack(sums, axis=-1)  # layer, head, row, window
    by_octave = np.median(each.reshape(*each.shape[:2], len(groups), -1), axis=-1)
    log_n = np.array([np.log(group + 1.0).mean() for group in rows])
    beyond = np.array([group[-1] + 1 >= TRAINED for group in groups])
    finite = np.where(np.isfinite(by_octave).all(axis=-1, keepdims=True), by_octave, np.nan)
    exponent = slope(np.log(log_n[beyond]), np.log(finite[..., beyond]))
    return {"log_n": log_n, "critical_multiplier": np.moveaxis(by_octave, -1, 0), "exponent": exponent}


def read(spec: Spec, arm: str, n: int, reading: Reading, work: Path | None) -> Arrays:
    """Every multiplier of a decoder at one length.

    Returns:
        With axes multiplier, then: ``text`` (window,) NLL of the last tokens in nats a byte; ``text_all`` of all;
        ``text_entropy`` and ``text_share`` (layer, head): H, and e^H over visible keys, mean over rows in the last half;
        ``rho`` (layer,); for each task ``TASK_nll``, ``TASK_right`` (sequence, asked) and ``TASK_entropy``,
        ``TASK_share``, ``TASK_weight`` (layer, head) on the rows that ask; without that axis ``TASK_depth`` (sequence,
        asked): where the pair lies, 0 the beginning.
    """
    model = model_of(spec, work)
    ((_, gaps),) = run_cells([gap_cell(spec, reading, work)], gap_counts, folder(work))
    frequencies = yarn_frequencies(spec.shape, n / TRAINED, TRAINED) if arm.endswith("yarn") else None
    found: dict[str, list[NDArray[np.float64]]] = {}
    for name in names(spec, n):
        chosen = multipliers(name, n, TRAINED, gaps["exponent"])
        one = on_text(model, n, reading, chosen, frequencies)
        for task in TASKS:
            asked = on_recall(model, n, task, reading, chosen, frequencies, spec.seed)
            one |= {f"{task}_{key}": value for key, value in asked.items()}
        for key, value in one.items():
            found.setdefault(key, []).append(value)
    arrays = {key: np.stack(values) for key, values in found.items()}
    for task in TASKS:
        arrays[f"{task}_depth"] = arrays[f"{task}_depth"][0]
    return arrays


@torch.inference_mode()
def on_text(
    model: Decoder, n: int, reading: Reading, chosen: Sequence[Multiplier], frequencies: Tensor | None
) -> dict[str, Floats]:
    """NLL of text and the heads' focus; windows of every length end with the same token."""
    longest, text = reading.lengths[-1], splits().test
    last = min(LAST, n // 2)
    rows = torch.from_numpy(np.linspace(n // 2, n - 1, reading.n_rows).round().astype(np.int64))
    nll, ends, entropy, share, rho = [], [], [], [], []
    for window in range(reading.n_windows):
        end = longest + window * ((len(text) - longest) // max(reading.n_windows - 1, 1))
        tokens = torch.from_numpy(text[end - n : end])[None]
        watch = RowWatch(rows, cosines=True)
        logits, _ = model(tokens, multipliers=chosen, watch=watch, frequencies=frequencies)
        each = functional.cross_entropy(logits[0, :-1], tokens[0, 1:], reduction="none").double()
        nll.append(float(each.mean()))
        ends.append(float(each[-last:].mean()))
        measured = watch.layers("entropy")[:, 0]
        entropy.append(measured.mean(axis=-1))
        share.append((np.exp(measured) / (rows.numpy() + 1)).mean(axis=-1))
        rho.append(watch.layers("rho")[:, 0])
    return {
        "text": np.array(ends),
        "text_all": np.array(nll),
        "text_entropy": np.mean(entropy, axis=0),
        "text_share": np.mean(share, axis=0),
        "rho": np.mean(rho, axis=0),
    }


@torch.inference_mode()
def on_recall(
    model: Decoder,
    n: int,
    task: str,
    reading: Reading,
    chosen: Sequence[Multiplier],
    frequencies: Tensor | None,
    seed: int,
) -> dict[str, Floats]:
    """Recall, exact and by NLL among all symbols; every multiplier gets the same sequences."""
    n_pairs = (n if task == "crowded" else TRAINED) // SPACING
    n_asked = min(N_ASKED, n_pairs)
    nll, right, depth, entropy, share, weight = [], [], [], [], [], []
    for sequence in range(reading.n_recalls):
        given = final_recall(splits().test, n, n_pairs, n_asked, batch_stream(seed, task, n, sequence))
        rows = torch.from_numpy(given.asked)
        watch = RowWatch(rows, torch.from_numpy(given.distance))
        tokens = torch.from_numpy(given.tokens)
        logits, _ = model(tokens[None], multipliers=chosen, watch=watch, frequencies=frequencies)
        wanted = tokens[rows + 1]
        nll.append(functional.cross_entropy(logits[0, rows], wanted, reduction="none").double().numpy())
        right.append((logits[0, rows].argmax(dim=-1) == wanted).double().numpy())
        depth.append((given.asked - given.distance) / n)
        measured = watch.layers("entropy")[:, 0]
        entropy.append(measured.mean(axis=-1))
        share.append((np.exp(measured) / (given.asked + 1)).mean(axis=-1))
        weight.append(watch.layers("weight_asked")[:, 0].mean(axis=-1))
    return {
        "nll": np.stack(nll),
        "right": np.stack(right),
        "depth": np.stack(depth),
        "entropy": np.mean(entropy, axis=0),
        "share": np.mean(share, axis=0),
        "weight": np.mean(weight, axis=0),
    }


def model_of(spec: Spec, work: Path | None) -> Decoder:
    """Its decoder, trained where ``work`` does not hold it."""
    ((_, arrays),) = run_cells([spec.cell()], trained, folder(work))
    return decoder(spec, arrays)


def folder(work: Path | None) -> Path | None:
    """Where finished cells lie."""
    return None if work is None else work / "cells"


def gap_cell(spec: Spec, reading: Reading, work: Path | None) -> Cell:
    """The gap counts of a decoder."""
    arguments = {"spec": spec, "reading": reading, "work": work}
    return Cell(f"gaps-{spec.cell().key}-{reading.lengths[-1]}-{reading.key}", arguments)


def sweep_cells(specs: Sequence[Spec], reading: Reading, work: Path | None) -> Iterator[Cell]:
    """One a decoder, reading of positions and length."""
    for spec in specs:
        for arm in arms(spec):
            for n in reading.lengths:
                arguments = {"spec": spec, "arm": arm, "n": n, "reading": reading, "work": work}
                stretched = "-yarn" if arm.endswith("yarn") else ""
                yield Cell(f"read-{spec.cell().key}{stretched}-{n}-{reading.key}", arguments, cost=n * (1 + n / 2500))
