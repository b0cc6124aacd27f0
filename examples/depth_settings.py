"""The distance from the limit in two more settings, as a Markdown table: `python examples/depth_settings.py [NAME ...]`."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import xarray as xr

from attnlim.lab import meanfield
from attnlim.lab.meanfield_dataset import root_mean_square, size_table

LAYERS, HEADS = (4, 16, 64), (1, 4, 16)


def scaled() -> str:
    """E √(LH) before training and after 6 steps, 4 initialisations, by L and H; the limit's own error in the same unit."""
    found = meanfield(LAYERS, HEADS, steps=[0, 6], n_inits=4, n_particles=4096, threads=1).isel(
        seed=0, n_tokens=0, width=0
    )
    errors = root_mean_square(found["sup_tokens"]).sel(inputs="fresh")
    rows = ["| τ | " + " | ".join(f"L = {n}, H = {h}" for n in LAYERS for h in HEADS) + " |"]
    rows.append("|---|" + "---:|" * len(LAYERS) * len(HEADS))
    for step in (0, 6):
        one = errors.sel(step=step)
        values = [float(one.sel(n_layers=n, n_heads=h)) * (n * h) ** 0.5 for n in LAYERS for h in HEADS]
        rows.append(f"| {step} | " + " | ".join(f"{value:.1f}" for value in values) + " |")
    own = float(found["reference_error"].sel(distance="sup_tokens", inputs="fresh", step=6))
    return "\n".join(rows) + f"\n\nThe limit's own error after 6 steps is {own:.3f}."


def powers() -> str:
    """Powers of L and H in the standard deviation of X_1 and in the worst distance, π uniform on [-1, 1]."""
    rows = ["| what falls | τ | power of L | power of H |", "|---|---|---:|---:|"]
    spread = meanfield(
        LAYERS, HEADS, steps=[0, 4], law="uniform", n_sequences=2, n_particles=8, n_nodes=2, threads=1
    ).isel(seed=0, n_tokens=0, width=0)
    for step in (0, 4):
        rows.append(_row(f"standard deviation of X_1 | {step}", spread["end_deviation"].sel(step=step)))
    for n_tokens in (8, 32):
        worst = meanfield(
            LAYERS, HEADS, [n_tokens], steps=[0], law="uniform", n_sequences=2, n_particles=8, n_nodes=2, adversarial=True,
            threads=1,
        ).isel(seed=0, n_tokens=0, width=0, step=0)  # fmt: skip
        distance = root_mean_square(worst["sup_tokens"].sel(inputs="worst"))
        rows.append(_row(f"distance on the worst inputs, N = {n_tokens} | 0", distance))
    return "\n".join(rows)


def _row(what: str, values: xr.DataArray) -> str:
    layers, heads, found = size_table(values.expand_dims("init"))
    logs = np.log(found[0])
    design = np.stack([np.ones(len(layers)), np.log(layers), np.log(heads)], axis=1)
    _, of_layers, of_heads = np.linalg.lstsq(design, logs, rcond=None)[0]
    return f"| {what} | {of_layers:.2f} | {of_heads:.2f} |".replace("-", "−")


TABLES: dict[str, Callable[[], str]] = {"scaled": scaled, "powers": powers}


def main() -> None:
    for name in sys.argv[1:] or TABLES:
        print(TABLES[name]())
        print()


if __name__ == "__main__":
    main()
