"""The finished benchmark as one table of numbers a seed, kept as JSON, and read again by name."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlim.core.cells import Arrays
from attnlim.core.checks import InputError
from attnlim.core.files import replacing
from benchmarks.length.data import splits
from benchmarks.length.multipliers import NONE
from benchmarks.length.sweep import LAST, TASKS, Reading
from benchmarks.length.train import TRAINED, Spec

Floats = NDArray[np.float64]

DEPTHS = 4  # equal parts of the context, from its beginning
DIGITS = 5  # kept of every number


def of_reading(arrays: Arrays) -> dict[str, Any]:
    """One decoder at one length: numbers for every multiplier, means over windows, questions, heads and layers.

    ``weight`` is that of the head which looks most at the token asked for.
    """
    found: dict[str, Any] = {
        "text": arrays["text"].mean(axis=1),
        "text_all": arrays["text_all"].mean(axis=1),
        "text_share": arrays["text_share"].mean(axis=(1, 2)),
        "text_entropy": arrays["text_entropy"].mean(axis=2),
        "rho": arrays["rho"],
    }
    for task in TASKS:
        right, depth = arrays[f"{task}_right"], arrays[f"{task}_depth"]
        part = np.minimum((depth * DEPTHS).astype(int), DEPTHS - 1)
        found |= {
            f"{task}_right": right.mean(axis=(1, 2)),
            f"{task}_nll": arrays[f"{task}_nll"].mean(axis=(1, 2)),
            f"{task}_share": arrays[f"{task}_share"].mean(axis=(1, 2)),
            f"{task}_weight": arrays[f"{task}_weight"].max(axis=(1, 2)),
            f"{task}_by_depth": np.stack([right[:, part == k].mean(axis=1) for k in range(DEPTHS)], axis=1),
        }
    return found


def of_training(arrays: Arrays, n_blocks: int = 25) -> dict[str, Any]:
    """One run: its curves in blocks of steps, and what its checkpoints show."""
    curves = {name.removeprefix("curve."): values for name, values in arrays.items() if name.startswith("curve.")}
    blocks = np.array_split(np.arange(len(curves["text"])), min(n_blocks, len(curves["text"])))
    found: dict[str, Any] = {name: [values[block].mean() for block in blocks] for name, values in curves.items()}
    found["block_step"] = [block.mean() + 1 for block in blocks]
    found |= {
        name.removeprefix("checkpoint."): values for name, values in arrays.items() if name.startswith("checkpoint.")
    }
    return found | {"cpu_seconds": float(arrays["seconds"])}


def setting(specs: Sequence[Spec], reading: Reading) -> dict[str, Any]:
    """What was trained and read."""
    one, text = specs[0], splits()
    return {
        "trained": TRAINED, "lengths": list(reading.lengths), "seeds": sorted({spec.seed for spec in specs}),
        "layers": one.n_layers, "heads": one.n_heads, "width": one.width, "steps": one.n_steps,
        "tokens_a_step": one.tokens, "windows": reading.n_windows, "recall_sequences": reading.n_recalls,
        "last": LAST, "text_sha256": text.sha256,
        "bytes": {part: len(getattr(text, part)) for part in ("train", "calibrate", "test")},
    }  # fmt: skip


def keep(path: Path, content: Mapping[str, Any]) -> None:
    """As JSON with one line a quantity; the same content gives the same bytes."""
    with replacing(path) as unfinished:
        unfinished.write_text(_lines(content, "") + "\n", encoding="utf-8")


def _lines(value: Any, indent: str) -> str:
    deeper = indent + " "
    if isinstance(value, Mapping) and value:
        inner = [
            f"{deeper}{json.dumps(str(key), ensure_ascii=False)}: {_lines(one, deeper)}" for key, one in value.items()
        ]
        return "{\n" + ",\n".join(inner) + f"\n{indent}}}"
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return "[\n" + ",\n".join(deeper + _lines(one, deeper) for one in value) + f"\n{indent}]"
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Numbers short; NaN and infinity as null, which JSON can say."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


@dataclass(frozen=True)
class Results:
    """The kept figures, by name.

    Attributes:
        figures: ``setting``, ``readings``, ``runs`` and ``gaps`` of the JSON.
    """

    figures: Mapping[str, Any]

    @classmethod
    def load(cls, path: Path) -> Results:
        """From a file of :func:`keep`."""
        return cls(json.loads(path.read_text(encoding="utf-8"))["figures"])

    @property
    def lengths(self) -> list[int]:
        """Contexts read, the first as trained."""
        return list(self.figures["setting"]["lengths"])

    @property
    def longest(self) -> int:
        return self.lengths[-1]

    @property
    def seeds(self) -> list[int]:
        return list(self.figures["setting"]["seeds"])

    def names(self, parametrisation: str, arm: str, n: int) -> list[str]:
        """Multipliers and rules that were read."""
        return list(next(self._readings(parametrisation, arm, n))["names"])

    def constants(self, parametrisation: str, arm: str, n: int) -> list[str]:
        """Those that are one number, rising."""
        return [name for name in self.names(parametrisation, arm, n) if name[0].isdigit()]

    def of(self, quantity: str, parametrisation: str, arm: str, n: int, name: str = NONE) -> Floats:
        """(n_seeds, ...) of a quantity; a rule within n_0 is 1."""
        found = []
        for one in self._readings(parametrisation, arm, n):
            listed = one["names"]
            there = name if name in listed or n > self.lengths[0] else NONE
            if there not in listed:
                raise InputError(
                    f"{parametrisation}, {arm} was not read under {name!r} at {n}; there are {', '.join(listed)}"
                )
            found.append(one[quantity][listed.index(there)])
        return np.array(found, dtype=np.float64)

    def run(self, quantity: str, parametrisation: str, arm: str) -> Floats:
        """(n_seeds, ...) of a quantity of training or of gap counts."""
        found = [
            one[quantity]
            for one in self.figures["runs"]
            if (one["parametrisation"], one["positions"]) == (parametrisation, arm)
        ]
        return np.array(found, dtype=np.float64)

    def _readings(self, parametrisation: str, arm: str, n: int) -> Iterator[Mapping[str, Any]]:
        wanted = (parametrisation, arm, n)
        chosen = [one for one in self.figures["readings"] if (one["parametrisation"], one["arm"], one["n"]) == wanted]
        if not chosen:
            raise InputError(f"nothing was read of {parametrisation}, {arm} at {n}; there are lengths {self.lengths}")
        return iter(chosen)
