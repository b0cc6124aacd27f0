"""The page of a comparison of scaling rules, opened in a browser as a reader would."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import xarray
from tests.report.synthetic_rescale import BARE, rescale_dataset

from attnlim.report import rescale_figure
from attnlim.report.figures import svg_element

Opener = Callable[..., Any]
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> <a href='javascript:alert(3)'>b</a> $x_{"
MAPS = ("multiplier", "slope", "direction", "mass", "phase")


@pytest.fixture
def open_page(open_report: Opener, phases: ModuleType) -> Opener:
    """Open the report of a comparison."""

    def opener(dataset: xarray.Dataset, scheme: str = "light", width: int = 1280) -> Any:
        return open_report(dataset, phases.run_record(), "#map-mass .heatmaplayer image", scheme, width)

    return opener


def drawn(page: Any, key: str) -> np.ndarray:
    """The values in a map's cells; NaN where the page has none."""
    cells = page.evaluate(f"document.getElementById('map-{key}').data[0].z")
    return np.array([[math.nan if cell is None else cell for cell in row] for row in cells])


def marks(page: Any, chart: str) -> dict[int, tuple[float, str]]:
    """Where the mark of each rule stands in a chart of differences, and its shape, by row."""
    traces = page.evaluate(
        f"document.getElementById('{chart}').data.filter(t => t.hoverinfo === 'none')"
        ".map(t => ({x: t.x, y: t.y, symbol: t.marker.symbol}))"
    )
    return {
        row: (x, symbol) for one in traces for x, row, symbol in zip(one["x"], one["y"], one["symbol"], strict=True)
    }


def bars(page: Any, chart: str) -> dict[int, tuple[float, float]]:
    """The ends of each rule's interval in a chart of differences, by row."""
    traces = page.evaluate(
        f"document.getElementById('{chart}').data.filter(t => t.error_x)"
        ".map(t => [t.y[0], t.x[0] - t.error_x.arrayminus[0], t.x[0] + t.error_x.array[0]])"
    )
    return {row: (low, high) for row, low, high in traces}


def column(page: Any, table: str, name: str) -> list[str]:
    heads = page.locator(f"#{table} thead th").all_inner_texts()
    found: list[str] = page.locator(f"#{table} tbody td:nth-child({heads.index(name) + 1})").all_inner_texts()
    return found


def number(text: str) -> float:
    found = re.match(r"[+−]?[\d.]+", text)
    return float(found[0].replace("−", "-")) if found else math.nan


def names(dataset: xarray.Dataset) -> list[str]:
    found: list[str] = dataset["variant"].to_numpy().tolist()
    return found


