"""The table of claims of a reproduction, and what it says in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from attnlim.lab.critical_limit_claims import simplex_claims
from attnlim.lab.critical_plane_claims import plane_claims
from attnlim.lab.critical_record import ORDER, RECORDED
from attnlim.lab.critical_row_claims import row_claims
from attnlim.lab.critical_score_claims import score_claims
from attnlim.lab.critical_token_claims import token_claims
from attnlim.lab.critical_verdicts import CONFIRMED, CONTRADICTED, QUALIFIED, UNDECIDED, Claim


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


def with_claims(dataset: xr.Dataset, claims: Sequence[Claim]) -> xr.Dataset:
    """The dataset with the table of claims and its verdict in words."""
    recorded = RECORDED.get(str(dataset.attrs["size"]), {})
    words = {
        "claim_key": [claim.key for claim in claims],
        "claim_text": [claim.text for claim in claims],
        "claim_source": [claim.source for claim in claims],
        "claim_verdict": [claim.verdict for claim in claims],
        "claim_recorded": [recorded.get(claim.key, "") for claim in claims],
        "claim_reason": [claim.reason for claim in claims],
    }
    numbers = {
        "claim_predicted": [claim.predicted for claim in claims],
        "claim_measured": [claim.measured.value for claim in claims],
        "claim_low": [claim.measured.low for claim in claims],
        "claim_high": [claim.measured.high for claim in claims],
    }
    table: dict[str, Any] = {name: ("claim", np.array(values, dtype=object)) for name, values in words.items()}
    table |= {name: ("claim", np.array(values, dtype=np.float64)) for name, values in numbers.items()}
    return dataset.assign(table).assign_attrs(verdict=verdict(claims))


def claims_table(dataset: xr.Dataset) -> pd.DataFrame:
    """One row a claim: key, text, source, predicted, measured, low, high, verdict, recorded, reason."""
    names = ("key", "text", "source", "predicted", "measured", "low", "high", "verdict", "recorded", "reason")
    return pd.DataFrame({name: dataset[f"claim_{name}"].to_numpy() for name in names})


def verdict(claims: Sequence[Claim]) -> str:
    """What the table says, one paragraph a line: how many claims hold, where the transitions lie, what does not hold."""
    counts = Counter(claim.verdict for claim in claims)
    told = ", ".join(
        f"{counts[word]} {word}" for word in (CONFIRMED, QUALIFIED, CONTRADICTED, UNDECIDED) if counts[word]
    )
    by_key = {claim.key: claim for claim in claims}
    paragraphs = [f"{len(claims)} claims: {told}.", _transitions(by_key), _finite(by_key)]
    for word, opening in ((CONTRADICTED, "Contradicted, as they stand"), (UNDECIDED, "Undecided")):
        texts = [claim.text for claim in claims if claim.verdict == word]
        if texts:
            paragraphs.append(f"{opening}: {'; '.join(texts)}.")
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
