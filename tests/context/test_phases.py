"""The focus exponent and the phases: least squares against polyfit, missing points, margins."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlim.context.phases import DILUTED, FROZEN, PHASES, SPARSE, UNDECIDED, UNKNOWN, classify, focus_exponent
from attnlim.core.checks import InputError

LOG_N = np.log([512.0, 2048.0, 8192.0])


@given(st.integers(0, 10**6), st.integers(2, 6))
def test_slope_equals_polyfit(seed: int, n_contexts: int) -> None:
    generator = np.random.default_rng(seed)
    log_n = np.log(512) + np.arange(n_contexts) * math.log(2)
    entropy = generator.uniform(0, 9, n_contexts)
    # abscissae up to 10 with a spread of at least 0.5
    assert float(focus_exponent(log_n, entropy)) == pytest.approx(np.polyfit(log_n, entropy, 1)[0], abs=1e-11)


def test_any_axis_and_contexts_of_their_own() -> None:
    slopes = np.arange(12.0).reshape(3, 4) / 12
    entropy = 0.3 + slopes[:, np.newaxis, :] * LOG_N[:, np.newaxis]
    # nine as a sum of products of size 10
    np.testing.assert_allclose(focus_exponent(LOG_N, entropy, axis=1), slopes, atol=1e-13)
    own = np.broadcast_to(LOG_N[:, np.newaxis], entropy.shape)
    np.testing.assert_allclose(focus_exponent(own, entropy, axis=1), slopes, atol=1e-13)


def test_missing_points_are_left_out() -> None:
    entropy = np.array([[1.0, np.nan, 3.0], [np.nan, 2.0, 5.0], [1.0, np.nan, np.nan], [np.nan] * 3])
    slopes = focus_exponent(LOG_N, entropy)
    assert slopes[0] == pytest.approx(2 / math.log(16), rel=1e-14)
    assert slopes[1] == pytest.approx(3 / math.log(4), rel=1e-14)
    assert np.isnan(slopes[2:]).all()


@pytest.mark.parametrize(("factor", "known"), [(2.0, True), (1.9, True), (1.8, False), (1.0, False)])
def test_the_range_must_be_about_an_octave(factor: float, known: bool) -> None:
    slope = focus_exponent([math.log(1000), math.log(1000 * factor)], [1.0, 2.0])
    assert bool(np.isfinite(slope)) is known


def test_a_missing_point_can_make_the_range_too_short() -> None:
    log_n = np.log([1000.0, 1100.0, 4000.0])
    assert np.isnan(focus_exponent(log_n, [1.0, 2.0, np.nan]))
    assert np.isfinite(focus_exponent(log_n, [1.0, np.nan, 2.0]))


def test_phases_and_their_margins() -> None:
    cases = [
        (0.9, 0.81, 1.2, DILUTED),
        (0.9, 0.8, 1.2, UNDECIDED),
        (0.5, 0.2, 0.8, SPARSE),
        (0.5, 0.19, 0.8, UNDECIDED),
        (0.1, -0.3, 0.19, FROZEN),
        (0.1, -0.3, 0.2, UNDECIDED),
        (0.5, np.nan, np.nan, UNDECIDED),
        (np.nan, np.nan, np.nan, UNKNOWN),
        (np.nan, 0.9, 1.0, UNKNOWN),
    ]
    kappa, low, high, wanted = zip(*cases, strict=True)
    codes = classify(kappa, low, high)
    assert codes.dtype == np.int8
    assert codes.tolist() == list(wanted)
    assert [PHASES[code] for code in (DILUTED, SPARSE, FROZEN, UNDECIDED)] == list(PHASES)


def test_margins_are_arguments() -> None:
    assert classify(0.7, 0.65, 0.75, diluted_above=0.6).tolist() == DILUTED
    assert classify(0.7, 0.65, 0.75, frozen_below=0.76).tolist() == FROZEN


def test_shapes_broadcast() -> None:
    assert classify(np.full((2, 3), 0.5), 0.3, np.array([0.4, 0.6, 0.9])).tolist() == [[1, 1, 3]] * 2


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="axis must name one of the 1 axes"):
        focus_exponent(LOG_N, [1.0, 2.0, 3.0], axis=2)
    with pytest.raises(InputError, match=r"one value for each of the 2 contexts of entropy, got shape \(3,\)"):
        focus_exponent(LOG_N, [1.0, 2.0])
    with pytest.raises(InputError, match=r"frozen_below must be a .*got 0.9; .*lower margin"):
        classify(0.5, 0.4, 0.6, frozen_below=0.9)
    with pytest.raises(InputError, match="diluted_above must be a finite number, got nan"):
        classify(0.5, 0.4, 0.6, diluted_above=math.nan)
    with pytest.raises(InputError, match="low must not exceed high"):
        classify(0.5, 0.6, 0.4)
    with pytest.raises(InputError, match="must have one shape"):
        classify([0.5, 0.5], [0.4] * 3, 0.6)
