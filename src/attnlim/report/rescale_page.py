"""What the page of a comparison of rules shows."""

from __future__ import annotations

import xarray as xr

from attnlim.report.document import Page
from attnlim.report.rescale_payload import page_data
from attnlim.report.rescale_reading import absent, companies, facts

_SCRIPTS = (
    *("charts.js", "card.js", "sorted_table.js", "csv.js", "head_maps.js"),
    *(
        f"rescale_{name}.js"
        for name in ("state", "forest", "lines", "needles", "maps", "retrieval", "course", "tables", "page")
    ),
)


def rescale_page(dataset: xr.Dataset) -> Page:
    """The page of a comparison that passed :func:`attnlim.report.rescale_reading.checked`."""
    return Page(
        template="rescale.html.j2",
        title=f"{dataset.attrs['model']} · rescaling to {int(dataset.attrs['target'])} tokens",
        data=page_data(dataset),
        scripts=_SCRIPTS,
        styles=("rescale.css",),
        variables={
            "facts": facts(dataset),
            "n_layers": dataset.sizes["layer"],
            "n_heads": dataset.sizes["head"],
            "n_rounds": dataset.sizes.get("round", 0),
            "companies": companies(dataset),
            "absent": absent(dataset),
            "method": str(dataset["difference"].attrs.get("method", "")),
            "needle_method": str(dataset["needle_difference"].attrs.get("method", "")),
        },
    )
