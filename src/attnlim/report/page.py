"""The HTML report of a run, of whatever kind its dataset is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray

from attnlim.core.files import replacing
from attnlim.report.document import html
from attnlim.report.kinds import kind_of


def write_report(dataset: xarray.Dataset, run: Mapping[str, Any], path: Path) -> Path:
    """Write the report of one run as a single self-contained HTML file.

    The file fetches nothing: styles, scripts and data are inside it, and its content security policy lets
    only the scripts that were written with it run. The same input gives the same bytes.

    Args:
        dataset: a dataset whose attribute ``kind`` is ``attnlim.audit``, ``attnlim.rescale``, ``attnlim.phase``, ``attnlim.meanfield``,
            ``attnlim.reproduce.critical`` or ``attnlim.reproduce.uniform``.
        run: the content of run.json (command, arguments, version, seeds, environment, times, status).
        path: the HTML file to make or replace; it appears whole or not at all.

    Returns:
        ``path``.

    Raises:
        InputError: ``dataset`` is of another kind or incomplete, or the extra ``report`` is not installed.
    """
    kind = kind_of(dataset)
    text = html(kind.page(kind.checked(dataset)), dataset.attrs, run)
    path = Path(path)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
    return path
