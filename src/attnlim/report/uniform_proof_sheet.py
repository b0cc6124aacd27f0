"""What the proof is made of, measured, and what the machinery is checked by, on one sheet."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from attnlim.report.uniform_control_panels import (
    cosines_over_depth,
    entropy_over_depth,
    growth_of_tokens,
    layouts_of_heads,
    lipschitz_ratios,
    published_numbers,
    residual_factors,
)
from attnlim.report.uniform_proof_panels import (
    blocks_of_depth,
    error_parts,
    heads_after_a_step,
    largest_parameter,
    martingale_over_sizes,
    split_errors,
    stability_ratios,
)
from attnlim.report.uniform_reading import checked, facts, of_grid
from attnlim.report.uniform_sheet import Row, sheet_of_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def proof_figure(dataset: xr.Dataset) -> Figure:
    """Split coupling, Lemmas 28 to 30, 36, 38 and 40, parameters, layouts, residual factors, published numbers and focus.

    Args:
        dataset: a reproduction (kind ``attnlim.reproduce.uniform``).

    Returns:
        A matplotlib figure 14 inches wide, free of pyplot's global state.

    Raises:
        InputError: ``dataset`` is not such a reproduction, or the extra ``report`` is not installed.
    """
    checked(dataset)
    largest = dataset.isel(stack_layers=-1, stack_heads=-1)
    first, last = (int(dataset["stack_step"][place]) for place in (0, -1))
    parts_top = float(largest["stack_part"].max())
    ratios_top = float(np.nanmax(dataset["stability_ratio"].to_numpy()))
    decays = dataset["weight_decay"].to_numpy().tolist()
    small, large = (of_grid(dataset, name).squeeze(("n_tokens", "width")) for name in ("rates", "eps"))
    rows: list[Row] = [
        (
            2.7,
            [
                partial(split_errors, dataset=dataset),
                partial(error_parts, one=largest, step=first, top=parts_top),
                partial(error_parts, one=largest, step=last, top=parts_top),
            ],
        ),
        (
            2.7,
            [
                partial(martingale_over_sizes, dataset=dataset),
                partial(blocks_of_depth, dataset=dataset),
                partial(heads_after_a_step, small=small, large=large),
            ],
        ),
        (
            2.4,
            [
                *(partial(stability_ratios, dataset=dataset, weight_decay=decay, top=ratios_top) for decay in decays),
                partial(largest_parameter, dataset=dataset),
            ],
        ),
        (
            2.7,
            [
                partial(layouts_of_heads, dataset=dataset),
                partial(residual_factors, dataset=dataset),
                partial(published_numbers, dataset=dataset),
            ],
        ),
        (
            2.3,
            [
                partial(cosines_over_depth, dataset=dataset),
                partial(entropy_over_depth, dataset=dataset),
                partial(growth_of_tokens, dataset=dataset),
                partial(lipschitz_ratios, dataset=dataset),
            ],
        ),
    ]
    about = "bars and bands: 95 % intervals · grey: what the reference itself is off by · slopes: least squares on both logarithms"
    figure, _ = sheet_of_rows("What the proof is made of, and what checks the machinery", facts(dataset), rows, about)
    return figure
