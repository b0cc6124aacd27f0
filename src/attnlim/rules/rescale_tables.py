"""A comparison of rules as tables: every variant in every bucket, and one line a variant for people."""

from __future__ import annotations

import pandas as pd
import xarray as xr

from attnlim.rules.rescale_dataset import BEYOND, WITHIN

_LOSSES = ("bucket_nll", "difference", "difference_raw")


def bucket_table(dataset: xr.Dataset) -> pd.DataFrame:
    """One row a variant and bucket: mean loss, and its paired differences from none and from raw extrapolation, with intervals.

    Columns: variant, words, bucket, bucket_begins, bucket_ends (positions), then nats a token.
    """
    names = [f"{name}{suffix}" for name in _LOSSES for suffix in ("", "_low", "_high", "_se")]
    frame = dataset[names].to_dataframe(dim_order=["variant", "bucket"]).reset_index()
    first = ["variant", "words", "bucket", "bucket_begins", "bucket_ends"]
    return frame[first + names]


def variant_table(dataset: xr.Dataset) -> pd.DataFrame:
    """One row a variant.

    Returns:
        columns variant, nll (beyond the trained length), difference, low, high (from none), within (difference from raw
        extrapolation within the trained length), needles (found), needle_nll (mean loss of a needle's number).
    """
    beyond, within = dataset.sel(bucket=BEYOND), dataset.sel(bucket=WITHIN)
    return pd.DataFrame(
        {
            "variant": dataset["variant"].values,
            "nll": beyond["bucket_nll"].values,
            "difference": beyond["difference"].values,
            "low": beyond["difference_low"].values,
            "high": beyond["difference_high"].values,
            "within": within["difference_raw"].values,
            "needles": dataset["needle_found"].sum("needle").values,
            "needle_nll": dataset["needle_nll"].mean("needle").values,
        }
    )
