"""The arithmetic of a calibration, on derivatives whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from attnlim.core.checks import InputError
from attnlim.rules.slope_steps import PER, shrunk_gradient, stepped


def _measured(
    heads: float, layers: float, noise: float, n_windows: int = 4, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives with those spreads between heads, layers and windows, and what they are without noise."""
    random = np.random.default_rng(seed)
    truth = 0.3 + layers * random.standard_normal((30, 1)) + heads * random.standard_normal((30, 9))
    return truth + noise * random.standard_normal((n_windows, 30, 9)), truth


@pytest.mark.parametrize(
    ("heads", "layers", "noise"), [(1.0, 1.0, 4.0), (0.1, 1.0, 2.0), (0.0, 0.0, 1.0), (1.0, 0.0, 3.0)]
)
def test_shrinking_comes_nearer_to_the_truth_than_the_plain_mean(heads: float, layers: float, noise: float) -> None:
    worse = 0
    for seed in range(8):
        windows, truth = _measured(heads, layers, noise, seed=seed)
        plain = ((windows.mean(axis=0) - truth) ** 2).sum()
        worse += ((shrunk_gradient(windows).gradient - truth) ** 2).sum() >= plain
    assert worse == 0


def test_shares_that_are_kept_are_those_of_the_truth() -> None:
    """Over 270 heads and 30 layers: estimates of variances scatter by a tenth and a quarter of themselves."""
    windows, _ = _measured(heads=1.0, layers=2.0, noise=2.0)
    found = shrunk_gradient(windows)
    assert found.noise == pytest.approx(2.0 / np.sqrt(4), rel=0.1)
    assert found.towards_layer == pytest.approx(1 / (1 + 1), abs=0.1)
    assert found.towards_model == pytest.approx(4 / (4 + 2 / 9), abs=0.05)


def test_without_noise_nothing_is_shrunk_and_without_spread_everything_is() -> None:
    windows, truth = _measured(heads=1.0, layers=1.0, noise=0.0)
    np.testing.assert_allclose(shrunk_gradient(windows).gradient, truth, rtol=1e-12)
    windows, _ = _measured(heads=0.0, layers=0.0, noise=1.0)
    kept = [shrunk_gradient(_measured(0.0, 0.0, 1.0, seed=seed)[0]).towards_layer for seed in range(20)]
    assert np.mean(kept) < 0.1  # the noise's own scatter is taken for a spread now and then


def test_what_shares_a_slope() -> None:
    windows, _ = _measured(1.0, 1.0, 1.0)
    spread = {per: shrunk_gradient(windows, per).gradient for per in PER}
    assert np.ptp(spread["model"]) == 0
    assert (np.ptp(spread["layer"], axis=1) == 0).all() and np.ptp(spread["layer"]) > 0
    assert (np.ptp(spread["head"], axis=1) > 0).all()
    for gradient in spread.values():
        assert gradient.mean() == pytest.approx(windows.mean(), rel=1e-9)


def test_heads_that_are_missing_stay_missing_and_do_not_move() -> None:
    windows, _ = _measured(1.0, 1.0, 1.0)
    windows[:, 3, 5] = np.nan
    gradient = shrunk_gradient(windows).gradient
    assert np.isnan(gradient[3, 5]) and np.isfinite(gradient).sum() == gradient.size - 1
    moved = stepped(np.full((30, 9), 0.1), gradient, 0.2)
    assert moved[3, 5] == 0.1


def test_layers_without_a_head_are_as_if_they_were_not_there() -> None:
    windows, _ = _measured(1.0, 1.0, 1.0)
    wide = np.full((4, 32, 9), np.nan)
    wide[:, 1:31] = windows
    found, plain = shrunk_gradient(wide), shrunk_gradient(windows)
    np.testing.assert_array_equal(found.gradient[1:31], plain.gradient)
    assert np.isnan(found.gradient[[0, 31]]).all() and found.towards_model == plain.towards_model


def test_a_single_layer_and_a_single_head_have_nothing_to_be_shrunk_towards() -> None:
    assert shrunk_gradient([[[1.0]], [[3.0]]]).gradient.tolist() == [[2.0]]


def test_a_step_has_its_radius_and_goes_down() -> None:
    gradient = np.random.default_rng(0).standard_normal((30, 9))
    step = stepped(np.zeros((30, 9)), gradient, 0.2)
    assert np.sqrt((step**2).mean()) == pytest.approx(0.2, rel=1e-12)
    assert (np.sign(step) == -np.sign(gradient)).all()
    assert (stepped(np.ones((2, 2)), np.zeros((2, 2)), 0.2) == 1).all()


def test_the_radius_is_that_of_the_heads_that_move() -> None:
    """Layers with a window have no derivative, and must not lend the others their part of the step."""
    gradient = np.random.default_rng(1).standard_normal((6, 4))
    gradient[:5] = np.nan
    step = stepped(np.full((6, 4), 0.3), gradient, 0.1) - 0.3
    assert (step[:5] == 0).all() and np.sqrt((step[5] ** 2).mean()) == pytest.approx(0.1, rel=1e-12)
    assert (stepped(np.ones((2, 2)), np.full((2, 2), np.nan), 0.1) == 1).all()


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="n_windows ≥ 2"):
        shrunk_gradient(np.zeros((1, 3, 4)))
    with pytest.raises(InputError, match="NaN throughout"):
        shrunk_gradient(np.full((2, 3, 4), np.nan))
    with pytest.raises(InputError, match="per must be one of head, layer, model"):
        shrunk_gradient(np.zeros((2, 3, 4)), "heads")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="radius must be a finite number of at least 0"):
        stepped([[0.0]], [[1.0]], -1.0)
