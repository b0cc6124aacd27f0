"""Everything that is drawn of a run: its HTML report and its figure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from attnlim.report.figures import save_figure
from attnlim.report.page import write_report


def draw(dataset: xr.Dataset, run: Mapping[str, Any], folder: Path) -> Path:
    """Write ``report.html`` and ``figures/audit.png`` into a run's folder, replacing older ones.

    Args:
        dataset: an audit's dataset.
        run: the content of its run.json.
        folder: the run's folder.

    Returns:
        The report's path.

    Raises:
        InputError: ``dataset`` is not an audit, or the extra ``report`` is not installed.
    """
    save_figure(dataset, folder / "figures" / "audit.png")
    return write_report(dataset, run, folder / "report.html")
