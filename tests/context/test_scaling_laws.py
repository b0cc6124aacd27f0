"""The four laws: their rows are the closed forms, they fall on their sides of the threshold, they cross where said."""

import math

import numpy as np
import pytest

from attnlim.context.scaling_laws import LAWS, beta_law, law_rows, log_n_at_threshold, scale_through
from attnlim.context.simplex import simplex_step
from attnlim.context.simplex_energy import simplex_jacobian
from attnlim.context.simplex_limits import window_coordinate
from attnlim.context.simplex_rows import simplex_focus
from attnlim.core.checks import InputError

SIZES = [10**k for k in (2, 6, 40, 300)]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("width", [None, 32])
def test_rows_are_the_closed_forms(law: str, width: int | None) -> None:
    rows = law_rows(law, SIZES, 0.4, scale=1.3, q=2.0, alpha=0.2, width=width)
    for i, n in enumerate(SIZES):
        beta = beta_law(law, n, 1.3)
        step = simplex_step(n, 0.4, beta=beta, q=2.0, alpha=0.2)
        focus = simplex_focus(n, 0.4, beta=beta)
        assert (rows.rho[i], rows.one_minus_rho[i], rows.self_weight[i]) == (
            step.rho,
            step.one_minus_rho,
            step.self_weight,
        )
        assert rows.eta[i] == simplex_jacobian(n, width or n, 0.4, beta=beta, q=2.0, alpha=0.2).total
        assert (rows.entropy[i], rows.perplexity[i]) == (focus.entropy, focus.perplexity)
        # t of the limits is (γ(1-ρ)-1) ln n: it differs by ln n - ln(n-1)
        assert rows.window_coordinate[i] == pytest.approx(
            window_coordinate(n, 0.4, rows.gamma[i]), abs=1.1 / (n - 1) + 1e-12 * beta
        )
        assert rows.beta[i] == pytest.approx(rows.gamma[i] * math.log(n), rel=1e-15)


def test_which_laws_collapse_and_which_freeze() -> None:
    """At n = 10^300 with scales that meet at γ = 1.1 γ_c, n = 1000: slower laws end diluted, faster ones frozen."""
    rho = 0.5
    beta = 2.2 * math.log(1000)
    ends = {law: law_rows(law, [1000, 10**300], rho, scale_through(law, 1000, beta)) for law in LAWS}
    # all start from one point
    assert np.ptp([rows.self_weight[0] for rows in ends.values()]) < 1e-12
    for law in ("constant", "sqrt-log"):
        assert ends[law].one_minus_rho[-1] < 1e-60 and ends[law].eta[-1] < 1e-60
        assert ends[law].entropy[-1] == pytest.approx(math.log(10**300), rel=1e-12)
    for law in ("log", "log-squared"):
        # e^{-0.1 ln n} = 1e-30 is left to the others
        assert ends[law].rho[-1] == pytest.approx(rho, rel=1e-12)
        assert ends[law].eta[-1] == pytest.approx(1, rel=1e-12)
        assert ends[law].perplexity[-1] == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(("law", "scale"), [("constant", 30.0), ("sqrt-log", 8.0), ("log-squared", 0.1)])
def test_the_crossing(law: str, scale: float) -> None:
    at = log_n_at_threshold(law, 0.5, scale)
    sizes = [round(math.exp(at - 2)), round(math.exp(at)), round(math.exp(at + 2))]
    t = law_rows(law, sizes, 0.5, scale).window_coordinate
    # n is rounded to a whole number of at least 10^6, and t takes n-1
    assert t[1] == pytest.approx(0, abs=1e-5)
    assert (t[0] > 0 > t[2]) if LAWS[law].power < 1 else (t[0] < 0 < t[2])


def test_the_law_of_the_theorem_has_no_crossing() -> None:
    assert math.isnan(log_n_at_threshold("log", 0.5, 2.0))
    assert (log_n_at_threshold("constant", 0.5, 0.0), log_n_at_threshold("log-squared", 0.5, 0.0)) == (0.0, math.inf)


def test_methods_are_those_of_the_source() -> None:
    assert {law: entry.power for law, entry in LAWS.items() if "YaRN" in entry.used_by} == {"log-squared": 2.0}
    assert set(LAWS["log"].used_by) == {"Qwen", "SSMax", "SWAN-GPT"}


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="law must be one of constant, sqrt-log, log, log-squared, got 'linear'"):
        beta_law("linear", 10)
    with pytest.raises(InputError, match="scale must be a finite number of at least 0, got -1"):
        beta_law("log", 10, -1.0)
    with pytest.raises(InputError, match="n_tokens must hold at least one number of tokens"):
        law_rows("log", [], 0.5)
    with pytest.raises(InputError, match="n_tokens must be a whole number of at least 2, got 1"):
        law_rows("log", [1], 0.5)
    with pytest.raises(InputError, match="beta must be"):
        scale_through("log", 10, math.nan)
    with pytest.raises(InputError, match="rho must be"):
        log_n_at_threshold("log", 1.0, 1.0)
