"""A small audit dataset with every variable of the schema, made from a formula instead of a model."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np
import xarray

CONTEXTS = (128, 512, 2048)
VERDICT = (
    "At 2048 tokens 7 heads are diluted (4 of them in layers 0–1), 8 sparse, 5 frozen, 3 undecided.\n"
    "The first token takes 27 % of all attention. Without it the median head looks at 41 tokens, 19 at 512.\n"
    "Worth trying: measure which way the heads want to go (`attnlim audit smollm2 --sensitivity`), "
    "then `attnlim rescale smollm2 --target 16384`."
)
FOCUS = ("entropy", "perplexity", "participation", "largest_weight", "distance", "critical_multiplier")


def audit_dataset(
    contexts: Sequence[int] = CONTEXTS,
    n_layers: int = 6,
    n_heads: int = 4,
    n_windows: int = 4,
    kappa_source: str = "positions",
    model: str = "Toy-7M-Instruct",
    verdict: str = VERDICT,
    layers: Sequence[int] | None = None,
    skipped: Sequence[dict[str, object]] = (),
) -> xarray.Dataset:
    """Heads whose entropy is c + κ ln n with κ between 0 and 1; head (layer 2, head 1) was not measured at all."""
    rng = np.random.default_rng(7)
    n_contexts, n_octaves = len(contexts), 5
    shape = (n_contexts, n_layers, n_heads)
    kappa_true = np.clip(rng.normal(0.5, 0.4, (n_layers, n_heads)), -0.1, 1.05)
    kappa_true += np.linspace(0.3, -0.2, n_layers)[:, None]
    offset = rng.uniform(-1.2, 0.0, (n_layers, n_heads))
    sink = rng.beta(1.2, 2.5, (n_layers, n_heads))
    log_n = np.log(np.asarray(contexts, dtype=float))

    def entropy_at(log_visible: np.ndarray) -> np.ndarray:
        raw = 2.0 + offset + kappa_true * (log_visible[..., None, None] - math.log(64))
        return np.clip(raw, 0.02, log_visible[..., None, None] - 0.02)

    dims = ("context", "layer", "head")
    variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    entropy = entropy_at(log_n)
    base = {
        "entropy": entropy,
        "perplexity": np.exp(entropy),
        "participation": np.exp(0.8 * entropy),
        "largest_weight": np.exp(-0.7 * entropy),
        "distance": np.exp(log_n)[:, None, None] * rng.uniform(0.01, 0.4, (1, n_layers, n_heads)),
        "critical_multiplier": rng.uniform(0.4, 3.0, shape),
    }
    for name, values in base.items():
        for suffix, factor in (("", 1.0), ("_no_sink", 1.07)):
            variables[name + suffix] = (dims, values * factor)
            variables[f"{name}{suffix}_se"] = (dims, 0.03 * values + 0.01)
    variables["sink_mass"] = (dims, np.broadcast_to(sink, shape).copy())
    variables["sink_mass_se"] = (dims, np.full(shape, 0.012))
    for suffix, shift in (("", 0.0), ("_no_sink", 0.06)):
        variables["largest_logit" + suffix] = (dims, rng.gamma(6.0, 3.0, shape) - shift)
        kappa = kappa_true + shift + rng.normal(0, 0.03, shape)
        half = rng.uniform(0.03, 0.25, shape)
        low, high = kappa - half, kappa + half
        if kappa_source == "contexts" and n_contexts == 1:
            kappa, low, high = (np.full(shape, math.nan) for _ in range(3))
        for part, values in (("", kappa), ("_low", low), ("_high", high)):
            variables[f"kappa{suffix}{part}"] = (dims, values)
        phase = np.select(
            [np.isnan(low), low > 0.8, high < 0.2, (low >= 0.2) & (high <= 0.8)], [-1, 0, 2, 1], default=3
        )
        variables["phase" + suffix] = (dims, phase.astype(np.int8))
    for part, shift in (("", 0.0), ("_low", -0.2), ("_high", 0.2)):
        variables["critical_exponent" + part] = (dims, rng.normal(0.8, 0.05, shape) + shift)
        fit = kappa_true + shift if n_contexts > 1 else np.full((n_layers, n_heads), math.nan)
        variables["kappa_contexts" + part] = (("layer", "head"), fit)

    depth_curve = 0.1 + 0.6 * (1 - np.exp(-np.arange(n_layers + 1) / 2.5))
    residual = depth_curve * np.linspace(0.97, 1.0, n_contexts)[:, None]
    rho = 0.85 * residual[:, :-1]
    variables["rho_residual"] = (("context", "depth"), residual)
    variables["rho_residual_se"] = (("context", "depth"), np.full_like(residual, 0.008))
    variables["rho_input"] = (("context", "layer"), rho)
    variables["rho_input_se"] = (("context", "layer"), np.full_like(rho, 0.01))
    variables["gamma_c"] = (("context", "layer"), 1 / (1 - rho))
    variables["gamma_c_se"] = (("context", "layer"), 0.01 / (1 - rho) ** 2)

    full = ("context", "window", "octave", "layer")
    octave_log = log_n[:, None] - np.log(2) * (np.arange(n_octaves) + 0.45)
    octave_log = octave_log[:, None, :] + rng.normal(0, 0.02, (n_contexts, n_windows, n_octaves))
    rows = np.full((n_contexts, n_windows, n_octaves, n_layers), 48)
    if kappa_source == "contexts":
        octave_log[:, :, 0], octave_log[:, :, 1:] = log_n[:, None], math.nan
        rows[:, :, 1:] = 0
    sample_entropy = entropy_at(octave_log)
    variables["sample_log_visible"] = (full, np.repeat(octave_log[..., None], n_layers, axis=-1))
    variables["sample_rows"] = (full, rows)
    for suffix, factor in (("", 1.0), ("_no_sink", 1.07)):
        noisy = sample_entropy + rng.normal(0, 0.04, sample_entropy.shape)
        variables["sample_entropy" + suffix] = ((*full, "head"), noisy * factor)

    dataset = xarray.Dataset(
        variables,
        coords={
            "context": list(contexts),
            "layer": list(layers) if layers is not None else list(range(n_layers)),
            "head": list(range(n_heads)),
            "depth": list(range(n_layers + 1)),
            "window": list(range(n_windows)),
            "octave": list(range(n_octaves)),
            "sliding_window": ("layer", [0] * n_layers),
        },
        attrs={
            "kind": "attnlim.audit",
            "schema": 1,
            "model": model,
            "model_note": "4-bit weights, dequantised",
            "text": "pydoc_data.topics",
            "n_windows": n_windows,
            "rows_per_window": 256,
            "seed": 0,
            "k_min": 10,
            "diluted_above": 0.8,
            "frozen_below": 0.2,
            "trained_length": 8192,
            "attention": "sdpa",
            "dtype": "float32",
            "device": "cpu",
            "causal": int(kappa_source == "positions"),
            "kappa_source": kappa_source,
            "verdict": verdict,
            "skipped": json.dumps(list(skipped)),
        },
    )
    for suffix in ("", "_no_sink"):
        dataset["phase" + suffix].attrs.update(flag_values="[0,1,2,3]", flag_meanings="diluted sparse frozen undecided")
        dataset["kappa" + suffix].attrs["missing"] = "a fit over contexts needs at least two of them"
    if n_layers > 2 and n_heads > 1:
        _leave_out(dataset, layer=2, head=1)
    return dataset


def _leave_out(dataset: xarray.Dataset, layer: int, head: int) -> None:
    """Make one head look like one that its layer does not have."""
    place = {"layer": layer, "head": head}
    for name, variable in dataset.data_vars.items():
        if "head" in variable.dims:
            absent = -1 if np.issubdtype(variable.dtype, np.integer) else math.nan
            dataset[name][{key: place[key] for key in variable.dims if key in place}] = absent


def run_record() -> dict[str, object]:
    """What run.json would hold."""
    return {
        "command": "audit",
        "arguments": {"model": "toy", "context": [128, 512, 2048], "text": None},
        "version": "0.1.0",
        "git_commit": None,
        "seeds": {"rows": 0},
        "environment": {"python": "3.11.9", "packages": {"torch": "2.13.0", "numpy": "2.4.6"}, "machine": "x86_64"},
        "started": "2026-11-29T10:00:00+00:00",
        "finished": "2026-11-29T10:01:30+00:00",
        "seconds": 90.25,
        "status": "done",
    }
