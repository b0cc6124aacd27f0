"""The sheet and the page of a mean-field experiment, the page opened in a browser as a reader would."""

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
from scipy import stats

from attnlim.core.checks import InputError
from attnlim.core.intervals import jackknife
from attnlim.core.runs import RunFolder, open_run
from attnlim.report import draw, write_report
from attnlim.report.figures import svg_element
from attnlim.report.meanfield_errors import FIT, OWN_ERROR
from attnlim.report.meanfield_panels import scaled_log
from attnlim.report.meanfield_reading import checked, errors, fit_of, rates, reference
from attnlim.report.meanfield_sheet import drawn_steps, meanfield_figure

Opener = Callable[..., Any]
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> $x_{"
# one L and one H, one of each, all that varies
CASES: dict[str, dict[str, Any]] = {
    "usual": {},
    "one network": {"n_layers": (8,), "n_heads": (2,), "step": (0,), "fitted": False, "n_inits": 2},
    "one H": {"n_heads": (2,), "step": (1,), "max_product": 40},
    "one L": {"n_layers": (8,), "n_heads": (1, 2, 4, 8, 16), "step": (0, 4)},
    "everything": {
        "n_heads": (1, 2, 4, 8, 16, 32), "step": (0, 1, 2, 4, 8, 16), "n_tokens": (8, 16, 64), "width": (2, 8),
        "seed": (0, 1), "worst": True, "max_product": 600,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def made() -> SimpleNamespace:
    """The synthetic experiments."""
    return SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("synthetic_meanfield.py"))))


@pytest.fixture
def open_page(open_report: Opener, phases: ModuleType) -> Opener:
    """Open the report of an experiment."""

    def opener(dataset: xarray.Dataset, scheme: str = "light", width: int = 1280) -> Any:
        return open_report(dataset, phases.run_record(), "#chart .main-svg", scheme, width)

    return opener


def marks(page: Any) -> list[dict[str, Any]]:
    """The traces of the chart that are measured: one a number of heads."""
    found: list[dict[str, Any]] = page.evaluate(
        "document.getElementById('chart').data.filter(t => t.hoverinfo === 'none')"
        ".map(t => ({x: t.x, y: t.y, name: t.name, high: t.error_y.array, low: t.error_y.arrayminus}))"
    )
    return found


def column(page: Any, name: str) -> list[str]:
    heads = page.locator("#cells thead th").all_inner_texts()
    found: list[str] = page.locator(f"#cells tbody td:nth-child({heads.index(name) + 1})").all_inner_texts()
    return found


def test_errors_are_root_mean_squares_with_their_jackknife(made: SimpleNamespace) -> None:
    values = checked(made.meanfield_dataset(n_inits=16))["sup_tokens"]
    found = errors(values)
    one = values[0, 0, 0, 1, 1, 2, 0].to_numpy()
    at = found.isel(seed=0, n_tokens=0, width=0, n_layers=1, n_heads=1, step=2, inputs=0)
    slow = jackknife(lambda squares: 0.5 * math.log(squares.mean()), one**2)
    assert float(at["estimate"]) == pytest.approx(math.sqrt((one**2).mean()))
    # the delta method and the delete-one jackknife differ by 1/m of the spread
    assert float(at["standard_error"] / at["estimate"]) == pytest.approx(slow.standard_error, rel=0.05)
    half = stats.t.ppf(0.975, 15) * float(at["standard_error"] / at["estimate"])
    assert float(np.log(at["high"] / at["estimate"])) == pytest.approx(half)
    assert float(np.log(at["estimate"] / at["low"])) == pytest.approx(half)
    # 0 and what was not measured stay what they are, and have no interval
    for value in (0.0, math.nan):
        nothing = errors(0 * values + value)
        np.testing.assert_array_equal(nothing["estimate"], np.full(nothing["estimate"].shape, value))
        assert np.isnan(nothing["low"]).all()
        assert np.isnan(nothing["high"]).all()


