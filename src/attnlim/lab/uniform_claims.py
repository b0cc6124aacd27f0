"""The claims of "Uniform scaling limits of AdamW-trained transformers", and what their table says in words."""

from __future__ import annotations

from collections.abc import Sequence

import xarray as xr

from attnlim.lab.claim_table import counted, not_confirmed
from attnlim.lab.uniform_constant_claims import both_limits_claims, independence_claims
from attnlim.lab.uniform_control_claims import control_claims
from attnlim.lab.uniform_lemma_claims import certificate_claims, parameter_claims, proof_claims
from attnlim.lab.uniform_rate_claims import rate_claims
from attnlim.lab.verdicts import Claim


def all_claims(dataset: xr.Dataset) -> list[Claim]:
    """Every claim with its verdict, in the order of the table.

    Args:
        dataset: the evidence, see :func:`attnlim.lab.uniform_dataset.assemble`.
    """
    return [
        *rate_claims(dataset),
        *independence_claims(dataset),
        *parameter_claims(dataset),
        *certificate_claims(dataset),
        *proof_claims(dataset),
        *control_claims(dataset),
        *both_limits_claims(dataset),
    ]


def verdict(claims: Sequence[Claim]) -> str:
    """What the table says, one paragraph a line: how many claims hold, the rate, the constants, what does not hold."""
    by_key = {claim.key: claim for claim in claims}
    return "\n".join([counted(claims), _rate(by_key), _constants(by_key), *not_confirmed(claims)])


def _rate(claims: dict[str, Claim]) -> str:
    told = []
    for when, words in (("start", "before training"), ("trained", "after it")):
        layers, heads = claims[f"rate-L-{when}"].measured, claims[f"rate-H-{when}"].measured
        told.append(
            f"L^−{layers.value:.2f} H^−{heads.value:.2f} {words} (95 %: {layers.low:.2f} to {layers.high:.2f} and "
            f"{heads.low:.2f} to {heads.high:.2f})"
        )
    return (
        f"The distance from the limit falls as {', '.join(told)}. Theorem 7 proves L^−1/3 H^−1/2; the faster rate is "
        "evidence, not a proof."
    )


def _constants(claims: dict[str, Claim]) -> str:
    tokens, wide, adam = (claims[key].measured for key in ("N-free-mean", "d-free", "d-adamw"))
    return (
        f"The constants change with N by the power {_signed(tokens.value)}, with d by {_signed(wide.value)} under blockwise "
        f"AdamW and {_signed(adam.value)} under AdamW."
    )


def _signed(value: float) -> str:
    """
    >>> _signed(-0.123), _signed(0.05)
    ('−0.12', '+0.05')
    """
    return f"{value:+.2f}".replace("-", "−")
