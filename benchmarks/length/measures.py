"""The numbers that predictions are about, one a seed; and the verdict on each prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlim.context.phases import focus_exponent
from attnlim.core.intervals import jackknife_mean
from attnlim.core.regression import slope
from benchmarks.judging import Word, verdict, vertex
from benchmarks.length.multipliers import CRITICAL, LOG, NONE
from benchmarks.length.predictions import PREDICTIONS, Prediction
from benchmarks.length.results import Results

Floats = NDArray[np.float64]
ARMS = ("nope", "rope")
RECALL, RECALL_NLL, TEXT = "crowded_right", "crowded_nll", "text"
SOFTER = "0.7"


class Best(NamedTuple):
    """(n_seeds,) the best multiplier, the quantity there, and 1 or -1 where it is the largest or smallest that was read."""

    multiplier: Floats
    value: Floats
    side: Floats


def best(results: Results, quantity: str, parametrisation: str, arm: str, n: int) -> Best:
    """Where a quantity is least over constants: the vertex of the parabola in ln b through the least value and its neighbours.

    At the ends of the range it is the end itself, a bound.
    """
    names = results.constants(parametrisation, arm, n)
    log_b = np.log([float(name) for name in names])
    values = np.stack([results.of(quantity, parametrisation, arm, n, name) for name in names], axis=1)
    places, least = zip(*(vertex(log_b, row) for row in values), strict=True)
    side = np.isclose(places, log_b[-1]).astype(float) - np.isclose(places, log_b[0])
    return Best(np.exp(places), np.array(least), side)


def kappa(results: Results, parametrisation: str, arm: str, name: str = NONE) -> Floats:
    """(n_seeds, n_layers) κ from n_0 to the longest context, of the layer's mean entropy on text."""
    log_n = np.log(results.lengths)
    entropy = np.stack([results.of("text_entropy", parametrisation, arm, n, name) for n in results.lengths], axis=-1)
    return focus_exponent(log_n, entropy)


def best_power(results: Results, quantity: str, parametrisation: str, arm: str) -> Floats:
    """(n_seeds,) the power of ln n with which the best multiplier grows; NaN where one of them is a bound."""
    found = [best(results, quantity, parametrisation, arm, n) for n in results.lengths]
    log_b = np.log([one.multiplier for one in found])
    power = slope(np.log(np.log(results.lengths))[:, None], log_b, axis=0)
    return np.where(np.any([one.side for one in found], axis=0), np.nan, power)


def text_gain(results: Results, arm: str) -> Floats:
    """NLL that softmax gains on text at the longest context by its best constant, nats a byte."""
    now = results.of(TEXT, "softmax", arm, results.longest)
    return now - best(results, TEXT, "softmax", arm, results.longest).value


def share_at(
    results: Results, arm: str, n: int, multiplier: Floats, share: str = "text_share", parametrisation: str = "softmax"
) -> Floats:
    """(n_seeds,) ln(e^H/n) at a multiplier of each seed, between the ones that were read."""
    names = results.constants(parametrisation, arm, n)
    log_b = np.log([float(name) for name in names])
    log_share = np.log(np.stack([results.of(share, parametrisation, arm, n, name) for name in names], axis=1))
    return np.array([np.interp(np.log(b), log_b, row) for b, row in zip(multiplier, log_share, strict=True)])


def over_arms(of_arm: Callable[[str], Floats]) -> Floats:
    """Mean over both kinds of positions."""
    mean: Floats = np.mean([of_arm(arm) for arm in ARMS], axis=0)
    return mean


def _kappa(parametrisation: str, arms: Sequence[str] = ARMS) -> Callable[[Results], Floats]:
    return lambda results: np.mean([kappa(results, parametrisation, arm).mean(axis=1) for arm in arms], axis=0)


def _recall_gain(arm: str) -> Callable[[Results], Floats]:
    def gain(results: Results) -> Floats:
        n = results.longest
        return results.of(RECALL, "softmax", arm, n, LOG) - results.of(RECALL, "softmax", arm, n)

    return gain


def _best_of_both(parametrisation: str) -> Callable[[Results], Floats]:
    """The geometric mean over both kinds of positions."""
    return lambda results: np.exp(
        over_arms(lambda arm: np.log(best(results, RECALL_NLL, parametrisation, arm, results.longest).multiplier))
    )


def _recall_difference(parametrisation: str, name: str) -> Callable[[Results], Floats]:
    """Recall of a parametrisation by itself, less that of softmax under a rule."""

    def difference(results: Results) -> Floats:
        n = results.longest
        return over_arms(
            lambda arm: results.of(RECALL, parametrisation, arm, n) - results.of(RECALL, "softmax", arm, n, name)
        )

    return difference


