"""From rows to κ, phases and intervals, on attention whose answer is known exactly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from scipy import stats

from attnlim.audit.assemble import Margins, assemble, summarise_rows
from attnlim.audit.probing import Anatomy, AttentionLayer, Probed
from attnlim.audit.statistics import Rows, row_statistics
from attnlim.context.theory import critical_gamma, simplex_focus, simplex_kappa

RHO, CONTEXTS = 0.5, (512, 2048, 8192)
GAMMAS = {"half of critical": 0.5, "critical": 1.0, "above": 1.25}  # in units of γ_c


def simplex_rows(
    n_tokens: int, gamma: float, positions: list[int], causal: bool
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Rows of attention on a simplex at β = γ ln(visible keys): score β of the row's own key, ρβ of every other."""
    own = torch.tensor([1.0, 0.0], dtype=torch.float64)
    found, visible_counts = [], []
    for position in positions:
        key = torch.tensor([[0.0, 1.0]], dtype=torch.float64).repeat(n_tokens, 1)
        key[position] = own
        visible = torch.arange(n_tokens) <= position if causal else torch.ones(n_tokens, dtype=torch.bool)
        beta = gamma * math.log(int(visible.sum()))
        query = torch.zeros(n_tokens, 2, dtype=torch.float64)
        query[position] = torch.tensor([beta, RHO * beta], dtype=torch.float64)
        rows = Rows(torch.tensor([position]), visible[None], 0)
        found.append(row_statistics(query[None], key[None], rows, 1.0))
        visible_counts.append(visible.sum())
    return {name: torch.cat([one[name] for one in found], dim=1) for name in found[0]}, torch.stack(visible_counts)


def dataset_of(causal: bool, positions_of: Any, n_windows: int = 2) -> xr.Dataset:
    layers = tuple(AttentionLayer(i, f"layers.{i}", 1, causal, None) for i in range(len(GAMMAS)))
    parts = Anatomy(layers, (), ())
    cells = {}
    for n in CONTEXTS:
        found = Probed()
        for ratio in GAMMAS.values():
            statistics, visible = simplex_rows(n, ratio * critical_gamma(RHO), positions_of(n), causal)
            found.statistics.append([statistics])
            found.visible.append([visible])
            found.most_visible.append([n])
            found.rho_input.append([RHO])
        found.rho_residual = [[0.1], [RHO]]
        for window in range(n_windows):
            cells[n, window] = summarise_rows(found, parts, 14)
    return assemble(cells, CONTEXTS, n_windows, parts, Margins(), {"model": "simplex"})


def test_kappa_over_contexts_is_that_of_the_simplex() -> None:
    """Every row sees every key, as in an encoder: 1.02, .50 and -.13, to rounding."""
    data = dataset_of(causal=False, positions_of=lambda n: [n - 1])
    for layer, ratio in enumerate(GAMMAS.values()):
        exact = simplex_kappa(CONTEXTS, RHO, ratio * critical_gamma(RHO))
        assert float(data["kappa"].sel(context=8192, layer=layer, head=0)) == pytest.approx(exact, abs=1e-9)
        assert float(data["kappa_contexts"].sel(layer=layer, head=0)) == pytest.approx(exact, abs=1e-9)
        for n in CONTEXTS:
            focus = simplex_focus(n, RHO, gamma=ratio * critical_gamma(RHO))
            at = data.sel(context=n, layer=layer, head=0)
            assert float(at["entropy"]) == pytest.approx(focus.entropy, rel=1e-9)
            assert float(at["participation"]) == pytest.approx(focus.participation, rel=1e-9)
            assert float(at["gamma_c"]) == pytest.approx(2.0)
    assert data["kappa"].sel(context=8192, head=0).values == pytest.approx([1.02, 0.50, -0.13], abs=0.005)
    assert data["phase"].sel(context=8192, head=0).values.tolist() == [0, 1, 2]
    assert (data["phase"].sel(context=512) == -1).all()  # nothing shorter to grow from


