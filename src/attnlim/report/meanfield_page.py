"""What the page of a mean-field experiment shows."""

from __future__ import annotations

import xarray as xr

from attnlim.report.document import Page
from attnlim.report.figures import svg_element
from attnlim.report.meanfield_payload import page_data
from attnlim.report.meanfield_reading import facts
from attnlim.report.meanfield_sheet import drawn_steps, meanfield_figure

_SCRIPTS = (
    *("charts.js", "card.js", "sorted_table.js", "csv.js"),
    *(f"meanfield_{name}.js" for name in ("state", "chart", "table", "page")),
)


def meanfield_page(dataset: xr.Dataset) -> Page:
    """The page of an experiment that passed :func:`attnlim.report.meanfield_reading.checked`."""
    names = ("seed", "n_tokens", "width", "n_layers", "n_heads", "step", "training_step")
    sizes = {name: [int(value) for value in dataset[name].to_numpy()] for name in names}
    return Page(
        template="meanfield.html.j2",
        title="Depth and heads to their limit",
        data=page_data(dataset),
        scripts=_SCRIPTS,
        styles=("meanfield.css",),
        variables={
            "facts": facts(dataset),
            "sizes": sizes,
            "inputs": [str(name) for name in dataset["inputs"].to_numpy()],
            "inits": dataset.sizes["init"],
            "all_steps": len(drawn_steps(dataset)) == dataset.sizes["step"],
            "sheet": svg_element(meanfield_figure(dataset), "meanfield"),
        },
    )
