"""A cheap stand-in for a cell's work, and cells for it: tests of the engine need no physics."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from attnlim.core.cells import Cell
from attnlim.core.seeds import generator


def work(i: int, seconds: float = 0.0, mark: str = "") -> dict[str, np.ndarray]:
    """Seeded numbers; with ``mark`` it first writes its process id there, so that a test can find it in flight."""
    if mark:
        Path(mark).write_text(str(os.getpid()))
    time.sleep(seconds)
    return {"draws": generator(0, "stand-in", i).normal(size=5), "missing": np.array(np.nan)}


def broken(i: int) -> dict[str, np.ndarray]:
    if i == 2:
        raise ZeroDivisionError("two is\nnot allowed")
    return work(i)


def deadly(i: int) -> dict[str, np.ndarray]:
    if i == 1:
        os._exit(1)
    return work(i)


def cells(n: int, **arguments: object) -> list[Cell]:
    return [Cell(f"cell-{i}", {"i": i, **arguments}) for i in range(n)]
