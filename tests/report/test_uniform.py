"""The reproduction of the depth paper: its sheets and its table of claims."""

from __future__ import annotations

import csv
import math
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray

from attnlim.core.checks import InputError
from attnlim.core.runs import RunFolder, open_run
from attnlim.report import write_report
from attnlim.report.claim_rows import VERDICTS, claims
from attnlim.report.error_marks import own_band, with_bars
from attnlim.report.figures import blank, svg_element
from attnlim.report.kinds import kind_of
from attnlim.report.meanfield_reading import errors
from attnlim.report.uniform_proof_sheet import proof_figure
from attnlim.report.uniform_reading import checked, of_grid, own_error
from attnlim.report.uniform_sheet import uniform_figure

Opener = Callable[..., Any]
HOSTILE = "</script><script>alert(1)</script><svg onload=alert(2)> $x_{"


@pytest.fixture(scope="module")
def made() -> SimpleNamespace:
    """The synthetic reproduction."""
    return SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("synthetic_uniform.py"))))


@pytest.fixture(scope="module")
def whole(made: SimpleNamespace) -> xarray.Dataset:
    """The reproduction, made once."""
    dataset: xarray.Dataset = made.uniform_dataset()
    return dataset


@pytest.fixture(scope="module")
def sheets(whole: xarray.Dataset) -> dict[str, Any]:
    """Both sheets, drawn once."""
    return {"uniform": uniform_figure(whole), "proof": proof_figure(whole)}


@pytest.fixture
def open_page(open_report: Opener, phases: ModuleType) -> Opener:
    """Open the report of a reproduction."""

    def opener(dataset: xarray.Dataset, scheme: str = "light", width: int = 1200) -> Any:
        return open_report(dataset, phases.run_record(), "#sheet-proof svg", scheme, width)

    return opener


def titled(figure: Any, title: str) -> Any:
    """The panel of that title."""
    return next(axes for axes in figure.axes if axes.get_title(loc="left") == title)


def lines(axes: Any) -> dict[str, Any]:
    return {str(line.get_label()): line for line in axes.lines}


def test_grids_are_told_apart_by_their_whole_name(whole: xarray.Dataset) -> None:
    dataset = checked(whole)
    one, longer = of_grid(dataset, "gamma-1"), of_grid(dataset, "gamma-1.5")
    for grid in (one, longer):
        assert {"sup_tokens", "n_tokens", "reference_error"} <= set(grid.variables)
        assert not [name for name in grid.variables if "." in str(name)]
        assert "seed" not in grid.dims
    # one law of noise: the same numbers under both names
    xarray.testing.assert_equal(one["sup_tokens"], longer["sup_tokens"])
    assert of_grid(dataset, "training")["law_limit"].dims == ("step", "law_node", "matrix")
    own = own_error(of_grid(dataset, "rates").squeeze(("n_tokens", "width")))
    np.testing.assert_allclose(own, [0.0, 0.02, 0.08])


