"""The HTML report of a phase diagram, opened in a browser as a reader would."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import xarray

from attnlim.report import write_report
from attnlim.report.phase_reading import checked, summary

Opener = Callable[..., Any]


@pytest.fixture
def open_page(open_report: Opener, phases: ModuleType) -> Opener:
    """Open the report of a phase diagram."""

    def opener(dataset: xarray.Dataset, scheme: str = "light", width: int = 1200) -> Any:
        return open_report(dataset, phases.run_record(), "#slice .scatterlayer .lines path", scheme, width)

    return opener


def small(phases: ModuleType, **changes: Any) -> xarray.Dataset:
    sizes = {"n_tokens": (64, 256), "width": (2, 32), "rho": (0.1, 0.3, 0.5, 0.7), "gamma": (0.0, 1.0, 2.0, 3.0, 4.0)}
    dataset: xarray.Dataset = phases.phase_dataset(**sizes | changes)
    return dataset


def plane(page: Any) -> np.ndarray:
    """The (gamma, rho) numbers of the map; NaN where the page has none."""
    cells = page.evaluate("document.getElementById('plane').data[0].z")
    return np.array([[math.nan if cell is None else cell for cell in row] for row in cells], dtype=float)


def traces(page: Any, chart: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate(
        f"document.getElementById('{chart}').data.map(t => ({{x: t.x, y: t.y, name: t.name, mode: t.mode}}))"
    )
    return found


def cells(page: Any, table: str, column: int) -> list[str]:
    found: list[str] = page.locator(f"#{table} tbody tr td:nth-child({column + 1})").all_inner_texts()
    return found


def test_every_choice_changes_map_and_curve(open_page: Opener, phases: ModuleType) -> None:
    dataset = small(phases, alpha=(0.0, 0.5), causal=(False, True))
    # the closed forms of the synthetic data know no mask
    dataset["contraction"] = dataset["contraction"] * xarray.DataArray([1.0, 0.9], dims="causal")
    means = summary(checked(dataset))
    page = open_page(dataset)
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    for name in ("eta_attention", "perplexity"):
        page.select_option("#quantity", name)
        for n, d, alpha, mask in ((0, 1, 0, 0), (1, 0, 1, 1), (1, 1, 0, 1)):
            for key, place in (("n", n), ("d", d), ("alpha", alpha), ("mask", mask)):
                page.locator(f"[data-{key}='{place}']").click()
                assert page.locator(f"[data-{key}='{place}']").get_attribute("aria-pressed") == "true"
                assert page.locator(f"[data-{key}][aria-pressed=true]").count() == 1
            want = means[name].isel(n_tokens=n, width=d, alpha=alpha, causal=mask)
            shown = plane(page)
            if name == "perplexity":
                shown = 10**shown
            # five significant digits are kept
            np.testing.assert_allclose(shown, want.transpose("gamma", "rho"), rtol=1e-4)
            measured = next(trace for trace in traces(page, "slice") if trace["mode"] == "lines+markers")
            np.testing.assert_allclose(measured["y"], want.sel(rho=0.5), rtol=1e-4)
    # nothing sticks out sideways
    assert page.evaluate("document.documentElement.scrollWidth") <= 1200


def test_lines_lie_where_theory_and_data_put_them(open_page: Opener, phases: ModuleType) -> None:
    dataset = small(phases)
    means = summary(checked(dataset)).squeeze().isel(n_tokens=-1, width=-1)
    page = open_page(dataset)

    def shown() -> list[list[float]]:
        return [trace["y"] for trace in traces(page, "plane")[1:]]

    # each line is drawn twice: its dark rim and itself
    for got, key in zip(shown()[::2], ("forward", "backward", "gamma_c", "gamma_half"), strict=True):
        np.testing.assert_allclose(np.array(got, dtype=float), means[key], rtol=1e-4)
    page.get_by_role("button", name="1/(1 − ρ̂)").click()
    assert len(shown()) == 6
    assert page.get_by_role("button", name="1/(1 − ρ̂)").get_attribute("aria-pressed") == "false"
    # the smallest width has no half-weight point: said, not drawn at 0
    page.locator("[data-d='0']").click()
    assert page.get_by_role("button", name="half weight: none here").is_disabled()
    assert page.locator("[data-tile='half weight'] .value").inner_text() == "n/a"
    assert "no real solution" in page.locator("[data-tile='half weight']").inner_text()


def test_tiles_read_the_chosen_cosine(open_page: Opener, phases: ModuleType) -> None:
    dataset = small(phases)
    means = summary(checked(dataset)).squeeze().isel(n_tokens=-1, width=-1)
    page = open_page(dataset)
    for index, rho in enumerate(dataset["rho"].to_numpy()):
        page.select_option("#rho", str(index))
        at = means.sel(rho=rho)
        for name, value in (
            ("threshold γ", at["gamma_c"]),
            ("λ crosses", at["forward"]),
            ("η crosses", at["backward"]),
        ):
            assert page.locator(f"[data-tile='{name}'] .value").inner_text() == f"{float(value):.2f}"
        shapes = page.evaluate("document.getElementById('slice').layout.shapes.map(s => [s.type, s.x0, s.x1])")
        assert shapes[0][0] == "rect"
        np.testing.assert_allclose(shapes[0][1:], [at["window_low"], at["window_high"]], rtol=1e-4)
        np.testing.assert_allclose(shapes[1][1:], [at["gamma_c"]] * 2, rtol=1e-4)
        np.testing.assert_allclose(shapes[2][1:], [at["gamma_half"]] * 2, rtol=1e-4)
        simplex = next(trace for trace in traces(page, "slice") if "closed form" in (trace["name"] or ""))
        np.testing.assert_allclose(simplex["y"], at["contraction_simplex"], rtol=1e-4)


def test_hover_reads_a_cell_and_a_click_chooses_its_cosine(open_page: Opener, phases: ModuleType) -> None:
    dataset = small(phases)
    means = summary(checked(dataset)).squeeze().isel(n_tokens=-1, width=-1)
    page = open_page(dataset)
    # below the controls, which stay at the top of the window
    page.locator("#plane-scale").scroll_into_view_if_needed()
    box = page.locator("#plane .heatmaplayer image").bounding_box()
    # the second ρ from the left, the fourth γ from below
    place = (box["x"] + box["width"] * 1.5 / 4, box["y"] + box["height"] * (1 - 3.5 / 5))
    page.mouse.move(*place, steps=3)
    # on its way the mouse may have met other cells
    page.locator("#card", has_text="ρ = 0.3 · γ = 3").wait_for()
    card = page.locator("#card").inner_text()
    at = means.isel(rho=1, gamma=3)
    assert f"{float(at['contraction']):.3f} ± " in card
    assert f"{float(at['eta']):.3f} ± " in card
    assert f"{float(at['contraction_simplex']):.3f}" in card
    page.mouse.click(*place)
    page.mouse.move(2, 2)
    page.wait_for_selector("#card", state="hidden")
    assert page.locator("#rho").input_value() == "1"


def test_tables_hold_the_numbers_and_sort_with_missing_last(open_page: Opener, phases: ModuleType) -> None:
    dataset = small(phases)
    dataset["contraction"][1, 1, 2, 3] = math.nan
    means = summary(checked(dataset)).squeeze().isel(n_tokens=-1, width=-1)
    page = open_page(dataset)
    assert np.isnan(plane(page)[3, 2])
    assert "Cells without colour have no number" in page.locator("#plane-reading").inner_text()
    for sign in (1, -1):
        page.locator("#points th button").nth(2).click()
        shown = cells(page, "points", 2)
        assert len(shown) == 20
        assert shown[-1] == "n/a"
        values = [float(text.split(" ")[0].replace("−", "-")) for text in shown[:-1]]
        assert values == sorted(values, reverse=sign < 0)
    page.select_option("#points-rho", label="the chosen ρ")
    assert set(cells(page, "points", 0)) == {"0.5"}
    assert page.locator("#points-count").inner_text() == "5 of 20 points"
    assert len(cells(page, "sets", 0)) == 16
    last = [texts[-1] for texts in (cells(page, "sets", 3), cells(page, "sets", 10))]
    assert last[0].startswith(f"{float(means['rho_hat'][-1]):.3f} ± ")
    assert last[1].startswith(f"{float(means['gamma_half'][-1]):.3f} ± ")
    assert cells(page, "sets", 10)[0] == "n/a"


def test_the_errors_of_sampled_rows_stand_beside_every_count(open_page: Opener, phases: ModuleType) -> None:
    """Of one draw. A digit of its error is enough, without a power of ten; where all rows are in there is none."""
    dataset = small(phases, n_tokens=(256,), width=(32,), rho=(0.4,), draws=1)
    dataset["participation_standard_error"] = 0 * dataset["participation"]
    dataset["perplexity"][:] = np.reshape([250.0, 123.0, 12.0, 1.2, 1.1], (5, 1, 1, 1))
    dataset["perplexity_standard_error"][:] = np.reshape([0.0, 17.0, 1.4, 0.06, 2e-4], (5, 1, 1, 1))
    page = open_page(dataset)
    heads = page.locator("#points thead th").all_inner_texts()
    assert cells(page, "points", heads.index("e^H")) == ["250", "123 ± 20", "12.0 ± 1", "1.20 ± 0.06", "1.10 ± 2e−4"]
    assert all("±" in text for text in cells(page, "points", heads.index("H"))[:3])
    assert not any("±" in text for text in cells(page, "points", heads.index("1/ΣA²")))
    page.locator("#slice").scroll_into_view_if_needed()
    point = page.locator("#slice .scatterlayer .point").nth(1).bounding_box()
    page.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2, steps=3)
    page.wait_for_selector("#card:not([hidden])")
    assert "123 ± 20" in page.locator("#card").inner_text()


def test_saving_writes_every_number(open_page: Opener, phases: ModuleType, tmp_path: Path) -> None:
    dataset = small(phases, alpha=(0.0, 0.5))
    dataset["contraction"][0, 0, 0, 0, 0, 0] = math.nan
    means = summary(checked(dataset))
    page = open_page(dataset)
    with page.expect_download() as download:
        page.locator("#save-points").click()
    download.value.save_as(tmp_path / "phase.csv")
    with open(tmp_path / "phase.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 2 * 4 * 5
    assert rows[0]["contraction"] == ""
    for row in rows[1:]:
        at = means.sel({name: float(row[name]) for name in ("n_tokens", "width", "rho", "gamma", "alpha")})
        assert float(row["contraction"]) == pytest.approx(float(at["contraction"].item()), rel=1e-4)
        assert float(row["eta_se"]) == pytest.approx(float(at["eta_se"].item()), rel=1e-4)
    with page.expect_download() as download:
        page.locator("#save-sets").click()
    assert download.value.suggested_filename == "tokens.csv"


def test_a_single_cosine_has_a_curve_and_no_map(open_page: Opener, phases: ModuleType) -> None:
    dataset = small(phases, n_tokens=(64,), width=(32,), rho=(0.4,), draws=1).assign_coords(rho=[math.nan])
    page = open_page(dataset)
    assert page.locator("#plane").count() == 0
    rho_hat = float(dataset["rho_hat"].item())
    assert page.locator("#rho option").all_inner_texts() == [f"ρ̂ = {rho_hat:.3f}"]
    assert "none was asked" in page.locator("[data-tile='mean cosine ρ̂']").inner_text()
    page.select_option("#quantity", "eta")
    names = [trace["name"] for trace in traces(page, "slice")]
    assert any("attention part" in (name or "") for name in names)
    # all of η's parts but the one that α would add
    assert not any("residual part" in (name or "") for name in names)
    page.locator("#slice").scroll_into_view_if_needed()
    point = page.locator("#slice .scatterlayer .point").nth(2).bounding_box()
    page.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2, steps=3)
    page.wait_for_selector("#card:not([hidden])")
    assert "γ = 2" in page.locator("#card").inner_text()


def test_what_was_not_measured_cannot_be_chosen(open_page: Opener, phases: ModuleType) -> None:
    dataset = small(phases)
    for name in ("eta", "eta_attention", "eta_covariance", "eta_residual", "distance"):
        dataset[name] = dataset[name] * math.nan
    dataset["contraction_simplex"] = dataset["contraction_simplex"] * math.nan
    page = open_page(dataset.drop_vars(("entropy", "perplexity", "participation", "eta_simplex")))
    options = page.locator("#quantity option").all_inner_texts()
    assert [option.split(" ")[0] for option in options] == ["contraction", "contracted", "smallest", "largest"]
    assert page.locator("[data-tile='η crosses'] .value").inner_text() == "n/a"
    assert page.get_by_role("button", name="attention part at a quarter: none here").is_disabled()
    assert not any("closed form" in (trace["name"] or "") for trace in traces(page, "slice"))


def test_themes_widths_and_print(open_page: Opener, phases: ModuleType) -> None:
    page = open_page(small(phases), "dark", width=480)
    assert page.evaluate("document.documentElement.scrollWidth") <= 480
    read = "document.getElementById('slice').layout.plot_bgcolor"
    dark = page.evaluate(read)
    page.locator("#theme").click()
    assert page.evaluate(read) != dark
    page.evaluate("addEventListener('beforeprint', () => { window.printed = document.documentElement.dataset.theme; })")
    page.pdf(format="A4")
    assert page.evaluate("window.printed") == "light"


def test_verdict_provenance_and_choices_by_keyboard_alone(open_page: Opener, phases: ModuleType) -> None:
    page = open_page(small(phases))
    shown = page.locator("#verdict p").all_inner_texts()
    assert shown == [line.replace("`", "") for line in phases.VERDICT.split("\n")]
    assert phases.run_record()["command"] in page.locator(".how").inner_text()
    provenance = page.locator(".provenance").inner_text()
    for piece in ("environment.packages.torch", "seeds.tokens", "float32"):
        assert piece in provenance
    page.locator("#quantity").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator("[data-n='0']").get_attribute("aria-pressed") == "true"
    page.locator("#lines .gamma_c").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "false"
    for chart in ("plane", "slice"):
        label = page.locator(f"#{chart}").get_attribute("aria-label")
        assert "contraction" in label
        assert "n = 64" in label


def test_nothing_from_outside_runs(open_page: Opener, phases: ModuleType) -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    dataset = small(phases, tokens=hostile, verdict=f"{hostile}\n`{hostile}").assign_attrs(dtype=hostile, seed=hostile)
    page = open_page(dataset)
    assert hostile in page.locator("h1").inner_text()
    assert page.locator("#verdict p").all_inner_texts() == [hostile, f"`{hostile}"]
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 3


def test_the_same_input_gives_the_same_bytes(phases: ModuleType, tmp_path: Path) -> None:
    first, second = (
        write_report(small(phases), phases.run_record(), tmp_path / name).read_bytes() for name in ("a.html", "b.html")
    )
    assert first == second