def test_intervals_hold_the_rate_that_the_data_came_from(made: SimpleNamespace) -> None:
    dataset = made.meanfield_dataset(n_layers=(2, 4, 8, 16, 32), n_heads=(1, 2, 4, 8), n_inits=16)
    found = errors(dataset["sup_tokens"]).squeeze()
    fit = fit_of(dataset.squeeze().isel(step=0, inputs=0))
    assert fit is not None
    # noise exp(0.1 z) raises the root mean square by exp(0.1²)
    want = fit.at(dataset["n_layers"].to_numpy()[:, None], dataset["n_heads"].to_numpy()) * math.exp(0.01)
    steps = 1 + dataset["step"].to_numpy() / 8
    inside = (found["low"].to_numpy() < want[:, :, None, None] * steps[:, None]) & (
        found["high"].to_numpy() > want[:, :, None, None] * steps[:, None]
    )
    # 120 intervals at 95 %: 4 standard deviations below 114 is 104
    assert inside.sum() >= 104


def test_fits_rates_and_the_reference_are_read_or_absent(made: SimpleNamespace) -> None:
    dataset = checked(made.meanfield_dataset())
    one = dataset.isel(seed=0, n_tokens=0, width=0, step=1, inputs=0)
    fit = fit_of(one)
    assert fit is not None
    assert fit.q == pytest.approx((0.5, 0.47, 0.53))
    np.testing.assert_allclose(fit.at(16, 4), 9 / 8 * math.hypot(0.4 / 16, 2 / 8))
    # a power that was not fitted counts as 0
    assert fit._replace(q=fit.q._replace(estimate=math.nan), c1=fit.c1._replace(estimate=math.nan)).at(
        16, 4
    ) == pytest.approx(9 / 8 * 2 / 4)
    assert [rate.name for rate in rates(one) if rate.best] == ["L^-1 + (LH)^-1/2"]
    np.testing.assert_allclose(reference(dataset, "sup_tokens")[0, 0, 0, :, 0], [0, 0.02, 0.08])
    assert np.isnan(reference(dataset, "sup_adjoint")).all()
    nothing = made.meanfield_dataset(fitted=False).isel(seed=0, n_tokens=0, width=0, step=1, inputs=0)
    assert fit_of(nothing) is None
    assert rates(nothing) == []


def test_scaled_errors_use_networks_that_all_sizes_have(made: SimpleNamespace) -> None:
    dataset = made.meanfield_dataset(n_tokens=(8, 16, 64), n_inits=16)
    values = dataset["sup_tokens"].isel(seed=0, width=0, step=0, inputs=0, drop=True)
    values[1, 0, 0] = math.nan
    mean, half = scaled_log(values, "n_tokens")
    networks = values.stack(cell=("n_layers", "n_heads")).dropna("cell").transpose("n_tokens", "init", "cell")
    assert networks.sizes["cell"] == 5
    weight = np.log(networks["n_layers"] * networks["n_heads"]).to_numpy() / 2
    for index in range(3):
        slow = jackknife(
            lambda units: float(np.mean(0.5 * np.log(units.mean(axis=0)) + weight)), networks[index].to_numpy() ** 2
        )
        assert mean[index] == pytest.approx(slow.estimate)
        assert half[index] == pytest.approx((slow.high - slow.low) / 2)


def test_each_step_has_its_marks_fit_guides_and_band(made: SimpleNamespace) -> None:
    dataset = made.meanfield_dataset(worst=True)
    figure = meanfield_figure(dataset)
    panels = [axes for axes in figure.axes if axes.get_title(loc="left").startswith("After")]
    assert [axes.get_title(loc="left") for axes in panels] == ["After 0 steps", "After 1 step", "After 4 steps"]
    found = errors(dataset["sup_tokens"]).squeeze()
    for index, axes in enumerate(panels):
        for column_index, heads in enumerate(dataset["n_heads"].to_numpy()):
            bars = axes.containers[column_index]
            want = found.isel(step=index, inputs=0, n_heads=column_index)
            np.testing.assert_allclose(bars[0].get_xdata(), dataset["n_layers"] * heads)
            np.testing.assert_allclose(bars[0].get_ydata(), want["estimate"])
            ends = np.array([segment[:, 1] for segment in bars[2][0].get_segments()])
            np.testing.assert_allclose(ends, np.stack([want["low"], want["high"]], axis=1))
        lines = {line.get_label(): line for line in axes.lines}
        fit = fit_of(dataset.squeeze().isel(step=index, inputs=0))
        assert fit is not None
        np.testing.assert_allclose(lines[FIT].get_ydata(), fit.at(lines[FIT].get_xdata() / 4, 4))
        np.testing.assert_allclose(
            lines["worst inputs found"].get_ydata(), found["estimate"].isel(step=index, inputs=2, n_heads=0)
        )
        for words, power in (("slope 1/2", 1 / 2), ("slope 1/3", 1 / 3)):
            x, y = lines[words].get_data()
            assert math.log(y[0] / y[1]) / math.log(x[1] / x[0]) == pytest.approx(power)
        assert axes.texts[0].get_text() == "$p$ = 0.50 [0.47, 0.53],  $q$ = 0.50 [0.47, 0.53],  $c_1 > 0$"
        own = float(dataset["reference_error"].isel(distance=0, step=index, inputs=0).item())
        band = next(patch for patch in axes.patches if patch.get_label() == OWN_ERROR)
        assert band.get_y() + band.get_height() == pytest.approx(max(own, axes.get_ylim()[0]))
        assert (OWN_ERROR in axes.texts[-1].get_text()) == (own > 0)
        # one scale for all
        assert axes.get_ylim() == panels[0].get_ylim()


