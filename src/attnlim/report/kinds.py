"""The kinds of datasets that are drawn, and what is drawn of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import xarray as xr

from attnlim.core.checks import InputError
from attnlim.report import (
    audit_reading,
    critical_reading,
    meanfield_reading,
    phase_reading,
    rescale_reading,
    uniform_reading,
)
from attnlim.report.audit_page import audit_page
from attnlim.report.audit_sheet import audit_figure
from attnlim.report.critical_page import critical_page
from attnlim.report.critical_sheet import critical_figure
from attnlim.report.document import Page
from attnlim.report.finite_sheet import finite_figure
from attnlim.report.meanfield_page import meanfield_page
from attnlim.report.meanfield_sheet import meanfield_figure
from attnlim.report.phase_page import phase_page
from attnlim.report.phase_sheet import phase_sheets
from attnlim.report.rescale_page import rescale_page
from attnlim.report.rescale_sheet import rescale_figure
from attnlim.report.uniform_page import uniform_page
from attnlim.report.uniform_proof_sheet import proof_figure
from attnlim.report.uniform_sheet import uniform_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Sheets = Mapping[str, Callable[[], "Figure"]]


@dataclass(frozen=True)
class Kind:
    """How datasets of one kind are drawn.

    Attributes:
        checked: the dataset itself, or an InputError where something that is drawn is missing.
        sheets: the name of each figure file with what draws it.
        formats: the suffixes that each figure is written with.
        page: what its HTML report shows.
    """

    checked: Callable[[xr.Dataset], xr.Dataset]
    sheets: Callable[[xr.Dataset], Sheets]
    formats: tuple[str, ...]
    page: Callable[[xr.Dataset], Page]


def _audit_sheets(dataset: xr.Dataset) -> Sheets:
    return {"audit": partial(audit_figure, dataset)}


def _critical_sheets(dataset: xr.Dataset) -> Sheets:
    return {"critical": partial(critical_figure, dataset), "finite": partial(finite_figure, dataset)}


def _meanfield_sheets(dataset: xr.Dataset) -> Sheets:
    return {"meanfield": partial(meanfield_figure, dataset)}


def _rescale_sheets(dataset: xr.Dataset) -> Sheets:
    return {"rescale": partial(rescale_figure, dataset)}


def _uniform_sheets(dataset: xr.Dataset) -> Sheets:
    return {"uniform": partial(uniform_figure, dataset), "proof": partial(proof_figure, dataset)}


_KINDS = {
    audit_reading.KIND: Kind(audit_reading.checked, _audit_sheets, ("png",), audit_page),
    phase_reading.KIND: Kind(phase_reading.checked, phase_sheets, ("svg", "png"), phase_page),
    critical_reading.KIND: Kind(critical_reading.checked, _critical_sheets, ("svg", "png"), critical_page),
    meanfield_reading.KIND: Kind(meanfield_reading.checked, _meanfield_sheets, ("svg", "png"), meanfield_page),
    rescale_reading.KIND: Kind(rescale_reading.checked, _rescale_sheets, ("svg", "png"), rescale_page),
    uniform_reading.KIND: Kind(uniform_reading.checked, _uniform_sheets, ("svg", "png"), uniform_page),
}


def kind_of(dataset: xr.Dataset) -> Kind:
    """How ``dataset`` is drawn, by its attribute ``kind``.

    Raises:
        InputError: no such kind.
    """
    name = dataset.attrs.get("kind")
    if name not in _KINDS:
        known = ", ".join(map(repr, _KINDS))
        raise InputError(
            f"the report draws datasets of kind {known}, got kind {name!r}; run the command again with this version"
        )
    return _KINDS[name]
