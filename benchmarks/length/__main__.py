"""Train, read and judge: ``python -m benchmarks.length --work FOLDER``, about an hour and a half of one core.

Finished runs lie in FOLDER, and the same command goes on from them. It writes results/length.json and prints the tables of
docs/length.md; ``python examples/length_figures.py docs/images`` draws them. ``--quick`` trains one seed for a few
steps and reads it at two lengths, into FOLDER alone: it shows that everything runs, and nothing else.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from attnlim.core.cells import Cell, run_cells
from benchmarks.length.results import Results, keep, of_reading, of_training, setting
from benchmarks.length.sweep import Reading, folder, gap_cell, gap_counts, names, read, sweep_cells
from benchmarks.length.tables import every_table
from benchmarks.length.train import Spec, all_specs, denormals_flushed, trained
from benchmarks.machine import RESULTS, machine

QUICK_SIZES = {"n_steps": 12, "tokens": 512, "n_layers": 2, "n_heads": 2, "width": 32}
QUICK_READING = Reading(lengths=(256, 512), n_windows=1, n_recalls=1, n_rows=4)


def tell(cell: Cell, was_stored: bool) -> None:
    """One line a finished cell, where it was not there before."""
    if not was_stored:
        print(cell.key, file=sys.stderr, flush=True)


def measured(specs: Sequence[Spec], reading: Reading, work: Path | None) -> dict[str, Any]:
    """Train every decoder, read it at every length, and put the numbers together."""
    runs = []
    for (_, arrays), spec in zip(
        run_cells([one.cell() for one in specs], trained, folder(work), tell), specs, strict=True
    ):
        of_run = {"parametrisation": spec.parametrisation, "positions": spec.positions, "seed": spec.seed}
        runs.append(of_run | of_training(arrays))
    gaps = run_cells([gap_cell(spec, reading, work) for spec in specs], gap_counts, folder(work), tell)
    for run, (_, arrays) in zip(runs, gaps, strict=True):
        run |= {"gap_log_n": arrays["log_n"], "critical_multiplier": arrays["critical_multiplier"]}
        run["exponent"] = arrays["exponent"]
    readings = []
    for cell, arrays in run_cells(list(sweep_cells(specs, reading, work)), read, folder(work), tell):
        spec, arm, n = (cell.arguments[name] for name in ("spec", "arm", "n"))
        at = {"parametrisation": spec.parametrisation, "arm": arm, "n": n, "seed": spec.seed, "names": names(spec, n)}
        readings.append(at | of_reading(arrays))
    return {"setting": setting(specs, reading), "readings": readings, "runs": runs}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="where finished runs are kept; outside the repository")
    parser.add_argument("--quick", action="store_true", help="a tiny run, kept in --work alone")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args(words)
    torch.set_num_threads(1)  # products are small, and a cell's bytes depend on the number
    if given.quick:
        specs, reading, target = all_specs(1, **QUICK_SIZES), QUICK_READING, given.work / "length.json"
    else:
        specs, reading, target = all_specs(given.seeds), Reading(), RESULTS / "length.json"
    with denormals_flushed():
        keep(target, {"figures": measured(specs, reading, given.work), "machine": machine()})
    for name, table in every_table(Results.load(target)).items():
        print(f"{name}\n\n{table}\n")


if __name__ == "__main__":
    main()
