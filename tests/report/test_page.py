"""The HTML report of an audit, opened in a browser as a reader would."""

from __future__ import annotations

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
from attnlim.report import write_report

MAPS = {
    "phase": "phase",
    "kappa": "kappa",
    "entropy": "entropy",
    "sink": "sink_mass",
    "logit": "largest_logit",
}
Opener = Callable[..., Any]


@pytest.fixture
def open_page(open_report: Opener, synthetic: ModuleType) -> Opener:
    """Open the report of an audit."""

    def opener(dataset: xarray.Dataset, scheme: str = "light", width: int = 1200) -> Any:
        return open_report(dataset, synthetic.run_record(), "#map-logit .heatmaplayer image", scheme, width)

    return opener


def drawn(page: Any, key: str) -> np.ndarray:
    """The values in a map's cells; NaN where the page has none."""
    cells = page.evaluate(f"document.getElementById('map-{key}').data[0].z")
    return np.array([[math.nan if cell is None else cell for cell in row] for row in cells])


def expected(dataset: xarray.Dataset, name: str, context: int = -1) -> np.ndarray:
    values = dataset[name].isel(context=context).to_numpy().astype(float)
    return np.where(values < 0, math.nan, values) if name.startswith("phase") else values


def column(page: Any, index: int) -> list[str]:
    return page.locator(f"#table tbody tr td:nth-child({index + 1})").all_inner_texts()


def number(text: str) -> float:
    found = re.match(r"−?[\d,.]+", text)
    return float(found[0].replace("−", "-").replace(",", "")) if found else math.nan


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_map_shows_the_dataset(open_page: Opener, synthetic: ModuleType, scheme: str) -> None:
    dataset = synthetic.audit_dataset()
    page = open_page(dataset, scheme)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    for key, name in MAPS.items():
        box = page.locator(f"#map-{key} .heatmaplayer image").bounding_box()
        assert box["width"] > 100
        assert box["height"] > 100
        # five significant digits are kept
        np.testing.assert_allclose(drawn(page, key), expected(dataset, name), rtol=1e-4)
    letters = page.locator("#map-phase .heatmap-label").all_text_contents()
    codes = dataset["phase"].isel(context=-1).to_numpy().ravel()
    assert sorted(filter(None, letters)) == sorted("DSFU"[code] for code in codes if code >= 0)
    assert page.locator("#curves .scatterlayer .lines path").count() > 4
    assert page.locator("#rho .scatterlayer .lines path").count() >= 6
    # nothing sticks out sideways
    assert page.evaluate("document.documentElement.scrollWidth") <= 1200


def test_the_verdict_stands_first_and_whole(open_page: Opener, synthetic: ModuleType) -> None:
    page = open_page(synthetic.audit_dataset())
    shown = page.locator("#verdict p").all_inner_texts()
    assert shown == [line.replace("`", "") for line in synthetic.VERDICT.split("\n")]
    assert page.locator("#verdict code").count() == 2
    assert "4-bit weights, dequantised" in page.locator("header").inner_text()


def test_hover_reads_the_cell_under_the_mouse(open_page: Opener, synthetic: ModuleType) -> None:
    dataset = synthetic.audit_dataset()
    page = open_page(dataset)
    layer, head = 4, 2
    page.locator("#map-entropy").scroll_into_view_if_needed()
    box = page.locator("#map-entropy .heatmaplayer image").bounding_box()
    page.mouse.move(
        box["x"] + box["width"] * (head + 0.5) / dataset.sizes["head"],
        box["y"] + box["height"] * (layer + 0.5) / dataset.sizes["layer"],
        steps=3,
    )
    page.wait_for_selector("#card:not([hidden])")
    card = page.locator("#card").inner_text()
    one = dataset.isel(context=-1, layer=layer, head=head)
    assert f"layer {layer} · head {head}" in card
    assert f"{float(one['entropy']):.2f} ± {float(one['entropy_se']):.2f}" in card
    assert f"{100 * float(one['sink_mass']):.1f} %" in card
    assert (
        f"{float(one['kappa']):.2f} [{float(one['kappa_low']):.2f}, {float(one['kappa_high']):.2f}]".replace("-", "−")
        in card
    )
    # the same head is marked in all the maps
    assert page.locator(".ring").count() == len(MAPS)
    page.mouse.move(2, 2)
    page.wait_for_selector("#card", state="hidden")


