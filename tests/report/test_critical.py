"""The reproduction of the first paper: its sheets and its table of claims."""

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

from attnlim.core.checks import InputError
from attnlim.core.runs import RunFolder, open_run
from attnlim.report import critical_figure, finite_figure, write_report
from attnlim.report.claim_rows import VERDICTS, claims
from attnlim.report.critical_reading import checked, columns
from attnlim.report.critical_sheet import distance_words
from attnlim.report.figures import svg_element

Opener = Callable[..., Any]
HOSTILE = "</script><script>alert(1)</script><svg onload=alert(2)> $x_{"


@pytest.fixture
def open_page(open_report: Opener, reproductions: ModuleType, phases: ModuleType) -> Opener:
    """Open the report of a reproduction."""

    def opener(dataset: xarray.Dataset, scheme: str = "light", width: int = 1200) -> Any:
        return open_report(dataset, phases.run_record(), "#sheet-finite svg", scheme, width)

    return opener


@pytest.fixture(scope="module")
def written(reproductions: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of a reproduction, as text."""
    path = tmp_path_factory.mktemp("written") / "a.html"
    return write_report(reproductions.critical_dataset(), {}, path).read_text(encoding="utf-8")


def test_columns_are_means_and_crossings_of_the_draws(reproductions: ModuleType) -> None:
    dataset = reproductions.critical_dataset()
    found = columns(checked(dataset))
    assert [column.title for column in found] == list(dataset["panel"].to_numpy())
    simplex, widest, _, narrowest = found
    np.testing.assert_allclose(simplex.contraction, dataset["grid_contraction"][0].mean("draw"))
    inside = np.isfinite(simplex.curves["forward"])
    # n = 1024 and γ in steps of 0.2: p = 1/2 lies ln(n/(n-1))/ln n = 1e-4 from γ_c, interpolation adds a few percent
    # where the rise is two steps wide
    assert inside.sum() >= 15
    np.testing.assert_allclose(simplex.curves["forward"][inside], simplex.curves["gamma_c"][inside], rtol=0.04)
    np.testing.assert_allclose(
        widest.excess["backward"], widest.curves["backward"] / widest.curves["gamma_c"] - 1, atol=0.02
    )
    assert np.isnan(narrowest.curves["gamma_half"]).all()


def test_stored_crossings_are_those_of_the_sheet(reproductions: ModuleType) -> None:
    dataset = reproductions.critical_dataset()
    gamma_c = dataset["grid_gamma_c"]
    backward = (1.3 * gamma_c).where(dataset["draw"] == 0)
    # rows in any order, since the sheet sorts its grid
    stored = dataset.assign(grid_forward=1.1 * gamma_c, grid_backward=backward).isel(rho=slice(None, None, -1))
    for linear, column in zip(columns(dataset), columns(checked(stored)), strict=True):
        np.testing.assert_allclose(column.excess["forward"], 0.1)
        np.testing.assert_allclose(column.curves["forward"], 1.1 * column.curves["gamma_c"])
        # one draw that does not cross over leaves no mean
        assert np.isnan(column.curves["backward"]).all()
        np.testing.assert_array_equal(column.contraction, linear.contraction)
    with pytest.raises(InputError, match="grid_backward"):
        checked(stored.drop_vars("grid_backward"))


def test_the_page_says_how_crossings_were_found(written: str, reproductions: ModuleType, tmp_path: Path) -> None:
    dataset = reproductions.critical_dataset()
    dataset = dataset.assign(grid_forward=dataset["grid_gamma_c"], grid_backward=dataset["grid_gamma_c"])
    stored = write_report(dataset, {}, tmp_path / "page.html").read_text(encoding="utf-8")
    for page, is_stored in ((written, False), (stored, True)):
        assert ("by a cubic spline through the points of the grid" in page) == is_stored
        assert ("linear between the points of the grid" in page) == (not is_stored)


@pytest.mark.parametrize("draw_figure", [critical_figure, finite_figure])
def test_every_glyph_inside_a_page_is_of_a_font_that_browsers_replace(
    reproductions: ModuleType, draw_figure: Callable[..., Any]
) -> None:
    # mathtext takes some glyphs from TeX's fonts, in whose encoding a prime is a 0
    svg = svg_element(draw_figure(reproductions.critical_dataset()), "sheet")
    fonts = re.findall(r"font(?:-family)?: ([^;\"]*)", svg)
    assert fonts
    assert not [font for font in fonts if re.search(r"\bcm\w*\d", font)]


def test_distances_are_said_below_each_column(reproductions: ModuleType) -> None:
    column = columns(checked(reproductions.critical_dataset()))[1]
    excess = {"forward": np.array([0.03, -0.01, 0.2, math.nan]), "backward": np.full(4, math.nan)}
    said = distance_words(column._replace(excess=excess)).split("\n")
    assert said[0] == r"$\lambda$: +3.0 % (−1.0 … +20), 3 of 4 ρ"
    assert said[1] == r"$\eta_A$: no crossing inside the grid"


def test_figures_1_and_2_show_both_crossings_in_both_rows(reproductions: ModuleType) -> None:
    dataset = reproductions.critical_dataset()
    figure = critical_figure(dataset)
    want = columns(checked(dataset))
    maps = [axes for axes in figure.axes if axes.lines]
    assert len(maps) == 8
    for index, axes in enumerate(maps):
        column = want[index % 4]
        values = column.contraction if index < 4 else column.eta_attention
        np.testing.assert_allclose(axes.collections[0].get_array(), values.T)
        drawn = {line.get_label(): line.get_ydata() for line in axes.lines}
        assert drawn.keys() == {"gamma_c", "forward", "backward"} | (set() if index % 4 == 3 else {"gamma_half"})
        for key, line in drawn.items():
            np.testing.assert_array_equal(line, column.curves[key])
    assert [axes.get_title(loc="left") for axes in maps[:4]] == ["simplex", "d = 512", "d = 32", "d = 2"]
    for axes, column in zip(maps[4:], want, strict=True):
        assert distance_words(column) in [text.get_text() for text in axes.texts]
    assert len(figure.legends[0].get_texts()) == 4


def test_the_finite_sheet_shows_its_curves(reproductions: ModuleType) -> None:
    dataset = reproductions.critical_dataset()
    collapse, partition, *laws = finite_figure(dataset).axes
    sizes = dataset.sizes["log10_n"]
    for axes, name, limit in (
        (collapse, "collapse_self_weight", 1 / (1 + np.exp(-dataset["window_t"]))),
        (partition, "partition_ratio", dataset["partition_limit"]),
    ):
        for index in range(sizes):
            np.testing.assert_allclose(axes.lines[index].get_ydata(), dataset[name][index])
        np.testing.assert_allclose(axes.lines[sizes].get_ydata(), limit)
    assert len(collapse.containers) == dataset.sizes["simulated_n_tokens"]
    texts = [text.get_text() for text in collapse.get_legend().get_texts()]
    assert "n = $10^{300}$" in texts
    assert "drawn tokens, n = $10^{6}$" in texts
    for axes, name in zip(laws, ("law_rho", "law_eta", "law_entropy", "law_gamma"), strict=True):
        scale = math.log(10) if name == "law_entropy" else 1
        for index in range(4):
            np.testing.assert_allclose(axes.lines[index].get_ydata() * scale, dataset[name][index])
    assert laws[-1].lines[-1].get_ydata()[0] == 2


@pytest.mark.parametrize("draw_figure", [critical_figure, finite_figure])
def test_texts_stay_on_the_sheet_and_apart(reproductions: ModuleType, draw_figure: Callable[..., Any]) -> None:
    figure = draw_figure(reproductions.critical_dataset())
    renderer = figure.canvas.get_renderer()
    boxes = [axes.get_tightbbox(renderer).padded(-1) for axes in figure.axes]
    boxes += [figure.legends[0].get_window_extent(renderer)]
    boxes += [text.get_window_extent(renderer) for text in figure.texts]
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]


def test_a_stored_reproduction_draws_the_same(
    reproductions: ModuleType, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    dataset = reproductions.critical_dataset()
    folder = RunFolder.begin(tmp_path / "run", "attnlim reproduce critical", {}, {}, {})
    folder.store(dataset)
    record = folder.close_record()
    before = write_report(dataset, record, tmp_path / "before.html").read_bytes()
    stored, again = open_run(folder.finish())
    assert not [str(warning.message) for warning in recwarn if "Zarr" in str(warning.message)]
    assert claims(checked(stored))[0] == claims(dataset)[0]
    assert write_report(stored, again, tmp_path / "after.html").read_bytes() == before


def test_claims_their_verdicts_and_the_sheets(open_page: Opener, reproductions: ModuleType) -> None:
    page = open_page(reproductions.critical_dataset(), "dark")
    assert page.locator("#verdict p").first.inner_text() == reproductions.VERDICT.split("\n")[0]
    rows = page.locator("#claims tbody tr")
    assert rows.count() == len(reproductions.CLAIMS)
    for index, claim in enumerate(reproductions.CLAIMS):
        shown = rows.nth(index).locator("td").all_inner_texts()
        assert [shown[i] for i in (0, 1, 5, 6)] == [claim[i] for i in (0, 1, 6, 7)]
        for text, value in ((shown[2], claim[2]), (shown[3], claim[3])):
            assert text == "n/a" if math.isnan(value) else float(text) == pytest.approx(value, rel=1e-3)
        assert (shown[4] == "n/a") == math.isnan(claim[4])
        assert rows.nth(index).locator(".badge").get_attribute("class") == f"badge {claim[6]}"
    counts = {verdict: sum(claim[6] == verdict for claim in reproductions.CLAIMS) for verdict in VERDICTS}
    for verdict, count in counts.items():
        assert page.locator(f"[data-tile={verdict}] .value").inner_text() == str(count)
    colours = page.evaluate(
        "[...new Set([...document.querySelectorAll('#claims .badge')].map(b => getComputedStyle(b).backgroundColor))]"
    )
    assert len(colours) == 4
    for name in ("critical", "finite"):
        assert page.locator(f"#sheet-{name} svg").bounding_box()["width"] > 900
    assert page.locator("#sheet-critical svg image").count() >= 8
    # identifiers of one sheet must not catch those of the other
    ids = page.evaluate(
        "[...document.querySelectorAll('svg [id]')].map(e => e.id).filter(id => /[0-9a-f]{10}/.test(id))"
    )
    assert ids
    assert len(ids) == len(set(ids))
    assert page.evaluate("document.documentElement.scrollWidth") <= 1200
    # no charts, no plotly.js: the data and one script
    assert page.locator("script").count() == 2


def test_claims_can_be_saved_and_fit_a_telephone(open_page: Opener, reproductions: ModuleType, tmp_path: Path) -> None:
    claim = ('with a "quote", and a comma', "§2", 1.0, math.nan, math.nan, math.nan, "confirmed", "two\nlines")
    page = open_page(reproductions.critical_dataset(claims=(claim,)), width=480)
    assert page.evaluate("document.documentElement.scrollWidth") <= 480
    with page.expect_download() as download:
        page.locator("#save-claims").click()
    download.value.save_as(tmp_path / "claims.csv")
    with open(tmp_path / "claims.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [rows[0][name] for name in ("text", "predicted", "measured", "reason")] == [claim[0], "1", "", claim[7]]


def test_nothing_from_outside_runs(open_page: Opener, reproductions: ModuleType) -> None:
    claim = (HOSTILE, HOSTILE, 1.0, 1.0, 0.9, 1.1, HOSTILE, HOSTILE)
    dataset = reproductions.critical_dataset(claims=(claim,), tokens=HOSTILE, verdict=HOSTILE, dtype=HOSTILE)
    dataset = dataset.assign_coords(
        panel=np.array([HOSTILE] * 4, dtype=object), law=np.array([HOSTILE] * 4, dtype=object)
    )
    page = open_page(dataset)
    shown = page.locator("#claims tbody td").all_inner_texts()
    assert [shown[i] for i in (0, 1, 5, 6)] == [HOSTILE] * 4
    # a verdict without a colour of its own
    assert page.locator("#claims .badge").get_attribute("class") == "badge"
    assert page.locator("script").count() == 2
    assert page.locator("svg").count() == 2


def test_the_same_input_gives_the_same_bytes(written: str, reproductions: ModuleType, tmp_path: Path) -> None:
    again = write_report(reproductions.critical_dataset(), {}, tmp_path / "b.html").read_text(encoding="utf-8")
    assert again == written
    assert not re.search(r"<script[^>]* src=|https?://(?!www\.w3\.org/)", written)