def test_panels_beside_the_rates_show_the_dataset(made: SimpleNamespace) -> None:
    dataset = made.meanfield_dataset(n_tokens=(8, 64), width=(2, 8))
    figure = meanfield_figure(dataset)
    axes = {one.get_title(loc="left"): one for one in figure.axes}
    first = dataset.isel(seed=0, n_tokens=0, width=0)
    published = axes["Published rates, fitted"]
    shown = [line for line in published.lines if line.get_marker() == "o" and len(line.get_xdata()) == 1]
    np.testing.assert_allclose([line.get_xdata()[0] for line in shown], [0.25, 0.28, 0.14, 0.05] * 3)
    filled = [line.get_markerfacecolor() != "white" for line in shown]
    assert filled == [False, False, False, True] * 3
    losses = {line.get_label(): line.get_ydata() for line in axes["Training loss"].lines}
    np.testing.assert_allclose(losses["limit, with its own error"], first["limit_loss"])
    np.testing.assert_allclose(losses["L = 64, H = 4"], first["loss"][-1, -1].mean("init"))
    heads = [line for line in axes["Heads and their shadow heads"].lines if len(line.get_xdata())]
    # the coupling and W_2 after 1 and 4 steps; after none heads are where their shadows are
    assert len(heads) == 4
    np.testing.assert_allclose(
        np.sort(heads[1].get_ydata()), np.sort(errors(first["coupling"])["estimate"][:, :, 2].to_numpy().ravel())
    )
    for name, title in (("n_tokens", "Tokens"), ("width", "Width")):
        panel = axes[f"{title}: the error scaled by √(LH)"]
        assert [list(bars[0].get_xdata()) for bars in panel.containers] == [list(dataset[name].to_numpy())] * 3


@pytest.mark.parametrize("case", CASES)
def test_texts_stay_on_the_sheet_and_apart(made: SimpleNamespace, case: str) -> None:
    figure = meanfield_figure(made.meanfield_dataset(**CASES[case]))
    renderer = figure.canvas.get_renderer()
    boxes = [axes.get_tightbbox(renderer).padded(-1) for axes in figure.axes]
    boxes += [figure.legends[0].get_window_extent(renderer)]
    boxes += [text.get_window_extent(renderer) for text in figure.texts]
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]


def test_what_has_nothing_to_show_is_left_out(made: SimpleNamespace) -> None:
    figure = meanfield_figure(made.meanfield_dataset(**CASES["one network"]))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["After 0 steps"]
    assert figure.axes[0].texts[0].get_text() == "too few networks for a fit"
    many = made.meanfield_dataset(step=tuple(range(9)))
    assert drawn_steps(many) == [0, 2, 3, 5, 6, 8]


def test_every_glyph_inside_a_page_is_of_a_font_that_browsers_replace(made: SimpleNamespace) -> None:
    # mathtext takes some glyphs from TeX's fonts, in whose encoding a prime is a 0
    svg = svg_element(meanfield_figure(made.meanfield_dataset(n_tokens=(8, 16))), "sheet")
    fonts = re.findall(r"font(?:-family)?: ([^;\"]*)", svg)
    assert fonts
    assert not [font for font in fonts if re.search(r"\bcm\w*\d", font)]


