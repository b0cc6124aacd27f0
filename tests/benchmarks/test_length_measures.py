"""The statistics of the length benchmark, on results whose every number is known."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.length.measures import MEASURES, best, best_power, judged, kappa
from benchmarks.length.predictions import PREDICTIONS
from benchmarks.length.results import Results, keep
from benchmarks.length.tables import every_table
from tests.benchmarks import made_up_length as made_up

from attnlim.core.checks import InputError

RATIO = math.log(4096) / math.log(256)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Written and read again, so that what is tested has been rounded and has been JSON."""
    path = tmp_path_factory.mktemp("made-up") / "length.json"
    keep(path, {"figures": made_up.figures()})
    return Results.load(path)


def test_the_best_multiplier_is_the_vertex(results: Results) -> None:
    for n in results.lengths:
        exact = (math.log(n) / math.log(256)) ** made_up.RECALL_POWER
        found = best(results, "crowded_nll", "softmax", "nope", n)
        # a parabola through three of its own points is itself; five digits are kept of each
        assert found.multiplier == pytest.approx(exact, rel=1e-3)
        assert found.value == pytest.approx([0.0, 0.01, 0.02], abs=1e-4)
    assert best_power(results, "crowded_nll", "softmax", "rope") == pytest.approx(made_up.RECALL_POWER, abs=2e-3)
    assert best(results, "crowded_nll", "ssmax", "nope", 4096).multiplier == pytest.approx(1.0, abs=1e-3)


def test_at_the_edge_it_is_the_edge(results: Results) -> None:
    found = best(results, "text_share", "softmax", "nope", 512)  # falls with every sharpening
    assert found.multiplier == pytest.approx(2.0)


def test_kappa_is_the_slope_of_every_layer(results: Results) -> None:
    for parametrisation, exact in made_up.KAPPA.items():
        found = kappa(results, parametrisation, "rope")
        assert found.shape == (3, 4)
        assert found == pytest.approx(exact, abs=1e-4)  # five digits of an entropy of a few nats


def test_every_measure_has_its_value(results: Results) -> None:
    growth = math.log(RATIO)
    to_log = (1 - made_up.RECALL_POWER) * growth
    never = 2 * (made_up.RECALL_POWER * growth) ** 2
    softer = math.log(0.7)

    def right(nll: float) -> float:
        return math.exp(-nll) * np.mean([math.exp(-0.01 * seed) for seed in range(3)])

    gain = right(2 * to_log**2) - right(never)
    off = growth * (made_up.GAP_POWER - made_up.TEXT_POWER)
    best_recall = made_up.RECALL_POWER * growth
    known = {
        "kappa_softmax_nope": 0.9, "kappa_softmax_less_ssmax": 0.3, "kappa_softmax_less_critical": 0.4,
        "kappa_critical": 0.5, "recall_lost_softmax_nope": right(0) - right(never),
        "recall_gain_log_nope": gain, "recall_gain_log_rope": gain,
        "best_recall_multiplier_softmax_nope": math.exp(best_recall),
        "best_recall_power_softmax_nope": made_up.RECALL_POWER,
        "best_recall_multiplier_ssmax": 1.0, "best_recall_multiplier_critical": 1.0,
        "recall_trained_in_less_log": right(0) - right(2 * to_log**2),
        "recall_critical_less_softmax": right(0) - right(never),
        "text_need_nope_less_rope": (made_up.TEXT_POWER * growth) ** 2,
        "softer_hurts_recall_first": (2 - 1.5) * softer**2,
        "recall_attends_to_less": -2 * (best_recall - made_up.TEXT_POWER * growth),
        "text_critical_rule_less_log": 1.5 * (off**2 - ((1 - made_up.TEXT_POWER) * growth) ** 2),
        "power_of_critical_multiplier": made_up.GAP_POWER, "rho_grows_with_depth": 0.3,
        "sharpest_gain_critical": made_up.GAIN,
    }  # fmt: skip
    for name, exact in known.items():
        values = MEASURES[name](results)
        assert values.shape == (3,), name
        assert values.mean() == pytest.approx(exact, rel=5e-3, abs=1e-3), name
    broken = MEASURES["unseen_positions_stay_broken"](results)
    assert 0.5 * math.log(16) <= broken.mean() < 0.5 * math.log(16) + 0.1


def test_every_prediction_has_a_measure() -> None:
    assert {one.name for one in PREDICTIONS} == set(MEASURES)
    assert all(one.low < one.high for one in PREDICTIONS)


def test_verdicts(results: Results) -> None:
    one = next(prediction for prediction in PREDICTIONS if prediction.name == "recall_lost_softmax_nope")
    mean = judged(results, [one])[0].estimate
    for low, high, word in ((-1, 1, "confirmed"), (mean + 1, 2, "contradicted"), (mean, 1, "undecided")):
        assert judged(results, [replace(one, low=low, high=high)])[0].verdict == word


def test_one_seed_decides_nothing() -> None:
    given = made_up.figures()
    given["readings"] = [one for one in given["readings"] if one["seed"] == 0]
    given["runs"] = [one for one in given["runs"] if one["seed"] == 0]
    assert {one.verdict for one in judged(Results(given))} == {"undecided"}


def test_a_rule_within_the_trained_length_is_none(results: Results) -> None:
    same = [results.of("text", "softmax", "nope", 256, name) for name in ("log", "critical", "1")]
    assert np.ptp(same, axis=0).max() == 0


def test_what_was_not_read_is_said(results: Results) -> None:
    with pytest.raises(InputError, match="was not read under 'log' at 512; there are 0.5"):
        results.of("text", "ssmax", "nope", 512, "log")
    with pytest.raises(InputError, match="there are lengths"):
        results.of("text", "ssmax", "nope", 300)


def test_tables_are_well_formed(results: Results) -> None:
    for name, table in every_table(results).items():
        columns = {line.count("|") for line in table.splitlines()}
        assert len(columns) == 1, name
        assert "nan" not in table, name
    # differences are paired: every seed has the same one, so its interval has no width
    line = next(row for row in every_table(results)["text, nope"].splitlines() if row.startswith("| softmax, log"))
    assert line.endswith("± 0.000 |")


def test_a_best_multiplier_at_the_end_of_the_range_is_a_bound() -> None:
    figures = made_up.figures()
    for one in figures["readings"]:
        if one["parametrisation"] == "softmax" and one["arm"] == "rope" and one["n"] == 4096 and one["seed"] == 1:
            one["text"] = -np.arange(len(one["names"]), dtype=float)
    rows = {
        row.split(" | ")[0]: row.strip("| ").split(" | ") for row in every_table(Results(figures))["best"].splitlines()
    }
    bounded, free = rows["| rotary, text, softmax"], rows["| no positions, text, softmax"]
    exact = [(math.log(n) / math.log(256)) ** made_up.TEXT_POWER for n in made_up.LENGTHS]
    assert bounded[1:-2] == free[1:-2] == [f"{value:.2f}" for value in exact[:-1]]
    assert bounded[-2:] == [f"≥ {(2 * exact[-1] + 2) / 3:.2f}", "–"] and free[-1] == "0.50 ± 0.00"


def test_kept_files_are_repeatable_and_short(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    for path in (first, second):
        keep(path, {"figures": made_up.figures()})
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size < 1_000_000
