"""Results of the length benchmark that follow formulas, so that every statistic has a known value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from benchmarks.length.multipliers import CRITICAL, FROZEN, LOG, SQUARE_ROOT, YARN
from benchmarks.length.results import DEPTHS
from benchmarks.length.sweep import Reading, arms, names
from benchmarks.length.train import TRAINED, all_specs

RECALL_POWER, TEXT_POWER, GAP_POWER = 0.75, 0.5, 0.6
KAPPA = {"softmax": 0.9, "ssmax": 0.6, "critical": 0.5}
GAIN = 1.5
LENGTHS = Reading().lengths
LAYERS, HEADS = 4, 4


def multiplier(name: str, n: int) -> float:
    """The factor of a multiplier or rule on the last row."""
    ratio = math.log(n) / math.log(TRAINED)
    special = {LOG: ratio, FROZEN: ratio, SQUARE_ROOT: ratio**0.5, CRITICAL: ratio**GAP_POWER, YARN: 1.5}
    return special[name] if name in special else float(name)


def reading(parametrisation: str, arm: str, n: int, seed: int, listed: tuple[str, ...]) -> dict[str, Any]:
    """A NLL is a parabola in ln b whose vertex grows as a power of ln n, unless the parametrisation itself grows with it."""
    log_b = np.log([multiplier(name, n) for name in listed])
    growth = math.log(math.log(n) / math.log(TRAINED)) if parametrisation == "softmax" else 0.0
    broken = 0.5 * math.log(n / TRAINED) if "unseen" in arm else 0.0
    recall = 2 * (log_b - RECALL_POWER * growth) ** 2 + 0.01 * seed
    text = 2 + 0.1 * seed + broken + (log_b - TEXT_POWER * growth) ** 2 * (2 if arm == "nope" else 1)
    share = 0.3 * np.exp(-2 * log_b)
    layers = np.arange(LAYERS)
    entropy = [[KAPPA[parametrisation] * math.log(n) + 0.1 * layer - value for layer in layers] for value in log_b]
    of_task = {"right": np.exp(-recall), "nll": recall, "share": share, "weight": np.exp(-recall)}
    return {
        "parametrisation": parametrisation, "arm": arm, "n": n, "seed": seed, "names": list(listed),
        "text": text, "text_all": text, "text_share": share, "text_entropy": np.array(entropy),
        "rho": np.tile(0.1 + 0.1 * layers, (len(log_b), 1)),
        **{f"{task}_{key}": value for task in ("few", "crowded") for key, value in of_task.items()},
        **{f"{task}_by_depth": np.tile(np.exp(-recall)[:, None], (1, DEPTHS)) for task in ("few", "crowded")},
    }  # fmt: skip


def run(parametrisation: str, positions: str, seed: int) -> dict[str, Any]:
    """A training whose numbers go from a start to an end in a line."""
    done = np.linspace(0, 1, 5)
    layers = np.arange(LAYERS)
    ones = np.ones((LAYERS, HEADS))
    log_n = np.log(2.0 ** np.arange(5, 13))
    found = {
        "parametrisation": parametrisation, "positions": positions, "seed": seed,
        "step": done * 500, "block_step": done * 500, "cpu_seconds": 100.0 + seed,
        "text": 4 - 2 * done, "recall": 5 - 5 * done, "accuracy": done,
        "rho": 0.05 + done[:, None] * (0.1 + 0.1 * layers), "kappa": 1 - 0.5 * done[:, None, None] * ones,
        "entropy": 4 * (1 - 0.5 * done[:, None, None]) * ones,
        "gap_log_n": log_n, "critical_multiplier": (log_n**GAP_POWER)[:, None, None] * ones, "exponent": GAP_POWER * ones,
    }  # fmt: skip
    found["exponent"][0, 0] = math.nan
    if parametrisation == "critical":
        found |= {"gain": 1 + (GAIN - 1) * done[:, None, None] * ones, "head_rho": 0 * done[:, None, None] * ones}
    if parametrisation == "ssmax":
        found["scale"] = 0.43 + 0.2 * done[:, None, None] * ones
    return found


def figures() -> dict[str, Any]:
    """As the benchmark keeps them, before they are rounded."""
    specs = all_specs()
    return {
        "setting": {"trained": TRAINED, "lengths": list(LENGTHS), "seeds": [0, 1, 2], "steps": 500},
        "readings": [
            reading(spec.parametrisation, arm, n, spec.seed, names(spec, n))
            for spec in specs
            for arm in arms(spec)
            for n in LENGTHS
        ],
        "runs": [run(spec.parametrisation, spec.positions, spec.seed) for spec in specs],
    }
