"""The sheet of figures: what it draws, that it is repeatable, and that it refuses what it cannot draw."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import attnlim.report
from attnlim.core.checks import InputError
from attnlim.report import audit_figure, save_figure
from attnlim.report.figures import PHASE_COLOURS


def test_the_sheet_shows_the_longest_context(synthetic: ModuleType) -> None:
    dataset = synthetic.audit_dataset()
    figure = audit_figure(dataset)
    phase, kappa, entropy, rho = figure.axes[:4]
    np.testing.assert_array_equal(phase.images[0].get_array(), dataset["phase"].isel(context=-1))
    np.testing.assert_allclose(np.ma.filled(kappa.images[0].get_array(), np.nan), dataset["kappa"].isel(context=-1))
    # a line a head and two asymptotes
    assert len(entropy.lines) == 24 + 2
    # two lines a context and two that only explain the legend
    assert len(rho.lines) == 2 * dataset.sizes["context"] + 2
    letters = [text.get_text() for text in phase.texts]
    assert len(letters) == 24
    assert letters.count("×") == 1


def test_texts_stay_on_the_sheet_and_apart(synthetic: ModuleType) -> None:
    figure = audit_figure(synthetic.audit_dataset(contexts=(512, 2048, 8192), n_layers=30, n_heads=9))
    renderer = figure.canvas.get_renderer()
    assert figure.bbox.width == 1400
    for axes in figure.axes[:4]:
        box = axes.get_tightbbox(renderer)
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= 1400
    boxes = [axes.get_tightbbox(renderer) for axes in figure.axes[:4]]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_saving_twice_gives_the_same_bytes(synthetic: ModuleType, tmp_path: Path, suffix: str) -> None:
    first, second = (save_figure(synthetic.audit_dataset(), tmp_path / f"{name}.{suffix}") for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a.{suffix}", f"b.{suffix}"]


def test_one_context_without_kappa_and_a_name_with_dollars(synthetic: ModuleType, tmp_path: Path) -> None:
    dataset = synthetic.audit_dataset(contexts=(512,), kappa_source="contexts", model="a $x_{ model")
    assert save_figure(dataset, tmp_path / "one.png").stat().st_size > 10_000


def test_bad_input(synthetic: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be one of png, svg, pdf"):
        save_figure(synthetic.audit_dataset(), tmp_path / "sheet.gif")
    with pytest.raises(InputError, match="kind"):
        save_figure(synthetic.audit_dataset().assign_attrs(kind="other"), tmp_path / "sheet.png")
    assert list(tmp_path.iterdir()) == []


def test_page_and_figure_share_their_phase_colours() -> None:
    css = Path(attnlim.report.__file__).with_name("templates").joinpath("report.css").read_text("utf-8")
    light = css.partition('[data-theme="dark"]')[0]
    for name, colour in PHASE_COLOURS.items():
        assert f"--{name}: {colour};" in light
