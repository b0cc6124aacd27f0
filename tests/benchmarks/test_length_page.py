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
from benchmarks.length.train import SHORT, SHORT_SHARE
from benchmarks.machine import RESULTS
from benchmarks.pages import filled
from numpy.typing import NDArray

from attnlim.core.intervals import jackknife_mean
from attnlim.core.regression import slope
from attnlim.rules.factors import yarn_attention_factor

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

    def above(arm: str) -> int:
        """Critical heads with b_c above 1 in the last octave that was trained."""
        log_n = results.run("gap_log_n", "critical", arm)[0]
        octave = int(np.flatnonzero(log_n <= math.log(n_0))[-1])
        return int((results.run("critical_multiplier", "critical", arm)[:, octave] > 1).sum())

    def answered(arm: str) -> str:
        """Of the questions of the last three blocks of training."""
        return f"{100 * results.run('accuracy', 'softmax', arm)[:, -3:].mean():.0f} %"

    gains = np.concatenate([results.run("gain", "critical", arm)[:, -1].ravel() for arm in ("nope", "rope")])
    scales = np.concatenate([results.run("scale", "ssmax", arm)[:, -1].ravel() for arm in ("nope", "rope")])
    both = np.mean([kappa(results, "critical", arm).mean() for arm in ("nope", "rope")])
    rho = results.run("rho", "softmax", "nope")[:, :, -1].mean(axis=0)
    stretched, plain = (
        [results.of(TEXT, "softmax", arm, n, name).mean() for name in (NONE, YARN)]
        for arm in ("rope unseen, yarn", "rope unseen")
    )
    short = results.of(TEXT, "softmax", "rope unseen", n_0).mean()
    log_n = results.run("gap_log_n", "softmax", "nope")[0]
    within = log_n <= math.log(n_0)
    growth = results.run("critical_multiplier", "softmax", "nope")[:, within]
    early = np.nanmean(slope(np.log(log_n[within])[:, None, None], np.log(growth), axis=1))
    for said in (
        f"falls from {recall(RECALL, 'nope', n_0)} at 256 tokens to {recall(RECALL, 'nope', n)} at 4096, "
        f"and is {recall(RECALL, 'nope', n, LOG)} there with the log rule",
        f"grows as (ln n)<sup>{with_half(best_power(results, TEXT, 'softmax', 'rope'), 2)}</sup>",
        f"which gains {-text_change('rope', LOG):.3f} nats a byte at 4096, cannot be told from the best constant, which gains "
        f"{gain_of_best('rope'):.3f}",
        f"gap counts on text {above('nope')} of the 48 heads without positions are below critical there, and {above('rope')} of 48",
        f"mean κ of {both:.2f} from 256 to 4096 tokens",
        f"but as {kappa(results, 'critical', 'nope').mean():.2f} without positions and "
        f"{kappa(results, 'critical', 'rope').mean():.2f} with rotary ones",
        f"to {attended('nope')} as many without positions, but to {attended('rope')} with rotary ones",
        f"(the best gains {gain_of_best('nope'):.3f} nats), log costs {text_change('nope', LOG):.3f}, "
        f"and the critical rule {text_change('nope', CRITICAL):.3f}",
        f"grows as (ln n)<sup>{power_of_gaps('nope'):.2f}</sup> from 256 to 4096 keys",
        f"up to 256 keys it grew as (ln n)<sup>{early:.2f}</sup>",
        f"but it is {best(results, RECALL_NLL, 'softmax', 'nope', n_0).multiplier.mean():.2f} at 256 tokens already",
        f"from {recall(RECALL, 'rope', n_0)} to {recall(RECALL, 'rope', n)} without one, "
        f"to {recall(RECALL, 'rope', n, LOG)} with log",
        f"in training {answered('rope')} are answered with gaps and {answered('rope unseen')} without",
        f"{few('critical')} of few pairs at 4096, against {few('softmax')} with softmax and {few('softmax', LOG)} with log",
        f"takes back {plain[0] - plain[1]:.3f} of the {plain[0] - short:.3f} nats that 4096 tokens cost over 256. "
        f"On stretched positions it takes back {stretched[0] - stretched[1]:.3f}",
        f"to ρ̂ = {rho[1]:.2f} without positions, and part again, to {rho[-1]:.2f} at the end",
        f"κ of the last softmax layer is {kappa(results, 'softmax', 'nope')[:, -1].mean():.2f} without positions",
        f"and {kappa(results, 'softmax', 'rope')[:, -1].mean():.2f} with rotary ones",
        f"ends between {gains.min():.2f} and {gains.max():.2f}",
        f"end at {scales.mean():.2f} in the mean, below the 0.43",
    ):
        assert said in flat, said
    assert results.run("step", "softmax", "nope")[0][1] == 25 and gains.min() > 1


