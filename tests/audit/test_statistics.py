"""Row statistics against their twin: odd sizes, every kind of mask, extreme sinks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlim.audit import naive, statistics
from attnlim.audit.statistics import Rows, row_statistics


def masks(n: int) -> dict[str, torch.Tensor]:
    row, key = torch.arange(n)[:, None], torch.arange(n)
    causal = key <= row
    return {
        "causal": causal,
        "window": causal & (row - key < 7),
        "left padding": causal & (key >= 5) & (row >= 5),
        "full": torch.ones(n, n, dtype=torch.bool),
        "two-sided window": (row - key).abs() <= 9,
    }


def compare(query, key, index, visible, first_key, scaling, softcap, k_min, causal):
    rows = Rows(index, visible[index], first_key)
    fast = row_statistics(query, key, rows, scaling, softcap, k_min, causal)
    groups = query.shape[0] // key.shape[0]
    for head in range(query.shape[0]):
        for place, row in enumerate(index.tolist()):
            slow = naive.row_statistics(
                query[head, row].double().numpy(),
                key[head // groups].double().numpy(),
                visible[row].numpy(),
                row,
                first_key,
                scaling,
                softcap,
                k_min,
            )
            assert slow.keys() == fast.keys()
            for name, value in slow.items():
                # float64 throughout but for the gaps, sorted in float32 (relative error 1e-7)
                expected = pytest.approx(value, rel=1e-6, abs=1e-9, nan_ok=True)
                assert float(fast[name][head, place]) == expected, (name, head, row)


@pytest.mark.parametrize("kind", masks(1))
@pytest.mark.parametrize("n", [7, 63, 100])
def test_equals_twin(kind: str, n: int) -> None:
    random = torch.Generator().manual_seed(n)
    query, key = torch.randn(4, n, 8, generator=random), torch.randn(2, n, 8, generator=random)
    visible = masks(n)[kind]
    first_key = 5 if kind == "left padding" else 0
    index = torch.arange(first_key, n, 3)
    compare(query, key, index, visible, first_key, 0.7, None, 10, kind not in ("full", "two-sided window"))


@pytest.mark.parametrize("lead", [-400.0, -30.0, -1.0, 0.0, 1.0, 30.0, 300.0, 900.0])
def test_sinks_of_any_strength(lead: float) -> None:
    """The attention left beside a sink of weight 1 - e^-900 is as exact as any other."""
    random = torch.Generator().manual_seed(3)
    query, key = torch.randn(1, 40, 4, generator=random).double(), torch.randn(1, 40, 4, generator=random).double()
    key[0, 0] = 0
    key[0, 0, 0] = lead
    query[0, :, 0] = 1.0
    compare(query, key, torch.arange(0, 40, 3), masks(40)["causal"], 0, 1.0, None, 3, True)


def test_soft_cap_and_bfloat16() -> None:
    random = torch.Generator().manual_seed(5)
    query, key = 6 * torch.randn(2, 50, 8, generator=random), torch.randn(1, 50, 8, generator=random)
    compare(query.bfloat16(), key.bfloat16(), torch.arange(50), masks(50)["causal"], 0, 0.5, 4.0, 10, True)


@given(st.integers(0, 10**6), st.integers(2, 12))
@settings(max_examples=25, deadline=None)
def test_ties_and_ranks(seed: int, k_min: int) -> None:
    """Scores on a coarse grid tie often, with the sink too: every rank is counted once."""
    random = np.random.default_rng(seed)
    key = torch.tensor(random.integers(-2, 3, size=(1, 23, 1)), dtype=torch.float64)
    query = torch.ones(1, 23, 1, dtype=torch.float64)
    compare(query, key, torch.arange(23), masks(23)["causal"], 0, 0.25, None, k_min, True)


def test_chunking_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    random = torch.Generator().manual_seed(1)
    query, key = torch.randn(3, 200, 8, generator=random), torch.randn(1, 200, 8, generator=random)
    rows = Rows(torch.arange(0, 200, 2), masks(200)["causal"][::2], 0)
    whole = row_statistics(query, key, rows, 0.3)
    for elements in (1, 700, 5000):
        monkeypatch.setattr(statistics, "CHUNK_ELEMENTS", elements)
        part = row_statistics(query, key, rows, 0.3)
        for name, value in whole.items():
            # other shapes sum in another order: a few units in the last place of float64, times 200 terms
            torch.testing.assert_close(part[name], value, rtol=1e-12, atol=1e-12, equal_nan=True)


def test_gap_count_is_the_public_one() -> None:
    from attnlim.context.gaps import critical_multiplier

    random = torch.Generator().manual_seed(2)
    query, key = torch.randn(2, 90, 8, generator=random).double(), torch.randn(2, 90, 8, generator=random).double()
    rows = Rows(torch.arange(90), torch.ones(90, 90, dtype=torch.bool), 0)
    found = row_statistics(query, key, rows, 1.0, causal=False)["critical_multiplier"]
    torch.testing.assert_close(found, critical_multiplier(query @ key.transpose(1, 2)), rtol=1e-6, atol=0)