def saved(page: Any, button: str, path: Path) -> list[dict[str, str]]:
    with page.expect_download() as download:
        page.locator(button).click()
    download.value.save_as(path)
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_answer_stands_first_and_charts_show_the_dataset(open_page: Opener) -> None:
    dataset = rescale_dataset()
    page = open_page(dataset)
    paragraphs = dataset.attrs["verdict"].split("\n")
    assert page.locator("#verdict p").all_inner_texts() == [paragraphs[-1], *paragraphs[:-1]]
    assert paragraphs[-1].startswith("Recommended: calibrated")
    np.testing.assert_allclose(drawn(page, "multiplier"), dataset["multiplier"].sel(variant="calibrated"), rtol=1e-4)
    beyond, within = dataset.sel(bucket="beyond"), dataset.sel(bucket="within")
    for chart, one, name, far in (
        ("beyond", beyond, "difference", "raw"),
        ("within", within, "difference_raw", "ssmax"),
        ("needle-differences", dataset, "needle_difference", "raw"),
    ):
        shown, ends = marks(page, chart), bars(page, chart)
        assert sorted(shown) == list(range(dataset.sizes["variant"]))
        for row, variant in enumerate(names(dataset)):
            estimate, low, high = (float(one[f"{name}{end}"].sel(variant=variant)) for end in ("", "_low", "_high"))
            if variant == far:
                assert shown[row][1] == "triangle-right-open"
                assert shown[row][0] < estimate
            else:
                # five significant digits are kept
                assert shown[row] == (pytest.approx(estimate, rel=1e-4), "circle")
                assert ends[row] == pytest.approx((low, high), rel=1e-3, abs=1e-6)
    assert "★ <b>calibrated</b>" in page.evaluate("document.getElementById('beyond').layout.yaxis.ticktext")
    lines = page.evaluate(
        "document.getElementById('along').data.filter(t => t.hoverinfo === 'none').map(t => [t.name, t.y])"
    )
    assert len(lines) == dataset.sizes["variant"]
    for variant, values in lines:
        np.testing.assert_allclose(values, dataset["difference"].sel(variant=variant)[:4], rtol=1e-4, atol=1e-9)
    assert "raw at 128–192, 192–256 (up to" in page.locator("#along-off").inner_text()
    grid = page.evaluate("document.getElementById('needles').data.map(t => t.z)")
    np.testing.assert_allclose(np.hstack(grid), dataset["needle_nll"], rtol=1e-4)
    texts = np.hstack(page.evaluate("document.getElementById('needles').data.map(t => t.text)"))
    np.testing.assert_array_equal(np.char.startswith(texts.astype(str), "●"), dataset["needle_found"])
    counts = page.evaluate("document.getElementById('needles').layout.annotations.map(a => a.text)")
    found = dataset["needle_found"].to_numpy()
    assert f"{found[0].sum()}/13 ({found[0, :5].sum()}/5 + {found[0, 5:].sum()}/8)" in counts
    losses = page.evaluate("document.getElementById('course').data.flatMap(t => t.x)")
    np.testing.assert_allclose(losses, dataset["tried_loss"], rtol=1e-4)
    # nothing sticks out sideways
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_choosing_a_rule_changes_tiles_maps_and_tables(open_page: Opener) -> None:
    dataset = rescale_dataset()
    page = open_page(dataset)
    for variant in ("critical", "raw"):
        page.select_option("#variant", label=variant)
        one = dataset.sel(variant=variant)
        np.testing.assert_allclose(drawn(page, "multiplier"), one["multiplier"], rtol=1e-4)
        np.testing.assert_allclose(drawn(page, "mass"), one["needle_mass"].mean("needle"), rtol=1e-4)
        tile = page.locator("[data-tile='beyond, against none'] .value").inner_text()
        assert number(tile) == pytest.approx(float(one["difference"].sel(bucket="beyond")), abs=6e-4)
        assert (
            page.locator("[data-tile='needles found'] .value").inner_text() == f"{int(one['needle_found'].sum())} of 13"
        )
        assert column(page, "heads", "layer.head")[0] == "3.1"
        share = 100 * float(one["needle_mass"].mean("needle")[3, 1])
        assert number(column(page, "heads", "on needles")[0]) == pytest.approx(share, abs=0.06)
        assert str(one["words"].item()) in page.locator("#variant-words").inner_text()
    assert "it is what others are compared with" in page.locator("[data-tile='within, against raw']").inner_text()
    np.testing.assert_allclose(drawn(page, "slope"), dataset["slope"], rtol=1e-4)
    for index in (0, 1):
        page.locator(f"[data-round='{index}']").click()
        np.testing.assert_allclose(drawn(page, "direction"), dataset["direction"][index], rtol=1e-4)
    phase = dataset["audit_phase"].to_numpy().astype(float)
    np.testing.assert_array_equal(drawn(page, "phase"), np.where(phase < 0, np.nan, phase))
    # a mark in a chart of differences chooses as well
    page.locator("#within").scroll_into_view_if_needed()
    page.evaluate("document.getElementById('within').emit('plotly_click', {points: [{customdata: 5}]})")
    assert page.locator("#variant").input_value() == "5"
    page.locator("[data-against=critical_multiplier]").click()
    assert page.evaluate("document.getElementById('retrieval').layout.xaxis.type") == "log"
    shown = page.evaluate("document.getElementById('retrieval').data.flatMap(t => t.x)")
    assert len(shown) == int(np.isfinite(dataset["audit_critical_multiplier"]).sum())
    assert "1 head without one of the two" in page.locator("#retrieval").text_content()


