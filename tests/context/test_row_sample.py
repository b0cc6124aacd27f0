"""Which rows are drawn, that all measures draw the same, what a choice of rows says, and the documented coverage."""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from tests.script_modules import script_module

from attnlim.context import contraction, focus, gaussian_tokens, geometry, jacobian_energy
from attnlim.context.row_sample import named_rows, sampled_rows, unseen_share
from attnlim.core.checks import InputError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """examples/sampled_rows.py as a module."""
    return script_module(ROOT / "examples" / "sampled_rows.py")


def test_drawn_rows_are_a_simple_random_sample() -> None:
    n, rows, draws = 12, 5, 2000
    counts = np.zeros(n)
    for seed in range(draws):
        drawn = sampled_rows(rows, n, seed, least=2)
        assert drawn is not None
        assert (drawn.diff() > 0).all() and len(drawn) == rows
        counts[drawn.numpy()] += 1
    # a row is in with probability r/n: binomial counts, of which twelve stay within 4 standard deviations
    share = rows / n
    assert np.abs(counts / draws - share).max() < 4 * math.sqrt(share * (1 - share) / draws)


def test_one_seed_draws_the_same_rows_for_every_measure() -> None:
    x = gaussian_tokens(60, 5, 0.5)
    drawn = focus(x, 2.0, rows=7, seed=3).rows.tolist()
    assert jacobian_energy(x, 2.0, rows=7, seed=3).total == jacobian_energy(x, 2.0, rows=drawn).total
    assert contraction(x, 2.0, rows=7, seed=3).value == contraction(x, 2.0, rows=drawn).value
    assert geometry(x, 7, seed=3).score_variance == geometry(x, drawn).score_variance
    # pairs with an end among the anchors against pairs among the rows
    assert (geometry(x, 7).n_pairs, contraction(x, 2.0, rows=7).n_pairs) == (7 * 59 - 21, 21)


def test_named_rows_have_no_standard_error() -> None:
    x, named = gaussian_tokens(60, 5, 0.5), [4, 8, 15, 16, 23, 42]
    energy = jacobian_energy(x, [1.0, 5.0], rows=named)
    assert np.isnan(energy.standard_error).all() and np.isfinite(energy.total).all()
    assert math.isnan(jacobian_energy(x, 1.0, rows=named, probes=4).standard_error)
    assert math.isnan(geometry(x, named).score_variance_standard_error)
    assert math.isnan(contraction(x, 1.0, rows=named).standard_error)
    every = list(range(60))
    assert jacobian_energy(x, 1.0, rows=every).standard_error == geometry(x, every).score_variance_standard_error == 0
    assert jacobian_energy(x, 1.0, rows=6).standard_error > 0 < geometry(x, 6).score_variance_standard_error


def test_unseen_share_of_what_is_given() -> None:
    for given in (3, np.int64(3), torch.tensor(3)):
        assert unseen_share(given, 12) == 0.75
    for named in ([1, 2], (1, 2), range(2), np.array([1, 2]), torch.tensor([1, 2])):
        assert math.isnan(unseen_share(named, 12))
    assert unseen_share(None, 12) == unseen_share(12, 12) == unseen_share(range(12), 12) == 0


def test_bad_rows_are_refused() -> None:
    for rows, message in (
        (1, "rows must be a whole number of at least 2, got 1; use rows=None for all"),
        (9, "rows must be at most the 8 tokens, got 9; use rows=None for all"),
        ([3], "rows must be at least 2 different indices below 8, got 1 from 3 to 3"),
        ([], "at least 2 different indices below 8, got none"),
        ([0, 8], "got 2 from 0 to 8"),
        ([1, 1], "got 2 from 1 to 1"),
        ([0, -1], "an index in rows must be a whole number of at least 0, got -1"),
        ([[0, 1]], r"an index in rows must be a whole number of at least 0, got \[0, 1\]"),
    ):
        with pytest.raises(InputError, match=message):
            sampled_rows(rows, 8, 0, least=2)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"rows must be indices of rows, got 3; give a list, such as \[0, 1\]"):
        named_rows(3, 8, least=1)
    with pytest.raises(InputError, match="anchors must be at most the 8 tokens, got 9; use anchors=None for all"):
        sampled_rows(9, 8, 0, least=1, name="anchors")


def test_the_script_measures_what_contraction_gives(script: ModuleType) -> None:
    for x in script.TOKENS.values():
        pairs = script.ratios(x, 12.0)
        for rows, seed in ((8, 0), (32, 5), (512, 1)):
            found = contraction(x, 12.0, rows=rows, seed=seed)
            # sums of pairs in float64; the jackknife takes differences of means that are alike
            (value,), (error,) = script.samples(pairs, rows, range(seed, seed + 1))
            assert (value, error) == pytest.approx((found.value, found.standard_error), rel=1e-11)


def test_documented_coverage_is_measured(script: ModuleType) -> None:
    text = (ROOT / "docs" / "transition.md").read_text(encoding="utf-8")
    begin = text.index("<!-- printed by: python examples/sampled_rows.py -->")
    table = text[begin:].split("\n\n")[1]
    assert table == script.table()
    shares = [[int(cell.split()[0]) for cell in line.split("|")[3:7]] for line in table.split("\n")[2:]]
    few, some, many, half = np.array(shares).T
    # what the page says of it, and the docstring of `rows`; 1000 samples tell a share to 1 %
    assert few.max() <= 86 and some.min() >= 91 and many.min() >= 93 and half.min() >= 94
    said = f"{few.min()} to {few.max()} % of samples of 8 rows, {some.min()} to {some.max()} % of 32, {many.min()} to"
    assert said in " ".join(str(contraction.__doc__).split())
    assert f"Measured\nwith {script.SEEDS} samples of one token set each, n = {script.N_TOKENS}" in text
