"""The phase diagram on one sheet: the numbers it shows, its lines in data coordinates, its words."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from attnlim.core.checks import InputError
from attnlim.report import phase_figure
from attnlim.report.phase_reading import checked, summary
from attnlim.report.phase_sheet import phase_sheets
from attnlim.report.planes import OVER, curve_styles


def panels(figure: Any) -> list[Any]:
    """The axes that hold a map."""
    return [axes for axes in figure.axes if axes.get_title(loc="left") or axes.get_xlabel()]


def lines(axes: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in axes.lines}


def legend_texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def words(figure: Any) -> str:
    return " ".join(text.get_text() for text in figure.texts)


def only_focus(dataset: Any) -> Any:
    """The diagram without λ and η, and with the reason."""
    absent = {name: dataset[name] * math.nan for name in ("contraction", "eta", "eta_attention")}
    for name, values in absent.items():
        values.attrs["missing"] = f"{name.split('_')[0]} was not asked for"
    return dataset.assign(absent)


def test_panels_show_the_means_and_their_lines(phases: ModuleType) -> None:
    dataset = phases.phase_dataset(n_tokens=(256, 1024), width=(2, 32))
    means = summary(checked(dataset)).squeeze()
    figure = phase_figure(dataset)
    shown = panels(figure)
    assert len(shown) == 8
    for row, (name, crossing) in enumerate((("contraction", "forward"), ("eta_attention", "backward"))):
        for index, (i, j) in enumerate(np.ndindex(2, 2)):
            axes = shown[4 * row + index]
            cell = means.isel(n_tokens=i, width=j)
            values = np.ma.filled(axes.collections[0].get_array(), np.nan)
            np.testing.assert_allclose(values, cell[name].transpose("gamma", "rho"))
            drawn = lines(axes)
            assert drawn.keys() == {"gamma_c", crossing} | ({"gamma_half"} if j else set())
            for key, line in drawn.items():
                np.testing.assert_array_equal(line.get_xdata(), dataset["rho"])
                np.testing.assert_array_equal(line.get_ydata(), cell[key])
            # the panel ends with the grid, though 1/(1 - ρ̂) goes on
            assert axes.get_ylim() == pytest.approx((-0.1, 8.1))
            assert axes.get_xlim() == pytest.approx((0.025, 0.975))
    assert [axes.get_title(loc="left") for axes in shown if axes.get_title(loc="left")] == [
        f"n = {n}, d = {d}" for n in ("256", "1,024") for d in (2, 32)
    ]
    assert "4 draws" in words(figure)
    assert legend_texts(figure) == [
        r"$\lambda = 1/(1+3\hat\rho)$, measured",
        r"$\eta_A$ = its limit/4, measured",
        r"$\gamma_c = 1/(1-\hat\rho)$, theory",
        r"half weight $\gamma_{1/2}$, theory",
    ]


def test_the_scale_is_fixed_and_says_what_lies_beyond(phases: ModuleType) -> None:
    figure = phase_figure(phases.phase_dataset(n_tokens=(256,), width=(2, 32)))
    image = panels(figure)[0].collections[0]
    assert image.norm.vmin == 0
    assert image.norm.vmax == pytest.approx(1.05)
    assert "> 1.05" in [text.get_text() for axes in figure.axes for text in axes.texts]
    assert to_hex(image.cmap.get_over()) == OVER
    below = phase_figure(phases.phase_dataset(n_tokens=(256,), width=(512,)))
    assert "> 1.05" not in [text.get_text() for axes in below.axes for text in axes.texts]


def test_blank_cells_are_counted(phases: ModuleType) -> None:
    dataset = phases.phase_dataset(n_tokens=(256,), width=(32, 512))
    assert "blank" not in words(phase_figure(dataset))
    dataset["contraction"][0, 1, 3:5, 10:14] = math.nan
    figure = phase_figure(dataset)
    assert "blank cells have no number (8 of 3,116)" in words(figure)
    assert int(np.ma.getmaskarray(panels(figure)[1].collections[0].get_array()).sum()) == 8


def test_texts_stay_on_the_sheet_and_apart(phases: ModuleType) -> None:
    several = phases.phase_dataset(n_tokens=(256, 512, 1024), width=(2, 8, 32, 128, 512))
    single = phases.phase_dataset(n_tokens=(256,), width=(32,), rho=(0.5,))
    few = phases.phase_dataset(n_tokens=(256,), width=(8, 32, 512), rho=(0.3, 0.5, 0.7), draws=1)
    plane = phases.phase_dataset(n_tokens=(256,), width=(32,))
    for dataset in (several, plane, single, few, only_focus(plane), only_focus(single)):
        figure = phase_figure(dataset)
        renderer = figure.canvas.get_renderer()
        boxes = [axes.get_tightbbox(renderer) for axes in figure.axes]
        boxes += [figure.legends[0].get_window_extent(renderer)]
        boxes += [text.get_window_extent(renderer) for text in figure.texts]
        for box in boxes:
            assert box.x0 >= 0
            assert box.y0 >= 0
            assert box.x1 <= figure.bbox.width
            assert box.y1 <= figure.bbox.height
        # a pixel for the tight boxes of a panel and of the bar beside it
        apart = [box.padded(-1) for box in boxes]
        assert not [(a, b) for i, a in enumerate(apart) for b in apart[:i] if a.overlaps(b)]


def test_few_cosines_are_curves_with_theory_threshold_and_window(phases: ModuleType) -> None:
    dataset = phases.phase_dataset(n_tokens=(256,), width=(32,), rho=(0.5,))
    means = summary(checked(dataset)).squeeze()
    figure = phase_figure(dataset)
    assert len(figure.axes) == 2
    for axes, name in zip(figure.axes, ("contraction", "eta"), strict=True):
        series = [(np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)) for line in axes.lines]
        gamma = dataset["gamma"].to_numpy()
        for wanted in (means[name], means[f"{name}_simplex"]):
            assert any(x.size == gamma.size and np.array_equal(y, wanted) for x, y in series)
        verticals = [x[0] for x, y in series if x.size == 2 and x[0] == x[1]]
        np.testing.assert_allclose(verticals, [means["gamma_c"], means["gamma_half"]])
        span = axes.patches[0].get_extents().transformed(axes.transData.inverted())
        assert (span.x0, span.x1) == pytest.approx((float(means["window_low"]), float(means["window_high"])))
        band = axes.collections[0].get_paths()[0].vertices
        middle = int(np.argmin(abs(gamma - float(means["gamma_c"]))))
        at = band[band[:, 0] == gamma[middle], 1]
        half = float(means[f"{name}_se"][middle])
        assert np.ptp(at) == pytest.approx(2 * half)
        limit = {"contraction": means["forward_level"], "eta": means["backward_level"]}[name]
        assert any(x.shape == (1,) and x[0] == means["gamma_c"] and y[0] == limit for x, y in series)
    texts = legend_texts(figure)
    assert texts[0] == "measured, mean of 4 draws ± standard error"
    assert r"half weight $\gamma_{1/2}$" in texts
    assert "ρ = 0.5" in words(figure)


def test_what_was_not_measured_has_no_panel_and_a_reason(phases: ModuleType) -> None:
    for rho in (phases.RHOS, (0.5,)):
        dataset = phases.phase_dataset(n_tokens=(64,), width=(8, 32), rho=rho)
        for name in ("eta", "eta_attention"):
            dataset[name] = dataset[name] * math.nan
            dataset[name].attrs["missing"] = "eta was not asked $for"
        figure = phase_figure(dataset)
        assert len(panels(figure)) == 2
        assert r"eta was not asked \$for" in words(figure)
        focus = dataset.assign(contraction=dataset["contraction"] * math.nan)
        assert len(panels(phase_figure(focus))) == 2
    with pytest.raises(InputError, match="no number to draw"):
        phase_figure(focus.assign(entropy=math.nan * focus["entropy"], perplexity=math.nan * focus["entropy"]))


def test_a_curve_of_one_draw_has_the_error_of_its_sampled_rows(phases: ModuleType) -> None:
    dataset = only_focus(phases.phase_dataset(n_tokens=(64,), width=(32,), rho=(0.5,), draws=1))
    figure = phase_figure(dataset)
    assert legend_texts(figure)[0] == "measured, 1 draw ± standard error"
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    for gamma, half in zip(dataset["gamma"], dataset["entropy_standard_error"].squeeze(), strict=True):
        assert np.ptp(band[band[:, 0] == float(gamma), 1]) == pytest.approx(2 * float(half))
    exact = dataset.assign(entropy_standard_error=0 * dataset["entropy"])
    assert legend_texts(phase_figure(exact))[0] == "measured, 1 draw"


def test_each_residual_factor_and_mask_has_its_page(phases: ModuleType) -> None:
    dataset = phases.phase_dataset(n_tokens=(64,), width=(8,), alpha=(0.0, 0.5), causal=(False, True))
    assert list(phase_sheets(dataset)) == [
        "phase", "phase-alpha-0-causal", "phase-alpha-0.5-full", "phase-alpha-0.5-causal",
    ]  # fmt: skip
    assert list(phase_sheets(phases.phase_dataset(n_tokens=(64,), width=(8,), causal=(True,)))) == ["phase"]
    last = phase_figure(dataset, page=3)
    assert "α = 0.5 · causal" in words(last)
    values = np.ma.filled(panels(last)[0].collections[0].get_array(), np.nan)
    want = dataset["contraction"].isel(n_tokens=0, width=0, alpha=1, causal=1).mean("draw")
    np.testing.assert_allclose(values, want.transpose("gamma", "rho"))
    # the critical value of λ is 1/(1+3ρ̂) only without a residual branch
    assert "1/(1+3" not in "".join(legend_texts(last))
    with pytest.raises(InputError, match="page must be one of 0, 1, 2, 3"):
        phase_figure(dataset, page=4)


def test_a_grid_of_one_gamma_and_tokens_of_a_file(phases: ModuleType) -> None:
    assert panels(phase_figure(phases.phase_dataset(n_tokens=(64,), width=(8,), gamma=(2.0,))))
    file = phases.phase_dataset(n_tokens=(64,), width=(8,), rho=(0.4,), gamma=(2.0,), draws=1, tokens="a $x_{.npy")
    figure = phase_figure(file.assign_coords(rho=[math.nan]))
    assert r"a \$x_{.npy" in words(figure)
    assert "ρ = " not in words(figure)
    figure.canvas.draw()


def test_every_curve_has_a_look_of_its_own() -> None:
    looks = {(style.colour, str(style.dashes)) for style in curve_styles().values()}
    assert len(looks) == len(curve_styles())