def test_hover_over_a_missing_head_says_so(open_page: Opener, synthetic: ModuleType) -> None:
    page = open_page(synthetic.audit_dataset())
    page.locator("#map-kappa").scroll_into_view_if_needed()
    box = page.locator("#map-kappa .heatmaplayer image").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 1.5 / 4, box["y"] + box["height"] * 2.5 / 6, steps=3)
    page.wait_for_selector("#card:not([hidden])")
    card = page.locator("#card").inner_text()
    assert "layer 2 · head 1" in card
    assert "n/a" in card
    assert "not measured" in card


def test_hover_over_a_curve_and_over_depth(open_page: Opener, synthetic: ModuleType) -> None:
    page = open_page(synthetic.audit_dataset())
    for chart, wanted in (("curves", "e^H, tokens"), ("rho", "γ_c")):
        page.locator(f"#{chart}").scroll_into_view_if_needed()
        point = page.locator(f"#{chart} .scatterlayer .point").nth(1).bounding_box()
        page.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2, steps=3)
        page.wait_for_selector("#card:not([hidden])")
        assert wanted in page.locator("#card").inner_text()
        page.mouse.move(2, 2)
        page.wait_for_selector("#card", state="hidden")


def test_context_and_first_token_change_maps_tiles_and_table(open_page: Opener, synthetic: ModuleType) -> None:
    dataset = synthetic.audit_dataset()
    page = open_page(dataset)
    for context, n_tokens in enumerate(dataset["context"].to_numpy()):
        for variant, suffix in (("with", ""), ("without", "_no_sink")):
            page.get_by_role("button", name=str(n_tokens), exact=True).click()
            page.locator(f"[data-variant={variant}]").click()
            for key, name in MAPS.items():
                stored = name if key == "sink" else name + suffix
                np.testing.assert_allclose(drawn(page, key), expected(dataset, stored, context), rtol=1e-4)
            codes = dataset["phase" + suffix].isel(context=context).to_numpy()
            for code, name in enumerate(("diluted", "sparse", "frozen", "undecided")):
                tile = page.locator(f"[data-tile={name}] .value").inner_text()
                assert int(tile) == int((codes == code).sum())
            median = float(np.nanmedian(dataset["perplexity" + suffix].isel(context=context)))
            assert number(page.locator("[data-tile='tokens attended'] .value").inner_text()) == pytest.approx(
                median, rel=0.01
            )
            entropies = [number(text) for text in column(page, 5)]
            np.testing.assert_allclose(
                entropies, dataset["entropy" + suffix].isel(context=context).to_numpy().ravel(), atol=0.006
            )


def test_table_sorts_by_number_with_missing_last(open_page: Opener, synthetic: ModuleType) -> None:
    page = open_page(synthetic.audit_dataset())
    kappa = page.locator("#table th button", has_text="κ")
    for direction in ("ascending", "descending"):
        kappa.click()
        assert page.locator("#table th[aria-sort]").get_attribute("aria-sort") == direction
        shown = column(page, 3)
        assert len(shown) == 24
        assert shown[-1] == "n/a"
        values = [number(text) for text in shown[:-1]]
        assert min(values) < 0
        assert values == sorted(values, reverse=direction == "descending")
    page.select_option("#table-layer", label="2")
    assert column(page, 0) == ["2"] * 4
    page.select_option("#table-phase", label="n/a")
    assert column(page, 1) == ["1"]
    assert "0" not in column(page, 3)
    page.select_option("#table-layer", label="all")
    page.select_option("#table-phase", label="sparse")
    assert set(column(page, 2)) == {"S sparse"}


