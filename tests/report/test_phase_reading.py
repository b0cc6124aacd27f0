"""Means over draws, and where curves cross their critical values."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlim.report.phase_reading import checked, crossing, facts, summary


@given(
    st.lists(st.floats(0.01, 2.0), min_size=2, max_size=12),
    st.floats(0.1, 5.0),
    st.floats(0.001, 0.999),
)
def test_a_line_crosses_where_it_should(steps: list[float], slope: float, share: float) -> None:
    gamma = np.cumsum(steps)
    place = gamma[0] + share * (gamma[-1] - gamma[0])
    found = crossing(gamma, slope * (gamma - place), np.array(0.0))
    # interpolation of a straight line: a few roundings of numbers below 25
    assert found == pytest.approx(place, abs=1e-12)


def test_the_first_rise_counts_and_gaps_do_not() -> None:
    gamma = np.arange(6.0)
    values = np.array([
        [0.0, 1.0, 0.0, 1.0, 1.0, 1.0],  # twice: the first
        [1.0, 0.0, 0.0, 1.0, 1.0, 1.0],  # a fall is no crossing
        [0.0, math.nan, 1.0, 0.0, 1.0, 1.0],  # nothing is known on either side of a gap
        [0.0, 0.5, 1.0, 1.0, 1.0, 1.0],  # exactly on the level
        [0.0, 0.1, 0.2, 0.3, 0.4, 0.4],
        [0.6, 0.7, 0.8, 0.9, 1.0, 1.0],
    ])  # fmt: skip
    found = crossing(gamma, values, np.full(6, 0.5))
    np.testing.assert_allclose(found, [0.5, 2.5, 3.5, 1.0, math.nan, math.nan], rtol=1e-15)
    assert np.isnan(crossing(gamma[:1], values[:, :1], np.full(6, 0.5))).all()


def test_a_simplex_crosses_where_its_self_weight_is_one_half(phases: ModuleType) -> None:
    """λ = 1/(1+3ρ) and η_A = limit/4 are p = 1/2 as n → ∞; p = 1/2 is at γ = γ_c ln(n-1)/ln n."""
    n, gamma = 1e8, np.linspace(0, 6, 1201)
    for rho in (0.2, 0.5, 0.7):
        p = phases.self_weight(n, rho, gamma)
        want = math.log(n - 1) / math.log(n) / (1 - rho)
        ratio = phases.contraction(n, rho, p, np.array(0.0))
        # the step of 0.005 squared times the curvature of a logistic of slope ln n: below 1e-3
        assert crossing(gamma, ratio, np.array(1 / (1 + 3 * rho))) == pytest.approx(want, abs=1e-3)
        assert crossing(gamma, p**2, np.array(0.25)) == pytest.approx(want, abs=1e-3)


def test_draws_are_averaged_with_their_standard_error(phases: ModuleType) -> None:
    dataset = phases.phase_dataset(n_tokens=(64,), width=(8,), draws=4)
    dataset["contraction"][0, 0, 3, 4, 0, 0, 1] = math.nan
    means = summary(checked(dataset))
    values = dataset["eta"].to_numpy()
    np.testing.assert_allclose(means["eta"], values.mean(axis=-1), rtol=1e-12)
    np.testing.assert_allclose(means["eta_se"], values.std(axis=-1, ddof=1) / 2, rtol=1e-9)
    three = dataset["contraction"].to_numpy()[0, 0, 3, 4, 0, 0, [0, 2, 3]]
    assert float(means["contraction"][0, 0, 3, 4, 0, 0]) == pytest.approx(three.mean(), rel=1e-12)
    one = summary(checked(dataset.isel(draw=[0])))
    for name in ("contraction", "eta", "entropy", "perplexity", "participation"):
        np.testing.assert_array_equal(one[f"{name}_se"], dataset[f"{name}_standard_error"].isel(draw=0), err_msg=name)
    assert np.isnan(one["rho_hat_se"]).all()


def test_sampled_rows_are_told(phases: ModuleType) -> None:
    dataset = phases.phase_dataset(n_tokens=(64, 256), width=(8,), draws=1)
    for rows, told in ((0, ""), (256, ""), (32, " · 32 sampled rows"), (64, " · 64 sampled rows where n is larger")):
        assert facts(dataset.assign_attrs(rows=rows)) == f"tokens: gaussian · 1 draw{told} · seed 0 · float32"


def test_what_one_draw_lacks_the_mean_lacks(phases: ModuleType) -> None:
    dataset = phases.phase_dataset(n_tokens=(64,), width=(32,), draws=3)
    dataset["gamma_half"][0, 0, 5, 1] = math.nan
    dataset["contraction"][0, 0, 7, :, 0, 0, 2] = 0.0
    means = summary(checked(dataset)).squeeze()
    assert np.isnan(means["gamma_half"][5])
    assert np.isfinite(means["gamma_half"][6])
    assert np.isnan(means["forward"][7])
    assert np.isnan(means["forward_se"][7])
    assert np.isfinite(means["backward"][7])


def test_the_window_is_that_of_the_self_weight(phases: ModuleType) -> None:
    dataset = phases.phase_dataset(n_tokens=(16, 1024), width=(32,), draws=1)
    means = summary(checked(dataset)).squeeze()
    n, rho_hat = means["n_tokens"].to_numpy()[:, None], means["rho_hat"].to_numpy()
    for name, weight in (("window_low", 0.1), ("window_high", 0.9)):
        found = phases.self_weight(n, rho_hat, means[name].to_numpy())
        np.testing.assert_allclose(found, weight, rtol=1e-10)


def test_critical_values_come_from_the_data_or_are_unknown(phases: ModuleType) -> None:
    dataset = phases.phase_dataset(n_tokens=(64,), width=(8,), alpha=(0.0, 0.5), draws=2)
    means = summary(checked(dataset))
    rho_hat = dataset["rho_hat"].to_numpy()
    np.testing.assert_allclose(means["forward_level"][..., 0], (1 / (1 + 3 * rho_hat)).mean(axis=-1))
    assert np.isnan(means["forward_level"][..., 1]).all()
    assert np.isnan(means["forward"].sel(alpha=0.5)).all()
    np.testing.assert_allclose(means["backward_level"], (1 - 1 / 8) / 4)

    unequal = dataset.assign(q_2=2 * dataset["q_2"])
    assert np.isnan(summary(checked(unequal))["backward_level"]).all()
    stored = unequal.assign(
        eta_limit=0 * dataset["q_1"] + 0.6, contraction_half=0 * dataset["rho_hat"] + 0.3 + 0 * dataset["alpha"]
    )
    means = summary(checked(stored))
    np.testing.assert_allclose(means["backward_level"], 0.15)
    np.testing.assert_allclose(means["forward_level"], 0.3)


def test_order_and_missing_dimensions_do_not_matter(phases: ModuleType) -> None:
    dataset = phases.phase_dataset(n_tokens=(64,), width=(2, 8), causal=(False, True), draws=2)
    shuffled = dataset.isel(rho=slice(None, None, -1), gamma=slice(None, None, -1)).transpose("draw", "gamma", ...)
    shuffled["entropy"] = shuffled["entropy"].isel(alpha=0, causal=0)
    want, found = summary(checked(dataset)), summary(checked(shuffled))
    assert want.equals(found.assign(entropy=want["entropy"], entropy_se=want["entropy_se"]))
    assert found["entropy"].dims == ("n_tokens", "width", "rho", "gamma", "alpha", "causal")


def test_tokens_of_a_file_have_no_rho(phases: ModuleType) -> None:
    means = summary(checked(phases.phase_dataset(n_tokens=(64,), width=(8,), rho=(0.4,)).assign_coords(rho=[math.nan])))
    assert np.isfinite(means["forward"]).all()
