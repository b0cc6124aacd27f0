"""Mean-field experiments: cells against the library's own functions, resumed and on a cluster to the same bytes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

from attnlim.core.checks import InputError
from attnlim.depth import ShadowHeads, forward, head_distance, initial_parameters, limit_flow, limit_particles, training
from attnlim.lab.meanfield_dataset import cells_table, power_words, rates_table
from attnlim.lab.meanfield_estimate import estimate
from attnlim.lab.meanfield_grid import make_grid
from attnlim.lab.meanfield_limit import limits_apart, solve_limit, stored_flow
from attnlim.lab.meanfield_network import measure_network
from attnlim.lab.meanfield_run import meanfield, run_grid
from attnlim.lab.meanfield_system import System

SMALL = {"n_inits": 4, "n_particles": 32, "n_fresh": 3, "n_sequences": 2, "n_nodes": 3, "threads": 1}


def small(**options: object) -> xr.Dataset:
    return meanfield([2, 4, 8], [1, 2], steps=[0, 2], **SMALL, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def found() -> xr.Dataset:
    return small()


def test_a_cell_is_what_the_library_measures() -> None:
    system = System(steps=(0, 2), n_particles=32, n_nodes=3, n_sequences=2, n_fresh=3)
    limit = solve_limit(system, 0)
    arrays = measure_network(system, 4, 2, 5, limit)
    assert arrays["loss"].shape == (3, 5) and arrays["sup_tokens"].shape == (2, 2, 5)
    # before training the limit is the identity: the distance is how far tokens moved
    x = system.fresh_inputs()
    start = arrays["sup_tokens"][0, 0]
    moved = []
    for init in range(5):
        alone = measure_network(system, 4, 2, init + 1, limit)["sup_tokens"][0, 0]
        np.testing.assert_allclose(alone, start[: init + 1], rtol=1e-12)
        moved.append(alone[-1])
    assert len(set(moved)) == 5
    particles = limit_particles(32, 3, 4, 4)
    np.testing.assert_allclose(stored_flow(system, limit, "fresh", 0).tokens(1.0)[0], x, atol=1e-12)
    np.testing.assert_allclose(limit_flow(particles, x).tokens(1.0)[0], x, atol=1e-12)
    # the gradients of a stored flow do not need its particles
    heads = initial_parameters(2, 3, 4, 4)
    assert stored_flow(system, limit, "training", 2).gradient(heads, [0.0, 0.5]).shape == heads.shape


def test_stored_flows_are_the_solved_ones() -> None:
    system = System(steps=(0, 1), n_particles=16, n_nodes=3, n_sequences=2, n_fresh=3, target=1.0)
    limit = solve_limit(system, 0, keep_particles=True)
    solved = limit_flow(torch.from_numpy(limit["particles"][1]), system.fresh_inputs())
    stored = stored_flow(system, limit, "fresh", 1)
    # both stop at the tolerance
    np.testing.assert_allclose(stored.tokens([0.3, 1.0]), solved.tokens([0.3, 1.0]), atol=1e-5)
    _, terminal = system.loss()(solved.tokens(1.0)[0], solved.log_weights.exp())
    np.testing.assert_allclose(stored.adjoint(0.2), solved.with_adjoint(terminal).adjoint(0.2), atol=1e-4)
    assert limits_apart(system, limit, limit)["tokens"].max() == 0
    assert limits_apart(system, limit, solve_limit(system, 1))["tokens"][1].min() > 1e-3


def test_dataset_is_complete_and_said_in_words(found: xr.Dataset) -> None:
    for name in ("sup_tokens", "sup_both", "rms_tokens", "end_tokens", "coupling", "loss", "reference_error", "fit_p"):
        assert np.isfinite(found[name]).all(), name
    assert (found["sup_continuous"] >= found["sup_tokens"] - 1e-12).all()
    assert (found["sup_tokens"] >= found["rms_tokens"]).all()
    assert (found["wasserstein"] <= found["coupling"] * (1 + 1e-9)).all()
    assert (found["certificate_update"] <= 1).all() and (found["certificate_parameter"] <= 1).all()
    # without training it is the identity, and known to rounding
    assert (
        float(found["reference_error"].sel(step=0).max())
        < 1e-12
        < 1e-3
        < float(found["reference_error"].sel(step=2).min())
    )
    words = found.attrs["verdict"]
    assert "The distance from the limit falls as L^−" in words and "Every step stayed inside Adam's bound" in words
    assert "More than a fifth is too much: give --particles" in words
    table = cells_table(found)
    assert len(table) == 3 * 2 * 2 * 2
    row = table.query("n_layers == 4 and n_heads == 2 and step == 2 and inputs == 'fresh'").iloc[0]
    values = found["sup_tokens"].sel(n_layers=4, n_heads=2, step=2, inputs="fresh").squeeze().to_numpy()
    assert row["sup_tokens"] == pytest.approx(math.sqrt((values**2).mean()), rel=1e-12)
    rates = rates_table(found)
    assert len(rates) == 4 and rates["p"][0] == power_words(
        found.isel(seed=0, n_tokens=0, width=0, step=0, inputs=0), "p"
    )


def test_errors_fall_with_the_root_of_heads(found: xr.Dataset) -> None:
    squares = (found["rms_tokens"].sel(step=0, inputs="fresh") ** 2).mean("init").squeeze(drop=True)
    product = squares["n_layers"] * squares["n_heads"]
    scaled = np.sqrt(squares * product)
    # four initialisations scatter by a quarter; sixteen times as many heads would make a factor of four
    assert float(scaled.max() / scaled.min()) < 2


def test_a_larger_grid_holds_the_same_numbers(found: xr.Dataset) -> None:
    more = meanfield(
        [2, 8], [2], [8, 4], steps=[0, 2], seeds=[0, 1], max_product=16, **SMALL
    )  # fmt: skip
    for name in ("sup_tokens", "coupling", "loss", "reference_error"):
        same = more[name].sel(seed=[0], n_tokens=[8])
        of_few = found[name].sel({key: same[key] for key in ("n_layers", "n_heads") if key in same.coords})
        xr.testing.assert_equal(same, of_few)
    assert (more["sup_tokens"].sel(seed=1, n_tokens=8) != more["sup_tokens"].sel(seed=0, n_tokens=8)).all()


def test_sizes_above_a_product_are_left_out() -> None:
    grid = make_grid([2, 4, 8], [1, 2], steps=[0], max_product=8, **SMALL)
    assert grid.sizes() == [(2, 1), (2, 2), (4, 1), (4, 2), (8, 1)]
    dataset, _ = run_grid(grid)
    assert bool(dataset["sup_tokens"].sel(n_layers=8, n_heads=2).isnull().all())
    assert len(cells_table(dataset)) == 5 * 2 and np.isfinite(dataset["fit_p"]).all()


def test_worst_inputs() -> None:
    one = meanfield([2, 8], [1], steps=[0, 1], adversarial=True, **SMALL)
    worst, fresh = (one["sup_tokens"].sel(inputs=inputs) for inputs in ("worst", "fresh"))
    assert (worst > 0).all() and float((worst > fresh).mean()) > 0.8
    assert bool(one["sup_adjoint"].sel(inputs="worst").isnull().all())


def test_beta_follows_the_number_of_tokens() -> None:
    systems = make_grid([2], [1], [4, 16], gamma=0.5, **SMALL).systems()
    assert [system.beta for system in systems] == [0.5 * math.log(4), 0.5 * math.log(16)]


def test_resumed_and_on_a_cluster_to_the_same_numbers(tmp_path: Path, found: xr.Dataset) -> None:
    grid = make_grid([2, 4, 8], [1, 2], steps=[0, 2], **SMALL)
    whole, _ = run_grid(grid, tmp_path)
    xr.testing.assert_identical(whole, found)
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == len(grid.cells()) == 10
    for path in (kept[0], kept[-1]):
        path.unlink()
    told: list[bool] = []
    again, _ = run_grid(grid, tmp_path, progress=lambda cell, was_stored: told.append(was_stored))
    xr.testing.assert_identical(again, found)
    assert told.count(False) == 2
    pytest.importorskip("distributed")
    there = small(cluster="local", workers=2)
    xr.testing.assert_identical(there, found)


def test_the_reference_is_another_experiment_than_the_networks() -> None:
    system = System()
    assert (limit_particles(4, 1, 4, 4)[0, 0] != initial_parameters(1, 4, 4, 4)[0, 0]).any()
    assert (system.training_inputs()[0] != system.fresh_inputs()[0]).any()
    assert (System(n_sequences=9).training_inputs()[:4] == system.training_inputs()).all()


def test_own_error_of_the_reference_is_that_of_one_set() -> None:
    grid = make_grid([2], [1], steps=[0, 2], **SMALL)
    limits = [solve_limit(**cell.arguments) for cell in grid.limit_cells()]
    dataset, _ = run_grid(grid)
    one = dataset.isel(seed=0, n_tokens=0, width=0).sel(distance="sup_tokens", inputs="fresh", step=2)
    particles = limits_apart(grid.systems()[0], *limits[:2])["tokens"][1, 0] / math.sqrt(2)
    nodes = limits_apart(grid.systems()[0], *limits[2:])["tokens"][1, 0]
    assert float(one["reference_particles"]) == pytest.approx(particles, rel=1e-9)
    assert float(one["reference_error"]) == pytest.approx(math.hypot(particles, nodes), rel=1e-9)


def test_inputs_and_targets() -> None:
    assert np.allclose(System(inputs="sphere", width=16).fresh_inputs().norm(dim=-1), 2.0)
    clustered = System(inputs="clustered", n_tokens=64).fresh_inputs()[0]
    gaussian = System(n_tokens=64).fresh_inputs()[0]
    nearest = [torch.cdist(x, x).fill_diagonal_(torch.inf).amin(dim=1).median() for x in (clustered, gaussian)]
    assert nearest[0] < nearest[1] / 1.5
    assert float(System(target=1.5).loss().target.norm()) == pytest.approx(3.0)
    assert float(System().loss().target.norm()) == 0


def test_estimate_grows_with_the_work() -> None:
    few, many = (estimate(make_grid([4], [1], **{**SMALL, "n_particles": n})) for n in (64, 4096))
    assert many.seconds > 4 * few.seconds and many.memory > few.memory
    assert estimate(make_grid([4], [1], **SMALL), 2).memory > few.memory


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_heads": [0]}, "--heads must be a whole number of at least 1, got 0"),
        ({"n_layers": [0]}, "--layers must be a whole number of at least 1, got 0"),
        ({"n_layers": []}, "--layers needs at least one value"),
        ({"betas": (0.99, 0.9)}, "betas must be below 1 with the first one's square below the second"),
        ({"lr": 2.0, "weight_decay": 1.0}, "lr times weight_decay must be at most 1, got 2"),
        ({"n_inits": 1}, "--inits must be a whole number of at least 2"),
        ({"gamma": 1.0, "beta": 1.0}, "--beta and --gamma say the same thing"),
        ({"gamma": 1.0, "n_tokens": [1]}, "--gamma needs at least 2 tokens"),
        ({"inputs": "text"}, "--inputs must be one of gaussian, sphere, clustered"),
        ({"optimiser": "lion"}, "--optimiser must be one of adamw, blockwise, sgd"),
        ({"max_product": 1}, "--max-product must be a whole number of at least 4"),
        ({"eps": 0.0}, "--eps must be a finite number above 0"),
        ({"target": math.nan}, "--target must be a finite number of at least 0"),
    ],
)
def test_bad_input(options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        make_grid(**options)  # type: ignore[arg-type]


def test_a_run_that_diverges_is_told_with_its_step() -> None:
    with pytest.raises(InputError, match=r"cell limit-seed0-N8-d4-a: .* at step \d+: the run has diverged"):
        meanfield([2], [1], steps=[0, 30], optimiser="sgd", lr=50.0, weight_decay=0.0, target=3.0, **SMALL)


def test_training_reaches_the_stored_losses() -> None:
    system = System(steps=(0, 2), n_particles=16, n_nodes=2)
    limit = solve_limit(system, 0)
    arrays = measure_network(system, 2, 1, 2, limit)
    from attnlim.core.seeds import generator

    seed = int(generator(0, "meanfield", "network", 2, 1).integers(2**63))
    states = training(
        initial_parameters(2, 1, 4, 4, n_replicas=2, seed=seed), system.training_inputs()[None], system.loss(),
        system.make_optimiser(), 2,
    )  # fmt: skip
    np.testing.assert_allclose(arrays["loss"], np.stack([state.loss for state in states]), rtol=1e-12)
    shadows = ShadowHeads(initial_parameters(2, 1, 4, 4, n_replicas=2, seed=seed), system.make_optimiser())
    for step in range(2):
        shadows.follow(stored_flow(system, limit, "training", step))
    *_, last = training(
        initial_parameters(2, 1, 4, 4, n_replicas=2, seed=seed), system.training_inputs()[None], system.loss(),
        system.make_optimiser(), 2,
    )  # fmt: skip
    np.testing.assert_allclose(arrays["coupling"][1], head_distance(last.theta, shadows.theta).coupling, rtol=1e-9)
    final = forward(initial_parameters(2, 1, 4, 4, n_replicas=2, seed=seed), system.fresh_inputs()[None])[-1]
    assert arrays["end_variance"][0] == pytest.approx(float(final.var(dim=0).mean()), rel=1e-12)
