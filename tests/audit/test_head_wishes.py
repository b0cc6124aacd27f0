"""Sensitivities inside an audit: what is stored of them, that nothing else changes, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from tests.audit.test_measure import tokenizer as tokenizer

from attnlim.audit import audit, make_plan, run_plan
from attnlim.audit.assemble import Margins
from attnlim.audit.estimate import estimate
from attnlim.audit.tables import compare, head_table, layer_table
from attnlim.core.checks import InputError
from attnlim.core.intervals import jackknife_mean
from attnlim.models import Text, cut_windows, read_text
from attnlim.rules import sensitivity
from attnlim.rules.rescale_plan import check_rescalable

TEXT = Text("letters", read_text(None).content[:20_000])
SMALL: dict[str, Any] = {"contexts": (32, 64), "n_windows": 3, "n_rows": 16}
WORDS = ("sensitivity", "sensitivity_total", "nll")
STORED = {f"{name}{end}" for name in WORDS for end in ("", "_se", "_low", "_high")} | {
    "sample_sensitivity",
    "sample_nll",
}


@pytest.fixture(scope="module")
def both(tiny: Any, tokenizer: Any) -> tuple[xr.Dataset, xr.Dataset]:
    """The same audit without sensitivities and with them."""
    without, with_them = (
        audit(tiny("gemma2"), tokenizer, TEXT, **SMALL, sensitivity=measured).dataset for measured in (False, True)
    )
    return without, with_them


def test_nothing_else_changes(both: tuple[xr.Dataset, xr.Dataset]) -> None:
    without, with_them = both
    assert set(with_them.data_vars) - set(without.data_vars) == STORED
    xr.testing.assert_identical(without.drop_attrs(deep=False), with_them.drop_vars(STORED).drop_attrs(deep=False))
    assert {name for name in with_them.attrs if with_them.attrs[name] != without.attrs[name]} == {"verdict"}


def test_what_is_stored(both: tuple[xr.Dataset, xr.Dataset], tiny: Any, tokenizer: Any) -> None:
    """Means over windows of what one window gives, octaves counted as the audit counts them."""
    data = both[1]
    windows = cut_windows(tokenizer, TEXT, 3, 64)
    for context in SMALL["contexts"]:
        found = [sensitivity(tiny("gemma2"), windows.ids(window, context)) for window in range(3)]
        by_head = jackknife_mean([one.by_multiplier for one in found])
        at = data.sel(context=context)
        for name, wanted in (("", by_head.estimate), ("_low", by_head.low), ("_se", by_head.standard_error)):
            np.testing.assert_allclose(at[f"sensitivity{name}"], wanted, rtol=1e-6, atol=1e-10)
        total = jackknife_mean([one.by_multiplier.sum() for one in found])
        assert float(at["sensitivity_total"]) == pytest.approx(float(total.estimate), rel=1e-6)
        assert float(at["sensitivity_total_high"]) == pytest.approx(float(total.high), rel=1e-5)
        assert float(at["nll"]) == pytest.approx(np.mean([one.nll for one in found]), rel=1e-6)
        np.testing.assert_allclose(at["sample_nll"], [one.nll for one in found], rtol=1e-6)
        # both count octaves from the most keys that a row of the layer sees
        known = np.isfinite(at["sample_sensitivity"].isel(window=0)).any("head")
        np.testing.assert_array_equal(known | (at["sample_rows"].isel(window=0) == 0), True)
    assert data["sensitivity"].attrs["units"] == "nats"
    assert data["sample_sensitivity"].dims == ("context", "window", "octave", "layer", "head")


def test_one_window_has_no_interval(tiny: Any, tokenizer: Any) -> None:
    result = audit(tiny("llama"), tokenizer, TEXT, (32, 64), n_windows=1, n_rows=8, sensitivity=True)
    assert np.isfinite(result.dataset["sensitivity"]).all()
    for name in WORDS:
        assert np.isnan(result.dataset[f"{name}_low"]).all() and np.isnan(result.dataset[f"{name}_se"]).all()
    assert "One text window gives no interval, so no head's wish is decided." in result.verdict


def test_cells_are_kept_and_resumed(tiny: Any, tokenizer: Any, tmp_path: Path) -> None:
    def plan() -> Any:
        return make_plan(
            tiny("gpt2"), tokenizer, TEXT, (32, 64), n_windows=2, n_rows=8, seed=0, k_min=10,
            margins=Margins(), name="tiny", note="", sensitivity=True,
        )  # fmt: skip

    keys = [cell.key for cell in plan().cells()]
    assert keys[4:] == [f"sensitivity-{n}-window-{w}" for n in (32, 64) for w in (0, 1)]
    first = run_plan(plan(), tmp_path)
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(keys)
    for gone in (keys[1], keys[6]):
        (tmp_path / f"{gone}.npz").unlink()
    told: list[bool] = []
    again = run_plan(plan(), tmp_path, lambda cell, was_stored: told.append(was_stored))
    assert told.count(False) == 2
    xr.testing.assert_identical(first.dataset, again.dataset)


def test_identity_and_estimate_know_of_it(tiny: Any, tokenizer: Any) -> None:
    without, with_it = (
        make_plan(
            tiny("llama"), tokenizer, TEXT, (32, 64), n_windows=2, n_rows=8, seed=0, k_min=10,
            margins=Margins(), name="tiny", note="", sensitivity=measured,
        )
        for measured in (False, True)
    )  # fmt: skip
    assert {**without.identity(), "sensitivity": True} == with_it.identity()
    assert without.bytes_on_disk() < with_it.bytes_on_disk()
    assert estimate(without).memory < estimate(with_it).memory
    assert sum(cell.cost for cell in with_it.cells()) > 4 * sum(cell.cost for cell in without.cells())


def test_tables(both: tuple[xr.Dataset, xr.Dataset]) -> None:
    without, with_them = both
    heads = head_table(with_them)
    assert {"sensitivity", "sensitivity_low", "sensitivity_high", "sensitivity_se"} <= set(heads)
    assert "sensitivity" not in head_table(without)
    layers = layer_table(with_them)
    assert layers["sharper"].sum() == int((with_them["sensitivity_high"].isel(context=-1) < 0).sum())
    assert layers["softer"].sum() == int((with_them["sensitivity_low"].isel(context=-1) > 0).sum())
    assert "sharper" not in layer_table(without)
    assert "sensitivity of all heads at once" in set(compare(with_them, with_them)["quantity"])
    assert "sensitivity of all heads at once" not in set(compare(without, with_them)["quantity"])


@pytest.mark.parametrize(
    ("of", "match"),
    [
        (lambda tiny: tiny("bert"), "BertModel is an encoder: it predicts no next token, so --sensitivity"),
        (lambda tiny: tiny("llama").model, "LlamaModel has no next-token head"),
    ],
)
def test_refusals(of: Any, match: str, tiny: Any, tokenizer: Any) -> None:
    with pytest.raises(InputError, match=match):
        audit(of(tiny), tokenizer, TEXT, **SMALL, sensitivity=True)


def test_rescale_is_not_advised_where_it_refuses(tiny: Any, tokenizer: Any) -> None:
    for kind, reason in (("gpt2", "learned positions"), ("llama", "")):
        model = tiny(kind)
        found = audit(model, tokenizer, TEXT, (32, 64), n_windows=1, n_rows=8, sensitivity=True)
        told = found.dataset.attrs["not_to_rescale"]
        assert reason in told and bool(told) == bool(reason)
        if reason:
            with pytest.raises(InputError) as refused:
                check_rescalable(model, "")
            assert told == str(refused.value)