def test_hover_reads_a_head_and_a_rule(open_page: Opener) -> None:
    dataset = rescale_dataset()
    page = open_page(dataset)
    page.locator("#map-slope").scroll_into_view_if_needed()
    box = page.locator("#map-slope .heatmaplayer image").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 2.5 / 3, box["y"] + box["height"] * 4.5 / 6, steps=3)
    page.wait_for_selector("#card:not([hidden])")
    card = page.locator("#card").inner_text()
    assert "layer 4 · head 2" in card
    assert f"{float(dataset['slope'][4, 2]):.3f}".replace("-", "−") in card
    assert page.locator(".ring").count() == len(MAPS)
    page.mouse.move(2, 2)
    page.wait_for_selector("#card", state="hidden")
    page.locator("#beyond").scroll_into_view_if_needed()
    point = page.locator("#beyond .scatterlayer .trace:nth-last-child(2) .point").nth(4).bounding_box()
    page.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2, steps=3)
    page.wait_for_selector("#card:not([hidden])")
    assert "beyond, against none" in page.locator("#card").inner_text()


def test_tables_sort_and_save_everything(open_page: Opener, tmp_path: Path) -> None:
    dataset = rescale_dataset()
    page = open_page(dataset)
    assert page.locator("#table tbody tr").count() == dataset.sizes["variant"]
    for sign in (1, -1):
        page.locator("#table th button", has_text="mean loss").click()
        losses = [float(text) for text in column(page, "table", "mean loss")]
        assert losses == sorted(losses, reverse=sign < 0)
    page.select_option("#table-bucket", label="within the trained length")
    want = np.sort(dataset["bucket_nll"].sel(bucket="within").to_numpy())[::-1]
    np.testing.assert_allclose([float(text) for text in column(page, "table", "mean loss")], want, atol=6e-5)
    page.select_option("#heads-shown", label="all heads")
    assert page.locator("#heads tbody tr").count() == 18
    assert column(page, "heads", "κ").count("n/a") == 1
    rows = saved(page, "#save-table", tmp_path / "variants.csv")
    assert len(rows) == dataset.sizes["variant"] * dataset.sizes["bucket"]
    for row in rows:
        one = dataset.sel(variant=row["variant"], bucket=row["bucket"])
        assert int(row["bucket_ends"]) == int(one["bucket_ends"])
        for name in ("bucket_nll", "difference_low", "difference_raw_se"):
            assert float(row[name]) == pytest.approx(float(one[name]), rel=1e-4)
    heads = saved(page, "#save-heads", tmp_path / "heads.csv")
    assert len(heads) == 18
    for row in heads:
        at = {"layer": int(row["layer"]), "head": int(row["head"])}
        assert float(row["slope"]) == pytest.approx(float(dataset["slope"].sel(at)), rel=1e-4)
        assert (row["kappa"] == "") == bool(np.isnan(dataset["audit_kappa"].sel(at)))


