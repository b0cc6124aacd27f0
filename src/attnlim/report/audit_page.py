"""What the page of an audit shows."""

from __future__ import annotations

import json

import xarray

from attnlim.report.audit_payload import page_data
from attnlim.report.audit_reading import facts, has_wishes
from attnlim.report.document import Page

_SCRIPTS = (
    "charts.js",
    "card.js",
    "sorted_table.js",
    "head_maps.js",
    *(f"audit_{name}.js" for name in ("state", "maps", "wishes", "lines", "table", "page")),
)


def audit_page(dataset: xarray.Dataset) -> Page:
    """The page of an audit that passed :func:`attnlim.report.audit_reading.checked`."""
    attrs = dataset.attrs
    return Page(
        template="audit.html.j2",
        title=f"{attrs['model']} · attention audit",
        data=page_data(dataset),
        scripts=_SCRIPTS,
        variables={
            "facts": facts(dataset),
            "contexts": [int(n) for n in dataset["context"]],
            "n_layers": dataset.sizes["layer"],
            "n_heads": dataset.sizes["head"],
            "wishes": has_wishes(dataset),
            "skipped": json.loads(attrs["skipped"]),
        },
    )
