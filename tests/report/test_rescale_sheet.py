"""What is read of a comparison of scaling rules, and the sheet of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.synthetic_rescale import BARE, rescale_dataset

import attnlim.report
from attnlim.core.checks import InputError
from attnlim.core.runs import RunFolder, open_run
from attnlim.report import draw, rescale_figure, save_figure, write_report
from attnlim.report.figures import svg_element
from attnlim.report.rescale_panels import BETTER, SERIES, UNSURE, WORSE
from attnlim.report.rescale_reading import absent, checked, course, mass_on_needles, scale_ends

CASES: dict[str, dict[str, Any]] = {
    "usual": {}, "bare": BARE, "four times": {"stretch": 4, "n_layers": 30, "n_heads": 9, "windows": 1},
}  # fmt: skip


def test_what_is_read_of_a_comparison() -> None:
    dataset = checked(rescale_dataset())
    mass = dataset["needle_mass"].to_numpy().astype(float)
    np.testing.assert_allclose(mass_on_needles(dataset), mass.mean(axis=1))
    np.testing.assert_allclose(mass_on_needles(dataset, "competing"), mass[:, 5:].mean(axis=1))
    tried = course(dataset)
    assert [one.name for one in tried if one.taken] == ["constant 1.1", "slope 0.2", "round 1, step × 0.5"]
    assert [one.part for one in tried] == ["constant"] * 2 + ["start"] * 2 + ["step"] * 3
    assert absent(dataset) == {}
    bare = checked(rescale_dataset(**BARE))
    assert course(bare) == []
    assert set(absent(bare)) == {"tried", "slope", "audit"}


def test_a_scale_leaves_out_far_losses_and_never_a_gain() -> None:
    small = np.array([0.0, 0.01, -0.02, 0.015])
    far = np.append(small, 3.0)
    assert scale_ends(far, far - 0.01, far + 0.01) == pytest.approx((-0.03, 0.025))
    assert scale_ends(-far, -far - 0.01, -far + 0.01) == pytest.approx((-3.01, 0.03))
    # a loss no larger than a gain has room anyway
    assert scale_ends([*-far, 2.5], [*-far, 2.5], [*-far, 2.5]) == (-3.0, 2.5)
    # two rules alone: the smaller of their differences is the usual one
    assert scale_ends([0.0, 0.01, 3.0], [0.0, 0.0, 2.9], [0.0, 0.02, 3.1]) == pytest.approx((0, 0.02))
    # no interval, nothing known, nothing different
    assert scale_ends([0.2], [np.nan], [np.nan]) == (0.0, 0.2)
    assert scale_ends([np.nan], [np.nan], [np.nan]) == scale_ends([0.0], [0.0], [0.0]) == (-1.0, 1.0)


def test_the_sheet_shows_the_dataset() -> None:
    dataset = rescale_dataset()
    figure = rescale_figure(dataset)
    axes = {one.get_title(loc="left"): one for one in figure.axes if one.get_title(loc="left")}
    for title, name, bucket, base in (
        ("Beyond: tokens 128 to 256", "difference", "beyond", "none"),
        ("Within: the first 128 tokens", "difference_raw", "within", "raw"),
    ):
        panel, one = axes[title], dataset.sel(bucket=bucket)
        dots = {round(line.get_ydata()[0]): line for line in panel.lines if line.get_marker() in ("o", ">")}
        ends = {
            round(line.get_ydata()[0]): line
            for line in panel.lines
            if len(line.get_xdata()) == 2 and line.get_marker() == "None"
        }
        assert sorted(dots) == list(range(dataset.sizes["variant"]))
        far = "raw" if bucket == "beyond" else "ssmax"
        for row, variant in enumerate(dataset["variant"].to_numpy().tolist()):
            estimate, low, high = (float(one[f"{name}{end}"].sel(variant=variant)) for end in ("", "_low", "_high"))
            assert (dots[row].get_marker() == ">") == (variant == far)
            if variant == far:
                assert dots[row].get_xdata()[0] == panel.get_xlim()[1] < estimate
            else:
                assert dots[row].get_xdata()[0] == pytest.approx(estimate)
            if variant not in (base, far):
                np.testing.assert_allclose(ends[row].get_xdata(), [low, high])
                assert ends[row].get_color() == (BETTER if high < 0 else WORSE if low > 0 else UNSURE)
    along = axes["Along the context: less the loss of none"]
    lines = {line.get_label(): line for line in along.lines}
    for variant in ("qwen", "calibrated"):
        np.testing.assert_allclose(lines[variant].get_ydata(), dataset["difference"].sel(variant=variant)[:4])
    np.testing.assert_allclose(lines["qwen"].get_xdata(), [32, 96, 160, 224])
    assert any("off the scale: raw (up to" in text.get_text() for text in along.texts)
    needles = axes["Needles: loss of the number, ● found"]
    grid = np.hstack([image.get_array() for image in needles.images])
    np.testing.assert_allclose(grid, dataset["needle_nll"])
    dots = [line for line in needles.lines if line.get_marker() == "o"]
    # half a column lies between the needles that are alone and those that compete
    places = np.arange(13) + 0.5 * (np.arange(13) > 4)
    want = {(row, places[column]) for row, column in np.argwhere(dataset["needle_found"].to_numpy())}
    assert {(line.get_ydata()[0], line.get_xdata()[0]) for line in dots} == want
    np.testing.assert_allclose(axes["Calibrated slope"].images[0].get_array(), dataset["slope"])


@pytest.mark.parametrize("case", CASES)
def test_texts_stay_on_the_sheet_and_apart(case: str) -> None:
    figure = rescale_figure(rescale_dataset(**CASES[case]))
    renderer = figure.canvas.get_renderer()
    boxes = [axes.get_tightbbox(renderer).padded(-1) for axes in figure.axes]
    boxes += [text.get_window_extent(renderer) for text in figure.texts]
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]
    # a figure for the web
    assert len(svg_element(figure, "rescale").encode()) < 200_000


def test_stored_and_drawn_again_gives_the_same_bytes(tmp_path: Path) -> None:
    dataset = rescale_dataset(**BARE)
    folder = RunFolder.begin(tmp_path / "run", "attnlim rescale", {}, {}, {})
    folder.store(dataset)
    record = folder.close_record()
    before = write_report(dataset, record, tmp_path / "before.html").read_bytes()
    stored, again = open_run(folder.finish())
    assert draw(stored, again, tmp_path / "drawn").read_bytes() == before
    figures = tmp_path / "drawn" / "figures"
    assert sorted(path.name for path in figures.iterdir()) == ["rescale.png", "rescale.svg"]
    twice = save_figure(dataset, tmp_path / "twice.svg")
    assert twice.read_bytes() == (figures / "rescale.svg").read_bytes()


def test_incomplete_datasets_are_refused_in_one_line(tmp_path: Path) -> None:
    dataset = rescale_dataset()
    for wrong, missing in (
        (dataset.drop_vars("needle_mass"), "lacks, or has with other dimensions, needle_mass;"),
        (dataset.drop_vars("layer"), "the coordinate layer"),
        (dataset.drop_vars("tried_loss"), "tried_loss"),
        (dataset.isel(round=0), "derivative, direction"),
        (dataset.drop_vars("audit_phase"), "audit_phase"),
        (dataset.assign_attrs(recommended="unheard"), "the variant 'unheard'"),
        (dataset.isel(variant=slice(1, None)), "the variant 'raw'"),
        (dataset.isel(bucket=slice(None, -1)), "the bucket 'beyond'"),
        (dataset.drop_attrs().assign_attrs(kind="attnlim.rescale"), "the attribute verdict"),
        (dataset.assign_attrs(schema=99), "schema 1, got schema 99"),
    ):
        with pytest.raises(InputError, match=missing) as caught:
            write_report(wrong, {}, tmp_path / "report.html")
        assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_page_and_sheet_share_their_colours() -> None:
    css = Path(attnlim.report.__file__).with_name("templates").joinpath("rescale.css").read_text("utf-8")
    light = css.partition('[data-theme="dark"]')[0]
    assert f"--series: {', '.join(SERIES)};" in light
    assert f"--better: {BETTER};" in light
    assert f"--worse: {WORSE};" in light
