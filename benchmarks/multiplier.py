"""One multiplier on all logits of a real model: how well it predicts, how many tokens it attends to, what gradients do.

`python -m benchmarks.multiplier` runs SmolLM2 with b = 0.5 to 2 at 512 to 8192 tokens and keeps the results as JSON. Cells lie in
a work folder until it is done: the same command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnlim.audit import anatomy, probe
from attnlim.audit.assemble import summarise_rows
from attnlim.audit.sampling import sample_rows
from attnlim.core.cells import Arrays, Cell, run_cells
from attnlim.core.intervals import jackknife_mean
from attnlim.core.seeds import generator
from attnlim.models import cut_windows, load, read_text
from attnlim.models.forward_cost import forward_cost
from attnlim.models.next_token import next_token_nll
from attnlim.rules import attach, constant, detach
from benchmarks.machine import write

MULTIPLIERS = (0.5, 0.7, 0.85, 1.0, 1.15, 1.35, 1.6, 2.0)
CONTEXTS = (512, 2048, 8192)
N_WINDOWS, N_ROWS, N_PROBES, SEED = 4, 256, 4, 0
QUANTITIES = ("entropy", "perplexity", "largest_weight", "critical_multiplier", "sink_mass")


def jacobian_energy(module: torch.nn.Module, arguments: dict[str, Any], random: np.random.Generator) -> np.ndarray:
    """(N_PROBES,) estimates of the mean squared singular value of a module's Jacobian in its hidden states, |Jᵀv|²/|v|²."""
    hidden = arguments["hidden_states"].detach().requires_grad_()
    with torch.enable_grad():
        output = module(**{**arguments, "hidden_states": hidden})
        output = output[0] if isinstance(output, tuple) else output
        found = []
        for _ in range(N_PROBES):
            v = torch.from_numpy(random.standard_normal(output.shape)).to(output)
            (pulled,) = torch.autograd.grad(output, hidden, v, retain_graph=True)
            found.append(float(pulled.double().pow(2).sum() / v.double().pow(2).sum()))
    return np.array(found)