def test_incomplete_reproductions_are_refused(whole: xarray.Dataset, tmp_path: Path) -> None:
    for broken, missing in (
        (whole.drop_vars("split_error"), "split_error"),
        (whole.drop_vars("claim_reason"), "claim_reason"),
        (whole.drop_vars("gamma-1.5.rms_tokens"), "gamma-1.5.rms_tokens"),
        (whole.drop_vars("training.law_limit"), "training.law_limit"),
        (whole.assign({"rates.fit_p": whole["rates.fit_p"].isel({"rates.step": 0})}), "rates.fit_p"),
        (whole.assign_attrs(grids=["rates"]), "a grid inputs-…, a grid gamma-…"),
        (whole.drop_attrs(deep=False).assign_attrs(kind=whole.attrs["kind"]), "the attribute size"),
    ):
        with pytest.raises(InputError, match=missing) as caught:
            write_report(broken, {}, tmp_path / "report.html")
        assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_rate_is_drawn_with_its_fit_and_the_own_error_of_the_limit(
    whole: xarray.Dataset, sheets: dict[str, Any]
) -> None:
    rates = of_grid(whole, "rates").squeeze(("n_tokens", "width"))
    for step, title in ((0, "Error over layers, before training"), (4, "Error over layers, after 4 steps")):
        axes = titled(sheets["uniform"], title)
        found = errors(rates["sup_tokens"].sel(step=step, inputs="fresh"))
        assert len(axes.containers) == rates.sizes["n_heads"]
        for bars, n_heads in zip(axes.containers, rates["n_heads"], strict=True):
            want = found.sel(n_heads=n_heads).dropna("n_layers", subset=["estimate"])
            assert bars.get_label() == f"H = {int(n_heads)}"
            np.testing.assert_allclose(bars[0].get_xdata(), want["n_layers"])
            np.testing.assert_allclose(bars[0].get_ydata(), want["estimate"])
            ends = np.array(bars[2][0].get_segments())[:, :, 1]
            np.testing.assert_allclose(ends, np.stack([want["low"], want["high"]], axis=-1))
        assert "$p$ = 0.50 [0.47, 0.53]" in axes.texts[0].get_text()
        band = axes.patches[0].get_extents().transformed(axes.transData.inverted())
        assert band.y0 == pytest.approx(axes.get_ylim()[0])
        assert band.y1 == pytest.approx(max(0.02 * step, axes.get_ylim()[0]))


def test_equal_products_and_the_surface_hold_the_same_numbers(whole: xarray.Dataset, sheets: dict[str, Any]) -> None:
    rates = of_grid(whole, "rates").squeeze(("n_tokens", "width")).sel(inputs="fresh")
    scaled = errors(rates["sup_tokens"])["estimate"] * np.sqrt(rates["n_layers"] * rates["n_heads"])
    drawn = [bars[0].get_ydata() for bars in titled(sheets["uniform"], "Equal products").containers]
    want = [scaled.sel(n_heads=n, step=step).dropna("n_layers") for n in rates["n_heads"] for step in (4, 0)]
    for found, expected in zip(drawn, want, strict=True):
        np.testing.assert_allclose(found, expected)
    # 64·4 is beyond the largest product: no number in its cell
    texts = [text.get_text() for text in titled(sheets["uniform"], "Surface after 4 steps").texts[1:]]
    assert texts == [
        f"{value:.1f}" for value in scaled.sel(step=4).transpose("n_heads", "n_layers").to_numpy().ravel() if value > 0
    ]
    assert len(texts) == 5


def test_losses_and_parameters_lie_beside_those_of_the_limit(whole: xarray.Dataset, sheets: dict[str, Any]) -> None:
    training = of_grid(whole, "training").squeeze(("n_tokens", "width"))
    loss = titled(sheets["uniform"], "Training onto the limit")
    np.testing.assert_allclose(lines(loss)["limit"].get_ydata(), training["limit_loss"])
    mean = training["loss"].mean("init").sel(n_layers=16, n_heads=4)
    np.testing.assert_allclose(lines(loss)["L = 16, H = 4"].get_ydata(), mean)
    value = titled(sheets["uniform"], "Value matrices")
    for index in range(training.sizes["step"]):
        network, limit = value.lines[2 * index : 2 * index + 2]
        np.testing.assert_array_equal(network.get_ydata(), training["law_network"][index, :, 2])
        np.testing.assert_array_equal(limit.get_ydata(), training["law_limit"][index, :, 2])


def test_slopes_are_told_as_they_are(sheets: dict[str, Any]) -> None:
    split = [text.get_text() for text in titled(sheets["proof"], "Split coupling").get_legend().get_texts()]
    assert split == ["before training: −1.50", "after 3 steps: −1.00", "with a drift: −1.00"]
    layouts = [
        text.get_text() for text in titled(sheets["proof"], "One head a layer, over depth").get_legend().get_texts()
    ]
    assert layouts == ["iid: −0.50", "shared: +0.00", "smooth: +0.00"]
    factors = [text.get_text() for text in titled(sheets["proof"], "Factor of the residual").get_legend().get_texts()]
    assert factors == ["$L^{-1/2}$ diffusive: +0.00", "$1/L$ mean-field: −0.50"]