def test_what_is_compared_in_words_is_so(results: Results) -> None:
    verdicts = {one.prediction.name: one for one in judged(results)}
    of_recall = verdicts["best_recall_multiplier_softmax_nope"]
    assert of_recall.verdict == "contradicted" and of_recall.low >= 1.99  # "at the end of the range, 2 or more"
    assert of_recall.high == math.inf and math.isnan(verdicts["best_recall_power_softmax_nope"].estimate)
    assert (of_recall.prediction.low, of_recall.prediction.high) == (pytest.approx(1.2247, abs=1e-4), 1.5)
    trained_in = verdicts["recall_trained_in_less_log"]
    assert trained_in.low < 0 < trained_in.high  # "does no better"
    assert {one.verdict for one in (trained_in, verdicts["unseen_positions_stay_broken"])} == {"undecided", "confirmed"}
    # "a constant of 1.5 recalls as much as log at 4096 tokens, and no less than 1 at 256"
    n, n_0 = results.longest, results.lengths[0]
    sharper = [results.of(RECALL, "softmax", "nope", length, "1.5") for length in (n, n_0)]
    assert sharper[0] == pytest.approx(results.of(RECALL, "softmax", "nope", n, LOG))
    assert sharper[1].mean() >= results.of(RECALL, "softmax", "nope", n_0).mean()
    # "the first 150 on sequences of 64": a share of the 500 steps
    assert (SHORT, SHORT_SHARE * results.figures["setting"]["steps"]) == (64, 150)
    # "most in the first layer", "it recalls better in training already"
    powers = np.nanmean(results.run("exponent", "softmax", "nope"), axis=(0, 2))
    assert powers.argmax() == 0
    critical, plain = (results.run("accuracy", kind, "rope")[:, -3:].mean() for kind in ("critical", "softmax"))
    assert critical > plain
    # "none of five multipliers up to 1.63"
    assert len(results.names("softmax", "rope unseen", n)) == 5
    assert yarn_attention_factor(n / n_0) ** 2 == pytest.approx(1.63, abs=0.005)
    # "log, frozen log, the critical rule and the best constant cannot be told apart"
    n = results.longest
    values = [results.of(TEXT, "softmax", "rope", n, name) for name in (LOG, "frozen log", CRITICAL)]
    values.append(best(results, TEXT, "softmax", "rope", n).value)
    for one in values[1:]:
        interval = jackknife_mean(one - values[0])
        assert interval.low < 0 < interval.high
    # "κ begins near 1 with softmax, and by step 300 it is below 0.8 in all its layers but the first"
    for arm in ("nope", "rope"):
        at = results.run("step", "softmax", arm)[0].tolist().index(300)
        layers = results.run("kappa", "softmax", arm).mean(axis=(0, 3))
        assert (np.abs(layers[0] - 1) < 0.05).all()
        assert (layers[at, 1:] < 0.8).all() and layers[at, 0] > 0.8
    # ρ̂ comes and goes "in every kind alike"
    kinds = [(kind, arm) for kind in ("softmax", "ssmax", "critical") for arm in ("nope", "rope")]
    courses = np.array([results.run("rho", *kind)[:, :, -1].mean(axis=0) for kind in kinds])
    assert (np.abs(courses[:, 1] - 0.84) < 0.02).all() and (courses[:, -1] < 0.4).all()
    # "text gets worse with length under every rule" without positions
    for name in (NONE, *(name for name in results.names("softmax", "nope", n) if not name[0].isdigit())):
        losses = [results.of(TEXT, "softmax", "nope", length, name).mean() for length in results.lengths]
        assert losses == sorted(losses)
