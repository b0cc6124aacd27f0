"""Sensitivities in an audit's report and figure: what is shown, what is grey, and that reports without them are as before."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import xarray
from scipy import stats

from attnlim.report import audit_figure
from attnlim.report.audit_payload import page_data

Opener = Callable[..., Any]


@pytest.fixture
def wishing(synthetic: ModuleType) -> xarray.Dataset:
    """An audit with sensitivities, about half of them decided; the head that was not measured has none."""
    data = synthetic.audit_dataset()
    rng = np.random.default_rng(3)
    shape = data["entropy"].shape
    value, half = rng.normal(0, 0.01, shape), rng.uniform(0.002, 0.012, shape)
    absent = np.isnan(data["entropy"].to_numpy())
    parts = {"": value, "_low": value - half, "_high": value + half}
    variables = {
        f"sensitivity{end}": (data["entropy"].dims, np.where(absent, math.nan, of)) for end, of in parts.items()
    }
    total = rng.normal(0, 0.05, shape[0])
    for end, shift in (("", 0.0), ("_low", -0.1), ("_high", 0.1)):
        variables[f"sensitivity_total{end}"] = (("context",), total + shift)
    return data.assign(variables)


@pytest.fixture
def open_page(open_report: Opener, synthetic: ModuleType) -> Opener:
    def opener(dataset: xarray.Dataset, scheme: str = "light", width: int = 1200) -> Any:
        return open_report(dataset, synthetic.run_record(), "#map-logit .heatmaplayer image", scheme, width)

    return opener


def cells(page: Any, trace: int) -> np.ndarray:
    found = page.evaluate(f"document.getElementById('map-wish').data[{trace}].z")
    return np.array([[math.nan if cell is None else cell for cell in row] for row in found])


def decided(dataset: xarray.Dataset, context: int) -> np.ndarray:
    at = dataset.isel(context=context)
    return ((at["sensitivity_low"] > 0) | (at["sensitivity_high"] < 0)).to_numpy()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_decided_heads_are_coloured_and_others_grey(open_page: Opener, wishing: xarray.Dataset, scheme: str) -> None:
    page = open_page(wishing, scheme)
    for context in (-1, 0):
        if context == 0:
            page.locator("[data-context='0']").click()
        inside, value = decided(wishing, context), wishing["sensitivity"].isel(context=context).to_numpy()
        assert 5 < inside.sum() < 18
        np.testing.assert_allclose(cells(page, 0), np.where(inside, value, math.nan), rtol=1e-4)
        np.testing.assert_array_equal(np.isfinite(cells(page, 1)), ~inside & np.isfinite(value))
        signs = page.locator("#map-wish .heatmap-label").all_text_contents()
        assert sorted(filter(None, signs)) == sorted("−" if v < 0 else "+" for v in value[inside])
        # the one head without a value is crossed, no other
        assert page.evaluate("document.getElementById('map-wish').data[2].x.length") == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 1200


def test_the_section_says_how_little_the_phase_says(open_page: Opener, wishing: xarray.Dataset) -> None:
    page = open_page(wishing)
    said = page.locator("#wishes-said").inner_text()
    at = wishing.isel(context=-1)
    inside = decided(wishing, -1)
    sharper = int((inside & (at["sensitivity"] < 0).to_numpy()).sum())
    assert f"At 2048 tokens {sharper} of 23 heads would rather be sharper and {inside.sum() - sharper} softer" in said
    for name in ("kappa", "critical_multiplier"):
        both = [at[key].to_numpy().ravel() for key in ("sensitivity", name)]
        known = np.isfinite(both).all(axis=0)
        wanted = stats.spearmanr(both[0][known], both[1][known]).statistic
        assert f"{wanted:.2f}".replace("-", "−") in said
    points = page.evaluate("document.getElementById('wish-kappa').data.flatMap(trace => trace.y)")
    assert len(points) == 23
    np.testing.assert_allclose(
        np.sort(points), np.sort(at["sensitivity"].to_numpy()[np.isfinite(at["kappa"])]), rtol=1e-4
    )
    bars = page.evaluate("document.getElementById('wish-kappa').data.flatMap(trace => trace.error_y?.array ?? [])")
    assert len(bars) == inside.sum()


def test_card_and_table_show_it(open_page: Opener, wishing: xarray.Dataset) -> None:
    page = open_page(wishing)
    page.locator("#map-wish").scroll_into_view_if_needed()
    box = page.locator("#map-wish .heatmaplayer image").first.bounding_box()
    for layer, head in ((4, 2), (0, 0)):
        page.mouse.move(
            box["x"] + box["width"] * (head + 0.5) / wishing.sizes["head"],
            box["y"] + box["height"] * (layer + 0.5) / wishing.sizes["layer"],
        )
        page.locator("#card", has_text=f"layer {layer} · head {head}").wait_for()
        value = float(wishing["sensitivity"][-1, layer, head])
        assert f"{value:.4f}".replace("-", "−") in page.locator("#card .asked").last.inner_text()
    heading = page.locator("#table thead th").all_inner_texts()
    assert heading[-1].startswith("sensitivity")
    row = page.locator("#table tbody tr").first.locator("td").last.inner_text()
    assert row.startswith(f"{float(wishing['sensitivity'][-1, 0, 0]):.4f}".replace("-", "−")) and "[" in row


def test_narrow_and_printed(open_page: Opener, wishing: xarray.Dataset) -> None:
    page = open_page(wishing, width=480)
    assert page.evaluate("document.documentElement.scrollWidth") <= 480
    page.pdf(format="A4")


def test_without_an_interval_every_head_is_grey(open_page: Opener, wishing: xarray.Dataset) -> None:
    for name in ("sensitivity", "sensitivity_total"):
        for end in ("_low", "_high"):
            wishing[name + end] = wishing[name + end] * math.nan
    page = open_page(wishing)
    assert np.isnan(cells(page, 0)).all() and np.isfinite(cells(page, 1)).sum() == 23
    assert "0 of 23 heads would rather be sharper and 0 softer" in page.locator("#wishes-said").inner_text()


def test_a_report_without_them_has_no_such_part(open_page: Opener, synthetic: ModuleType) -> None:
    assert page_data(synthetic.audit_dataset())["wishes"] is None
    page = open_page(synthetic.audit_dataset())
    assert page.locator("#map-wish, #wish-kappa, #wishes-said").count() == 0
    assert "sensitivity" not in " ".join(page.locator("#table thead th").all_inner_texts())


def test_the_sheet_has_a_third_map(wishing: xarray.Dataset) -> None:
    figure = audit_figure(wishing)
    renderer = figure.canvas.get_renderer()
    assert figure.bbox.width == 1700
    wish = figure.axes[2]
    inside = decided(wishing, -1)
    shown = np.ma.filled(wish.images[1].get_array(), np.nan)
    np.testing.assert_allclose(shown, np.where(inside, wishing["sensitivity"][-1], np.nan))
    signs = [text.get_text() for text in wish.texts]
    assert signs.count("×") == 1 and signs.count("+") + signs.count("−") == inside.sum()
    boxes = [axes.get_tightbbox(renderer) for axes in figure.axes[:5]]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= 1700 for box in boxes)
