"""The pages of scaling rules: derivations and docstrings link to each other, and numbers are those of the stored audit."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import xarray as xr

from attnlim.rules import frozen_log, yarn


def test_derivations_and_docstrings_link_to_each_other(root: Path) -> None:
    page = (root / "docs/rules-derivations.md").read_text(encoding="utf-8")
    anchors = set(re.findall(r"^## .*\{ #([\w-]+) \}$", page, re.M))
    linked = set()
    for path in (root / "src/attnlim").rglob("*.py"):
        linked |= set(re.findall(r"\]\(\.\./rules-derivations\.md#([\w-]+)\)", path.read_text(encoding="utf-8")))
    assert linked == anchors


def test_what_is_said_of_the_powers_is_what_the_audit_found(root: Path) -> None:
    flat = " ".join((root / "docs/rules-derivations.md").read_text(encoding="utf-8").split())
    with xr.open_dataset(root / "docs/data/audit-smollm2.nc") as stored:
        at = stored.isel(context=-1)
        low, high = (
            f"{value:.2f}".replace("-", "−") for value in np.nanquantile(at["critical_exponent"], [0.25, 0.75])
        )
        width = float(np.nanmedian(at["critical_exponent_high"] - at["critical_exponent_low"]))
        assert stored.attrs["n_windows"] == 4
    assert f"half of them between {low} and {high} with four windows, with a median interval {width:.1f} wide" in flat


def test_figures_of_the_logit_gap(root: Path) -> None:
    flat = " ".join((root / "docs/rules-derivations.md").read_text(encoding="utf-8").split())
    factors = [f"{yarn(s).parts(0).logit.rotary:.2f}" for s in (4, 32, 128)]
    linear = [f"{1 + 0.2 * math.log(s):.2f}" for s in (4, 32, 128)]
    assert (
        f"the factor is {factors[0]}, {factors[1]} and {factors[2]}, and 1 + 0.2 ln s is {linear[0]}, {linear[1]} and {linear[2]}"
        in flat
    )
    assert f"{frozen_log(8192, 16384).gap(16384):.0f} nats at 8192" in flat