def test_kappa_over_positions_is_that_of_the_simplex_at_the_same_lengths() -> None:
    """A causal simplex: one row an octave, each on a simplex of the keys that it sees."""
    data = dataset_of(causal=True, positions_of=lambda n: [n // 8 - 1, n // 4 - 1, n // 2 - 1, n - 1])
    assert data.attrs["kappa_source"] == "positions"
    for n in CONTEXTS:
        for layer, ratio in enumerate(GAMMAS.values()):
            exact = simplex_kappa([n // 8, n // 4, n // 2, n], RHO, ratio * critical_gamma(RHO))
            assert float(data["kappa"].sel(context=n, layer=layer, head=0)) == pytest.approx(exact, abs=1e-9)


def test_gap_count_exponent_of_the_simplex_is_one() -> None:
    """At β = γ ln n the row's own scores hold ln n already, so b_c is flat; at fixed β it would follow ln n."""
    data = dataset_of(causal=False, positions_of=lambda n: [n - 1])
    b_c = data["critical_multiplier"].sel(head=0)
    for layer, ratio in enumerate(GAMMAS.values()):
        # ln n/(1-ρ) over β = γ ln n
        assert b_c.sel(layer=layer).values == pytest.approx(1 / ratio, rel=1e-6)
        assert float(data["critical_exponent"].sel(context=8192, layer=layer, head=0)) == pytest.approx(0, abs=1e-5)


def noisy_cells(values: np.ndarray) -> xr.Dataset:
    """Four windows of a head whose entropy is κ ln n with the given κ in each window."""
    parts = Anatomy((AttentionLayer(0, "layers.0", 1, False, None),), (), ())
    cells = {}
    for n in CONTEXTS:
        for window, kappa in enumerate(values):
            row = {name: torch.full((1, 1), 1.0, dtype=torch.float64) for name in row_names()}
            row["entropy"] = torch.full((1, 1), kappa * math.log(n), dtype=torch.float64)
            found = Probed([[row]], [[torch.tensor([n])]], [[n]], [[0.5]], [[0.1], [0.5]])
            cells[n, window] = summarise_rows(found, parts, 14)
    return assemble(cells, CONTEXTS, len(values), parts, Margins(), {"model": "noise"})


def row_names() -> list[str]:
    one = row_statistics(
        torch.ones(1, 2, 2), torch.ones(1, 2, 2), Rows(torch.arange(2), torch.ones(2, 2).bool(), 0), 1.0
    )
    return list(one)


def test_intervals_are_students_over_windows() -> None:
    values = np.array([0.4, 0.5, 0.45, 0.65])
    data = noisy_cells(values).sel(context=8192, layer=0, head=0)
    error = values.std(ddof=1) / 2
    half = stats.t.ppf(0.975, 3) * error
    assert float(data["kappa"]) == pytest.approx(values.mean())
    assert float(data["kappa_low"]) == pytest.approx(values.mean() - half)
    assert float(data["kappa_high"]) == pytest.approx(values.mean() + half)
    assert float(data["entropy_se"]) == pytest.approx(error * math.log(8192))


def test_phases_follow_the_interval_and_one_window_decides_nothing() -> None:
    assert int(noisy_cells(np.array([0.5, 0.5, 0.51, 0.5]))["phase"][-1, 0, 0]) == 1
    assert int(noisy_cells(np.array([0.3, 0.6, 0.5, 0.9]))["phase"][-1, 0, 0]) == 3
    alone = noisy_cells(np.array([0.5]))
    assert float(alone["kappa"][-1, 0, 0]) == pytest.approx(0.5)
    assert np.isnan(alone["kappa_low"][-1, 0, 0])
    assert int(alone["phase"][-1, 0, 0]) == 3


def test_a_missing_head_is_absent_everywhere() -> None:
    """Layers of 2 and 1 heads: the head that the second lacks is NaN and of no phase, never 0."""
    parts = Anatomy((AttentionLayer(0, "a.0", 2, True, None), AttentionLayer(1, "a.1", 1, True, None)), (), ())
    cells = {}
    for n in (32, 128):
        for window in range(2):
            found = Probed(rho_input=[[0.1], [0.2]], rho_residual=[[0.1]])
            random = torch.Generator().manual_seed(window)
            for heads in (2, 1):
                query, key = (torch.randn(heads, n, 4, generator=random) for _ in range(2))
                rows = Rows(torch.arange(n), torch.tril(torch.ones(n, n)).bool(), 0)
                found.statistics.append([row_statistics(query, key, rows, 0.5)])
                found.visible.append([rows.visible.sum(1)])
                found.most_visible.append([n])
            cells[n, window] = summarise_rows(found, parts, 8)
    data = assemble(cells, (32, 128), 2, parts, Margins(), {"model": "uneven"})
    gone = data.sel(layer=1, head=1)
    for name, values in gone.data_vars.items():
        if "head" in data[name].dims:
            assert ((values == -1) if str(name).startswith("phase") else np.isnan(values)).all(), name
    assert np.isfinite(data["entropy"].sel(layer=0)).all()
