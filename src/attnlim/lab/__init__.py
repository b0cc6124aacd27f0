"""The laboratory: sweeps over grids, in this process or on a cluster, and the experiments made of them."""

from __future__ import annotations

from attnlim.core.exports import lazily

_HOME = {
    "CellError": "sweeping",
    "MeanfieldGrid": "meanfield_grid",
    "PhaseGrid": "phase_grid",
    "Reproduction": "critical_run",
    "Sweep": "sweeping",
    "System": "meanfield_system",
    "UniformReproduction": "uniform_run",
    "make_grid": "phase_grid",
    "make_reproduction": "critical_run",
    "make_uniform": "uniform_run",
    "meanfield": "meanfield_run",
    "phase": "phase_run",
    "reproduce_critical": "critical_run",
    "reproduce_uniform": "uniform_run",
    "run_grid": "phase_run",
    "run_reproduction": "critical_run",
    "run_uniform": "uniform_run",
    "sweep": "sweeping",
    "transitions": "phase_words",
    "verdict": "phase_words",
}
__all__ = sorted(_HOME)

__getattr__ = lazily(__name__, _HOME)
