"""What the page of a reproduction of "Uniform scaling limits" shows: the claims one by one, and the sheets."""

from __future__ import annotations

import xarray as xr

from attnlim.report.claim_rows import claims_page
from attnlim.report.document import Page
from attnlim.report.figures import svg_element
from attnlim.report.uniform_proof_sheet import proof_figure
from attnlim.report.uniform_reading import facts
from attnlim.report.uniform_sheet import uniform_figure


def uniform_page(dataset: xr.Dataset) -> Page:
    """The page of a reproduction that passed :func:`attnlim.report.uniform_reading.checked`."""
    return claims_page(
        dataset,
        "uniform.html.j2",
        "Uniform scaling limits of AdamW-trained transformers, reproduced",
        facts(dataset),
        [
            ("uniform", "The rate", svg_element(uniform_figure(dataset), "uniform")),
            ("proof", "Proof and controls", svg_element(proof_figure(dataset), "proof")),
        ],
    )