def measured(model: Any, ids: torch.Tensor, rows: np.ndarray, middle: int, random: np.random.Generator) -> Arrays:
    """One window as the model now runs it."""
    parts = anatomy(model, ids[:, :8])
    kept: dict[str, dict[str, Any]] = {}

    def keep(name: str) -> Any:
        def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            kept[name] = {**({"hidden_states": args[0]} if args else {}), **kwargs}

        return hook

    block = model.get_decoder().layers[middle]
    modules = {"block": block, "attention": block.self_attn}
    handles = [one.register_forward_pre_hook(keep(name), with_kwargs=True) for name, one in modules.items()]
    nll = next_token_nll(model, ids).double().numpy()
    for handle in handles:
        handle.remove()
    n = ids.shape[1]
    found = summarise_rows(probe(model, ids, torch.from_numpy(rows), parts), parts, n.bit_length())
    arrays = {name: found[name][0] for name in QUANTITIES}
    arrays |= {"nll": nll.mean(), "nll_late": nll[n // 2 :].mean(), "rho": found["rho_residual"]}
    for name, module in modules.items():
        arrays[f"eta_{name}"] = jacobian_energy(module, kept[name], random)
    return arrays


def sweep(model_name: str, contexts: Sequence[int], multipliers: Sequence[float], work: Path) -> dict[str, Any]:
    """All cells, and what they come to."""
    loaded = load(model_name, head=True)
    model = loaded.model
    for weight in model.parameters():
        weight.requires_grad_(False)
    windows = cut_windows(loaded.tokenizer, read_text(None), N_WINDOWS, max(contexts))
    middle = model.config.get_text_config().num_hidden_layers // 2
    cells = [
        Cell(f"n-{n}-b-{b:g}-window-{w}", {"n": n, "b": b, "w": w}, forward_cost(model, n))
        for n in contexts
        for w in range(N_WINDOWS)
        for b in multipliers
    ]

    def run(n: int, b: float, w: int) -> Arrays:
        rows = sample_rows(n, N_ROWS, True, generator(SEED, "rows", n, w))
        if b != 1:
            attach(model, constant(b))
        try:
            return measured(model, windows.ids(w, n), rows, middle, generator(SEED, "probes", n, w))
        finally:
            if b != 1:
                detach(model)

    def tell(cell: Cell, was_stored: bool) -> None:
        print(cell.key, "stored" if was_stored else "done", flush=True)

    found = {
        (cell.arguments["n"], cell.arguments["b"], cell.arguments["w"]): arrays
        for cell, arrays in run_cells(cells, run, work, tell)
    }
    points = [point(found, n, b) for n in contexts for b in multipliers]
    return {
        "model": loaded.name,
        "note": loaded.note,
        "text": "pydoc_data.topics",
        "windows": N_WINDOWS,
        "middle_layer": middle,
        "seed": SEED,
        "probes": N_PROBES,
        "points": points,
        "half_weight": [half_weight(found, n, multipliers) for n in contexts],
    }


def point(found: dict[tuple[int, float, int], Arrays], n: int, b: float) -> dict[str, Any]:
    """One context and multiplier: every window's value, and the mean over windows with its interval."""
    here = [found[n, b, w] for w in range(N_WINDOWS)]
    values = {
        "nll": [one["nll"] for one in here],
        "nll_late": [one["nll_late"] for one in here],
        "median_tokens": [np.median(one["perplexity"]) for one in here],
        "median_largest_weight": [np.median(one["largest_weight"]) for one in here],
        "median_b_c": [np.nanmedian(one["critical_multiplier"]) for one in here],
        "sink_mass": [one["sink_mass"].mean() for one in here],
        "rho_middle": [one["rho"][len(one["rho"]) // 2] for one in here],
        "rho_last": [one["rho"][-1] for one in here],
        "eta_block": [one["eta_block"].mean() for one in here],
        "eta_attention": [one["eta_attention"].mean() for one in here],
    }
    told: dict[str, Any] = {"n_tokens": n, "b": b}
    for name, units in values.items():
        interval = jackknife_mean(np.array(units, dtype=np.float64))
        told[name] = {
            "windows": [float(value) for value in units],
            "mean": float(interval.estimate),
            "low": float(interval.low),
            "high": float(interval.high),
        }
    return told


def half_weight(found: dict[tuple[int, float, int], Arrays], n: int, multipliers: Sequence[float]) -> dict[str, Any]:
    """At which multiplier half of a head's weight lies on one key: between the multipliers that were run, else unknown."""
    largest = np.stack(
        [np.mean([found[n, b, w]["largest_weight"] for w in range(N_WINDOWS)], axis=0) for b in multipliers]
    )
    b = np.array(multipliers)
    crossing = np.full(largest.shape[1:], np.nan)
    for head in np.ndindex(crossing.shape):
        above = largest[:, *head] >= 0.5
        if above.any() and not above[0]:
            k = int(above.argmax())
            low, high = largest[k - 1, *head], largest[k, *head]
            crossing[head] = b[k - 1] + (0.5 - low) / (high - low) * (b[k] - b[k - 1])
    below, above = largest[0] >= 0.5, (largest < 0.5).all(axis=0)
    everywhere = np.where(below, -np.inf, np.where(above, np.inf, crossing))
    middle = np.sort(everywhere, axis=None)[[(everywhere.size - 1) // 2, everywhere.size // 2]]
    return {
        "n_tokens": n,
        "heads": crossing.size,
        "below_range": int(below.sum()),
        "above_range": int(above.sum()),
        "inside": int(np.isfinite(crossing).sum()),
        "median": float(middle.mean()) if np.isfinite(middle).all() else None,
    }


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("runs/multiplier"))
    parser.add_argument("--quick", action="store_true", help="two contexts and three multipliers, nothing kept")
    given = parser.parse_args()
    if given.quick:
        print(sweep("smollm2", (128, 256), (0.7, 1.0, 1.6), given.work / "quick"))
        return
    write("multiplier", sweep("smollm2", CONTEXTS, MULTIPLIERS, given.work))


if __name__ == "__main__":
    main()