def test_a_run_has_its_files_and_a_stored_one_draws_the_same(made: SimpleNamespace, tmp_path: Path) -> None:
    dataset = made.meanfield_dataset()
    folder = RunFolder.begin(tmp_path / "run", "attnlim meanfield", {}, {}, {})
    folder.store(dataset)
    record = folder.close_record()
    before = write_report(dataset, record, tmp_path / "before.html").read_bytes()
    stored, again = open_run(folder.finish())
    assert draw(stored, again, tmp_path / "drawn").read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "drawn" / "figures").iterdir()) == [
        "meanfield.png",
        "meanfield.svg",
    ]


def test_incomplete_datasets_are_refused_in_one_line(made: SimpleNamespace, tmp_path: Path) -> None:
    dataset = made.meanfield_dataset()
    for wrong, missing in (
        (dataset.drop_vars("coupling"), "lacks, or has with other dimensions, coupling;"),
        (dataset.isel(init=0), "sup_tokens, sup_continuous"),
        (dataset.drop_vars("inputs"), "the coordinate inputs"),
        (dataset.isel(width=0), "fit_p"),
        (dataset.drop_attrs().assign_attrs(kind="attnlim.meanfield"), "the attribute n_particles"),
        (dataset.assign_attrs(schema=99), "schema 1, got schema 99"),
    ):
        with pytest.raises(InputError, match=missing) as caught:
            write_report(wrong, {}, tmp_path / "report.html")
        assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_every_choice_changes_chart_tiles_and_table(open_page: Opener, made: SimpleNamespace) -> None:
    dataset = made.meanfield_dataset(n_tokens=(8, 16), width=(4, 8), seed=(0, 1), worst=True)
    page = open_page(dataset)
    assert page.locator("#verdict p").first.inner_text() == made.VERDICT.split("\n")[0]
    for name, place in (
        ("sup_tokens", {"step": 2, "inputs": 0, "n": 0, "d": 0, "seed": 0}),
        ("sup_tokens", {"step": 1, "inputs": 2, "n": 1, "d": 0, "seed": 1}),
        ("end_tokens", {"step": 0, "inputs": 1, "n": 0, "d": 1, "seed": 1}),
    ):
        page.select_option("#distance", name)
        for key, index in place.items():
            page.locator(f"[data-{key}='{index}']").click()
            assert page.locator(f"[data-{key}][aria-pressed=true]").count() == 1
        at = {"step": place["step"], "inputs": place["inputs"], "n_tokens": place["n"], "width": place["d"]}
        want = errors(dataset[name]).isel(at | {"seed": place["seed"]})
        shown = marks(page)
        assert [trace["name"] for trace in shown] == ["H = 1", "H = 4"]
        for index, trace in enumerate(shown):
            one = want.isel(n_heads=index)
            assert trace["x"] == [int(n) * dataset["n_heads"].to_numpy()[index] for n in dataset["n_layers"]]
            # five significant digits are kept
            np.testing.assert_allclose(trace["y"], one["estimate"], rtol=1e-4)
            np.testing.assert_allclose(trace["high"], one["high"] - one["estimate"], rtol=2e-3)
            np.testing.assert_allclose(trace["low"], one["estimate"] - one["low"], rtol=2e-3)
        table = [float(text.split(" ")[0]) for text in column(page, "E")]
        np.testing.assert_allclose(table, want["estimate"].to_numpy().ravel(), rtol=6e-3)
        fits = page.evaluate("document.getElementById('chart').data.filter(t => (t.name || '').startsWith('fit'))")
        assert len(fits) == (2 if name == "sup_tokens" else 0)
        own = reference(dataset, name).isel(at | {"seed": place["seed"]}).item()
        tile = page.locator("[data-tile='limit’s own error'] .value").inner_text()
        assert tile == ("n/a" if math.isnan(own) else f"{100 * own / float(want['estimate'].min()):.0f} %")
    # nothing sticks out sideways
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    page.locator("[data-inputs='2']").click()
    assert marks(page) == []
    assert "not measured" in page.locator("#chart").text_content()


def test_tiles_read_the_fit_and_the_rates(open_page: Opener, made: SimpleNamespace) -> None:
    page = open_page(made.meanfield_dataset())
    assert page.locator("[data-tile='p, power of 1/L'] .value").inner_text() == "0.50"
    assert page.locator("[data-tile='p, power of 1/L'] .detail").inner_text() == (
        "[0.47, 0.53]: 1/2 inside, the proven 1/3 outside"
    )
    assert page.locator("[data-tile='closest published rate'] .value").inner_text() == "L−1 + (LH)−1/2"
    assert "beyond chance" in page.locator("[data-tile='closest published rate']").inner_text()
    assert page.locator("[data-tile='Adam’s bound'] .value").inner_text() == "0.999"


