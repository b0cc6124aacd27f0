"""Does the text matter? Two audits of one model on two texts, head by head, with windows as the units.

Run with `python -m benchmarks.texts RUN RUN` on two finished audits of the same contexts and windows.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from attnlim.audit.assemble import POSITION_OCTAVES
from attnlim.context.phases import LEAST_RANGE, PHASES
from attnlim.core.ranks import rank_correlation
from attnlim.core.regression import slope
from attnlim.core.runs import open_run
from benchmarks.machine import write

QUANTITIES = ("entropy", "entropy_no_sink", "sink_mass", "largest_weight", "distance", "critical_multiplier")
LEVEL = 0.05


def compared(first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """Welch's t-test of every head over windows (axis 0), and how well the two texts order the heads.

    Heads without a number in some window, or that read the same in all, have no test and are not counted.
    """
    means = [each.mean(axis=0) for each in (first, second)]
    known = np.isfinite(means).all(axis=0)
    tested = known & (np.ptp(first, axis=0) + np.ptp(second, axis=0) > 0)
    p_value = stats.ttest_ind(first[:, tested], second[:, tested], axis=0, equal_var=False).pvalue
    return {
        "heads_that_differ": float((p_value < LEVEL).mean()),
        "rank_correlation": rank_correlation(*means),
        "median_first": float(np.median(means[0][known])),
        "median_second": float(np.median(means[1][known])),
    }


def kappa_of_windows(data: xr.Dataset) -> np.ndarray:
    """(window, layer, head): κ of each window at the longest context."""
    octaves = data.isel(context=-1, octave=slice(POSITION_OCTAVES))
    x = octaves["sample_log_visible"].values[..., None]
    return slope(x, octaves["sample_entropy"].values, axis=1, least_span=LEAST_RANGE)


LABELS = {
    "kappa": "κ",
    "entropy": "entropy H, nats",
    "entropy_no_sink": "entropy without the first token, nats",
    "sink_mass": "weight on the first token",
    "largest_weight": "largest weight",
    "distance": "distance attended, tokens",
    "critical_multiplier": "gap count b_c",
}


def markdown(figures: dict[str, Any]) -> str:
    """The figures as the two tables of docs/texts.md."""
    first, second = figures["texts"]
    lines = [
        f"| at {figures['context']} tokens | median head, {first} | median head, {second} | rank correlation over heads | heads that differ |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, label in LABELS.items():
        row = figures[name]
        values = f"{row['median_first']:.3g} | {row['median_second']:.3g} | {row['rank_correlation']:.2f}"
        lines.append(f"| {label} | {values} | {100 * row['heads_that_differ']:.0f} % |")
    lines += ["", f"| phase on {first} ↓, on {second} → | {' | '.join(PHASES)} |", f"|---|{'---:|' * len(PHASES)}"]
    for one in PHASES:
        counts = " | ".join(str(figures["phases"][f"{one} → {other}"]) for other in PHASES)
        lines.append(f"| {one} | {counts} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs=2, type=Path)
    (first, _), (second, _) = (open_run(run) for run in parser.parse_args().runs)
    longest = int(first.context[-1])
    figures: dict[str, Any] = {
        "model": f"{first.attrs['model']} ({first.attrs['model_note']})",
        "texts": [first.attrs["text"], second.attrs["text"]],
        "context": longest,
        "windows": [first.attrs["n_windows"], second.attrs["n_windows"]],
        "level": LEVEL,
        "kappa": compared(kappa_of_windows(first), kappa_of_windows(second)),
    }
    for name in QUANTITIES:
        figures[name] = compared(
            *(run[f"sample_{name}"].sel(context=longest, octave=0).values for run in (first, second))
        )
    codes = [run["phase"].sel(context=longest).values.ravel() for run in (first, second)]
    figures["phases"] = {
        f"{one} → {other}": int(((codes[0] == i) & (codes[1] == j)).sum())
        for i, one in enumerate(PHASES)
        for j, other in enumerate(PHASES)
    }
    residual = [run["rho_residual"].sel(context=longest) for run in (first, second)]
    difference = residual[1] - residual[0]
    figures["rho_residual"] = {
        "largest_over_layers": [float(rho.max()) for rho in residual],
        "largest_difference": float(np.abs(difference).max()),
        "at_depth": int(np.argmax(np.abs(difference.values))),
    }
    write("texts", figures)
    print(markdown(figures))


if __name__ == "__main__":
    main()
