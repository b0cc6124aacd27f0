"""docs/length.md: its tables are those of the kept results, and its sentences say what they hold."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from benchmarks.length.measures import RECALL, RECALL_NLL, TEXT, best, best_power, judged, kappa, share_at
from benchmarks.length.multipliers import CRITICAL, LOG, NONE, YARN
from benchmarks.length.page import PAGE
from benchmarks.length.results import Results
from benchmarks.length.tables import FEW, every_table
from benchmarks.machine import RESULTS
from benchmarks.pages import filled
from numpy.typing import NDArray

from attnlim.core.intervals import jackknife_mean

COMMAND = "benchmarks.length.page"


@pytest.fixture(scope="module")
def results() -> Results:
    """The kept ones."""
    return Results.load(RESULTS / "length.json")


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def with_half(values: NDArray[np.float64], digits: int) -> str:
    interval = jackknife_mean(values)
    return f"{float(interval.estimate):.{digits}f} ± {float(interval.high - interval.estimate):.{digits}f}"


def test_tables_are_those_of_the_kept_results(results: Results) -> None:
    tables = every_table(results)
    assert filled(page(), COMMAND, tables) == page()
    assert set(re.findall(rf"printed by: python -m {COMMAND} · (.+) -->", page())) == set(tables)


def test_sentences_say_what_was_kept(results: Results) -> None:
    flat = " ".join(page().split())
    n, n_0 = results.longest, results.lengths[0]

    def recall(quantity: str, arm: str, length: int, name: str = NONE, parametrisation: str = "softmax") -> str:
        return f"{100 * results.of(quantity, parametrisation, arm, length, name).mean():.0f} %"

    def few(parametrisation: str, name: str = NONE) -> str:
        return with_half(100 * results.of(FEW, parametrisation, "rope", n, name), 0) + " %"

    def text_change(arm: str, name: str) -> float:
        return float((results.of(TEXT, "softmax", arm, n, name) - results.of(TEXT, "softmax", arm, n)).mean())

    def gain_of_best(arm: str) -> float:
        none = results.of(TEXT, "softmax", arm, n)
        return float((none - best(results, TEXT, "softmax", arm, n).value).mean())

    def power_of_gaps(arm: str) -> float:
        return float(np.nanmean(results.run("exponent", "softmax", arm)))

    def attended(arm: str) -> str:
        """Tokens attended at the multiplier that is best for recall, over those at the one for text."""
        at = [best(results, quantity, "softmax", arm, n).multiplier for quantity in (RECALL_NLL, TEXT)]
        apart = share_at(results, arm, n, at[0]) - share_at(results, arm, n, at[1])
        return f"{100 * math.exp(apart.mean()):.0f} %"

    gains = np.concatenate([results.run("gain", "critical", arm)[:, -1].ravel() for arm in ("nope", "rope")])
    scales = np.concatenate([results.run("scale", "ssmax", arm)[:, -1].ravel() for arm in ("nope", "rope")])
    both = np.mean([kappa(results, "critical", arm).mean() for arm in ("nope", "rope")])
    rho = results.run("rho", "softmax", "nope")[:, :, -1].mean(axis=0)
    stretched = [results.of(TEXT, "softmax", "rope unseen, yarn", n, name).mean() for name in (NONE, YARN)]
    for said in (
        f"falls from {recall(RECALL, 'nope', n_0)} at 256 tokens to {recall(RECALL, 'nope', n)} at 4096, "
        f"and is {recall(RECALL, 'nope', n, LOG)} there with the log rule",
        f"grows as (ln n)<sup>{with_half(best_power(results, TEXT, 'softmax', 'rope'), 2)}</sup>",
        f"log gains {-text_change('rope', LOG):.3f} of the {gain_of_best('rope'):.3f} nats a byte",
        f"of those heads grows as (ln n)<sup>{power_of_gaps('rope'):.2f}</sup>",
        f"mean κ of {both:.2f} from 256 to 4096 tokens",
        f"but as {kappa(results, 'critical', 'nope').mean():.2f} without positions and "
        f"{kappa(results, 'critical', 'rope').mean():.2f} with rotary ones",
        f"to {attended('nope')} as many without positions, but to {attended('rope')} with rotary ones",
        f"(the best gains {gain_of_best('nope'):.3f} nats), log costs {text_change('nope', LOG):.3f}, "
        f"and the critical rule {text_change('nope', CRITICAL):.3f}",
        f"grows as (ln n)<sup>{power_of_gaps('nope'):.2f}</sup> there",
        f"from {recall(RECALL, 'rope', n_0)} to {recall(RECALL, 'rope', n)} without one, "
        f"to {recall(RECALL, 'rope', n, LOG)} with log",
        f"{few('critical')} of few pairs at 4096, against {few('softmax')} with softmax and {few('softmax', LOG)} with log",
        f"is worth {stretched[0] - stretched[1]:.3f} nats at 4096",
        f"to ρ̂ = {rho[1]:.2f} without positions, and part again, to {rho[-1]:.2f} at the end",
        f"κ of the last softmax layer is {kappa(results, 'softmax', 'nope')[:, -1].mean():.2f} without positions",
        f"and {kappa(results, 'softmax', 'rope')[:, -1].mean():.2f} with rotary ones",
        f"from {gains.min():.2f} to {gains.max():.2f}",
        f"end at {scales.mean():.2f} in the mean, below the 0.43",
    ):
        assert said in flat, said
    assert results.run("step", "softmax", "nope")[0][1] == 25 and gains.min() > 1


def test_what_is_compared_in_words_is_so(results: Results) -> None:
    verdicts = {one.prediction.name: one for one in judged(results)}
    of_recall = verdicts["best_recall_multiplier_softmax_nope"]
    assert of_recall.verdict == "contradicted" and of_recall.low >= 1.99  # "at the end of the range, 2 or more"
    assert (of_recall.prediction.low, of_recall.prediction.high) == (pytest.approx(1.2247, abs=1e-4), 1.5)
    trained_in = verdicts["recall_trained_in_less_log"]
    assert trained_in.low < 0 < trained_in.high  # "does no better"
    # "log, frozen log, the critical rule and the best constant cannot be told apart"
    n = results.longest
    values = [results.of(TEXT, "softmax", "rope", n, name) for name in (LOG, "frozen log", CRITICAL)]
    values.append(best(results, TEXT, "softmax", "rope", n).value)
    for one in values[1:]:
        interval = jackknife_mean(one - values[0])
        assert interval.low < 0 < interval.high
    # "by step 300 κ is below 0.8 in all layers but the first of softmax"
    for parametrisation in ("softmax", "critical"):
        for arm in ("nope", "rope"):
            at = results.run("step", parametrisation, arm)[0].tolist().index(300)
            layers = results.run("kappa", parametrisation, arm)[:, at].mean(axis=(0, 2))
            assert (layers[1 if parametrisation == "softmax" else 0 :] < 0.8).all()
            assert layers[0] > 0.8 or parametrisation == "critical"
    # "text gets worse with length under every rule" without positions
    for name in (NONE, *(name for name in results.names("softmax", "nope", n) if not name[0].isdigit())):
        losses = [results.of(TEXT, "softmax", "nope", length, name).mean() for length in results.lengths]
        assert losses == sorted(losses)
