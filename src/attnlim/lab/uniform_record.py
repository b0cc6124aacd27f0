"""The verdicts that the reproduction is expected to come to, by size: what is confirmed, and what is not and stays so."""

from __future__ import annotations

from collections.abc import Mapping

from attnlim.lab.verdicts import CONFIRMED, CONTRADICTED, QUALIFIED, UNDECIDED

_FULL = {
    "rate-L-start": CONFIRMED,
    "rate-H-start": CONFIRMED,
    "one-head-start": CONFIRMED,
    "products-start": CONFIRMED,
    "published-start": CONFIRMED,
    "rate-L-trained": CONFIRMED,
    "rate-H-trained": CONFIRMED,
    "one-head-trained": QUALIFIED,
    "products-trained": CONFIRMED,
    "published-trained": CONFIRMED,
    "theorem": CONFIRMED,
    "identity": CONFIRMED,
    "reference": CONFIRMED,
    "N-free": UNDECIDED,
    "N-free-mean": CONFIRMED,
    "d-free": CONFIRMED,
    "d-adamw": CONFIRMED,
    "inputs": CONFIRMED,
    "unseen": CONFIRMED,
    "uniform-start": CONFIRMED,
    "uniform-trained": CONFIRMED,
    "constant-over-steps": CONFIRMED,
    "coupling": CONFIRMED,
    "small-eps": CONFIRMED,
    "large-eps": CONFIRMED,
    "adam-bound": CONFIRMED,
    "adam-attained": CONFIRMED,
    "compact": CONFIRMED,
    "lions": CONFIRMED,
    "lipschitz": CONFIRMED,
    "drift": CONFIRMED,
    "stable-parameters": CONFIRMED,
    "stable-depth": CONFIRMED,
    "stable-gradients": CONFIRMED,
    "decay": CONFIRMED,
    "stack": CONFIRMED,
    "martingale": CONFIRMED,
    "doob": CONFIRMED,
    "block": CONFIRMED,
    "cubic": CONFIRMED,
    "gronwall": CONFIRMED,
    "post-norm": CONFIRMED,
    "split-start": CONFIRMED,
    "split-off-centre": CONFIRMED,
    "split-trained": QUALIFIED,
    "iid": CONFIRMED,
    "shared": CONFIRMED,
    "law-diffusive": CONFIRMED,
    "law-mean-field": CONFIRMED,
    "validation-noise": CONFIRMED,
    "validation-depth": CONFIRMED,
    "validation-shape": CONFIRMED,
    "gamma-0.5": UNDECIDED,
    "gamma-1": CONTRADICTED,
    "gamma-2": UNDECIDED,
}
# depths end at 256 and N at 32, and intervals are wider
_LAPTOP = _FULL | {
    "one-head-trained": CONFIRMED,
    "N-free": CONFIRMED,
    "split-off-centre": UNDECIDED,
    "split-trained": UNDECIDED,
    "gamma-1": UNDECIDED,
}
RECORDED: dict[str, Mapping[str, str]] = {"laptop": _LAPTOP, "full": _FULL}

# the order of the table
ORDER = tuple(_FULL)