def _softer(results: Results) -> Floats:
    n = results.lengths[0]

    def cost(quantity: str, arm: str) -> Floats:
        return results.of(quantity, "softmax", arm, n, SOFTER) - results.of(quantity, "softmax", arm, n)

    return over_arms(lambda arm: cost(RECALL_NLL, arm) - cost(TEXT, arm))


def _fewer(results: Results) -> Floats:
    n = results.longest

    def difference(arm: str) -> Floats:
        recall, text = (best(results, quantity, "softmax", arm, n).multiplier for quantity in (RECALL_NLL, TEXT))
        return share_at(results, arm, n, recall) - share_at(results, arm, n, text)

    return over_arms(difference)


def _critical_rule(results: Results) -> Floats:
    n = results.longest
    return over_arms(
        lambda arm: results.of(TEXT, "softmax", arm, n, CRITICAL) - results.of(TEXT, "softmax", arm, n, LOG)
    )


def _rho(results: Results) -> Floats:
    kinds = [(parametrisation, arm) for parametrisation in ("softmax", "ssmax", "critical") for arm in ARMS]
    ends = [results.run("rho", *kind)[:, -1] for kind in kinds]
    rise: Floats = np.mean([end[:, -1] - end[:, 0] for end in ends], axis=0)
    return rise


def _unseen(results: Results) -> Floats:
    arm, n = "rope unseen", results.longest
    under = [results.of(TEXT, "softmax", arm, n, name) for name in results.names("softmax", arm, n)]
    least: Floats = np.min(under, axis=0)
    return least - results.of(TEXT, "softmax", arm, results.lengths[0])


MEASURES: dict[str, Callable[[Results], Floats]] = {
    "kappa_softmax_nope": _kappa("softmax", ("nope",)),
    "kappa_softmax_less_ssmax": lambda results: _kappa("softmax")(results) - _kappa("ssmax")(results),
    "kappa_softmax_less_critical": lambda results: _kappa("softmax")(results) - _kappa("critical")(results),
    "kappa_critical": _kappa("critical"),
    "recall_lost_softmax_nope": lambda results: (
        results.of(RECALL, "softmax", "nope", results.lengths[0])
        - results.of(RECALL, "softmax", "nope", results.longest)
    ),
    "recall_gain_log_nope": _recall_gain("nope"),
    "recall_gain_log_rope": _recall_gain("rope"),
    "best_recall_multiplier_softmax_nope": lambda results: (
        best(results, RECALL_NLL, "softmax", "nope", results.longest).multiplier
    ),
    "best_recall_power_softmax_nope": lambda results: best_power(results, RECALL_NLL, "softmax", "nope"),
    "best_recall_multiplier_ssmax": _best_of_both("ssmax"),
    "best_recall_multiplier_critical": _best_of_both("critical"),
    "recall_trained_in_less_log": _recall_difference("ssmax", LOG),
    "recall_critical_less_softmax": _recall_difference("critical", NONE),
    "text_need_nope_less_rope": lambda results: text_gain(results, "nope") - text_gain(results, "rope"),
    "softer_hurts_recall_first": _softer,
    "recall_attends_to_less": _fewer,
    "text_critical_rule_less_log": _critical_rule,
    "power_of_critical_multiplier": lambda results: over_arms(
        lambda arm: np.nanmean(results.run("exponent", "softmax", arm), axis=(1, 2))
    ),
    "rho_grows_with_depth": _rho,
    "sharpest_gain_critical": lambda results: np.min(
        [results.run("gain", "critical", arm)[:, -1].max(axis=(1, 2)) for arm in ARMS], axis=0
    ),
    "unseen_positions_stay_broken": _unseen,
}
# where a measure is a bound for some seed: 1 or -1 for it, by the name of the measure
SIDES: dict[str, Callable[[Results], Floats]] = {
    "best_recall_multiplier_softmax_nope": lambda results: (
        best(results, RECALL_NLL, "softmax", "nope", results.longest).side
    ),
}


@dataclass(frozen=True)
class Judged:
    """A prediction beside what was measured; the interval is that of the mean over seeds, open where one of them is a bound."""

    prediction: Prediction
    estimate: float
    low: float
    high: float
    verdict: Word


def judged(results: Results, predictions: Sequence[Prediction] = PREDICTIONS) -> list[Judged]:
    """Every prediction against the results."""
    found = []
    for one in predictions:
        interval = jackknife_mean(MEASURES[one.name](results))
        side = SIDES[one.name](results) if one.name in SIDES else np.zeros(1)
        low = -np.inf if (side < 0).any() else float(interval.low)
        high = np.inf if (side > 0).any() else float(interval.high)
        found.append(Judged(one, float(interval.estimate), low, high, verdict(one.low, one.high, low, high)))
    return found