def test_curves_can_show_one_layer_and_both_colourings(open_page: Opener, synthetic: ModuleType) -> None:
    dataset = synthetic.audit_dataset()
    page = open_page(dataset)
    page.locator("[data-colour=layer]").click()
    page.select_option("#curve-layer", label="3")
    traces = page.evaluate(
        "document.getElementById('curves').data.filter(t => t.hoverinfo === 'none' && t.x.length)"
        ".map(t => ({x: t.x, y: t.y}))"
    )
    assert len(traces) == 1
    first = traces[0]["y"][:5]
    want = dataset["sample_entropy"].isel(context=-1, layer=3, head=0).mean("window").to_numpy()[::-1]
    np.testing.assert_allclose(first, want, rtol=1e-4)


def test_theme_button_restyles_the_charts(open_page: Opener, synthetic: ModuleType) -> None:
    page = open_page(synthetic.audit_dataset(), "light", width=760)
    read = "document.getElementById('curves').layout.plot_bgcolor"
    light = page.evaluate(read)
    page.locator("#theme").click()
    assert page.evaluate(read) != light
    assert page.evaluate("document.documentElement.scrollWidth") <= 760
    page.set_viewport_size({"width": 1100, "height": 900})
    # the window's width less the page's two margins of 24
    page.wait_for_selector("#curves .main-svg[width='1052']")


def test_printing_is_light_and_gives_the_look_back(open_page: Opener, synthetic: ModuleType) -> None:
    page = open_page(synthetic.audit_dataset(), "dark")
    page.evaluate("addEventListener('beforeprint', () => { window.printed = document.documentElement.dataset.theme; })")
    page.pdf(format="A4")
    assert page.evaluate("window.printed") == "light"
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("document.documentElement.className") == ""


def test_one_context_whose_kappa_cannot_be_fitted(open_page: Opener, synthetic: ModuleType) -> None:
    dataset = synthetic.audit_dataset(contexts=(512,), kappa_source="contexts")
    page = open_page(dataset)
    assert np.isnan(drawn(page, "kappa")).all()
    np.testing.assert_allclose(drawn(page, "entropy"), expected(dataset, "entropy"), rtol=1e-4)
    assert "a fit over contexts needs at least two" in page.locator("#missing").inner_text()
    assert page.locator("[data-tile=diluted] .value").inner_text() == "n/a"
    assert "the only one audited" in page.locator("#controls").inner_text()
    assert set(column(page, 3)) == {"n/a"}
    page.locator("[data-variant=without]").click()
    assert page.locator("#missing").is_visible()


def test_one_window_gives_kappa_without_an_interval(open_page: Opener, synthetic: ModuleType) -> None:
    dataset = synthetic.audit_dataset(n_windows=1)
    for name in ("kappa_low", "kappa_high", "entropy_se", "perplexity_se", "sink_mass_se", "rho_input_se"):
        dataset[name] = dataset[name] * math.nan
    dataset["phase"][:] = -1
    dataset["kappa"].attrs["missing"] = "bounds are NaN with a single window"
    page = open_page(dataset)
    assert "no head has a phase" in page.locator("#missing").inner_text()
    assert "bounds are NaN with a single window" in page.locator("#missing").inner_text()
    assert number(column(page, 3)[0]) == pytest.approx(float(dataset["kappa"][-1, 0, 0]), abs=0.006)
    assert "[" not in "".join(column(page, 3))


def test_nothing_is_missing_where_everything_was_measured(open_page: Opener, synthetic: ModuleType) -> None:
    page = open_page(synthetic.audit_dataset(n_heads=1, contexts=(512,), n_windows=2))
    assert page.locator("#missing").is_hidden()
    assert page.locator("#rho-missing").is_hidden()


