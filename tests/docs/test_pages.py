"""What the pages say is what was measured: tables, sentences and images against data, and the site builds."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import pytest
import xarray as xr

from attnlim.audit import audit
from attnlim.context import PHASES
from attnlim.core.intervals import jackknife_mean
from attnlim.core.symbols import markdown_table

SAMPLE_DIMENSIONS = ("context", "window", "octave", "layer", "head")
MOST_BYTES = {"png": 400_000, "svg": 200_000}


def page(root: Path, name: str) -> str:
    return (root / "docs" / name).read_text(encoding="utf-8")


def after(text: str, marker: str) -> str:
    """What stands between a comment that begins with ``marker`` and the next empty line after a table or block."""
    begin = text.index("-->", text.index(f"<!-- {marker}")) + 3
    return text[begin:].strip().split("\n\n")[0]


def test_notation_is_in_step(root: Path) -> None:
    assert after(page(root, "notation.md"), "printed by") == markdown_table()


def test_heads_of_the_phases_page(root: Path, stored: xr.Dataset, phases_figure: ModuleType) -> None:
    assert after(page(root, "phases.md"), "printed by") == phases_figure.heads_table(stored)


def test_sentences_of_the_phases_page(root: Path, stored: xr.Dataset) -> None:
    text = " ".join(page(root, "phases.md").split())
    growth = [
        float(stored["perplexity"].sel(context=8192, layer=layer, head=head))
        / float(stored["perplexity"].sel(context=512, layer=layer, head=head))
        for layer, head in ((0, 6), (8, 0), (2, 1))
    ]
    kappa = stored.sel(context=8192)
    for said in (
        f"head 0.6 uses {growth[0]:.0f} times more, head 8.0 {growth[1]:.1f} times, head 2.1 {growth[2]:.1f} times",
        f"κ itself is below 0 on {int((kappa['kappa'] < 0).sum())} heads",
        f"{int(stored.attrs['rows_per_window'])} rows a window, seed {int(stored.attrs['seed'])}",
        f"some heads of {stored.sizes['layer'] * stored.sizes['head']} land on the wrong side",
    ):
        assert said in text, said
    quantiles = [float(jackknife_mean([[0.0] * m, range(m)], axis=1).high[1] - (m - 1) / 2) for m in (4, 16)]
    errors = [float(jackknife_mean(range(m)).standard_error) for m in (4, 16)]
    three, fifteen = (q / e for q, e in zip(quantiles, errors, strict=True))
    assert f"t with 3 degrees of freedom is {three:.1f}. With 16 windows it is {fifteen:.1f}" in text


def test_printed_output_of_the_audit(
    root: Path, stored_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from attnlim.cli.audit import _show
    from attnlim.core.runs import open_run

    monkeypatch.setenv("COLUMNS", "100")
    _show(open_run(stored_run)[0], Path("runs/audit-smollm2"), as_json=False)
    printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.strip().splitlines())
    text = page(root, "audit.md")
    begin = text.index("```text\n", text.index("<!-- printed by: attnlim audit")) + 8
    assert text[begin : text.index("\n```", begin)] == printed


def test_verdict_is_what_this_version_says(stored: xr.Dataset) -> None:
    from attnlim.audit import verdict

    assert stored.attrs["verdict"] == verdict(stored), "audit again, then python docs/from_run.py RUN"


def test_cost_is_that_of_the_benchmark(root: Path) -> None:
    result = json.loads((root / "benchmarks" / "results" / "audit.json").read_text())
    figures, machine = result["figures"], result["machine"]
    wall = figures["wall"]
    assert median(wall["ratios"]) == pytest.approx(wall["median_ratio"])
    text = " ".join(page(root, "audit.md").split())
    for said in (
        f"at {figures['context']} tokens, {figures['windows']} windows, {figures['rows_a_window']} rows each",
        f"| {wall['median_ratio']:.2f} ({min(wall['ratios']):.2f} … {max(wall['ratios']):.2f}) |",
        f"| peak memory of the process | {figures['peak_memory']['median_ratio']:.2f} |",
        f"{machine['cores']} cores ({machine['processor']}), {machine['device'].upper()}, torch {machine['torch']}, "
        f"transformers {machine['transformers']}",
    ):
        assert said in text, said


def documented_variables(text: str) -> dict[str, tuple[tuple[str, ...], str]]:
    """Name → dimensions and unit, with the suffixes of the table's second column written out."""
    found = {}
    table = text[text.index("### Variables of the dataset") :]
    for line in re.findall(r"^\| `(\w+)` \|(.*)$", table, re.M):
        base, (also, dims, unit, *_) = line[0], [cell.strip() for cell in line[1].split("|")]
        sinks = ["", "_no_sink"] if "`_no_sink`" in also else [""]
        errors = ["", *(["_se"] if "`_se`" in also else []), *(["_low", "_high"] if "`_low _high`" in also else [])]
        for sink, error in product(sinks, errors):
            found[base + sink + error] = (tuple(dims.split(", ")), unit)
        if "`sample_`" in also:
            found |= {f"sample_{base}{sink}": (SAMPLE_DIMENSIONS, unit) for sink in sinks}
    return found


