"""`attnlim rules`: what is printed, what is refused, and that nothing heavy or far away is touched."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from tests.rules.real_configs import FOLDER

from attnlim.core.runs import RunFolder

Run = Callable[..., subprocess.CompletedProcess[str]]
OneLine = Callable[[subprocess.CompletedProcess[str], str], None]


def config(name: str) -> Path:
    return FOLDER / f"{name}.json"


def test_the_table_and_the_findings(attnlim: Run) -> None:
    done = attnlim("rules", config("ministral-3-8b"), "--at", "1k,8k,128k")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "ministral-3-8b · ministral3 · 34 layers × 32 heads of 128 dimensions · YaRN 16× over 16384 ·"
    rows = [line.split() for line in lines if line.strip()[:1].isdigit()]
    assert rows == [
        ["1024", "1.0000", "1.0000", "1.0000", "1.0000"],
        ["8192", "1.0000", "1.0000", "1.0000", "1.0000"],
        ["131072", "1.0000", "1.0000", "1.2197", "1.2197"],
    ]
    assert "No errors or warnings." in lines
    assert "first differs from 1 at position 16384: a prompt under 16385 tokens" in done.stdout.replace("\n  ", " ")


def test_a_block_for_each_kind_of_layers(attnlim: Run) -> None:
    done = attnlim("rules", config("llama-4-scout"), "--at", "8190,8191")
    assert "layers with rotary positions, 36 of 48, the first is 0:" in done.stdout
    assert "layers without rotary positions, 12 of 48, the first is 3:" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()[:4].isdigit()]
    assert rows[1] == ["8191", "1.0000", "1.0000", "1.0000", "1.0000"]
    assert rows[3] == ["8191", "–", "1.0000", "1.0693", "1.0693"]


def test_rotary_and_other_dimensions(attnlim: Run) -> None:
    done = attnlim("rules", config("deepseek-v2-lite"), "--at", "0")
    assert "logits, rotary   logits, others" in done.stdout
    assert "192 dimensions, 64 of them rotary" in done.stdout.replace("\n  ", " ")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_lines_fit_a_hundred_columns(path: Path, attnlim: Run) -> None:
    done = attnlim("rules", path)
    assert done.returncode == 0, done.stderr
    assert max(len(line.rstrip()) for line in done.stdout.splitlines()) <= 100


def test_for_programs(attnlim: Run) -> None:
    data = json.loads(attnlim("rules", config("llama-4-scout"), "--at", "8k", "--json").stdout)
    assert (data["n_layers"], data["declared_length"], data["trained_length"]) == (48, 10485760, 8192)
    rotary, still = data["kinds"]
    assert rotary["first_differs"] is None and still["first_differs"] == 8191
    assert still["positions"][0]["query"] == pytest.approx(1 + 0.1 * math.log(2))
    assert still["positions"][0]["cos_sin"] is None
    assert {finding["kind"] for finding in data["findings"]} >= {"positions-from-cache", "first-differs"}


def test_what_is_not_known_is_null_and_a_dash(attnlim: Run, tmp_path: Path) -> None:
    (tmp_path / "large.json").write_text('{"model_type": "mistral_large4_text"}')
    data = json.loads(attnlim("rules", "large.json", "--at", "1k", "--json").stdout)
    assert data["kinds"][0]["positions"][0]["query"] is None
    assert "–" in attnlim("rules", "large.json", "--at", "1k").stdout


def test_compare_over_the_whole_range(attnlim: Run) -> None:
    one, two = config("ministral-3-8b"), config("qwen2.5-7b-yarn")
    done = attnlim("rules", "--compare", one, two)
    assert done.returncode == 0, done.stderr
    assert "all layers: they differ from position 0 on; at most B = 1.2965 × A, at position 0" in done.stdout.replace(
        "\n  ", " "
    )
    (row,) = json.loads(attnlim("rules", "--compare", one, one, "--json").stdout)["rows"]
    assert row == {"where": "all layers", "first_difference": None, "largest_ratio": 1.0, "position": 0, "last": 262143}
    assert "the same factor on logits from position 0 to 262143" in attnlim("rules", "--compare", one, one).stdout


@pytest.fixture
def audit_run(tmp_path: Path) -> Path:
    """A finished run with what the command needs of an audit."""
    folder = tmp_path / "runs" / "audit-scout"
    b_c = np.full((2, 48, 3), 2.0)
    b_c[:, 3::4] = 0.5
    b_c[:, 0, 0] = np.nan
    data = xr.Dataset(
        {"critical_multiplier": (("context", "layer", "head"), b_c)},
        coords={"context": [2048, 8192], "layer": np.arange(48), "head": np.arange(3)},
        attrs={"kind": "attnlim.audit"},
    )
    run = RunFolder.begin(folder, "attnlim audit", {"source": "meta-llama/somewhere"}, {}, {})
    run.store(data)
    run.close_record()
    run.finish()
    return folder


def test_distance_from_criticality(attnlim: Run, audit_run: Path) -> None:
    done = attnlim("rules", config("llama-4-scout"), "--audit", audit_run)
    assert done.returncode == 0, done.stderr
    rows = [" ".join(line.split()) for line in done.stdout.splitlines() if "layers with" in line and "," not in line]
    assert rows[-4:] == [
        "2048 layers with rotary positions 107 0.500 0",
        "8192 layers with rotary positions 107 0.500 0",
        "2048 layers without rotary positions 36 2.000 36",
        "8192 layers without rotary positions 36 2.139 36",
    ]
    assert "taken to apply no rule by itself" in done.stdout.replace("\n  ", " ")
    data = json.loads(attnlim("rules", config("llama-4-scout"), "--audit", audit_run, "--json").stdout)
    assert data["criticality"]["medians"][3]["median"] == pytest.approx(2 * (1 + 0.1 * math.log(2)))


def test_the_audited_models_own_rule_is_taken_into_account(attnlim: Run, audit_run: Path) -> None:
    """With the audited config at hand the distance is 1/b_c: what was measured has the rule in it."""
    record = json.loads((audit_run / "run.json").read_text())
    record["arguments"]["source"] = str(config("llama-4-scout"))
    (audit_run / "run.json").write_text(json.dumps(record))
    data = json.loads(attnlim("rules", config("llama-4-scout"), "--audit", audit_run, "--json").stdout)
    assert data["criticality"]["medians"][3]["median"] == 2.0
    assert "already multiplies logits by 1.069" in data["criticality"]["audited"]


BAD: dict[str, tuple[tuple[object, ...], str]] = {
    "no model": ((), "rules needs a MODEL"),
    "missing file": (("nowhere.json",), "nowhere.json does not exist"),
    "unknown rope type": (("spiral.json",), "rope type 'spiral', known are default"),
    "contradicting keys": (("two.json",), "both type 'yarn' and rope_type 'linear'"),
    "no JSON": (("broken.json",), "is not readable as JSON"),
    "a GGUF cut short": (("cut.gguf",), "is cut short or damaged"),
    "positions in words": (("good.json", "--at", "far"), "--at must be"),
    "a position below 0": (("good.json", "--at=-1"), "--at must be positions from 0 on, got -1"),
    "an audit that is not there": (("good.json", "--audit", "runs/none"), "no finished run at runs/none"),
    "a model beside --compare": (("good.json", "--compare", "good.json", "good.json"), "--compare takes two models"),
    "a hub name without a network": (("nobody/nothing",), "cannot be had from the hub (HF_HUB_OFFLINE is set)"),
    "a name that is none": (("a b",), "a b does not exist"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case: str, attnlim: Run, one_line: OneLine, tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text('{"model_type": "llama"}')
    (tmp_path / "spiral.json").write_text('{"rope_parameters": {"rope_type": "spiral"}}')
    (tmp_path / "two.json").write_text('{"rope_scaling": {"type": "yarn", "rope_type": "linear", "factor": 4.0}}')
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "cut.gguf").write_bytes(b"GGUF\x03\x00\x00\x00" + bytes(8) + b"\x05" + bytes(11))
    arguments, phrase = BAD[case]
    before = sorted(path.name for path in tmp_path.iterdir())
    one_line(attnlim("rules", *arguments), phrase)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_an_audit_of_another_kind_is_refused(attnlim: Run, one_line: OneLine, tmp_path: Path) -> None:
    run = RunFolder.begin(tmp_path / "phase", "attnlim phase", {}, {}, {})
    run.store(xr.Dataset({"x": ("n", [1.0])}, attrs={"kind": "attnlim.phase"}))
    run.close_record()
    run.finish()
    one_line(attnlim("rules", config("smollm2-135m"), "--audit", "phase"), "is not an audit but 'attnlim.phase'")


def test_neither_torch_nor_the_network_is_touched(tmp_path: Path) -> None:
    code = f"""
