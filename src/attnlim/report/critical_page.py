"""What the page of a reproduction of "Critical attention scaling" shows: the claims one by one, and the sheets."""

from __future__ import annotations

import xarray as xr

from attnlim.report.claim_rows import claims_page
from attnlim.report.critical_reading import facts, has_crossings
from attnlim.report.critical_sheet import critical_figure
from attnlim.report.document import Page
from attnlim.report.figures import svg_element
from attnlim.report.finite_sheet import finite_figure


def critical_page(dataset: xr.Dataset) -> Page:
    """The page of a reproduction that passed :func:`attnlim.report.critical_reading.checked`."""
    return claims_page(
        dataset,
        "critical.html.j2",
        "Critical attention scaling, reproduced",
        facts(dataset),
        [
            ("critical", "Figures 1 and 2", svg_element(critical_figure(dataset), "critical")),
            ("finite", "Finite n", svg_element(finite_figure(dataset), "finite")),
        ],
        {"spline": has_crossings(dataset)},
    )