def test_variables_of_the_dataset(root: Path, tiny: Any, minilm: Any, one_thread: Any) -> None:
    data = audit(tiny("llama"), _Letters(), "to be or not to be " * 20, (16, 48), n_windows=2, n_rows=8).dataset
    said = documented_variables(page(root, "audit.md"))
    assert set(said) == set(map(str, data.data_vars))
    for name, (dims, unit) in said.items():
        assert data[name].dims == dims, name
        assert data[name].attrs.get("units", unit) == unit, name


class _Letters:
    """One token a letter."""

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) % 90 + 3 for letter in text]}


def test_every_tested_kind_of_model_is_named(root: Path) -> None:
    """The kinds are read from the tests that try them."""
    text = page(root, "audit.md")
    named = {re.sub(r"[^a-z0-9]", "", name.lower()) for name in re.findall(r"^\| ([\w -]+) \|", text, re.M)}
    kinds: set[str] = set()
    for file, variable in (("conftest.py", "TINY_KINDS"), ("audit/test_probing.py", "OTHER_KINDS")):
        tree = ast.parse((root / "tests" / file).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(target, ast.Name) and target.id == variable for target in targets):
                    elements = node.value.keys if isinstance(node.value, ast.Dict) else node.value.elts  # type: ignore[union-attr]
                    kinds |= {str(ast.literal_eval(element)) for element in elements if element is not None}
    assert len(kinds) >= 12
    assert {kind.removesuffix("_text").replace("_", "") for kind in kinds} <= named


def test_phase_codes(root: Path) -> None:
    codes = ", ".join(f"{code} {name}" for code, name in enumerate(PHASES))
    assert f"| {codes}, −1 κ is NaN or" in page(root, "audit.md")


def test_pages_with_numbers_of_the_run_name_the_weights(root: Path, stored: xr.Dataset) -> None:
    assert stored.attrs["model_note"] == "4-bit weights, dequantised"
    for name in ("index.md", "phases.md", "audit.md"):
        assert "4-bit weights, dequantised" in page(root, name), name


def test_images_are_small_and_used(root: Path) -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in [root / "README.md", *(root / "docs").rglob("*.md")])
    for image in (root / "docs" / "images").iterdir():
        assert image.stat().st_size < MOST_BYTES[image.suffix[1:]], image.name
        assert f"images/{image.name}" in pages, image.name


def test_figure_script(stored_run: Path, root: Path, tmp_path: Path) -> None:
    script, figure = root / "examples" / "phases_figure.py", tmp_path / "figure.svg"
    command = [sys.executable, str(script), str(stored_run), str(figure)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("| layer.head | phase |")
    assert figure.read_text().startswith("<?xml")


@pytest.mark.parametrize("package", ["context", "depth", "rules", "lab", "audit", "models", "report"])
def test_every_public_name_has_its_place(package: str, root: Path) -> None:
    text = page(root, f"api/{package}.md")
    for name in importlib.import_module(f"attnlim.{package}").__all__:
        assert f"heading: attnlim.{package}.{name}\n" in text, name


def test_the_site_builds_without_a_warning_and_fetches_nothing(root: Path, tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=root, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 10
    for path in pages:
        html = path.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]* src=\"([^\"]+)|<link[^>]* href=\"([^\"]+)", html)
        assert not [url for pair in loaded for url in pair if re.match(r"(https?:)?//", url)], path.name
        assert ".. math" not in html and ":func:" not in html and "$$" not in html, path.name