def test_what_was_not_done_says_why_on_a_phone(open_page: Opener) -> None:
    page = open_page(rescale_dataset(**BARE), width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    reasons = {part: page.locator(f"[data-absent={part}]").inner_text() for part in ("slope", "audit", "tried")}
    assert "--rule calibrate" in reasons["slope"]
    assert "--audit RUN" in reasons["audit"]
    assert "as published" in reasons["tried"]
    for key in ("slope", "direction", "phase"):
        assert page.locator(f"#map-{key}").count() == 0
    assert "neither an audit nor a calibration" in page.locator("#retrieval-missing").inner_text()
    assert page.locator("#retrieval").is_hidden()
    assert page.locator("#course").count() == 0
    assert page.locator("#table tbody tr").count() == 3


def test_no_intervals_and_layers_without_attention_are_not_zeros(open_page: Opener) -> None:
    dataset = rescale_dataset()
    # a run keeps where such heads began as their slope, although nothing moves or heeds it
    for name in ("needle_mass", "derivative", "direction"):
        dataset[name][{"layer": slice(None, None, 2)}] = np.nan
    for name in ("difference", "difference_raw", "bucket_nll"):
        for end in ("_low", "_high", "_se"):
            dataset[f"{name}{end}"] = dataset[f"{name}{end}"] * np.nan
    dataset["needle_nll"][3, 2] = np.nan
    page = open_page(dataset)
    assert "No intervals" in page.locator("[data-absent=intervals]").inner_text()
    assert page.locator("[data-tile='beyond, against none'] .detail").inner_text() == "no interval"
    assert {symbol for _, symbol in marks(page, "beyond").values()} == {"circle", "circle-open", "triangle-right-open"}
    for key in ("slope", "direction", "mass"):
        assert np.isnan(drawn(page, key)[::2]).all()
        assert np.isfinite(drawn(page, key)[1::2]).all()
        assert len(page.evaluate(f"document.getElementById('map-{key}').data[1].x")) == 9
    assert column(page, "heads", "on needles").count("n/a") == 9
    assert page.evaluate("document.getElementById('needles').data[0].z[3][2]") is None
    assert "[" not in "".join(column(page, "table", "against raw"))
    rescale_figure(dataset)


def test_themes_positions_bands_and_print(open_page: Opener) -> None:
    page = open_page(rescale_dataset(), "dark", width=700)
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    read = "document.getElementById('beyond').layout.plot_bgcolor"
    dark = page.evaluate(read)
    page.locator("#theme").click()
    assert page.evaluate(read) != dark
    bands = "document.getElementById('along').data.filter(t => t.fill === 'toself').length"
    assert page.evaluate(bands) == 1
    page.locator("[data-bands=all]").click()
    assert page.evaluate(bands) == rescale_dataset().sizes["variant"] - 1  # none is the zero line
    page.locator("[data-positions=log]").click()
    assert page.evaluate("document.getElementById('along').layout.xaxis.type") == "log"
    page.evaluate("addEventListener('beforeprint', () => { window.printed = document.documentElement.dataset.theme; })")
    page.pdf(format="A4")
    assert page.evaluate("window.printed") == "light"


def test_nothing_from_outside_runs(open_page: Opener, tmp_path: Path) -> None:
    dataset = rescale_dataset()
    renamed = np.array([HOSTILE if name == "critical" else name for name in names(dataset)], dtype=object)
    buckets = np.array([HOSTILE, *dataset["bucket"].to_numpy()[1:]], dtype=object)
    dataset = dataset.assign_coords(variant=renamed, bucket=buckets, words=("variant", [HOSTILE] * len(renamed)))
    dataset["tried_name"][:] = HOSTILE
    dataset["needle_company"] = ("needle", [HOSTILE] * 13)
    dataset = dataset.assign_attrs(
        dict.fromkeys(("model", "model_note", "verdict", "recommended", "begun"), HOSTILE), texts=[HOSTILE]
    )
    page = open_page(dataset)
    assert page.locator("#verdict p").all_inner_texts() == [HOSTILE]
    assert HOSTILE in page.locator("h1").inner_text()
    assert page.locator("#variant-words").inner_text().startswith(HOSTILE)
    assert HOSTILE in "".join(column(page, "table", "rule"))
    # the chart's own text shows the tags instead of following them
    assert page.locator("#needles .annotation").first.text_content() == HOSTILE
    assert page.locator("main a, main img").count() == 0
    assert page.locator("script").count() == 3
    assert "<script>alert" not in svg_element(rescale_figure(dataset), "rescale")