import socket, sys
def refuse(*arguments, **settings): raise AssertionError(f"network: {{arguments}}")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
sys.argv = ["attnlim", "rules", {str(config("gpt-oss-20b"))!r}]
from attnlim.cli.main import main
try: main()
except SystemExit as end: assert not end.code, end.code
heavy = {{"torch", "transformers", "huggingface_hub", "xarray"}} & set(sys.modules)
assert not heavy, heavy
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1.8133" in done.stdout


PAGE = FOLDER.parents[2] / "docs" / "rules.md"
PRINTED = re.findall(
    r"<!-- printed by: attnlim (rules .*?) -->\n\n```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S
)


@pytest.mark.parametrize(("command", "shown"), PRINTED, ids=[command for command, _ in PRINTED])
def test_what_the_manual_shows(command: str, shown: str, attnlim: Run, tmp_path: Path) -> None:
    """Names in its commands stand for the facts of released configs, as files of that name."""
    for path in FOLDER.glob("*.json"):
        (tmp_path / path.name).write_text(path.read_text())
    forgotten = json.loads(config("deepseek-v2-lite").read_text())
    del forgotten["rope_scaling"]["mscale_all_dim"], forgotten["rope_scaling"]["mscale"]
    (tmp_path / "deepseek-v2-lite-forgotten.json").write_text(json.dumps(forgotten))
    words = [f"{word}.json" if (tmp_path / f"{word}.json").exists() else word for word in command.split()]
    printed = attnlim(*words).stdout
    lines = [line.rstrip() for line in printed.splitlines()]
    assert shown.strip() and lines == [line.rstrip() for line in shown.splitlines()]