def test_the_parts_and_blocks_of_the_largest_network(whole: xarray.Dataset, sheets: dict[str, Any]) -> None:
    dataset = whole.isel(stack_layers=-1, stack_heads=-1)
    for place, title in ((0, "Parts of the error, before training"), (1, "Parts of the error, after 4 steps")):
        axes = titled(sheets["proof"], title)
        for line, part in zip(axes.lines, dataset["part"], strict=True):
            np.testing.assert_array_equal(line.get_ydata(), dataset["stack_part"].isel(stack_step=place).sel(part=part))
    blocks = titled(sheets["proof"], "Blocks of depth, Lemma 36")
    chance, remainder, best, measured = blocks.lines
    # both terms are L^-1/3 H^-1/2 at m = L^(2/3)
    at = float(best.get_xdata()[0])
    assert best.get_ydata()[0] == pytest.approx(32 ** (-1 / 3) / 2)
    for line in (chance, remainder):
        assert np.exp(np.interp(math.log(at), np.log(line.get_xdata()), np.log(line.get_ydata()))) == pytest.approx(
            best.get_ydata()[0]
        )
    want = errors(dataset["stack_martingale"].isel(stack_step=-1).rename(stack_init="init"))["estimate"]
    assert measured.get_ydata()[0] == pytest.approx(float(want))


def test_published_numbers_lie_on_the_published_lines(made: SimpleNamespace, sheets: dict[str, Any]) -> None:
    axes = titled(sheets["proof"], "Perceptrons of arXiv 2509.10167")
    # sizes beyond the largest product are left out
    assert [len(bars[0].get_xdata()) for bars in axes.containers] == [3, 3, 2]
    curves = [line for line in axes.lines if len(line.get_xdata()) == 33]
    for bars, curve in zip(axes.containers, curves, strict=True):
        drawn = np.interp(np.log(bars[0].get_xdata()), np.log(curve.get_xdata()), curve.get_ydata())
        # noise of 5 % on 12 repetitions, and the line between 33 points
        np.testing.assert_allclose(bars[0].get_ydata(), drawn, rtol=0.05)


def test_estimates_without_an_interval_have_no_bar_and_unknown_ones_no_mark() -> None:
    axes = blank(3, 3, "a", "b").add_subplot()
    found = xarray.Dataset({name: ("x", values) for name, values in (
        ("estimate", [1.0, math.nan, 2.0]), ("low", [0.5, math.nan, math.nan]), ("high", [1.5, math.nan, math.nan]),
    )})  # fmt: skip
    with_bars(axes, [1, 2, 4], found, "o", "black")
    (bars,) = axes.containers
    np.testing.assert_array_equal(bars[0].get_xdata(), [1, 4])
    np.testing.assert_array_equal(np.array(bars[2][0].get_segments())[:, :, 1], [[0.5, 1.5], [2.0, 2.0]])
    axes.set_ylim(1, 10)
    own_band(axes, [1, 4], [0.2, 3.0])
    path = axes.collections[-1].get_paths()[0].vertices
    # an error below the axes takes no room
    assert path[:, 1].min() == 1
    assert path[:, 1].max() == 3


@pytest.mark.parametrize("name", ["uniform", "proof"])
def test_every_glyph_inside_a_page_is_of_a_font_that_browsers_replace(sheets: dict[str, Any], name: str) -> None:
    # mathtext takes some glyphs, as a root, from TeX's fonts, in whose encoding they are something else
    fonts = re.findall(r"font(?:-family)?: ([^;\"]*)", svg_element(sheets[name], name))
    assert fonts
    assert not [font for font in fonts if re.search(r"\bcm\w*\d", font)]


