"""What the page of a reproduction shows: the claims one by one, and the sheets."""

from __future__ import annotations

from collections import Counter

import xarray as xr

from attnlim.report.critical_reading import CLAIM_NUMBERS, VERDICTS, claims, facts, has_crossings
from attnlim.report.critical_sheet import critical_figure
from attnlim.report.document import Page
from attnlim.report.figures import svg_element
from attnlim.report.finite_sheet import finite_figure
from attnlim.report.json_lists import rounded


def critical_page(dataset: xr.Dataset) -> Page:
    """The page of a reproduction that passed :func:`attnlim.report.critical_reading.checked`."""
    table = claims(dataset)
    numbers = [name.removeprefix("claim_") for name in CLAIM_NUMBERS]
    rows = [row | {name: rounded(row[name], 4) for name in numbers} for row in table]
    counts = Counter(row["verdict"] for row in table)
    return Page(
        template="critical.html.j2",
        title="Critical attention scaling, reproduced",
        data={"claims": rows},
        scripts=("csv.js", "critical_page.js"),
        styles=("critical.css",),
        charts=False,
        variables={
            "facts": facts(dataset),
            "claims": rows,
            "counts": [(verdict, counts[verdict]) for verdict in VERDICTS],
            "known": VERDICTS,
            "spline": has_crossings(dataset),
            "sheets": [
                ("critical", "Figures 1 and 2", svg_element(critical_figure(dataset), "critical")),
                ("finite", "Finite n", svg_element(finite_figure(dataset), "finite")),
            ],
        },
    )
