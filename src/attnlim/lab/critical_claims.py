"""The claims of "Critical attention scaling", and what their table says in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from attnlim.lab.claim_table import counted, not_confirmed
from attnlim.lab.critical_limit_claims import simplex_claims
from attnlim.lab.critical_plane_claims import plane_claims
from attnlim.lab.critical_record import ORDER
from attnlim.lab.critical_row_claims import row_claims
from attnlim.lab.critical_score_claims import score_claims
from attnlim.lab.critical_token_claims import token_claims
from attnlim.lab.verdicts import CONTRADICTED, Claim


def all_claims(dataset: xr.Dataset) -> list[Claim]:
    """Every claim with its verdict, in the order of the table.

    Args:
        dataset: the evidence, see :func:`attnlim.lab.critical_dataset.assemble`.
    """
    found = [
        *simplex_claims(dataset),
        *plane_claims(dataset),
        *token_claims(dataset),
        *row_claims(dataset),
        *score_claims(dataset),
    ]
    return sorted(found, key=lambda claim: ORDER.index(claim.key))


def verdict(claims: Sequence[Claim]) -> str:
    """What the table says, one paragraph a line: how many claims hold, where the transitions lie, what does not hold."""
    by_key = {claim.key: claim for claim in claims}
    paragraphs = [counted(claims), _transitions(by_key), _finite(by_key), *not_confirmed(claims)]
    return "\n".join(paragraphs)


def _transitions(claims: dict[str, Claim]) -> str:
    """Where the forward and the backward transition lie, on wide tokens first."""
    told = []
    for role in ("wide", "middle"):
        forward, backward = claims[f"forward-{role}"], claims[f"backward-{role}"]
        told.append(f"{_percent(forward)} and {_percent(backward)} at {_width(forward)}")
    narrow = claims["together-narrow"]
    apart = f"; at {_width(narrow)} they are not one transition" if narrow.verdict == CONTRADICTED else ""
    return f"The forward and the backward transition lie {', '.join(told)} from 1/(1 − ρ̂){apart}."


def _width(claim: Claim) -> str:
    """The "d = 512" at the end of a claim's text."""
    return claim.text.rpartition(", ")[2]


def _finite(claims: dict[str, Claim]) -> str:
    return (
        f"Nothing is sharp at a real context: at 10^6 tokens and ρ = 0.5 self weight goes from .1 to .9 within "
        f"Δγ = {claims['sharp'].measured.value:.2f}."
    )


def _percent(claim: Claim) -> str:
    """A measured ratio as a difference from 1."""
    value = 100 * (claim.measured.value - 1)
    return "an unknown part" if np.isnan(value) else f"{value:+.1f} %".replace("-", "−")