@pytest.mark.parametrize("name", ["uniform", "proof"])
def test_panels_are_full_and_texts_stay_on_the_sheet_and_apart(sheets: dict[str, Any], name: str) -> None:
    figure = sheets[name]
    renderer = figure.canvas.get_renderer()
    boxes = [axes.get_tightbbox(renderer).padded(-1) for axes in figure.axes]
    boxes += [text.get_window_extent(renderer) for text in figure.texts]
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]
    for axes in figure.axes:
        assert axes.has_data()
        about = axes.texts[0].get_window_extent(renderer)
        assert not axes.title.get_window_extent(renderer).overlaps(about)
        shown = axes.get_legend()
        if shown is not None:
            box, inside = shown.get_window_extent(renderer), axes.get_window_extent(renderer).padded(1)
            assert inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1


def test_a_stored_reproduction_draws_the_same(whole: xarray.Dataset, sheets: dict[str, Any], tmp_path: Path) -> None:
    folder = RunFolder.begin(tmp_path / "run", "attnlim reproduce uniform", {}, {}, {})
    folder.store(whole)
    folder.close_record()
    stored, _ = open_run(folder.finish())
    kind = kind_of(stored)
    assert kind.formats == ("svg", "png")
    drawn = kind.sheets(kind.checked(stored))
    assert list(drawn) == ["uniform", "proof"]
    assert claims(stored)[0] == claims(whole)[0]
    assert svg_element(drawn["proof"](), "proof") == svg_element(sheets["proof"], "proof")


def test_names_from_outside_do_not_become_markup_or_mathematics(made: SimpleNamespace) -> None:
    dataset = made.uniform_dataset(size=HOSTILE, dtype=HOSTILE).assign_coords(
        layout=np.array([HOSTILE] * 3, dtype=object), regime=np.array(["diffusive", HOSTILE], dtype=object)
    )
    svg = svg_element(proof_figure(dataset), "proof")
    assert svg.count("&lt;/script&gt;") >= 5
    assert "<script" not in svg
    assert svg.count("<svg") == 1


def test_claims_their_verdicts_and_the_sheets(
    open_page: Opener, made: SimpleNamespace, whole: xarray.Dataset, tmp_path: Path
) -> None:
    page = open_page(whole, "dark")
    assert page.locator("#verdict p").first.inner_text() == made.VERDICT.split("\n")[0]
    assert page.locator(".kicker").inner_text().lower() == "attnlim reproduce uniform"
    rows = page.locator("#claims tbody tr")
    assert rows.count() == len(made.CLAIMS)
    for index, claim in enumerate(made.CLAIMS):
        shown = rows.nth(index).locator("td").all_inner_texts()
        assert [shown[i] for i in (0, 1, 5, 6)] == [claim[i] for i in (0, 1, 6, 7)]
        for text, value in ((shown[2], claim[2]), (shown[3], claim[3])):
            assert text == "n/a" if math.isnan(value) else float(text) == pytest.approx(value, rel=1e-3)
    for verdict in VERDICTS:
        assert page.locator(f"[data-tile={verdict}] .value").inner_text() == "1"
    for name in ("uniform", "proof"):
        assert page.locator(f"#sheet-{name} svg").bounding_box()["width"] > 900
    ids = page.evaluate(
        "[...document.querySelectorAll('svg [id]')].map(e => e.id).filter(id => /[0-9a-f]{10}/.test(id))"
    )
    assert ids
    assert len(ids) == len(set(ids))
    assert page.evaluate("document.documentElement.scrollWidth") <= 1200
    # no charts, no plotly.js: the data and one script
    assert page.locator("script").count() == 2
    with page.expect_download() as download:
        page.locator("#save-claims").click()
    download.value.save_as(tmp_path / "claims.csv")
    with open(tmp_path / "claims.csv", newline="", encoding="utf-8") as file:
        saved = list(csv.DictReader(file))
    assert [row["verdict"] for row in saved] == [claim[6] for claim in made.CLAIMS]
    page.set_viewport_size({"width": 480, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 480
