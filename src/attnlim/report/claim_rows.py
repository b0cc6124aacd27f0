"""The claims of a reproduction, one after the other, and the page that shows them above its sheets.

Every reproduction holds them in the same form, on the dimension ``claim``: ``claim_text``, ``claim_source``,
``claim_verdict`` (one of :data:`VERDICTS`) and ``claim_reason`` are text, stored as arrays of Python strings;
``claim_predicted``, ``claim_measured``, ``claim_low`` and ``claim_high`` are numbers. A claim that is no number has NaN
there and says all in its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from attnlim.report.document import Page
from attnlim.report.json_lists import rounded

VERDICTS = ("confirmed", "qualified", "contradicted", "undecided")
_WORDS = ("claim_text", "claim_source", "claim_verdict", "claim_reason")
_NUMBERS = ("claim_predicted", "claim_measured", "claim_low", "claim_high")
# what a dataset must hold, with its dimensions
CLAIM_SCHEMA = dict.fromkeys((*_WORDS, *_NUMBERS), ("claim",))


def claims(dataset: xr.Dataset) -> list[dict[str, Any]]:
    """The table of claims, a dict a row by the variables' names without ``claim_``."""
    rows = []
    for index in range(dataset.sizes["claim"]):
        one = dataset.isel(claim=index)
        words = {name.removeprefix("claim_"): str(one[name].item()) for name in _WORDS}
        rows.append(words | {name.removeprefix("claim_"): float(one[name]) for name in _NUMBERS})
    return rows


def claims_page(
    dataset: xr.Dataset,
    template: str,
    title: str,
    facts: str,
    sheets: Sequence[tuple[str, str, str]],
    variables: Mapping[str, Any] | None = None,
) -> Page:
    """The page of a reproduction.

    Args:
        dataset: with the claims.
        template: extends ``claims.html.j2``.
        title: of the page.
        facts: one line on what was measured.
        sheets: name, heading and ``svg`` element of each sheet.
        variables: what else the template reads.
    """  # fmt: skip
    numbers = [name.removeprefix("claim_") for name in _NUMBERS]
    rows = [row | {name: rounded(row[name], 4) for name in numbers} for row in claims(dataset)]
    counts = Counter(row["verdict"] for row in rows)
    return Page(
        template=template,
        title=title,
        data={"claims": rows},
        scripts=("csv.js", "claims_page.js"),
        styles=("claims.css",),
        charts=False,
        variables={
            "facts": facts,
            "claims": rows,
            "counts": [(verdict, counts[verdict]) for verdict in VERDICTS],
            "known": VERDICTS,
            "sheets": sheets,
            **(variables or {}),
        },
    )
