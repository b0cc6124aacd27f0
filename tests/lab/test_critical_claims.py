"""Claims and their verdicts: complete, recorded, accepted by the report; a wrong prediction or other evidence is caught."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr
from tests.lab.tiny_reproduction import PRETENDER, evidence

from attnlim.core.checks import InputError
from attnlim.lab import critical_limit_claims as limits
from attnlim.lab import critical_plane_claims as planes
from attnlim.lab import critical_row_claims as rows
from attnlim.lab import critical_score_claims as scores
from attnlim.lab import critical_token_claims as tokens
from attnlim.lab.claim_table import claims_table, not_as_recorded, with_claims
from attnlim.lab.critical_claims import all_claims
from attnlim.lab.critical_claims import verdict as told
from attnlim.lab.critical_record import ORDER, RECORDED
from attnlim.lab.critical_size import SIZES
from attnlim.lab.verdicts import CONFIRMED, CONTRADICTED, QUALIFIED, UNDECIDED, Claim, Measured
from attnlim.report.claim_rows import VERDICTS, claims
from attnlim.report.critical_reading import checked


@pytest.fixture
def dataset() -> xr.Dataset:
    return evidence()


def test_every_claim_once_with_a_known_verdict_and_a_reason(dataset: xr.Dataset) -> None:
    found = all_claims(dataset)
    assert tuple(claim.key for claim in found) == ORDER
    assert {claim.verdict for claim in found} <= set(VERDICTS)
    for claim in found:
        assert claim.text and claim.source and claim.reason and not math.isnan(claim.predicted), claim.key
        assert not claim.measured.low > claim.measured.high, claim.key
        assert "nan" not in claim.text


def test_the_record_names_every_claim_of_every_size() -> None:
    assert set(RECORDED) == set(SIZES)
    for recorded in RECORDED.values():
        assert tuple(recorded) == ORDER and set(recorded.values()) <= set(VERDICTS)


def test_the_report_takes_the_dataset(dataset: xr.Dataset) -> None:
    found = all_claims(dataset)
    whole = checked(with_claims(dataset, found, RECORDED, told(found)))
    shown = claims(whole)
    table = claims_table(whole)
    assert [row["text"] for row in shown] == table["text"].tolist() and table["key"].tolist() == list(ORDER)
    assert whole.attrs["verdict"].startswith(f"{len(shown)} claims: ")
    with pytest.raises(InputError, match="lacks"):
        checked(dataset)


def test_closed_forms_confirm_the_theorems_at_any_size(dataset: xr.Dataset) -> None:
    """They do not depend on tokens, so the verdicts are those of the record."""
    for claim in limits.simplex_claims(dataset):
        assert claim.verdict == RECORDED["laptop"][claim.key], claim


@pytest.mark.parametrize(
    "claim",
    [
        lambda: limits.contraction_claim("subcritical", claimed=0.99),
        lambda: limits.contraction_claim("critical", claimed=0.81),
        lambda: limits.contraction_claim("supercritical", claimed=0.51),
        lambda: limits.contraction_claim("critical", **limits.RESIDUAL, claimed=0.44),
        lambda: limits.gradient_claim("subcritical", claimed=0.01),
        lambda: limits.gradient_claim("critical", claimed=0.26),
        lambda: limits.gradient_claim("supercritical", claimed=0.98),
        lambda: limits.normalisation_claim(claimed=0.1),
        lambda: limits.partition_claim(claimed=2.1),
        lambda: limits.sharp_claim(claimed=0.1),
    ],
)
def test_a_wrong_limit_is_contradicted(claim: Callable[[], Claim]) -> None:
    assert claim().verdict == CONTRADICTED


@pytest.mark.parametrize(
    "claim",
    [
        lambda found: planes.place_claim(found, 1, "forward", claimed=2.0),
        lambda found: planes.place_claim(found, 1, "backward", claimed=2.0),
        lambda found: planes.together_claim(found, 1, claimed=2.0),
        lambda found: tokens.norms_claim(found, claimed=2.0),
        lambda found: rows.half_weight_claim(found, claimed=3.0),
        lambda found: scores.log_claim(found, claimed=0.5),
        lambda found: scores.independent_claim(found, claimed=1.0),
        lambda found: scores.permuted_claim(found, claimed=0.5),
    ],
)
def test_a_wrong_prediction_is_contradicted_by_drawn_tokens(
    claim: Callable[[xr.Dataset], Claim], dataset: xr.Dataset
) -> None:
    """Two draws of the same value, so that the interval of so few is no excuse."""
    assert claim(without_scatter(dataset)).verdict == CONTRADICTED


def without_scatter(dataset: xr.Dataset) -> xr.Dataset:
    """Every draw the first one, which has no interval but itself."""
    same = dataset.copy(deep=True)
    for name, values in same.data_vars.items():
        if "draw" in values.dims:
            same[name] = (values.isel(draw=[0] * values.sizes["draw"]).dims, values.isel(draw=[0, 0]).values)
    fit = same["scores_exponent"].values
    return same.assign(scores_low=("score_noise", fit), scores_high=("score_noise", fit))


def with_transitions_at(dataset: xr.Dataset, forward: float, backward: float) -> xr.Dataset:
    moved = dataset.copy(deep=True)
    for name, share in (("grid_forward", forward), ("grid_backward", backward)):
        moved[name] = moved["grid_gamma_c"] * share
    return moved


@pytest.mark.parametrize(
    ("forward", "backward", "verdicts"),
    [
        (1.01, 0.995, (CONFIRMED, CONFIRMED, CONFIRMED)),
        (1.1, 1.1, (QUALIFIED, QUALIFIED, CONFIRMED)),
        (1.0, 1.5, (CONFIRMED, CONTRADICTED, CONTRADICTED)),
        (math.nan, 1.0, (UNDECIDED, CONFIRMED, UNDECIDED)),
    ],
)
def test_where_the_transitions_lie(
    forward: float, backward: float, verdicts: tuple[str, str, str], dataset: xr.Dataset
) -> None:
    moved = with_transitions_at(dataset, forward, backward)
    found = (
        planes.place_claim(moved, 1, "forward"), planes.place_claim(moved, 1, "backward"), planes.together_claim(moved, 1)
    )  # fmt: skip
    assert tuple(claim.verdict for claim in found) == verdicts


def test_sharpness_has_to_fall_with_the_width(dataset: xr.Dataset) -> None:
    spread = dataset["grid_spread_simplex"]
    powers = xr.DataArray([1.0, 1.0, 2.0, 4.0], dims="panel")
    assert planes.sharper_claim(dataset.assign(grid_spread=spread**powers)).verdict == CONFIRMED
    assert planes.sharper_claim(dataset.assign(grid_spread=spread ** powers[::-1])).verdict == CONTRADICTED
    assert planes.sharper_claim(dataset.assign(grid_spread=spread * math.nan)).verdict == UNDECIDED


def test_a_pair_that_comes_apart_contradicts_the_per_pair_reading(dataset: xr.Dataset) -> None:
    assert tokens.pair_claim(dataset).verdict == CONTRADICTED
    assert tokens.pair_claim(dataset.assign(example_ratio=dataset["example_ratio"] * 0 + 0.5)).verdict == CONFIRMED
    assert tokens.negative_claim(dataset).verdict == CONTRADICTED
    raised = dataset.assign(example_smallest_after=dataset["example_smallest_before"] + 0.1)
    assert tokens.negative_claim(raised).verdict == CONFIRMED


def test_the_kernels_agree_with_the_closed_form_of_the_counterexamples(dataset: xr.Dataset) -> None:
    # both are float64; the closed form loses a few eps in its Gram matrix
    np.testing.assert_allclose(dataset["example_after"], dataset["example_closed_form"], atol=1e-12)


def test_what_contracts_below_the_threshold(dataset: xr.Dataset) -> None:
    assert planes.contracts_claim(dataset).verdict == CONFIRMED
    assert planes.smallest_claim(dataset).verdict == CONFIRMED
    assert (
        planes.contracts_claim(dataset.assign(grid_contraction=dataset["grid_contraction"] + 1)).verdict == CONTRADICTED
    )
    fallen = dataset.assign(grid_min_cosine=dataset["grid_min_cosine"] - 2)
    assert planes.smallest_claim(fallen).verdict == CONTRADICTED
    without = dataset.assign(grid_rho_1=dataset["grid_rho_1"] * 0 - 1)
    assert planes.contracts_claim(without).verdict == UNDECIDED  # no token set with ρ_1 > 0 says nothing


@pytest.mark.parametrize(
    ("claim", "name", "bound"),
    [(tokens.frozen_claim, "frozen_deviation", 0.5), (tokens.normalised_claim, "frozen_distance", 1.0)],
)
def test_freezing_has_to_be_as_fast_as_the_bound(
    claim: Callable[[xr.Dataset], Claim], name: str, bound: float, dataset: xr.Dataset
) -> None:
    sizes = dataset["series_n"].astype(float)
    faster, slower = (dataset[name] * 0 + sizes ** -(bound * factor) for factor in (1.5, 0.5))
    assert claim(dataset.assign({name: faster})).verdict == CONFIRMED
    assert claim(dataset.assign({name: slower})).verdict == CONTRADICTED


def test_shares_of_token_sets(dataset: xr.Dataset) -> None:
    for value, verdict in ((0.1, CONFIRMED), (-0.1, CONTRADICTED)):
        assert tokens.held_claim(dataset.assign(grid_rho_1=dataset["grid_rho_1"] * 0 + value), 1).verdict == verdict
    some = dataset.assign(grid_rho_1=dataset["grid_rho_1"] * 0 + (dataset["rho"] - 0.3))
    claim = tokens.held_claim(some, 1)
    assert claim.verdict == QUALIFIED and "from ρ = 0.5 on" in claim.reason
    assert claim.measured.value == 0.5 and claim.measured.low > 0.05 and claim.measured.high < 0.95


def test_middle_phase_needs_more_than_the_window_of_a_simplex(dataset: xr.Dataset) -> None:
    """κ that falls from 1 to 0 along a straight line in γ: the two thresholds are 0.6 of the fall apart."""
    log_n = np.log(dataset["series_n"])
    for fall, verdict in ((2.5, QUALIFIED), (0.05, CONTRADICTED)):
        kappa = (1 - (dataset["reduced_gamma"] - 0.3) / fall).clip(0, 1)
        claim = rows.middle_claim(dataset.assign(focus_entropy=dataset["focus_entropy"] * 0 + kappa * log_n))
        assert claim.verdict == verdict, claim
    assert (
        rows.narrow_claim(dataset.assign(focus_entropy=dataset["focus_entropy"] * 0 + 0.9 * log_n)).verdict
        == CONTRADICTED
    )
    assert (
        rows.narrow_claim(dataset.assign(focus_entropy=dataset["focus_entropy"] * 0 + 0.5 * log_n)).verdict == CONFIRMED
    )


def test_permuted_content_has_to_be_the_same_and_windows_worse(dataset: xr.Dataset) -> None:
    assert scores.permuted_claim(dataset).verdict == CONFIRMED
    changed = dataset.assign(content_content_permuted=dataset["content_content_permuted"] + 1e-3)
    assert scores.permuted_claim(changed).verdict == CONTRADICTED
    assert scores.content_claim(without_scatter(dataset)).verdict == CONFIRMED
    better = without_scatter(dataset).assign(content_window=dataset["content_content"] + 0.1)
    assert scores.content_claim(without_scatter(better)).verdict == CONTRADICTED


def test_one_draw_gives_no_interval_and_no_verdict(dataset: xr.Dataset) -> None:
    alone = dataset.isel(draw=[0])
    for claim in (planes.place_claim(alone, 1, "forward"), tokens.norms_claim(alone), rows.drawn_claim(alone)):
        assert math.isfinite(claim.measured.value) and claim.verdict == UNDECIDED


def test_a_verdict_that_is_not_the_recorded_one_is_a_line() -> None:
    measured = Measured(1.0, 1.0, 1.0)
    found = [Claim(key, f"text of {key}", "s", 1.0, measured, CONFIRMED, "r") for key in ("a", "b", "c")]
    record = {PRETENDER: {"a": CONFIRMED, "b": CONTRADICTED}}
    assert not_as_recorded(PRETENDER, found, record) == ["text of b: recorded as contradicted, found confirmed"]
    assert not_as_recorded("tiny", found, record) == []
