"""The reproduction of the depth paper: every claim once, and each verdict can come out the other way."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from tests.lab.tiny_uniform import TINY, evidence, results, short_runs

from attnlim.core.checks import InputError
from attnlim.lab import uniform_constant_claims as constants
from attnlim.lab import uniform_control_claims as controls
from attnlim.lab import uniform_lemma_claims as lemmas
from attnlim.lab import uniform_parts
from attnlim.lab import uniform_rate_claims as rates
from attnlim.lab.claim_table import claims_table, with_claims
from attnlim.lab.meanfield_dataset import DISTANCES
from attnlim.lab.uniform_claims import all_claims, verdict
from attnlim.lab.uniform_dataset import of_grid
from attnlim.lab.uniform_record import ORDER, RECORDED
from attnlim.lab.uniform_run import make_uniform, run_uniform
from attnlim.lab.uniform_size import PROBE, SIZES, grids
from attnlim.lab.verdicts import CONFIRMED, CONTRADICTED, QUALIFIED, UNDECIDED, Claim, Measured
from attnlim.report.uniform_reading import checked


@pytest.fixture(scope="module")
def dataset() -> xr.Dataset:
    torch.set_num_threads(1)
    return evidence()


def by_key(claims: list[Claim]) -> dict[str, Claim]:
    return {claim.key: claim for claim in claims}


def test_every_claim_once_with_a_reason(dataset: xr.Dataset) -> None:
    claims = all_claims(dataset)
    gammas = [f"gamma-{gamma:g}" for gamma in TINY.gammas]
    assert [claim.key for claim in claims] == [key for key in ORDER if not key.startswith("gamma-")] + gammas
    for claim in claims:
        assert claim.text and claim.source and claim.reason and math.isfinite(claim.predicted), claim.key
        assert math.isfinite(claim.measured.value), claim.key
    whole = with_claims(dataset, claims, RECORDED, verdict(claims))
    checked(whole)
    assert claims_table(whole)["key"].tolist() == [claim.key for claim in claims]
    assert whole.attrs["verdict"].startswith(f"{len(claims)} claims: ")


def test_the_record_names_every_claim_of_every_size() -> None:
    assert set(RECORDED) == set(SIZES)
    for recorded in RECORDED.values():
        assert tuple(recorded) == ORDER
        assert set(recorded.values()) <= {CONFIRMED, QUALIFIED, CONTRADICTED, UNDECIDED}


def test_grids_keep_their_names(dataset: xr.Dataset) -> None:
    one = of_grid(dataset, "rates")
    assert set(DISTANCES) <= set(one.data_vars) and one["n_layers"].values.tolist() == list(TINY.rates_layers)
    assert list(dataset.attrs["grids"]) == list(grids(TINY, 0, 1))
    for size in SIZES.values():
        for name, grid in grids(size, 3, 1).items():
            # limits are shared by value: the same settings at every size but for numbers of particles
            assert grid.seeds == (3,), name
            if name.startswith(("tokens", "widths", "inputs", "gamma")):
                assert grid.sizes() == [PROBE], name


def exact_rates(dataset: xr.Dataset, p: float, q: float) -> xr.Dataset:
    """Errors that fall as powers, with what scatter there was."""
    from attnlim.lab.meanfield_dataset import rate_variables

    one = of_grid(dataset, "rates")
    law = one["n_layers"] ** -p * one["n_heads"] ** -q
    values = (one["sup_tokens"] * 0 + 1) * law * (1 + 0.01 * np.cos(np.arange(one.sizes["init"]))).reshape(-1)
    one = one.assign(sup_tokens=values.transpose(*one["sup_tokens"].dims))
    one = one.assign(rate_variables(one))
    return dataset.assign(
        {f"rates.{name}": (dataset[f"rates.{name}"].dims, one[name].to_numpy()) for name in one.data_vars}
    )


def test_rates_are_judged_by_what_they_are(dataset: xr.Dataset) -> None:
    half = by_key(rates.rate_claims(exact_rates(dataset, 0.5, 0.5)))
    for key in ("rate-L-start", "rate-H-trained", "one-head-start", "products-trained", "published-start", "theorem"):
        assert half[key].verdict == CONFIRMED, (key, half[key])
    third = by_key(rates.rate_claims(exact_rates(dataset, 1 / 3, 0.5)))
    assert third["rate-L-start"].verdict in (CONTRADICTED, QUALIFIED)
    assert third["one-head-start"].verdict in (CONTRADICTED, QUALIFIED)
    assert third["products-start"].verdict != CONFIRMED and third["published-start"].verdict == CONTRADICTED
    slow = by_key(rates.rate_claims(exact_rates(dataset, 0.2, 0.5)))
    assert slow["theorem"].verdict == slow["rate-L-start"].verdict == CONTRADICTED


@pytest.mark.parametrize(
    ("measured", "found"),
    [
        (Measured(0.5, 0.48, 0.52), CONFIRMED),
        (Measured(0.46, 0.45, 0.47), CONFIRMED),
        (Measured(0.42, 0.41, 0.43), QUALIFIED),
        (Measured(0.30, 0.29, 0.31), CONTRADICTED),
        (Measured(0.45, 0.30, 0.60), UNDECIDED),
        (Measured(0.5, math.nan, math.nan), UNDECIDED),
    ],
)
def test_half(measured: Measured, found: str) -> None:
    assert rates.half(measured) == found


def test_reference_that_is_too_rough(dataset: xr.Dataset) -> None:
    rough = dataset.assign({"rates.reference_error": dataset["rates.reference_error"] * 0 + 1})
    claims = by_key(rates.rate_claims(rough))
    assert claims["reference"].verdict == claims["identity"].verdict == CONTRADICTED


def test_constants_that_grow(dataset: xr.Dataset) -> None:
    grown = dataset.copy()
    for name, axis in (("tokens", "n_tokens"), ("widths-blockwise", "width")):
        for distance in ("sup_tokens", "rms_tokens"):
            key = f"{name}.{distance}"
            grown[key] = (dataset[key] * 0 + 1) * dataset[f"{name}.{axis}"] ** 0.5
    claims = by_key(constants.independence_claims(grown))
    assert claims["N-free-mean"].verdict == claims["d-free"].verdict == CONTRADICTED
    assert claims["N-free-mean"].measured.value == pytest.approx(0.5)
    flat = dataset.assign({"tokens.rms_tokens": dataset["tokens.rms_tokens"] * 0 + 1})
    assert by_key(constants.independence_claims(flat))["N-free-mean"].verdict == CONFIRMED


def test_lemmas_can_fail(dataset: xr.Dataset) -> None:
    bad = dataset.copy()
    bad["rates.wasserstein"] = dataset["rates.coupling"] * 1.1
    bad["tokens.certificate_update"] = dataset["tokens.certificate_update"] * 0 + 1.01
    bad["training.certificate_parameter"] = dataset["training.certificate_parameter"] * 0 + 1.01
    bad["bound_attained"] = dataset["bound_attained"] * 0.99
    bad["maps_difference"] = dataset["maps_difference"] * 0 + 1e-3
    bad["maps_ratio"] = dataset["maps_bound"] * 1.01
    bad["stack_rest"] = dataset["stack_rest"] * 0 + 1e-6
    bad["stack_doob"] = dataset["stack_doob"] * 0 + 4.1
    bad["stack_score"] = dataset["stack_score"] * 0 + 3.0
    bad["growth_slope"] = dataset["growth_slope"] * 0 + 2.0
    bad["growth_ceiling"] = dataset["growth_plain"] * 0.9
    bad["stability_ratio"] = dataset["stability_ratio"] * 0 + xr.DataArray(np.arange(17.0), dims="stability_step")
    bad["stability_largest"] = dataset["stability_largest"] + xr.DataArray(np.arange(17.0), dims="stability_step")
    claims = by_key([*lemmas.parameter_claims(bad), *lemmas.certificate_claims(bad), *lemmas.proof_claims(bad)])
    for key in (
        "coupling", "adam-bound", "compact", "adam-attained", "lions", "lipschitz", "stack", "doob", "martingale", "cubic",
        "gronwall", "stable-depth", "decay",
    ):  # fmt: skip
        assert claims[key].verdict == CONTRADICTED, (key, claims[key])


def test_controls_are_judged_by_their_slopes(dataset: xr.Dataset) -> None:
    layers = dataset["split_layers"]
    made = dataset.assign(split_error=(dataset["split_error"].fillna(0) * 0 + 1) * layers**-1.5)
    claims = by_key(controls.control_claims(made))
    assert claims["split-start"].verdict == CONFIRMED and claims["split-off-centre"].verdict in (
        QUALIFIED,
        CONTRADICTED,
    )
    # published constants, put in and found again
    error = 0.22 * np.sqrt(10) / np.sqrt(dataset["validation_layers"] * dataset["validation_hidden"])
    error = error + 0.15 / dataset["validation_layers"]
    made = dataset.assign(
        validation_error=(dataset["validation_error"] * 0 + error).transpose(*dataset["validation_error"].dims)
    )
    claims = by_key(controls.control_claims(made))
    assert claims["validation-noise"].measured.value == pytest.approx(0.22, rel=1e-6)
    assert claims["validation-depth"].measured.value == pytest.approx(0.15, rel=1e-6)
    assert claims["validation-shape"].verdict == CONFIRMED


def test_parts_are_pure_functions() -> None:
    # the worst sequence attains the bound, and its constants are those of the theory
    bound = uniform_parts.bound()
    np.testing.assert_allclose(bound["attained"], 1, rtol=1e-9)
    np.testing.assert_allclose(bound["limit"], [7.2703, 1.1650, 2.3452], atol=5e-5)
    again = uniform_parts.stack(seed=0, n_layers=4, n_heads=1, n_inits=4, n_particles=8 * 16, n_steps=4)
    for name, values in again.items():
        np.testing.assert_allclose(values, results()["stack.L4-H1"][name], rtol=1e-9, atol=1e-14, err_msg=name)


def test_interrupted_and_resumed_to_the_same_dataset(tmp_path: Path, dataset: xr.Dataset) -> None:
    from attnlim.core.cells import Cell, write_cell

    plan = make_uniform(TINY, 0, 1)
    keys = [cell.key for cell in plan.cells()]
    assert len(set(keys)) == len(keys)
    missing = keys[3::7]  # of either stage
    for key in set(keys) - set(missing):
        write_cell(tmp_path, Cell(key), results()[key])
    told: list[bool] = []
    with short_runs():
        found, unlike, retried = run_uniform(plan, tmp_path, progress=lambda cell, was_stored: told.append(was_stored))
    assert told.count(False) == len(missing) and len(told) == len(keys)
    assert unlike == [] and retried == 0
    xr.testing.assert_identical(found[list(dataset.data_vars)].drop_attrs(), dataset.drop_attrs())


def test_bad_input() -> None:
    with pytest.raises(InputError, match="size must be one of laptop, full, got 'huge'"):
        make_uniform("huge")
    with pytest.raises(InputError, match="--seed must be a whole number"):
        make_uniform("laptop", -1)