def test_hover_reads_a_network(open_page: Opener, made: SimpleNamespace) -> None:
    dataset = made.meanfield_dataset()
    page = open_page(dataset)
    page.locator("#chart").scroll_into_view_if_needed()
    point = page.locator("#chart .scatterlayer .point").first.bounding_box()
    page.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2, steps=3)
    page.wait_for_selector("#card:not([hidden])")
    card = page.locator("#card").inner_text()
    want = errors(dataset["sup_tokens"]).isel(seed=0, n_tokens=0, width=0, n_layers=0, n_heads=0, step=2, inputs=0)
    assert "L = 4 · H = 1" in card
    assert f"{float(want['estimate']):#.3g} ± " in card
    assert f"{2 * float(want['estimate']):#.3g}" in card
    page.mouse.move(2, 2)
    page.wait_for_selector("#card", state="hidden")


def test_the_table_sorts_and_saves_every_network(open_page: Opener, made: SimpleNamespace, tmp_path: Path) -> None:
    dataset = made.meanfield_dataset(max_product=100)
    page = open_page(dataset)
    assert page.locator("#cells-count").inner_text() == "5 of 30 rows"
    page.select_option("#cells-shown", label="all")
    heads = page.locator("#cells thead th").all_inner_texts()
    for sign in (1, -1):
        page.locator("#cells th button").nth(heads.index("E")).click()
        values = [float(text.split(" ")[0]) for text in column(page, "E")]
        assert len(values) == 30
        assert values == sorted(values, reverse=sign < 0)
    page.select_option("#distance", "sup_adjoint")
    assert set(column(page, "limit’s own error")) == {"n/a"}
    with page.expect_download() as download:
        page.locator("#save-cells").click()
    download.value.save_as(tmp_path / "networks.csv")
    with open(tmp_path / "networks.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 30
    for row in rows:
        at = {name: int(row[name]) for name in ("seed", "n_tokens", "width", "step", "n_layers", "n_heads")}
        want = errors(dataset["rms_tokens"].sel(at | {"inputs": row["inputs"]}))
        assert float(row["rms_tokens"]) == pytest.approx(float(want["estimate"]), rel=1e-4)
        assert float(row["rms_tokens_se"]) == pytest.approx(float(want["standard_error"]), rel=1e-4)
        assert row["sup_adjoint_reference_error"] == ""


def test_one_network_without_a_fit(open_page: Opener, made: SimpleNamespace) -> None:
    page = open_page(made.meanfield_dataset(**CASES["one network"]), width=480)
    assert page.locator("[data-tile='q, power of 1/H'] .value").inner_text() == "n/a"
    assert page.locator("[data-tile='closest published rate'] .value").inner_text() == "n/a"
    assert len(marks(page)) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 480


def test_themes_keyboard_and_print(open_page: Opener, made: SimpleNamespace) -> None:
    page = open_page(made.meanfield_dataset(), "dark", width=700)
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    read = "document.getElementById('chart').layout.plot_bgcolor"
    dark = page.evaluate(read)
    page.locator("#theme").click()
    assert page.evaluate(read) != dark
    page.locator("#distance").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator("[data-step='0']").get_attribute("aria-pressed") == "true"
    assert "after 0 steps" in page.locator("#chart").get_attribute("aria-label")
    page.evaluate("addEventListener('beforeprint', () => { window.printed = document.documentElement.dataset.theme; })")
    page.pdf(format="A4")
    assert page.evaluate("window.printed") == "light"


def test_nothing_from_outside_runs(open_page: Opener, made: SimpleNamespace) -> None:
    attrs = dict.fromkeys(("verdict", "inputs", "optimiser", "beta"), HOSTILE)
    dataset = made.meanfield_dataset(**attrs).assign_coords(rate=np.array([HOSTILE] * 4, dtype=object))
    dataset["sup_tokens"].attrs["long_name"] = HOSTILE
    page = open_page(dataset)
    assert page.locator("#verdict p").all_inner_texts() == [HOSTILE]
    assert HOSTILE in page.locator("#about").inner_text()
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 3
