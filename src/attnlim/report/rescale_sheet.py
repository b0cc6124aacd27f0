"""A comparison of rules on one sheet: what each gains, what it costs, needles, and the calibrated slopes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xarray as xr

from attnlim.report.figures import MUTED, SHARP, blank, literal
from attnlim.report.rescale_panels import along_panel, forest_panel, needles_panel, slope_panel
from attnlim.report.rescale_reading import BEYOND, NONE, RAW, WITHIN, checked, facts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH, _HEAD, _FOOT, _GAP = 14.0, 1.15, 1.35, 1.05
# a row of a panel, and the least height of one
_ROW, _LEAST, _LOWER = 0.27, 2.4, 3.3


def rescale_figure(dataset: xr.Dataset) -> Figure:
    """Paired differences beyond and within the trained length, losses along the context, needles, and calibrated slopes.

    Args:
        dataset: a comparison of rules (kind ``attnlim.rescale``).

    Returns:
        A matplotlib figure 14 inches wide, free of pyplot's global state.

    Raises:
        InputError: ``dataset`` is not such a comparison, or the extra ``report`` is not installed.
    """
    dataset = checked(dataset)
    attrs = dataset.attrs
    upper = max(_LEAST, _ROW * dataset.sizes["variant"])
    lower = max(_LOWER, _ROW * dataset.sizes["variant"])
    height = _HEAD + upper + _GAP + lower + _FOOT
    note = f" ({attrs['model_note']})" if attrs["model_note"] else ""
    figure = blank(_WIDTH, height, f"{attrs['model']}{note}", facts(dataset), SHARP)
    top, bottom = 1 - _HEAD / height, _FOOT / height
    trained, target = int(attrs["trained_length"]), int(attrs["target"])

    def place(left: float, right: float, high: float, low: float) -> tuple[float, float, float, float]:
        return (left / _WIDTH, low, (right - left) / _WIDTH, high - low)

    second = top - upper / height
    third = second - _GAP / height
    forests = (
        (1.25, 4.0, "difference", BEYOND, NONE, f"Beyond: tokens {trained} to {target}"),
        (7.15, 9.35, "difference_raw", WITHIN, RAW, f"Within: the first {trained} tokens"),
    )
    for left, right, name, bucket, base, title in forests:
        forest_panel(figure.add_axes(place(left, right, top, second)), dataset, name, bucket, base, title)
    along_panel(figure.add_axes(place(0.85, 5.6, third, bottom)), dataset)
    needles_panel(figure.add_axes(place(7.15, 10.5, third, bottom)), dataset)
    slope_panel(figure.add_axes(place(11.75, 13.75, top, bottom)), dataset)
    figure.text(
        0.985, 0.1 / height, literal(f"95 % intervals of paired differences; shaded and bold: recommended, {attrs['recommended']}"),
        ha="right", va="bottom", size=9, color=MUTED,
    )  # fmt: skip
    return figure
