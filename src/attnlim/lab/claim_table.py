"""The table of claims of a reproduction, as part of its dataset and against what is recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from attnlim.lab.verdicts import CONFIRMED, CONTRADICTED, QUALIFIED, UNDECIDED, Claim

Record = Mapping[str, Mapping[str, str]]


def with_claims(dataset: xr.Dataset, claims: Sequence[Claim], recorded: Record, words: str) -> xr.Dataset:
    """The dataset with the table of claims.

    Args:
        dataset: the evidence; its attribute ``size`` names the size.
        claims: what it came to, in the order of the table.
        recorded: expected verdicts by size and key.
        words: the attribute ``verdict``, what the table says.
    """
    expected = recorded.get(str(dataset.attrs["size"]), {})
    texts = {
        "claim_key": [claim.key for claim in claims],
        "claim_text": [claim.text for claim in claims],
        "claim_source": [claim.source for claim in claims],
        "claim_verdict": [claim.verdict for claim in claims],
        "claim_recorded": [expected.get(claim.key, "") for claim in claims],
        "claim_reason": [claim.reason for claim in claims],
    }
    numbers = {
        "claim_predicted": [claim.predicted for claim in claims],
        "claim_measured": [claim.measured.value for claim in claims],
        "claim_low": [claim.measured.low for claim in claims],
        "claim_high": [claim.measured.high for claim in claims],
    }
    table: dict[str, Any] = {name: ("claim", np.array(values, dtype=object)) for name, values in texts.items()}
    table |= {name: ("claim", np.array(values, dtype=np.float64)) for name, values in numbers.items()}
    return dataset.assign(table).assign_attrs(verdict=words)


def claims_table(dataset: xr.Dataset) -> pd.DataFrame:
    """One row a claim: key, text, source, predicted, measured, low, high, verdict, recorded, reason."""
    names = ("key", "text", "source", "predicted", "measured", "low", "high", "verdict", "recorded", "reason")
    return pd.DataFrame({name: dataset[f"claim_{name}"].to_numpy() for name in names})


def counted(claims: Sequence[Claim]) -> str:
    """How many claims have which verdict, as the opening sentence."""
    counts = Counter(claim.verdict for claim in claims)
    told = ", ".join(
        f"{counts[word]} {word}" for word in (CONFIRMED, QUALIFIED, CONTRADICTED, UNDECIDED) if counts[word]
    )
    return f"{len(claims)} claims: {told}."


def not_confirmed(claims: Sequence[Claim]) -> list[str]:
    """A paragraph each for what is contradicted and for what is undecided."""
    paragraphs = []
    for word, opening in ((CONTRADICTED, "Contradicted, as they stand"), (UNDECIDED, "Undecided")):
        texts = [claim.text for claim in claims if claim.verdict == word]
        if texts:
            paragraphs.append(f"{opening}: {'; '.join(texts)}.")
    return paragraphs


def not_as_recorded(size: str, claims: Iterable[Claim], recorded: Record) -> list[str]:
    """A line for every claim whose verdict is another than the one recorded; none for a size that is not recorded.

    Args:
        size: the name of the size.
        claims: what was found.
        recorded: verdicts by size and key.
    """
    expected = recorded.get(size, {})
    return [
        f"{claim.text}: recorded as {expected[claim.key]}, found {claim.verdict}"
        for claim in claims
        if claim.key in expected and claim.verdict != expected[claim.key]
    ]
