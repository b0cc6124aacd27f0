"""What was expected of one multiplier on a real model, and of rules beyond its trained length, before either was run.

Written down first, judged by :mod:`benchmarks.evidence` afterwards. A first trial on one window (mean loss of the last 4096 of 16384
tokens: none 3.337, YaRN 3.322, Qwen 3.317, an uncalibrated critical rule 3.334) was known then, and so was a first calibration that
gained 2.1 times what the best fixed rule did; nothing of what these pages measure was.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Prediction:
    """One expectation.

    Attributes:
        name: for the table.
        says: what is expected, so that a number can contradict it.
        why: the reasoning.
    """

    name: str
    says: str
    why: str


MULTIPLIER = (
    Prediction(
        "trained-optimum",
        "at every context the loss is least at a multiplier from 0.85 to 1.15",
        "weights were trained at b = 1; a first-order gain in either direction would have been taken by training",
    ),
    Prediction(
        "blunt-hurts-more-with-n",
        "the loss that b = 0.7 adds is larger at 8192 tokens than at 512",
        "a blunter head spreads over more competitors the more there are: b/b_c falls with n",
    ),
    Prediction(
        "sharp-hurts-less-with-n",
        "the loss that b = 1.35 adds is smaller at 8192 tokens than at 512",
        "the multiplier that keeps a head where it was grows with ln n",
    ),
    Prediction(
        "tokens-attended-fall",
        "the median head attends to fewer tokens at every larger b, at every context",
        "entropy falls in the inverse temperature for fixed scores; later layers' scores move too, but less",
    ),
    Prediction(
        "gradient-rises",
        "η of the attention in the middle layer is larger at b = 2 than at b = 0.5, at every context",
        "below criticality attention averages and its Jacobian is small; towards the identity it is not",
    ),
    Prediction(
        "cosine-falls",
        "ρ̂ after the middle layer is smaller at b = 2 than at b = 0.5, at every context",
        "averaging brings tokens together; sharper attention brings them together less",
    ),
)

RULES = (
    Prediction(
        "stretching-needed",
        "beyond the trained length raw extrapolation has more loss than none, at both targets",
        "rotary phases that were never trained",
    ),
    Prediction(
        "fixed-rules-help-little",
        "the best fixed rule gains less than 0.05 nats a token against none at twice the length, and more at four times",
        "the first trial's 0.02; ln n has grown by 8 % at twice and by 15 % at four times the length",
    ),
    Prediction(
        "calibrated-wins",
        "calibrated is better than every fixed rule on the test text, its interval below 0, at both targets",
        "the first calibration; heads differ in sign, which no shared rule can follow",
    ),
    Prediction(
        "critical-is-not-better",
        "the critical rule is not better than Qwen's beyond its interval",
        "a head that stays where it was is not what a head wants; powers of single heads are noisy",
    ),
    Prediction(
        "constant-grows",
        "the constant that is chosen at four times the length is at least the one at twice",
        "the factor that keeps a head's distance grows with ln n",
    ),
    Prediction(
        "below-the-length",
        "ssmax, which acts below the trained length too, has more loss than none there",
        "within the trained length b = 1 was trained",
    ),
    Prediction(
        "more-sharper-than-softer",
        "between half and three quarters of the heads would rather be sharper beyond the trained length",
        "dilution asks for sharpening; the first trial had 178 of 270",
    ),
    Prediction(
        "phase-does-not-say",
        "the rank correlation over heads of the calibrated slope with κ is below 0.3 in size",
        "the first trial had at most 0.23",
    ),
    Prediction(
        "needles",
        "with the calibrated rule the needles' numbers cost less than with none, at both targets",
        "sharper retrieval heads leave more on the needle",
    ),
)
