"""Everything that is drawn of a run: its HTML report and its figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from attnlim.report.figures import suffix_format, write_figure
from attnlim.report.kinds import kind_of
from attnlim.report.page import write_report


def draw(dataset: xr.Dataset, run: Mapping[str, Any], folder: Path) -> Path:
    """Write ``report.html`` and the files in ``figures`` into a run's folder, replacing older ones.

    Args:
        dataset: a dataset whose attribute ``kind`` is ``attnlim.audit``, ``attnlim.rescale``, ``attnlim.phase``, ``attnlim.meanfield``,
            ``attnlim.reproduce.critical`` or ``attnlim.reproduce.uniform``.
        run: the content of its run.json.
        folder: the run's folder.

    Returns:
        The report's path.

    Raises:
        InputError: ``dataset`` is of another kind or incomplete, or the extra ``report`` is not installed.
    """
    kind = kind_of(dataset)
    for name, figure in kind.sheets(kind.checked(dataset)).items():
        drawn = figure()
        for form in kind.formats:
            write_figure(drawn, folder / "figures" / f"{name}.{form}")
    return write_report(dataset, run, folder / "report.html")


def save_figure(dataset: xr.Dataset, path: Path) -> Path:
    """Write the first figure of a run to a file; the same dataset gives the same bytes.

    Args:
        dataset: a dataset of one of the kinds that :func:`draw` knows.
        path: the file to make or replace; its suffix (.png, .svg or .pdf) is the format.

    Returns:
        ``path``.

    Raises:
        InputError: another suffix, another dataset, or the extra ``report`` is not installed.
    """
    path = Path(path)
    suffix_format(path)
    kind = kind_of(dataset)
    first = next(iter(kind.sheets(kind.checked(dataset)).values()))
    return write_figure(first(), path)
