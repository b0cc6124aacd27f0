"""What is drawn of a dataset follows from its kind alone."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import xarray

from attnlim.core.checks import InputError
from attnlim.report import draw, save_figure, write_report


def test_each_kind_has_its_files(
    synthetic: ModuleType, phases: ModuleType, reproductions: ModuleType, tmp_path: Path
) -> None:
    kinds = {
        "audit": (synthetic.audit_dataset(contexts=(512,), n_layers=2, n_heads=2), ["audit.png"]),
        "phase": (phases.phase_dataset(n_tokens=(64,), width=(8,)), ["phase.png", "phase.svg"]),
        "critical": (
            reproductions.critical_dataset(),
            ["critical.png", "critical.svg", "finite.png", "finite.svg"],
        ),
    }
    for name, (dataset, figures) in kinds.items():
        folder = tmp_path / name
        assert draw(dataset, phases.run_record(), folder) == folder / "report.html"
        assert sorted(path.name for path in (folder / "figures").iterdir()) == figures
        assert sorted(path.name for path in folder.iterdir()) == ["figures", "report.html"]


def test_an_unknown_kind_is_refused_in_one_line_and_leaves_nothing(phases: ModuleType, tmp_path: Path) -> None:
    for attrs in ({"kind": "attnlim.unheard"}, {}):
        dataset = xarray.Dataset(attrs=attrs)
        for write in (
            lambda data: draw(data, {}, tmp_path),
            lambda data: write_report(data, {}, tmp_path / "report.html"),
            lambda data: save_figure(data, tmp_path / "figure.png"),
        ):
            with pytest.raises(InputError, match="'attnlim.audit', 'attnlim.phase', .*got kind") as caught:
                write(dataset)
            assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_dataset_gives_the_same_bytes(phases: ModuleType, tmp_path: Path, suffix: str) -> None:
    dataset = phases.phase_dataset(n_tokens=(64,), width=(8,))
    first, second = (save_figure(dataset, tmp_path / f"{name}.{suffix}") for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_incomplete_datasets_are_refused(phases: ModuleType, reproductions: ModuleType, tmp_path: Path) -> None:
    phase, reproduction = phases.phase_dataset(n_tokens=(64,), width=(8,)), reproductions.critical_dataset()
    for dataset, missing in (
        (phase.drop_vars("gamma_c"), "lacks gamma_c"),
        (phase.isel(causal=0, drop=True), "the dimension causal"),
        (phase.drop_attrs().assign_attrs(kind="attnlim.phase"), "the attribute tokens"),
        (phase.assign(eta=phase["eta"].expand_dims(head=2)), "eta .* must have dimensions among n_tokens"),
        (phase.assign_attrs(schema=99), "schema 99"),
        (reproduction.drop_vars("law_rho"), "law_rho"),
        (reproduction.assign(partition_limit=reproduction["partition_ratio"]), "partition_limit"),
    ):
        with pytest.raises(InputError, match=missing):
            write_report(dataset, {}, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
