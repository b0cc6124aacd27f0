"""What the theory makes us expect, written down before any decoder was read beyond its trained length.

Every prediction is a range for one number, which :mod:`benchmarks.length.measures` computes from the results of one seed.
n_0 = 256 is the trained length, 4096 = 16 n_0 the longest one read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

INFINITY = math.inf


@dataclass(frozen=True)
class Prediction:
    """A range in which a number is expected to lie.

    Attributes:
        name: that of the number in ``measures.MEASURES``.
        says: the prediction in words.
        because: where it comes from.
        low: the range's lower end.
        high: its upper end.
    """

    name: str
    says: str
    because: str
    low: float = -INFINITY
    high: float = INFINITY


PREDICTIONS: tuple[Prediction, ...] = (
    Prediction(
        "kappa_softmax_nope",
        "without a rule and without positions, softmax heads dilute: mean κ from 256 to 4096 is above .5",
        "at a fixed multiplier γ = β/ln n falls, so rows move towards the subcritical side, where κ → 1",
        low=0.5,
    ),
    Prediction(
        "kappa_softmax_less_ssmax",
        "SSMax dilutes less than softmax",
        "its multiplier grows as ln n, so γ stays",
        low=0.0,
    ),
    Prediction(
        "kappa_softmax_less_critical",
        "so does the critical parametrisation",
        "the same, with γ measured from γ_c",
        low=0.0,
    ),
    Prediction(
        "kappa_critical",
        "the critical parametrisation keeps mean κ between .2 and .8",
        "κ is .5 at γ_c on a simplex, and training starts at γ_c",
        low=0.2,
        high=0.8,
    ),
    Prediction(
        "recall_lost_softmax_nope",
        "without a rule softmax loses at least 10 points of recall among growing numbers of pairs, from 256 to 4096, without positions",
        "the mass of n e^{−Δ} other tokens outgrows the one that is asked for",
        low=0.1,
    ),
    Prediction(
        "recall_gain_log_nope",
        "Qwen's log rule, put on softmax at 4096, raises recall without positions",
        "it keeps n^{1 − γΔ} from growing",
        low=0.0,
    ),
    Prediction(
        "recall_gain_log_rope",
        "and with rotary positions whose distances were seen",
        "the same",
        low=0.0,
    ),
    Prediction(
        "best_recall_multiplier_softmax_nope",
        "the multiplier that is best for recall at 4096 lies between √log's 1.22 and log's 1.5, without positions",
        "a head that puts more than half of its weight on the right token at n_0 has a gap Δ > ln n_0, and needs 1 + ln 16/Δ; "
        "√ln n is what random scores need",
        low=math.sqrt(1.5),
        high=1.5,
    ),
    Prediction(
        "best_recall_power_softmax_nope",
        "over lengths it grows as a power of ln n between 1/2 and 1",
        "the two laws of the theory: √ln n for random scores, ln n for ordered scores with fixed gaps",
        low=0.5,
        high=1.0,
    ),
    Prediction(
        "best_recall_multiplier_ssmax",
        "on top of SSMax the best multiplier at 4096 is within 20 % of 1",
        "the parametrisation grows with ln n by itself",
        low=1 / 1.2,
        high=1.2,
    ),
    Prediction(
        "best_recall_multiplier_critical",
        "on top of the critical parametrisation too",
        "the same",
        low=1 / 1.2,
        high=1.2,
    ),
    Prediction(
        "recall_trained_in_less_log",
        "recall at 4096 is better where ln n was trained in (SSMax) than where log is put on softmax afterwards",
        "heads learn gaps that fit the factor",
        low=0.0,
    ),
    Prediction(
        "recall_critical_less_softmax",
        "recall at 4096 is better with the critical parametrisation than with softmax without a rule",
        "γ/γ_c does not fall with n",
        low=0.0,
    ),
    Prediction(
        "text_need_nope_less_rope",
        "text at 4096 gains more from its best multiplier without positions than with them",
        "rotary heads keep to near tokens by their phases, heads without positions have their scores alone",
        low=0.0,
    ),
    Prediction(
        "softer_hurts_recall_first",
        "a multiplier of .7 costs more NLL on recalled values than on text, at 256",
        "one token among n has to win; text averages over many",
        low=0.0,
    ),
    Prediction(
        "recall_attends_to_less",
        "where recall at 4096 is best, heads look at fewer tokens than where text is best (ln of the ratio of e^H/n)",
        "the same",
        high=0.0,
    ),
    Prediction(
        "text_critical_rule_less_log",
        "the critical rule per head is at least as good as log for all heads on text at 4096 (NLL, nats)",
        "heads differ in how their b_c grows; one factor is wrong for some",
        high=0.0,
    ),
    Prediction(
        "power_of_critical_multiplier",
        "the mean power of ln n with which b_c of softmax heads grows is between 1/2 and 1",
        "the same two laws",
        low=0.5,
        high=1.0,
    ),
    Prediction(
        "rho_grows_with_depth",
        "after training ρ̂ of the last layer's tokens is above that of the first",
        "attention brings tokens together",
        low=0.0,
    ),
    Prediction(
        "sharpest_gain_critical",
        "training puts at least one head of every critical run above γ_c (largest γ_h/γ_c)",
        "to single out one token takes γ > γ_c",
        low=1.0,
    ),
    Prediction(
        "unseen_positions_stay_broken",
        "rotary distances that were never trained on break text at 4096 by more than .2 nats, whatever the multiplier",
        "a multiplier does not change which way a key is turned",
        low=0.2,
    ),
)