def test_absent_cosines_are_said_not_drawn(open_page: Opener, synthetic: ModuleType) -> None:
    dataset = synthetic.audit_dataset()
    for name in ("rho_input", "rho_input_se", "rho_residual", "rho_residual_se", "gamma_c", "gamma_c_se"):
        dataset[name] = dataset[name] * math.nan
    dataset["rho_input"].attrs["missing"] = "hidden states were not captured"
    page = open_page(dataset)
    assert "hidden states were not captured" in page.locator("#rho-missing").inner_text()


def test_layers_with_gaps_and_skipped_ones(open_page: Opener, synthetic: ModuleType) -> None:
    skipped = [{"layer": 1, "name": "model.layers.1.mixer", "what": "state-space mixer"}]
    page = open_page(synthetic.audit_dataset(n_layers=4, layers=(0, 2, 3, 7), skipped=skipped))
    assert "layer 1 · model.layers.1.mixer · state-space mixer" in page.locator(".skipped").inner_text()
    assert column(page, 0) == ["0"] * 4 + ["2"] * 4 + ["3"] * 4 + ["7"] * 4
    ticks = page.locator("#map-entropy .yaxislayer-above text").all_text_contents()
    assert ticks == ["0", "2", "3", "7"]


def test_nothing_from_outside_runs(open_page: Opener, synthetic: ModuleType) -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    dataset = synthetic.audit_dataset(
        model=hostile, verdict=f"{hostile}\n`{hostile}", skipped=[{"layer": 0, "name": hostile, "what": hostile}]
    )
    dataset.attrs["text"] = dataset.attrs["model_note"] = hostile
    dataset["kappa"].attrs["missing"] = hostile
    dataset["kappa"][0, 0, 0], dataset["phase"][0, 0, 0] = math.nan, -1
    page = open_page(dataset)
    page.get_by_role("button", name="128", exact=True).click()
    assert hostile in page.locator("#missing").inner_text()
    assert hostile in page.locator("h1").inner_text()
    assert page.locator("#verdict p").all_inner_texts() == [hostile, f"`{hostile}"]
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 3


def test_a_script_added_to_the_file_stays_dead(tab: tuple[Any, Path], synthetic: ModuleType) -> None:
    """The second line of defence, shown to hold by breaking the first: the policy names our scripts by hash."""
    page, path = tab
    text = write_report(synthetic.audit_dataset(), synthetic.run_record(), path).read_text(encoding="utf-8")
    path.write_text(text.replace("</main>", "</main><script>window.added = 1</script>"), encoding="utf-8")
    page.goto(path.as_uri())
    page.wait_for_selector("#map-logit .heatmaplayer image")
    assert page.evaluate("[...document.scripts].some(script => script.text.includes('window.added'))")
    assert page.evaluate("window.added") is None


def test_same_input_same_bytes_and_a_bounded_file(synthetic: ModuleType, tmp_path: Path) -> None:
    big = {"contexts": (512, 2048, 8192), "n_layers": 30, "n_heads": 9}
    first, second = (
        write_report(synthetic.audit_dataset(**big), synthetic.run_record(), tmp_path / name)
        for name in ("a.html", "b.html")
    )
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size < 7e6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.html"]


def test_provenance_is_printed(open_page: Opener, synthetic: ModuleType) -> None:
    shown = open_page(synthetic.audit_dataset()).locator(".provenance").inner_text()
    for piece in ("environment.packages.torch", "2.13.0", "git_commit", "rows_per_window", "seeds.rows"):
        assert piece in shown


def test_other_datasets_are_refused_and_leave_nothing(synthetic: ModuleType, tmp_path: Path) -> None:
    dataset = synthetic.audit_dataset()
    with pytest.raises(InputError, match=r"schema 1, got .* schema 2"):
        write_report(dataset.assign_attrs(schema=2), synthetic.run_record(), tmp_path / "report.html")
    with pytest.raises(InputError, match="lacks kappa"):
        write_report(dataset.drop_vars("kappa"), synthetic.run_record(), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
