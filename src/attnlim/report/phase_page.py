"""What the page of a phase diagram shows."""

from __future__ import annotations

import xarray as xr

from attnlim.report.document import Page
from attnlim.report.phase_payload import page_data
from attnlim.report.phase_reading import facts

_SCRIPTS = (
    *("charts.js", "card.js", "sorted_table.js", "csv.js"),
    *(f"phase_{name}.js" for name in ("state", "lines", "map", "slice", "tables", "page")),
)


def phase_page(dataset: xr.Dataset) -> Page:
    """The page of a phase diagram that passed :func:`attnlim.report.phase_reading.checked`."""
    sizes = dataset.sizes
    return Page(
        template="phase.html.j2",
        title=f"Phase diagram · {dataset.attrs['tokens']} tokens",
        data=page_data(dataset),
        scripts=_SCRIPTS,
        styles=("phase.css",),
        variables={
            "facts": facts(dataset),
            "n_tokens": [int(n) for n in dataset["n_tokens"]],
            "widths": [int(d) for d in dataset["width"]],
            "alphas": [f"{float(alpha):g}" for alpha in dataset["alpha"]],
            "masks": [bool(causal) for causal in dataset["causal"]],
            "grid": f"{sizes['rho']} ρ × {sizes['gamma']} γ" if sizes["rho"] > 1 else f"{sizes['gamma']} γ",
            "draws": sizes["draw"],
            "plane": sizes["rho"] > 1,
        },
    )
